//! Membership of flows in aggregates.

use core::num::NonZeroU32;

use super::super::virtual_time::{group_of, inverse, weight_of};
use super::{Aggregate, OPEN, PlusFlow, QfqConfig, QfqFlow, QfqPlus, Ring, in_range};
use crate::FlowId;
use crate::flow_scheduler::{ConfigError, Table};
use crate::queues::queue::NONE;

/// Properties shared by all members of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    inverse: NonZeroU32,
    max_len: u16,
}

impl Class {
    pub(super) fn config(self) -> QfqConfig {
        QfqConfig { weight: weight_of(self.inverse), max_len: self.max_len.into() }
    }

    /// Returns the index of the class among the [`OPEN`] entries.
    fn place(self) -> usize {
        let hash = self.inverse.get() ^ u32::from(self.max_len).rotate_left(16);
        (hash.wrapping_mul(0x9E37_79B9) >> 26) as usize % OPEN
    }
}

impl<N: Table<PlusFlow>, A: Table<Aggregate>, Q: Table<QfqFlow>> QfqPlus<N, A, Q> {
    /// Returns the class of `flow`, or `None` if it was not added.
    pub(super) fn class_of(&self, flow: FlowId) -> Option<Class> {
        let k = self.flows.as_ref().get(flow.index())?;
        let aggregate = self.aggregates.as_ref().get(k.aggregate as usize)?;
        Some(Class { inverse: NonZeroU32::new(aggregate.inverse)?, max_len: k.max_len })
    }

    /// Returns the class of `config` if `flow`, which exists, can have it.
    pub(super) fn check(&self, flow: FlowId, config: QfqConfig) -> Result<Class, ConfigError> {
        let QfqConfig { weight, max_len } = config;
        in_range("weight", weight, QfqConfig::MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, self.max_len)?;
        let inverse = inverse(NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN));
        let class = Class { inverse, max_len: u16::try_from(max_len).unwrap_or(u16::MAX) };
        let old = self.class_of(flow);
        let others = self.weight_sum.wrapping_sub(old.map_or(0, |old| weight_of(old.inverse)));
        let sum = others.wrapping_add(weight_of(inverse));
        in_range("sum of the weights", sum, Self::MAX_WEIGHT_SUM)?;
        // Unless it stays, it needs an open aggregate, a free one, or the one that it leaves empty.
        let has_place = old == Some(class)
            || self.open_to(class).is_some()
            || self.free != NONE
            || self.is_alone(flow);
        if !has_place {
            let count = self.aggregates.as_ref().len().min(self.nodes.as_ref().len()) as u64;
            let (what, value) = ("aggregates", count.wrapping_add(1));
            return Err(ConfigError::OutOfRange { what, value, min: 1, max: count });
        }
        Ok(class)
    }

    fn is_alone(&self, flow: FlowId) -> bool {
        let k = self.flows.as_ref().get(flow.index());
        let aggregate = k.and_then(|k| self.aggregates.as_ref().get(k.aggregate as usize));
        aggregate.is_some_and(|aggregate| aggregate.members == 1)
    }

    /// Returns the open aggregate of `class`, if it has a free member slot.
    fn open_to(&self, class: Class) -> Option<u32> {
        let at = *self.open.get(class.place())?;
        let aggregate = self.aggregates.as_ref().get(at as usize)?;
        let node = self.nodes.as_ref().get(at as usize)?;
        let has_room = (1..self.most_members).contains(&aggregate.members);
        let fits = aggregate.inverse == class.inverse.get() && node.max_len == class.max_len;
        (has_room && fits).then_some(at)
    }

    fn open(&mut self, class: Class, at: u32) {
        if let Some(open) = self.open.get_mut(class.place()) {
            *open = at;
        }
    }

    /// Sets the number of members of the aggregate `at`, not zero, and their total weight.
    #[expect(clippy::integer_division, reason = "by type never by zero; not per packet")]
    fn resize(&mut self, at: u32, members: u8) {
        let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize) else { return };
        aggregate.members = members;
        let count = NonZeroU32::new(members.into()).unwrap_or(NonZeroU32::MIN);
        // Not zero: an inverse is at least 2^14, and there are at most 8 members.
        let inverse = NonZeroU32::new(aggregate.inverse / count).unwrap_or(NonZeroU32::MIN);
        let Some(node) = self.nodes.as_ref().get(at as usize) else { return };
        let len = self.core.effective_len(node.max_len.into());
        let group = group_of(len, aggregate.inverse);
        self.core.reweigh(self.nodes.as_mut(), at, inverse, group);
    }

    /// Removes `flow`, which is not on a ring, from its aggregate.
    pub(super) fn quit(&mut self, flow: u32) {
        let Some(class) = self.class_of(FlowId(flow)) else { return };
        let Some(k) = self.flows.as_mut().get_mut(flow as usize) else { return };
        let at = k.aggregate;
        *k = PlusFlow::ABSENT;
        self.weight_sum = self.weight_sum.wrapping_sub(weight_of(class.inverse));
        let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize) else { return };
        if aggregate.members > 1 {
            let members = aggregate.members.wrapping_sub(1);
            self.resize(at, members);
            return self.open(class, at);
        }
        *aggregate = Aggregate::FREE;
        aggregate.ring = Ring { first: self.free, ..Ring::IDLE };
        self.free = at;
        self.core.forget(self.nodes.as_mut(), at);
    }

    /// Adds `flow`, which is in no aggregate, to one of `class`; the caller has checked that there
    /// is one.
    pub(super) fn join(&mut self, flow: u32, class: Class) {
        let at = match self.open_to(class) {
            Some(at) => at,
            None => self.found(class),
        };
        let Some(aggregate) = self.aggregates.as_ref().get(at as usize) else { return };
        self.resize(at, aggregate.members.wrapping_add(1));
        self.weight_sum = self.weight_sum.wrapping_add(weight_of(class.inverse));
        if let Some(k) = self.flows.as_mut().get_mut(flow as usize) {
            let deficit = class.max_len.into();
            *k = PlusFlow { aggregate: at, deficit, max_len: class.max_len, ..PlusFlow::ABSENT };
        }
    }

    /// Takes a free aggregate for `class`, without members yet.
    fn found(&mut self, class: Class) -> u32 {
        let at = self.free;
        let Some(aggregate) = self.aggregates.as_mut().get_mut(at as usize) else { return NONE };
        self.free = aggregate.ring.first;
        *aggregate = Aggregate { inverse: class.inverse.get(), ..Aggregate::FREE };
        if let Some(node) = self.nodes.as_mut().get_mut(at as usize) {
            node.max_len = class.max_len;
        }
        self.open(class, at);
        at
    }
}
