//! Flow schedulers that know hosts, or give them rates.

use freeboard::sched_core as core_;
use freeboard::sched_core::{
    CeilingFlow, CeilingReturn, CommittedFlow, CommittedReturn, DropFrom, FlowId, FlowScheduler,
    HeldFlow, HeldHost, HostClass, HostDrrFlow, HostRing, Limits, LoadDrrFlow, LoadDrrHost,
    LongestHostDrop, RoundList, Side,
};

use super::{Dial, FlowRecipe, HostRecipe, Memory, QueuesRecipe, Room};

/// Deficit round robin inside each host; `of` chooses the host.
#[derive(Clone, Copy, Debug)]
pub struct HostDrr<R> {
    /// The flow scheduler that chooses the host.
    pub of: R,
    /// Flows that have just become backlogged go first in their host.
    pub sparse_first: bool,
}

impl<R: FlowRecipe> HostRecipe for HostDrr<R> {
    type Made<F: Memory, H: Memory> =
        core_::HostDrr<R::Made<H, H>, F::Of<HostDrrFlow>, H::Of<HostRing>>;

    fn over_hosts<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>> {
        let mut hosts = self.of.flow_scheduler(room.of_hosts())?;
        for host in (0..room.hosts.count()).map(FlowId) {
            hosts.configure(host, Dial::of(room.host), None).ok()?;
        }
        let (flows, rings) = (room.flows.of(HostDrrFlow::EMPTY), room.hosts.of(HostRing::EMPTY));
        let made = core_::HostDrr::new(hosts, flows, rings, room.max_len).ok()?;
        Some(if self.sparse_first { made.sparse_first() } else { made })
    }

    fn assign<F: Memory, H: Memory>(
        made: &mut Self::Made<F, H>,
        flow: FlowId,
        [source, _]: [u32; 2],
    ) {
        let _ = made.assign(flow, source);
    }
}

/// Turns by load: triple isolation, with a calendar in the memory `calendar`.
#[derive(Clone, Copy, Debug)]
pub struct LoadDrr<W> {
    /// As long as the calendar, a power of two from 2 on.
    pub calendar: W,
    /// The side whose hosts are named, and whose early turns are limited.
    pub local: Side,
    /// Flows that have just become backlogged go first.
    pub sparse_first: bool,
}

impl<W: Memory> HostRecipe for LoadDrr<W> {
    type Made<F: Memory, H: Memory> = core_::LoadDrr<
        F::Of<LoadDrrFlow>,
        H::Of<LoadDrrHost>,
        H::Of<LoadDrrHost>,
        W::Of<RoundList>,
    >;

    fn over_hosts<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>> {
        let side = || room.hosts.of(LoadDrrHost::EMPTY);
        let (flows, calendar) =
            (room.flows.of(LoadDrrFlow::EMPTY), self.calendar.of(RoundList::EMPTY));
        let made = core_::LoadDrr::new(flows, side(), side(), calendar, room.max_len).ok()?;
        let made = if self.sparse_first { made.sparse_first() } else { made };
        Some(made.with_hosts_of(self.local))
    }

    fn assign<F: Memory, H: Memory>(
        made: &mut Self::Made<F, H>,
        flow: FlowId,
        [source, destination]: [u32; 2],
    ) {
        let _ = made.assign(flow, source, destination);
    }
}

/// A flow scheduler that knows hosts, as it is.
#[derive(Clone, Copy, Debug)]
pub struct ByHost<R>(pub R);

impl<R: HostRecipe> FlowRecipe for ByHost<R> {
    type Made<F: Memory, H: Memory> = R::Made<F, H>;

    fn flow_scheduler<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>> {
        self.0.over_hosts(room)
    }

    fn assign<F: Memory, H: Memory>(made: &mut Self::Made<F, H>, flow: FlowId, hosts: [u32; 2]) {
        R::assign(made, flow, hosts);
    }
}

/// A flow scheduler that knows hosts, where the longest host gives way at `end`.
#[derive(Clone, Copy, Debug)]
pub struct LongestHost<R> {
    /// The flow scheduler.
    pub of: R,
    /// Which packet of the longest queue of the host gives way.
    pub end: DropFrom,
}

impl<R> LongestHost<R> {
    /// The limits that its grain is for: with these, a unit of its classes is about four packets of `max_len` bytes.
    #[must_use]
    pub const fn limits(hosts: u32, max_len: u32) -> Limits {
        Limits::bytes(32_u32.saturating_mul(max_len).saturating_mul(hosts))
    }
}

impl<R: HostRecipe> QueuesRecipe for LongestHost<R> {
    type Of = ByHost<R>;
    type Policy<F: Memory, H: Memory> =
        LongestHostDrop<F::Of<HeldFlow>, H::Of<HeldHost>, [HostClass; HostClass::COUNT]>;

    fn of(self) -> ByHost<R> {
        ByHost(self.of)
    }

    fn policy<F: Memory, H: Memory>(
        self,
        made: &R::Made<F, H>,
        room: Room<F, H>,
    ) -> Option<Self::Policy<F, H>> {
        let limits = Self::limits(room.hosts.count(), room.max_len);
        let held = room.flows.of(HeldFlow::EMPTY);
        let (hosts, classes) =
            (room.hosts.of(HeldHost::EMPTY), [HostClass::EMPTY; HostClass::COUNT]);
        Some(LongestHostDrop::new(made, limits, held, hosts, classes).ok()?.drop_from(self.end))
    }
}

/// Room for a committed rate of every flow: `of` twice, for those that conform and those in excess.
#[derive(Clone, Copy, Debug)]
pub struct CommittedRates<R>(pub R);

impl<R: FlowRecipe> FlowRecipe for CommittedRates<R> {
    type Made<F: Memory, H: Memory> =
        core_::CommittedRates<R::Made<F, H>, F::Of<CommittedFlow>, F::Of<CommittedReturn>>;

    fn flow_scheduler<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>> {
        let conforming = self.0.flow_scheduler(room)?;
        let (flows, returns) =
            (room.flows.of(CommittedFlow::EMPTY), room.flows.of(CommittedReturn::EMPTY));
        core_::CommittedRates::new(conforming.clone(), conforming, flows, returns).ok()
    }
}

/// Room for a ceiling of every flow.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings<R>(pub R);

impl<R: FlowRecipe> FlowRecipe for Ceilings<R> {
    type Made<F: Memory, H: Memory> =
        core_::Ceilings<R::Made<F, H>, F::Of<CeilingFlow>, F::Of<CeilingReturn>>;

    fn flow_scheduler<F: Memory, H: Memory>(self, room: Room<F, H>) -> Option<Self::Made<F, H>> {
        let inner = self.0.flow_scheduler(room)?;
        let (flows, returns) =
            (room.flows.of(CeilingFlow::EMPTY), room.flows.of(CeilingReturn::EMPTY));
        core_::Ceilings::new(inner, flows, returns).ok()
    }
}
