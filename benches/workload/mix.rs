//! The workloads MIX60, MIX90, MIX100 and ISP: bulk and sparse flows on one link, in virtual time.
//!
//! MIX is a home link of 100 Mbit/s with 8 hosts, 20 bulk flows with frames of 1,514 bytes, and 200
//! sparse flows, whose shares follow Zipf's law with exponent 0.8. Sparse flows send 15 % of all
//! packets, in bursts of 1 to 3 packets of one length, a millisecond apart; the logarithms of
//! lengths are uniform from 80 to 1,200 bytes. In MIX100 the bulk flows are always backlogged: each
//! keeps a window of packets queued, which grows by one in 64 departures and shrinks by one for
//! each drop. In MIX60 and MIX90 they send trains of 4 to 20 packets at one time, and all arrivals
//! together load the link to 60 and 90 %. Bursts and trains begin at random times. ISP is MIX100
//! with ten times the rate, 200 bulk flows, 4,000 sparse ones and 512 hosts. Flows are assigned to
//! hosts and tins in turn, so that each of 8 hosts and of 4 tins has bulk flows.
//!
//! The link calls `dequeue` when it is free at the time returned by `poll_at`, and `poll_at` after
//! each departure and after an arrival while it is idle. A pair is one packet sent.

use conformance::Xorshift;
use freeboard::sched_core::{FlowId, Nanos, Packet, Scheduler};

use super::subjects::Subject;

/// Packet length of bulk flows.
pub(crate) const BULK_LEN: u32 = 1_514;
/// Packet lengths of sparse flows: the shortest, and the ratio of the longest to the shortest.
const SPARSE_LEN: (f64, f64) = (80.0, 15.0);
/// Percentage of packets that belong to sparse flows.
const SPARSE_PERCENT: f64 = 15.0;
/// Packets in a burst of a sparse flow; the next constant is the time between them.
const BURST: (u32, u32) = (1, 3);
const SPACING: u64 = 1_000_000;
/// Packets in a train of a bulk flow.
const TRAIN: (u32, u32) = (4, 20);
/// Number of queued packets at which a flow stops sending.
const MOST_QUEUED: u32 = 64;
/// Initial and minimum window of a bulk flow.
const WINDOW: (u32, u32) = (4, 2);
/// Number of departures in which a window grows by one packet.
const GROWTH: u32 = 64;
/// Number of packets in the drawn schedule of arrivals, which then repeats.
const SCHEDULED: u64 = 1 << 17;
/// Virtual time before the first pair, until windows have settled.
const WARM_UP: u64 = 2_000_000_000;
/// Pairs in the shorter of two compared runs; the longer one has twice as many.
pub(crate) const PAIRS: usize = 100_000;

/// One of the mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    /// Number of bulk flows, which have the lowest numbers; sparse flows follow.
    bulk: usize,
    sparse: usize,
    /// Number of hosts, a power of two.
    hosts: usize,
    /// Nanoseconds per byte on the link.
    nanos: u64,
    /// Load of the link in percent.
    load: u64,
    pub(crate) queues: usize,
}

impl Mix {
    pub(crate) const MIX60: Self = Self { name: "MIX60", load: 60, ..Self::MIX100 };
    pub(crate) const MIX90: Self = Self { name: "MIX90", load: 90, ..Self::MIX100 };
    pub(crate) const MIX100: Self = Self {
        name: "MIX100",
        bulk: 20,
        sparse: 200,
        hosts: 8,
        nanos: 80,
        load: 100,
        queues: 1_024,
    };
    pub(crate) const ISP: Self = Self {
        name: "ISP",
        bulk: 200,
        sparse: 4_000,
        hosts: 512,
        nanos: 8,
        load: 100,
        queues: 8_192,
    };

    pub(crate) const fn flows(&self) -> usize {
        self.bulk + self.sparse
    }

    /// Returns the number of handles.
    pub(crate) const fn packets(&self) -> usize {
        self.flows() * MOST_QUEUED as usize
    }

    pub(crate) const fn bits_per_second(&self) -> u64 {
        8_000_000_000 / self.nanos
    }

    /// Returns the flow whose packet has this handle.
    pub(crate) const fn flow_of(handle: usize) -> usize {
        handle / MOST_QUEUED as usize
    }

    /// Returns the host of a flow.
    pub(crate) const fn host(&self, flow: usize) -> usize {
        flow % self.hosts
    }

    /// Returns the tin of a flow, out of four.
    pub(crate) const fn tin(&self, flow: usize) -> usize {
        flow / self.hosts % 4
    }

    /// Draws the identifier of a flow: bits 30 and 31 are its tin, and those below its host.
    fn name(&self, flow: usize, random: &mut Xorshift) -> FlowId {
        let below = 30 - self.hosts.ilog2();
        let random = random.below(1 << below);
        FlowId((self.tin(flow) as u32) << 30 | (self.host(flow) as u32) << below | random)
    }

    /// Returns the host and the tin encoded by [`Self::name`].
    pub(crate) const fn host_and_tin(&self, FlowId(name): FlowId) -> (u32, u8) {
        ((name & ((1 << 30) - 1)) >> (30 - self.hosts.ilog2()), (name >> 30) as u8)
    }

    /// Draws all arrivals, except those triggered by departures of bulk flows, and returns them
    /// with the period of repetition.
    fn schedule(&self, random: &mut Xorshift) -> (Vec<Arrival>, u64) {
        let sparse = SPARSE_PERCENT / 100.0;
        let (shortest, ratio) = SPARSE_LEN;
        let sparse_len = shortest * (ratio - 1.0) / ratio.ln();
        let len = sparse * sparse_len + (1.0 - sparse) * f64::from(BULK_LEN);
        let packet_time = len * self.nanos as f64 * 100.0 / self.load as f64;
        let end = (packet_time * SCHEDULED as f64) as u64;
        // Cumulative Zipf distribution.
        let mut total = 0.0;
        let shares = (1..=self.sparse).map(|rank| {
            total += (rank as f64).powf(-0.8);
            total
        });
        let shares: Vec<f64> = shares.collect();
        let mut arrivals = Vec::new();
        for at in poisson(packet_time / sparse, BURST, end, random) {
            let wanted = unit(random) * total;
            let flow = (self.bulk + shares.partition_point(|&sum| sum <= wanted)) as u32;
            let len = (shortest * ratio.powf(unit(random))) as u32;
            let times = (0..between(BURST, random)).map(|packet| at + u64::from(packet) * SPACING);
            let times = times.filter(|&at| at < end);
            arrivals.extend(times.map(|at| Arrival { at, flow, packets: 1, len }));
        }
        if self.load < 100 {
            for at in poisson(packet_time / (1.0 - sparse), TRAIN, end, random) {
                let (flow, packets) = (random.below(self.bulk as u32), between(TRAIN, random));
                arrivals.push(Arrival { at, flow, packets, len: BULK_LEN });
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        (arrivals, end)
    }
}

/// Draws times before `end` at which groups of `packets` begin, with one packet per `gap` ns on
/// average.
fn poisson(gap: f64, (least, most): (u32, u32), end: u64, random: &mut Xorshift) -> Vec<u64> {
    let gap = gap * f64::from(least + most) / 2.0;
    let (mut at, mut times) = (0.0, Vec::new());
    loop {
        at -= (1.0 - unit(random)).ln() * gap;
        if at as u64 >= end {
            return times;
        }
        times.push(at as u64);
    }
}

fn between((least, most): (u32, u32), random: &mut Xorshift) -> u32 {
    least + random.below(most - least + 1)
}

/// Draws a uniform number from 0 to less than 1.
fn unit(random: &mut Xorshift) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Packets that arrive at one time.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    flow: u32,
    packets: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct Flow {
    name: FlowId,
    /// Handles that are not queued.
    free: Vec<u32>,
    /// Window of a bulk flow in packets; the next field counts departures since it grew.
    window: u32,
    departures: u32,
}

impl Flow {
    fn queued(&self) -> u32 {
        MOST_QUEUED - self.free.len() as u32
    }
}

/// Queueing delays of sparse flows in whole microseconds.
#[derive(Clone, Debug)]
struct Waits {
    /// Number of packets per delay.
    counts: Vec<u32>,
    count: u64,
    nanos: u64,
}

impl Waits {
    /// Maximum; longer waits count as this.
    const LONGEST: usize = 1 << 17;

    fn new() -> Self {
        Self { counts: vec![0; Self::LONGEST + 1], count: 0, nanos: 0 }
    }

    fn add(&mut self, nanos: u64) {
        self.counts[(nanos / 1_000).min(Self::LONGEST as u64) as usize] += 1;
        self.count += 1;
        self.nanos += nanos;
    }

    fn summary(&self) -> Wait {
        let rank = self.count * 99 / 100;
        let mut below = 0;
        let at_rank = self.counts.iter().position(|&count| {
            below += u64::from(count);
            below > rank
        });
        let mean = self.nanos as f64 / self.count as f64 / 1_000.0;
        Wait { mean, p99: at_rank.unwrap_or(Self::LONGEST) }
    }
}

/// Mean and 99th percentile of the queueing delay of sparse flows in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wait {
    pub(crate) mean: f64,
    pub(crate) p99: usize,
}

/// A scheduler on the link of a mix.
pub(crate) struct Mixed<S> {
    scheduler: S,
    mix: Mix,
    now: u64,
    /// Time at which the last packet is completely sent.
    free_at: u64,
    /// Time of the next departure, if any packet is queued.
    due: Option<u64>,
    flows: Vec<Flow>,
    /// Arrival time by handle.
    arrived: Vec<u64>,
    schedule: Vec<Arrival>,
    /// Time after which the schedule repeats.
    period: u64,
    /// Next arrival; the next field is the time at which the schedule began.
    next: usize,
    began: u64,
    /// Handles dropped by a call.
    dropped: Vec<u32>,
    waits: Waits,
}

impl<S: Scheduler> Mixed<S> {
    /// Creates the link in the state after its warm-up.
    pub(crate) fn new(scheduler: S, mix: Mix) -> Self {
        let mut random = Xorshift::new(0);
        let (schedule, period) = mix.schedule(&mut random);
        let flow = |flow: usize| {
            let first = flow as u32 * MOST_QUEUED;
            let free = (first..first + MOST_QUEUED).rev().collect();
            Flow { name: mix.name(flow, &mut random), free, window: WINDOW.0, departures: 0 }
        };
        let mut this = Self {
            scheduler,
            mix,
            now: 0,
            free_at: 0,
            due: None,
            flows: (0..mix.flows()).map(flow).collect(),
            arrived: vec![0; mix.packets()],
            schedule,
            period,
            next: 0,
            began: 0,
            dropped: Vec::with_capacity(mix.packets()),
            waits: Waits::new(),
        };
        if mix.load == 100 {
            (0..mix.bulk).for_each(|flow| this.fill(flow));
        }
        while this.now < WARM_UP {
            this.step();
        }
        this.waits = Waits::new();
        this
    }

    #[inline(always)]
    fn enqueue(&mut self, flow: usize, len: u32) {
        let Flow { free, name, .. } = &mut self.flows[flow];
        let Some(handle) = free.pop() else { return };
        self.arrived[handle as usize] = self.now;
        let (now, packet, dropped) = (Nanos(self.now), Packet::new(handle, len), &mut self.dropped);
        let drops = &mut |packet: Packet, _| dropped.push(packet.handle);
        if let Err(rejected) = self.scheduler.enqueue(now, *name, packet, drops) {
            self.dropped.push(rejected.packet.handle);
        }
        self.lose();
    }

    /// Reduces the windows of the senders of dropped packets.
    #[inline(always)]
    fn lose(&mut self) {
        while let Some(handle) = self.dropped.pop() {
            let flow = &mut self.flows[Mix::flow_of(handle as usize)];
            flow.free.push(handle);
            flow.window = (flow.window - 1).max(WINDOW.1);
        }
    }

    /// Fills the window of a bulk flow.
    #[inline(always)]
    fn fill(&mut self, flow: usize) {
        for _ in self.flows[flow].queued()..self.flows[flow].window {
            self.enqueue(flow, BULK_LEN);
        }
    }

    #[inline(always)]
    fn dequeue(&mut self) {
        let (now, dropped) = (Nanos(self.now), &mut self.dropped);
        let drops = &mut |packet: Packet, _| dropped.push(packet.handle);
        let packet = self.scheduler.dequeue(now, drops).expect("a packet is due");
        self.lose();
        self.free_at = self.now + u64::from(packet.len) * self.mix.nanos;
        let handle = packet.handle as usize;
        let at = Mix::flow_of(handle);
        let flow = &mut self.flows[at];
        flow.free.push(packet.handle);
        if at >= self.mix.bulk {
            self.waits.add(self.now - self.arrived[handle]);
        } else if self.mix.load == 100 {
            flow.departures += 1;
            if flow.departures == GROWTH {
                flow.departures = 0;
                flow.window = (flow.window + 1).min(MOST_QUEUED);
            }
            self.fill(at);
        }
        self.poll();
    }

    #[inline(always)]
    fn poll(&mut self) {
        self.due = self.scheduler.poll_at(Nanos(self.now)).map(|at| at.0.max(self.free_at));
    }

    /// Performs the next arrival or departure; returns true if it was a departure.
    #[inline(always)]
    fn step(&mut self) -> bool {
        let Arrival { at, flow, packets, len } = self.schedule[self.next];
        let at = self.began + at;
        if let Some(due) = self.due.filter(|&due| due <= at) {
            self.now = due;
            self.dequeue();
            return true;
        }
        self.now = at;
        for _ in 0..packets {
            self.enqueue(flow as usize, len);
        }
        self.next += 1;
        if self.next == self.schedule.len() {
            self.next = 0;
            self.began += self.period;
        }
        if self.due.is_none() {
            self.poll();
        }
        false
    }

    /// Checks that no packet was lost.
    fn verify(&self) {
        let queued: u32 = self.flows.iter().map(Flow::queued).sum();
        assert_eq!(queued, self.scheduler.backlog().packets, "a packet was lost");
    }
}

impl<S: Scheduler> Subject for Mixed<S> {
    #[inline(never)]
    fn run(&mut self, pairs: usize) -> usize {
        let mut done = 0;
        while done < pairs {
            done += usize::from(self.step());
        }
        self.verify();
        done
    }

    fn wait(&self) -> Option<Wait> {
        Some(self.waits.summary())
    }
}
