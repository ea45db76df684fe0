//! Lingering flows: idle flows that count until `V` is far enough past them (QFQ §IV-B: "lazily").

use core::num::NonZeroU32;

use super::eligibility::bit;
use super::group::State;
use super::virtual_time::{GROUPS, Virtual, share};
use super::{Core, LET_GO, QfqFlow};
use crate::steps::look;

impl Core {
    /// Returns `P = V − L·m`. No backlogged flow has an earlier `F` (Theorem 2). A flow that stops
    /// counting with `F ≤ P` is behind `V` by at least its part of the bound.
    fn past(&self) -> Virtual {
        self.now.minus(u64::from(self.max_len) * u64::from(self.weights.most_per_byte()))
    }

    /// Records that `flow`, whose `F` is stored, is no longer backlogged: it lingers until `P`
    /// reaches `F`.
    #[inline(never)]
    pub(super) fn retire(&mut self, flows: &mut [QfqFlow], flow: u32) {
        let past = self.past();
        let Some(k) = flows.get_mut(flow as usize) else { return };
        let lingers = k.start.is_after(past);
        if !lingers {
            k.state = State::Idle;
            self.weights.discount(k.share);
            return;
        }
        k.state = State::Lingering;
        let i = u32::from(k.group);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        let first = self.lingering & bit(i) == 0;
        group.append_lingering(flows, flow, first);
        if first {
            self.lingering |= bit(i);
            self.wait(i);
        }
    }

    /// Removes a flow, whose record is `k`, from the list of lingering flows.
    pub(super) fn unlist(&mut self, flows: &mut [QfqFlow], flow: u32, k: QfqFlow) {
        let i = u32::from(k.group);
        let Some(group) = self.groups.get_mut(i as usize % GROUPS) else { return };
        if group.unlink_lingering(flows, flow, k) {
            self.lingering &= !bit(i);
            self.due &= !bit(i);
        }
    }

    /// Stops counting the weights of lingering flows with `F ≤ P` (§IV-B: lazily). The highest
    /// groups come first: they are due least often.
    pub(super) fn let_go(&mut self, flows: &mut [QfqFlow]) {
        let past = self.past();
        let mut gone = 0_u64;
        for _ in 0..LET_GO {
            let Some(i) = self.due.checked_ilog2() else { break };
            let Some(group) = self.groups.get(i as usize % GROUPS) else { break };
            let flow = group.lingering.head;
            let Some(k) = flows.get_mut(flow as usize) else { break };
            look();
            if k.start.is_after(past) {
                self.due &= !bit(i);
                continue;
            }
            k.state = State::Idle;
            gone = gone.wrapping_add(k.share);
            let k = *k;
            self.unlist(flows, flow, k);
        }
        self.weights.discount(gone);
    }

    /// Sets the inverse and the group of `flow`, which is in no slot if the group changes. A
    /// lingering flow moves to the list of its new group.
    pub(super) fn reweigh(
        &mut self,
        flows: &mut [QfqFlow],
        flow: u32,
        inverse: NonZeroU32,
        group: u8,
    ) {
        let Some(k) = flows.get_mut(flow as usize) else { return };
        look();
        let (old, moves) = (*k, k.state == State::Lingering && k.group != group);
        self.weights.exchange(
            NonZeroU32::new(old.inverse),
            Some(inverse),
            old.state != State::Idle,
        );
        k.inverse = inverse.get();
        k.share = share(inverse);
        k.group = group;
        if !moves {
            return;
        }
        self.unlist(flows, flow, old);
        let Some(list) = self.groups.get_mut(usize::from(group) % GROUPS) else { return };
        list.append_lingering(flows, flow, self.lingering & bit(group.into()) == 0);
        self.lingering |= bit(group.into());
        self.wait(group.into());
    }

    /// Clears all state of `flow`, which is not backlogged.
    pub(super) fn forget(&mut self, flows: &mut [QfqFlow], flow: u32) {
        let Some(&k) = flows.get(flow as usize) else { return };
        if k.state == State::Lingering {
            self.unlist(flows, flow, k);
        }
        self.weights.exchange(NonZeroU32::new(k.inverse), None, k.state != State::Idle);
        if let Some(k) = flows.get_mut(flow as usize) {
            *k = QfqFlow::EMPTY;
        }
    }
}
