//! The closed-loop workloads FULL, SMALL and OVERLOAD, the mixes of [`mix`], and the schedulers
//! that they run on.
//!
//! N flows, lengths uniform in 64..=1500, everything allocated in advance, packets recycled and
//! never created in the loop. FULL keeps about four packets per flow queued, with arrivals random
//! over flows, in bursts of 32. In SMALL all flows become active with one packet each and go idle
//! again. OVERLOAD is FULL with two packets offered for each one that leaves, and a buffer for
//! 10,240 packets, or four per flow if that is more.

#![allow(dead_code, unused_imports, reason = "each bench uses its part")]

use conformance::Xorshift;
use freeboard::sched_core::{FlowId, Limits, Nanos, Packet, Scheduler};

mod enqueued_by;
pub(crate) mod mix;
mod null;
mod subjects;
pub(crate) mod time;

use mix::Mix;
pub(crate) use subjects::{MIXED, NAMES, Subject, subject};

/// Length of the bursts into and out of the scheduler in FULL.
const BURST: usize = 32;
/// Minimum buffer in packets in OVERLOAD, the default of fq_codel.
const ROOM: usize = 10_240;
/// Step of the clock before each operation.
const STEP: u64 = 40;

/// Pattern of arrivals and departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pattern {
    /// A standing backlog of about four packets per flow.
    Full,
    /// All flows go from idle to one packet and back.
    Small,
    /// [`Pattern::Full`] with enqueued bursts twice as long as dequeued ones, into a full buffer.
    Overload,
    /// Many kinds of flows on a link, not a closed loop.
    Mix(Mix),
}

impl Pattern {
    pub(crate) const ALL: [Self; 7] = [
        Self::Full,
        Self::Small,
        Self::Overload,
        Self::Mix(Mix::MIX60),
        Self::Mix(Mix::MIX90),
        Self::Mix(Mix::MIX100),
        Self::Mix(Mix::ISP),
    ];

    /// Returns the name used on command lines and in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Small => "SMALL",
            Self::Overload => "OVERLOAD",
            Self::Mix(mix) => mix.name,
        }
    }

    /// Returns the number of packets of `flows` flows queued before the loop begins.
    pub(crate) fn queued(self, flows: usize) -> usize {
        match self {
            Self::Full => 4 * flows,
            Self::Overload => ROOM.max(4 * flows),
            Self::Small | Self::Mix(_) => 0,
        }
    }

    /// Returns the pattern of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.name() == name)
    }
}

/// A scheduler in a closed loop.
pub(crate) struct Loop<S> {
    scheduler: S,
    /// Flow (or hash) and descriptor by handle.
    packets: Vec<(FlowId, Packet)>,
    /// Handles that are not queued.
    pool: Vec<u32>,
    random: Xorshift,
    now: u64,
    pattern: Pattern,
    /// True if FULL and SMALL pass whole bursts.
    whole: bool,
    /// Buffers for bursts.
    arrivals: [(FlowId, Packet); BURST],
    departures: [Packet; BURST],
}

impl<S: Scheduler> Loop<S> {
    /// Creates the loop before its first pair, warmed up to its standing backlog. With `hashed`,
    /// flows are named by a random hash instead of their number.
    pub(crate) fn new(
        scheduler: S,
        pattern: Pattern,
        flows: usize,
        hashed: bool,
        whole: bool,
    ) -> Self {
        let mut random = Xorshift::new(0);
        let names: Vec<u32> = (0..flows)
            .map(|flow| if hashed { random.next_u64() as u32 } else { flow as u32 })
            .collect();
        let queued = pattern.queued(flows);
        let count = match pattern {
            Pattern::Full | Pattern::Overload => queued + flows.max(2 * BURST),
            Pattern::Small | Pattern::Mix(_) => flows,
        };
        let packets: Vec<(FlowId, Packet)> = (0..count)
            .map(|handle| {
                let len = 64 + random.below(1_500 - 64 + 1);
                (FlowId(names[handle % flows]), Packet::new(handle as u32, len))
            })
            .collect();
        let mut pool: Vec<u32> = (0..count as u32).collect();
        for place in (1..count).rev() {
            pool.swap(place, random.below(place as u32 + 1) as usize);
        }
        let empty = Packet::new(0, 0);
        let mut this = Self {
            scheduler,
            packets,
            pool,
            random,
            now: 0,
            pattern,
            whole,
            arrivals: [(FlowId(0), empty); BURST],
            departures: [empty; BURST],
        };
        if pattern == Pattern::Overload {
            this.scheduler.set_limits(Limits::packets(queued as u32), &mut |_, _| ());
        }
        if pattern != Pattern::Small {
            for _ in 0..queued {
                let handle = this.pool.pop().expect("more packets than are queued first");
                this.enqueue(handle);
            }
        }
        this
    }

    #[inline(always)]
    fn enqueue(&mut self, handle: u32) {
        self.now += STEP;
        let (flow, packet) = self.packets[handle as usize];
        let pool = &mut self.pool;
        let drops = &mut |dropped: Packet, _| pool.push(dropped.handle);
        let accepted = self.scheduler.enqueue(Nanos(self.now), flow, packet, drops);
        if let Err(rejected) = accepted {
            self.pool.push(rejected.packet.handle);
        }
    }

    #[inline(always)]
    fn dequeue(&mut self) -> bool {
        self.now += STEP;
        let pool = &mut self.pool;
        let drops = &mut |dropped: Packet, _| pool.push(dropped.handle);
        let Some(packet) = self.scheduler.dequeue(Nanos(self.now), drops) else { return false };
        self.pool.push(packet.handle);
        true
    }

    #[inline(always)]
    fn enqueue_burst(&mut self) {
        for place in &mut self.arrivals {
            let at = self.random.below(self.pool.len() as u32) as usize;
            *place = self.packets[self.pool.swap_remove(at) as usize];
        }
        self.now += STEP;
        let pool = &mut self.pool;
        let drops = &mut |dropped: Packet, _| pool.push(dropped.handle);
        self.scheduler.enqueue_burst(Nanos(self.now), &self.arrivals, drops);
    }

    /// Returns the number of packets that left.
    #[inline(always)]
    fn dequeue_burst(&mut self) -> usize {
        self.now += STEP;
        let pool = &mut self.pool;
        let drops = &mut |dropped: Packet, _| pool.push(dropped.handle);
        let out = &mut self.departures;
        let filled = self.scheduler.dequeue_burst(Nanos(self.now), out, drops);
        self.pool.extend(self.departures[..filled].iter().map(|packet| packet.handle));
        filled
    }

    #[inline(always)]
    fn enqueue_one_by_one(&mut self, count: usize) {
        for _ in 0..count {
            let place = self.random.below(self.pool.len() as u32) as usize;
            let handle = self.pool.swap_remove(place);
            self.enqueue(handle);
        }
    }

    #[inline(always)]
    fn dequeue_one_by_one(&mut self) {
        for _ in 0..BURST {
            self.dequeue();
        }
    }

    /// Runs at least `pairs` pairs of enqueue and dequeue, or offered packets in
    /// [`Pattern::Overload`]; returns the number run.
    #[inline(never)]
    pub(crate) fn pairs(&mut self, pairs: usize) -> usize {
        let mut done = 0;
        while done < pairs {
            match self.pattern {
                Pattern::Mix(_) => unreachable!("a mix is no loop"),
                Pattern::Full if self.whole => {
                    self.enqueue_burst();
                    self.dequeue_burst();
                    done += BURST;
                }
                Pattern::Full => {
                    self.enqueue_one_by_one(BURST);
                    self.dequeue_one_by_one();
                    done += BURST;
                }
                Pattern::Overload => {
                    self.enqueue_one_by_one(2 * BURST);
                    self.dequeue_one_by_one();
                    done += 2 * BURST;
                }
                Pattern::Small if self.whole => {
                    let arrivals = core::mem::take(&mut self.pool);
                    for handles in arrivals.chunks(BURST) {
                        for (place, &handle) in self.arrivals.iter_mut().zip(handles) {
                            *place = self.packets[handle as usize];
                        }
                        self.now += STEP;
                        let burst = &self.arrivals[..handles.len()];
                        self.scheduler.enqueue_burst(Nanos(self.now), burst, &mut |_, _| ());
                    }
                    done += arrivals.len();
                    self.pool = arrivals;
                    self.pool.clear();
                    while self.dequeue_burst() == BURST {}
                }
                Pattern::Small => {
                    // The pool refills from the front while it empties from the back, so the order
                    // of arrival is the order of departure of the previous round.
                    let arrivals = core::mem::take(&mut self.pool);
                    for &handle in &arrivals {
                        self.enqueue(handle);
                    }
                    done += arrivals.len();
                    self.pool = arrivals;
                    self.pool.clear();
                    while self.dequeue() {}
                }
            }
        }
        done
    }

    /// Number of packets in [`Self::claims`].
    pub(crate) const LOOKED_AT: usize = 128 * BURST;

    /// Continues in FULL for [`Self::LOOKED_AT`] packets; returns the number of packets that found
    /// their flow idle. `backlogged` returns the number of backlogged flows. Not part of the
    /// measurement: the amount of work is the same in a long and a short run.
    #[inline(never)]
    pub(crate) fn claims(&mut self, backlogged: impl Fn(&S) -> u32) -> usize {
        let mut claims = 0;
        for _ in 0..Self::LOOKED_AT / BURST {
            for _ in 0..BURST {
                let before = backlogged(&self.scheduler);
                self.enqueue_one_by_one(1);
                claims += usize::from(backlogged(&self.scheduler) > before);
            }
            self.dequeue_one_by_one();
        }
        claims
    }

    /// Checks that the loop measured the intended workload: nothing lost, and rejections only in
    /// OVERLOAD.
    pub(crate) fn verify(&self) {
        let counters = self.scheduler.counters();
        if self.pattern != Pattern::Overload {
            assert_eq!(counters.rejected.packets, 0, "a benchmark in which packets are rejected");
            let dropped = counters.dropped_total().packets;
            assert_eq!(dropped, 0, "a benchmark in which packets are dropped");
        }
        let queued = self.scheduler.backlog().packets as usize;
        assert_eq!(queued + self.pool.len(), self.packets.len(), "a packet was lost");
    }
}
