//! The hosts of one side, and which sides count.

use super::flow::MOST_SOURCE;
use crate::flow_scheduler::{ConfigError, Table};
use crate::hosts::siblings::{self, NextSibling, Sibling};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance};

/// How many rounds back an early turn may be used.
pub(super) const SAVED_UP: u32 = 15;

/// Which hosts of a flow thin out its turns: those with which it shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Sides {
    /// No host: every flow has a turn in every round.
    Neither,
    /// The source: backlogged source hosts share equally.
    Source,
    /// The destination: backlogged destination hosts share equally.
    Destination,
    /// Whichever of the two has more flows (CAKE's triple isolation).
    #[default]
    Both,
}

impl Sides {
    /// Whether the source counts.
    #[must_use]
    pub const fn has_source(self) -> bool {
        matches!(self, Self::Source | Self::Both)
    }

    /// Whether the destination counts.
    #[must_use]
    pub const fn has_destination(self) -> bool {
        matches!(self, Self::Destination | Self::Both)
    }
}

/// One side of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Side {
    /// Where it comes from.
    #[default]
    Source,
    /// Where it goes.
    Destination,
}

/// What [`LoadDrr`](super::LoadDrr) knows of one host: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadDrrHost {
    /// How many of its flows are backlogged.
    flows: u32,
    /// How many flows of its siblings are backlogged.
    elsewhere: u32,
    /// The latest round whose early turn it has used.
    early_turn: u32,
    /// Those whose flows count in its load.
    sibling: NextSibling,
}

impl LoadDrrHost {
    /// Room for a host: all zero.
    pub const EMPTY: Self =
        Self { flows: 0, elsewhere: 0, early_turn: 0, sibling: NextSibling::NONE };

    /// A host without backlogged flows that has saved up all it may at the beginning.
    const IDLE: Self = Self { early_turn: u32::MAX.wrapping_sub(SAVED_UP), ..Self::EMPTY };

    /// How many of its flows and of those of its siblings are backlogged.
    #[inline]
    const fn load(&self) -> u32 {
        self.flows.wrapping_add(self.elsewhere)
    }
}

impl Sibling for LoadDrrHost {
    #[inline]
    fn sibling(&self) -> Option<u32> {
        self.sibling.number()
    }

    fn set_sibling(&mut self, next: Option<u32>) {
        self.sibling = NextSibling::new(next);
    }
}

impl Default for LoadDrrHost {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The hosts of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loads<H> {
    hosts: H,
    /// All bits if this side counts, else none.
    counting: u32,
}

impl<H: Table<LoadDrrHost>> Loads<H> {
    /// Hosts that count, without backlogged flows; `fewest` or more.
    pub(super) fn new(mut hosts: H, what: &'static str, fewest: u64) -> Result<Self, ConfigError> {
        let count = hosts.as_ref().len() as u64;
        ConfigError::check_range(what, count, fewest, MOST_SOURCE.into())?;
        hosts.as_mut().fill(LoadDrrHost::IDLE);
        Ok(Self { hosts, counting: u32::MAX })
    }

    /// Says that the sibling behind `host` is `next`, right or wrong.
    #[cfg(test)]
    pub(super) fn set_next(&mut self, host: usize, next: u32) {
        self.hosts.as_mut()[host].set_sibling(Some(next));
    }

    #[cfg(test)]
    pub(super) const fn memory(&self) -> &H {
        &self.hosts
    }

    pub(super) const fn set_counting(&mut self, counts: bool) {
        self.counting = if counts { u32::MAX } else { 0 };
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.hosts.as_ref().len()).unwrap_or(u32::MAX)
    }

    pub(super) fn check(&self, host: u32) -> Result<(), ConfigError> {
        let hosts = self.count();
        if host < hosts { Ok(()) } else { Err(ConfigError::UnknownHost { host, hosts }) }
    }

    fn host(&self, host: u32) -> Option<&LoadDrrHost> {
        self.hosts.as_ref().get(host as usize)
    }

    /// How many flows of `host` are backlogged.
    pub(super) fn flows_of(&self, host: u32) -> u32 {
        self.host(host).map_or(0, |host| host.flows)
    }

    /// How many flows of `host` and of its siblings are backlogged; zero unless this side counts.
    #[inline]
    pub(super) fn load(&self, host: u32) -> u32 {
        self.host(host).map_or(0, |host| host.load() & self.counting)
    }

    /// A flow of `host` has become backlogged: the load it has then. Its [siblings](Self::tell_siblings) are to be told.
    pub(super) fn join(&mut self, host: u32) -> u32 {
        let Some(host) = self.hosts.as_mut().get_mut(host as usize) else { return 0 };
        host.flows = host.flows.wrapping_add(1);
        host.load() & self.counting
    }

    /// A flow of `host` is backlogged no more: the load it had before. Its [siblings](Self::tell_siblings) are to be told.
    pub(super) fn leave(&mut self, host: u32) -> u32 {
        let Some(host) = self.hosts.as_mut().get_mut(host as usize) else { return 0 };
        let before = host.load();
        host.flows = host.flows.wrapping_sub(1);
        before & self.counting
    }

    /// The siblings of `host` have so many flows more, or fewer.
    pub(super) fn tell_siblings(&mut self, host: u32, more: i32) {
        let mut at = FlowId(host);
        for _ in 1..siblings::MOST {
            at = siblings::next(self.hosts.as_ref(), at);
            let of = self.hosts.as_mut().get_mut(at.index()).filter(|_| at.0 != host);
            let Some(of) = of else { return };
            of.elsewhere = of.elsewhere.wrapping_add_signed(more);
        }
    }

    /// Makes `host` a sibling of `other`.
    pub(super) fn join_siblings(&mut self, host: u32, other: u32) {
        if !siblings::may_join(self.hosts.as_ref(), FlowId(host), FlowId(other)) {
            return;
        }
        self.part(host);
        let (ours, theirs) = (self.flows_of(host), self.host(other).map_or(0, LoadDrrHost::load));
        siblings::join(self.hosts.as_mut(), FlowId(host), FlowId(other));
        if let Some(of) = self.hosts.as_mut().get_mut(host as usize) {
            of.elsewhere = theirs;
        }
        self.tell_siblings(host, ours.cast_signed());
    }

    /// `host` has no siblings from now on.
    pub(super) fn part(&mut self, host: u32) {
        let ours = self.flows_of(host);
        self.tell_siblings(host, 0_i32.wrapping_sub_unsigned(ours));
        let _before = siblings::part(self.hosts.as_mut(), FlowId(host));
        if let Some(of) = self.hosts.as_mut().get_mut(host as usize) {
            of.elsewhere = 0;
        }
    }

    /// No host has siblings from now on.
    pub(super) fn part_all(&mut self) {
        for host in self.hosts.as_mut() {
            host.set_sibling(None);
            host.elsewhere = 0;
        }
    }

    /// The first round whose early turn `host` has not used, of those it may still use in `round`. No early turn
    /// lies further than `horizon` ahead: a round that seems to is one of the past.
    pub(super) fn early_turn_left(&self, host: u32, round: u32, horizon: u32) -> u32 {
        let oldest = round.wrapping_sub(SAVED_UP);
        let Some(host) = self.host(host) else { return round };
        let next = host.early_turn.wrapping_add(1);
        // As seen from the oldest: what is before it is far ahead.
        let ahead = next.wrapping_sub(oldest);
        if ahead > horizon.wrapping_add(SAVED_UP) { oldest } else { next }
    }

    /// `host` has used the early turn of `round`.
    pub(super) fn use_early_turn(&mut self, host: u32, round: u32) {
        if let Some(host) = self.hosts.as_mut().get_mut(host as usize) {
            host.early_turn = round;
        }
    }

    /// Compares the flows of each host with `listed`, the hosts of all backlogged flows.
    /// Cost: O(backlogged hosts · flows).
    pub(super) fn recount(
        &self,
        what: &'static str,
        listed: impl Iterator<Item = u32> + Clone,
    ) -> Result<(), Imbalance> {
        let mut sum = 0_u64;
        for (at, host) in (0_u32..).zip(self.hosts.as_ref()).filter(|(_, host)| host.flows != 0) {
            let counted = listed.clone().filter(|&of| of == at).count();
            Imbalance::check(what, at, host.flows.into(), counted as u64)?;
            sum = sum.wrapping_add(host.flows.into());
        }
        // No more than these: the other hosts have none.
        Imbalance::check(what, NONE, sum, listed.count() as u64)?;
        siblings::recount(self.hosts.as_ref())?;
        for (at, host) in (0_u32..).zip(self.hosts.as_ref()) {
            let others = siblings::others(self.hosts.as_ref(), FlowId(at));
            let elsewhere =
                others.fold(0_u32, |sum, other| sum.wrapping_add(self.flows_of(other.0)));
            Imbalance::check("flows of siblings", at, elsewhere.into(), host.elsewhere.into())?;
        }
        Ok(())
    }
}
