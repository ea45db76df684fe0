//! The hosts of one side, and which sides count.

use super::flow::MOST_SOURCE;
use crate::Imbalance;
use crate::flow_scheduler::{ConfigError, Table};
use crate::queues::queue::NONE;

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

/// What [`LoadDrr`](super::LoadDrr) knows of one host: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadDrrHost {
    /// How many of its flows are backlogged.
    flows: u32,
    /// The latest round whose early turn it has used.
    early_turn: u32,
}

impl LoadDrrHost {
    /// Room for a host: all zero.
    pub const EMPTY: Self = Self { flows: 0, early_turn: 0 };

    /// A host without backlogged flows that has saved up all it may at the beginning.
    const IDLE: Self = Self { flows: 0, early_turn: u32::MAX.wrapping_sub(SAVED_UP) };
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

    /// How many flows of `host` are backlogged; zero unless this side counts.
    #[inline]
    pub(super) fn load(&self, host: u32) -> u32 {
        self.host(host).map_or(0, |host| host.flows & self.counting)
    }

    /// A flow of `host` has become backlogged: the load it has then.
    pub(super) fn join(&mut self, host: u32) -> u32 {
        let Some(host) = self.hosts.as_mut().get_mut(host as usize) else { return 0 };
        host.flows = host.flows.wrapping_add(1);
        host.flows & self.counting
    }

    /// A flow of `host` is backlogged no more: the load it had before.
    pub(super) fn leave(&mut self, host: u32) -> u32 {
        let Some(host) = self.hosts.as_mut().get_mut(host as usize) else { return 0 };
        let before = host.flows;
        host.flows = before.wrapping_sub(1);
        before & self.counting
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
        Imbalance::check(what, NONE, sum, listed.count() as u64)
    }
}
