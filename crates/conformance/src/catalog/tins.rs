//! Recipes for assembled queues with tins.

use freeboard::sched_core::{
    DropSink, FlowId, Limits, Nanos, Packet, Rejected, Scheduler, TinConfig, TokenBucket,
};
use freeboard::shaper::Rate;
use freeboard::{
    Descriptors, HostTerms, IsolatedMemory, Isolation, Labelled, LabelledScheduler, SmartQueue,
    TinMode,
};

use super::{AqmRecipe, IsolatedHosts, Memory, Parts, Recipe, Room};

/// Length of the longest table.
const MOST: usize = 64;

/// Tins, hosts and flows by labels, which are derived from a flow's number.
#[derive(Clone, Copy, Debug)]
pub struct IsolatedTins<A> {
    /// Isolation in each tin.
    pub of: IsolatedHosts<A>,
    /// Configuration of at most four tins.
    pub tins: &'static [TinConfig],
    /// Gives hosts committed rates and ceilings.
    pub limited: bool,
}

impl<A: AqmRecipe> Recipe for IsolatedTins<A> {
    type Output<F: Memory, S: Memory> = ByNumber<<IsolatedHosts<A> as Recipe>::Output<F, S>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let mut queue = self.of.made(room, descriptors, limits, self.limited)?;
        queue.set_tins(self.tins).ok()?;
        Some(ByNumber { queue, tins: queue_tins(self.tins.len()), limited: self.limited })
    }
}

/// The assembled smart queue with tins and packets by descriptor: eight queues, eight hosts, and at
/// most sixteen packets. Labels are derived from a flow's number.
#[derive(Clone, Copy, Debug)]
pub struct SmartTins {
    /// Rate of the link.
    pub rate: Rate,
    /// Isolation mode in each tin.
    pub by: Isolation,
    /// Tin mode.
    pub tins: TinMode,
    /// Gives a host one share across all tins.
    pub across: bool,
}

impl Recipe for SmartTins {
    type Output<F: Memory, S: Memory> = ByNumber<SmartQueue<Parts<MOST>, Descriptors>>;

    fn scheduler<F: Memory, S: Memory>(
        self,
        room: Room<F>,
        descriptors: S,
        limits: Limits,
    ) -> Option<Self::Output<F, S>> {
        let packets = (descriptors.count() as usize).min(16);
        let memory = IsolatedMemory::<Parts<MOST>>::allocate(8, 8, 8, packets).with_triple(16);
        let aqm = memory.aqm();
        let builder = SmartQueue::upload(self.rate).max_len(room.max_len).limits(limits);
        let builder = builder.isolation(self.by).tins(self.tins).hosts_across_tins(self.across);
        let queue = builder.descriptors_in(memory, aqm).ok()?;
        let tins = queue.tins().count();
        Some(ByNumber { queue, tins, limited: false })
    }
}

fn queue_tins(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// A labelled queue in which the flow number `f` determines the flow, the hosts and the tin of a
/// packet: the tin is `f mod n`, the source `f / 2`, the destination `f mod 3`.
#[derive(Clone, Debug)]
pub struct ByNumber<Q> {
    queue: Q,
    /// Number of tins.
    tins: u8,
    /// Gives hosts committed rates and ceilings.
    limited: bool,
}

/// Labels derived from a flow's number.
struct Numbered {
    number: u32,
    tin: u8,
    limited: bool,
}

impl Labelled for Numbered {
    fn flow(&self) -> u32 {
        self.number
    }

    fn source(&self) -> u32 {
        self.number >> 1
    }

    fn destination(&self) -> u32 {
        self.number % 3
    }

    fn tin(&self) -> u8 {
        self.tin
    }

    /// Committed rates for even sources: below what they send; every other one has a rate at which
    /// a byte does not take a whole number of nanoseconds. Ceilings are below what the sources
    /// send, or far above it.
    fn host_terms(&self) -> HostTerms {
        let of = |rates: [Option<u64>; 4]| {
            let rate = rates[(self.source() & 3) as usize].filter(|_| self.limited)?;
            TokenBucket::new(rate, 3_000).ok()
        };
        let committed_rate = of([Some(200_000), None, Some(99_991), None]);
        let ceiling = of([None, Some(100_000), Some(5_000_011), None]);
        HostTerms { quantum: None, committed_rate, ceiling }
    }
}

impl<Q: LabelledScheduler> Scheduler for ByNumber<Q> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let tin = u8::try_from(flow.0 % u32::from(self.tins.max(1))).unwrap_or(0);
        let labels = Numbered { number: flow.0, tin, limited: self.limited };
        self.queue.enqueue_labelled(now, &labels, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queue.dequeue(now, drops)
    }

    fn dequeue_burst(&mut self, now: Nanos, out: &mut [Packet], drops: &mut dyn DropSink) -> usize {
        self.queue.dequeue_burst(now, out, drops)
    }

    crate::forward_all_but_packets!(queue);
}
