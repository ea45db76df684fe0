//! Tins, and one share of a host in all of them.

use sched_core::{ConfigError, FlowId, Ring, TinChoice, TinConfig};
use shaper::Overhead;

use super::records::{Tin, Turn};
use super::serve::Serving;
use crate::IsolatedError;
use crate::isolated::label_in;
use crate::labels::Labelled;
use crate::storage::Storage;

impl<S: Storage> Serving<S> {
    /// The tin of a packet with these labels. One that there is not counts as tin 0.
    #[inline(always)]
    pub(super) fn tin_of(&self, labels: &(impl Labelled + ?Sized)) -> u8 {
        if self.choice.is_one() {
            return 0;
        }
        let tin = labels.tin();
        if u32::from(tin) < self.choice.tins() { tin } else { 0 }
    }

    /// The label by which a packet finds its queue: a flow has one in each tin.
    #[inline(always)]
    pub(super) fn queue_label(&self, labels: &(impl Labelled + ?Sized)) -> u32 {
        let tin = labels.tin();
        let tin = if u32::from(tin) < self.choice.tins() { tin } else { 0 };
        label_in(tin, self.isolation.queue_label(labels))
    }

    /// What packets are on the wire, from now on.
    pub(super) fn set_link(&mut self, link: Overhead) {
        self.choice.set_link(link, self.backlogged_tins());
        self.note_selected();
    }

    /// Sets what the tins share. Another number of them only while nothing is queued: the turns are
    /// laid out anew then, and owe nothing.
    pub(super) fn set_tins(
        &mut self,
        tins: &[TinConfig],
        spares: u32,
    ) -> Result<(), IsolatedError> {
        let count = TinChoice::<Overhead>::check(tins)?;
        if count != self.choice.tins() {
            let bits = count.next_power_of_two().ilog2();
            let hosts = self.hosts.as_ref().len();
            let (given, needed) = (self.turns.as_ref().len(), hosts << (bits & 7));
            if given < needed {
                return Err(IsolatedError::Memory { what: "turns", given, needed });
            }
            if !self.isolation.counts_hosts() && count > spares {
                let (given, needed) = (spares as usize, count as usize);
                return Err(IsolatedError::Memory { what: "hosts", given, needed });
            }
            let backlogged = self.tins.iter().map(|tin| tin.turns.front());
            let mut backlogged = backlogged.filter_map(|turn| self.turn(turn));
            if let Some(turn) = backlogged.next() {
                let flow = FlowId(turn.flows.front());
                return Err(ConfigError::Backlogged { flow }.into());
            }
            self.tin_bits = bits;
            for turn in self.turns.as_mut() {
                *turn = Turn { place: turn.place.renewed(), flows: Ring::IDLE, count: 0 };
            }
            for flow in self.flows.as_mut() {
                (flow.place, flow.turn) = (flow.place.renewed(), 0);
            }
            self.tins = [Tin::EMPTY; super::serve::TINS];
        }
        self.choice.set_tins(tins, self.backlogged_tins())?;
        self.was_across |= self.is_across && !self.choice.is_one();
        self.note_charged();
        self.note_selected();
        Ok(())
    }

    /// From now on a host has one share in all tins together, or one in each. Cost: O(turns).
    pub(super) fn set_across(&mut self, on: bool) {
        let before = self.quanta_of_a_turn();
        self.is_across = on;
        self.was_across |= on && !self.choice.is_one();
        self.renew_quanta(before);
    }

    /// Turns, which were of `before` quanta, are of as many as there should be now.
    pub(super) fn renew_quanta(&mut self, before: u32) {
        if before == self.quanta_of_a_turn() {
            return;
        }
        for at in 0..u32::try_from(self.turns.as_ref().len()).unwrap_or(u32::MAX) {
            let Some(quantum) = self.turn(at).map(|turn| turn.place.quantum()) else { break };
            self.set_quantum(at, quantum.checked_div(before).unwrap_or(quantum));
        }
    }
}
