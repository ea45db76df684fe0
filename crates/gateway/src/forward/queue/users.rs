//! Hosts by deficit round robin, and the flows of each by shortest queue first.

use core::fmt;

use freeboard::flowhash::{self, Outcome, TagLine, mix};
use freeboard::sched_core::{
    Books, ClassState, Classes, Descriptor, DropReason, DropSink, Drr, DrrFlow, FlowId, FlowQueues,
    Imbalance, Limits, LongestClass, Member, Nanos, Packet, Queue as Empty, RejectReason, Rejected,
    Scheduler,
};
use freeboard::{AckFilter, Acks, Hashed};

use super::{
    AqmTerms, ByHash, Heading, PacketView, Plan, Shortest, Unshaped, one_line, set_aqm, table,
};

/// Number of host slots; beyond it, hosts share slots.
pub(super) const USERS: u32 = 64;
/// Number of queues per host.
pub(super) const FLOWS: usize = 256;
/// Number of bits of a flow id that identify the flow; those above identify the host.
const FLOW_BITS: u32 = u32::BITS - USERS.trailing_zeros();
/// Size of the data per frame: a descriptor for each host, and the owner.
pub(super) const BYTES_OF_DESCRIPTOR: usize = USERS as usize * size_of::<Descriptor>() + 1;
/// Maximum number of frames; every host has descriptors for all.
pub(super) const MAX_DESCRIPTORS: u32 = 1 << 17;

type Node = Classes<
    Drr<Vec<DrrFlow>>,
    ByHash<Shortest>,
    fn(FlowId) -> Option<Member>,
    (Vec<ByHash<Shortest>>, Vec<ClassState>, Vec<LongestClass>),
>;

/// A class for each host with queued packets, found by the host's label.
pub(super) struct Users {
    node: Node,
    /// An entry is claimed if and only if its host has queued packets.
    entries: flowhash::FlowTable<Vec<TagLine>>,
    /// Host slot of each queued packet, by handle.
    user_of: Vec<u8>,
    held: [u32; USERS as usize],
    heading: Heading,
    ack_filter: AckFilter,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("held", &self.held).finish_non_exhaustive()
    }
}

/// Splits a flow id into host and flow. The flow's hash bits are mixed, because tables use all
/// bits.
fn classify(flow: FlowId) -> Option<Member> {
    let of_flow = flow.0 & ((1 << FLOW_BITS) - 1);
    Some(Member { class: FlowId(flow.0 >> FLOW_BITS), flow: FlowId(mix(of_flow)) })
}

/// Returns the id of a host's flow.
fn flow_of(user: u32, seen: &PacketView) -> FlowId {
    FlowId(user << FLOW_BITS | seen.flow >> (u32::BITS - FLOW_BITS))
}

impl Users {
    pub(super) fn new(plan: &Plan, limits: Limits) -> Result<Self, String> {
        let users = USERS as usize;
        let mut scheduler =
            Drr::new(vec![DrrFlow::EMPTY; users], plan.max_len).map_err(one_line)?;
        scheduler.add_all(plan.max_len).map_err(one_line)?;
        let class = || {
            let mut flows = plan.shortest(FLOWS)?;
            for flow in 0..FLOWS {
                use freeboard::sched_core::FlowScheduler as _;
                flows.configure(FlowId(flow as u32), (), None).map_err(one_line)?;
            }
            let (queues, descriptors) =
                (vec![Empty::EMPTY; FLOWS], vec![Descriptor::EMPTY; plan.descriptors as usize]);
            let aqm = plan.aqm_for(FLOWS)?;
            let queues = FlowQueues::with_parts(flows, aqm, queues, descriptors, [], Limits::NONE);
            Ok(Hashed::over(queues, table(FLOWS)?))
        };
        let classes = (0..users).map(|_| class()).collect::<Result<Vec<_>, String>>()?;
        let classify: fn(FlowId) -> Option<Member> = classify;
        let node =
            Classes::new(scheduler, classes, vec![ClassState::EMPTY; users], classify, limits);
        Ok(Self {
            node: node.dropping_from_longest(vec![LongestClass::EMPTY; users]),
            entries: table(users)?,
            user_of: vec![0; plan.descriptors as usize],
            held: [0; USERS as usize],
            heading: plan.heading,
            ack_filter: AckFilter::Off,
        })
    }

    #[cfg(test)]
    pub(super) fn entries_in_use(&self) -> u32 {
        self.entries.occupied()
    }

    /// Runs `act` on the node and accounts for what it drops.
    fn counted<T>(
        &mut self,
        drops: &mut dyn DropSink,
        act: impl FnOnce(&mut Node, &mut dyn DropSink) -> T,
    ) -> T {
        let Self { node, entries, user_of, held, .. } = self;
        act(node, &mut |packet: Packet, why: DropReason| {
            left(entries, held, user_of, packet.handle);
            drops.dropped(packet, why);
        })
    }
}

/// Accounts for a packet that left; with the last one, the host's entry is released.
fn left(
    entries: &mut flowhash::FlowTable<Vec<TagLine>>,
    held: &mut [u32; USERS as usize],
    user_of: &[u8],
    handle: u32,
) {
    let user = user_of[handle as usize];
    let held = &mut held[user as usize];
    *held -= 1;
    if *held == 0 {
        entries.release(user.into());
    }
}

impl Unshaped for Users {
    fn offer(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let host = match self.heading {
            Heading::Up => seen.source,
            Heading::Down => seen.destination,
        };
        let at = packet.handle as usize;
        if at >= self.user_of.len() {
            let (handle, descriptors) = (packet.handle, self.user_of.len() as u32);
            return Err(Rejected {
                packet,
                reason: RejectReason::UnknownHandle { handle, descriptors },
            });
        }
        let lookup = self.entries.lookup(host);
        let user = lookup.queue;
        // Counted before enqueueing: a drop to make space must not release the host's entry.
        self.held[user as usize] += 1;
        self.user_of[at] = user as u8;
        debug_assert!(lookup.outcome != Outcome::Claimed || self.held[user as usize] == 1);
        let flow = flow_of(user, seen);
        let outcome = self.counted(drops, |node, drops| node.enqueue(now, flow, packet, drops));
        if outcome.is_err() {
            left(&mut self.entries, &mut self.held, &self.user_of, packet.handle);
        }
        outcome
    }

    fn offer_ack(
        &mut self,
        now: Nanos,
        seen: &PacketView,
        packet: Packet,
        acks: &dyn Acks,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.offer(now, seen, packet, drops)?;
        let user = self.user_of.get(packet.handle as usize).copied().unwrap_or(0);
        let Some(ack) = acks.ack(packet) else { return Ok(()) };
        let Some(Member { class, flow }) = classify(flow_of(user.into(), seen)) else {
            return Ok(());
        };
        let filter = (self.ack_filter, acks);
        self.counted(drops, |node, drops| {
            node.with_class(now, class, drops, |flows, drops| {
                flows.filter_ack(flow.0, (packet, &ack), filter, drops)
            })
        });
        Ok(())
    }

    fn set_ack_filter(&mut self, filter: AckFilter) {
        self.ack_filter = filter;
    }

    fn set_aqm(&mut self, aqm: AqmTerms) {
        for user in 0..USERS {
            let set = |class: &mut ByHash<_>, _: &mut dyn DropSink| {
                set_aqm(class.aqm_mut(), aqm);
            };
            let none = &mut |_: Packet, _: DropReason| {};
            self.node.with_class(Nanos::ZERO, FlowId(user), none, set);
        }
    }
}

impl Scheduler for Users {
    /// Uses `flow` as the label of flow and host.
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let label = flow.0;
        let seen = PacketView {
            flow: label,
            source: label,
            destination: label,
            tin: 0,
            weight: 1,
            quantum: 1,
            rate: None,
            ceiling: None,
        };
        self.offer(now, &seen, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        let packet = self.counted(drops, |node, drops| node.dequeue(now, drops))?;
        left(&mut self.entries, &mut self.held, &self.user_of, packet.handle);
        Some(packet)
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.counted(drops, |node, drops| node.set_limits(limits, drops));
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.counted(drops, |node, drops| node.evict(drops))
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.counted(drops, |node, drops| node.drain(drops));
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.node.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.node.poll_at(now)
    }

    fn books(&self) -> Books {
        self.node.books()
    }

    fn recount(&self) -> Result<(), Imbalance> {
        self.node.recount()
    }
}
