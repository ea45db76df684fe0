//! Counts the instructions and the stack of single calls of a smart queue: 64 queues, 16 hosts and
//! 16 packets of up to 1,514 bytes. `cargo xtask worst-call` runs it in QEMU, and prints the most
//! that a search has found for each call.
#![no_std]
#![no_main]

mod board;
mod frame;
mod meter;
#[path = "../../../crates/conformance/src/random.rs"]
#[allow(dead_code, reason = "shared with the tests of the host")]
mod random;
#[path = "../../../crates/conformance/src/sequence.rs"]
#[allow(dead_code, reason = "shared with the tests of the host")]
mod sequence;

use freeboard::flowhash::{Ack, FlowKey, Transport};
use freeboard::sched_core::{
    AqmSetting, ChosenAqmState, DropReason, Ecn, Limits, Nanos, Packet, Scheduler as _,
};
use freeboard::shaper::Rate;
use freeboard::{
    AqmKind, AqmMemory, DeviceRoom, Isolation, Labelled, Rtt, SmartQueue, SmartQueueBuilder,
    StaticFrames, StaticTables, TinPlan,
};

use frame::Frame;
use meter::{Cost, Meter};
use random::{Xorshift, scramble};
use sequence::{Call, MAX_LEN, Worst, climb};

const PACKETS: usize = 16;
/// Groups of 32 queues and 8 hosts, and their queues including a spare one per host.
const GROUPS: usize = 2;
const QUEUES: usize = GROUPS * (32 + 8);
const TINS: usize = if cfg!(feature = "tins") { 8 } else { 1 };
/// Sequences that a search plays.
const PLAYED: u32 = if cfg!(feature = "long") { 300 } else { 60 };
const KEY: [u8; 16] = *b"random as can be";

type FrameMemory = StaticFrames<PACKETS, { MAX_LEN as usize }, GROUPS, TINS>;

/// The calls, in the order of the output.
#[derive(Clone, Copy)]
enum Row {
    Push,
    Pop,
    Enqueue,
    Dequeue,
    PollAt,
    Statistics,
    SetDevice,
    SetRate,
    SetRtt,
    SetAqm,
    SetLimits,
    SetIsolation,
    Rotate,
    FramesIn,
    #[cfg(feature = "tins")]
    SetTins,
}

const ROWS: &[&str] = &[
    "push",
    "pop",
    "enqueue",
    "dequeue",
    "poll_at",
    "statistics",
    "set_device",
    "set_rate",
    "set_rtt",
    "set_aqm",
    "set_limits",
    "set_isolation",
    "rotate",
    "frames_in",
    #[cfg(feature = "tins")]
    "set_tins",
];

/// The most that each call has cost so far.
struct Costs {
    meter: Meter,
    most: [Cost; ROWS.len()],
}

impl Costs {
    fn of<R>(&mut self, row: Row, call: impl FnOnce() -> R) -> (R, u32) {
        let (result, cost) = self.meter.measure(call);
        let most = &mut self.most[row as usize];
        most.instructions = most.instructions.max(cost.instructions);
        most.stack = most.stack.max(cost.stack);
        (result, cost.instructions)
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    board::print(format_args!("{info}\n"));
    board::exit(false)
}

#[board::entry]
fn main() -> ! {
    let mut costs = Costs { meter: Meter::new(), most: Default::default() };
    for row in [Row::Push, Row::Pop] {
        search(row, |history, aqm| frames(&mut costs, row, history, aqm));
    }
    for row in [Row::Enqueue, Row::Dequeue] {
        search(row, |history, aqm| descriptors(&mut costs, row, history, aqm));
    }
    for (name, Cost { instructions, stack }) in ROWS.iter().zip(costs.most) {
        board::print(format_args!("{name} {instructions} {stack}\n"));
    }
    board::exit(true)
}

/// Searches for a sequence with an expensive call of `row`, then plays it with each AQM.
fn search(row: Row, mut play: impl FnMut(&[Call], AqmKind) -> Worst) {
    let mut random = Xorshift::new(scramble(row as u64));
    let mut left = PLAYED;
    let found = climb(
        |bound| random.below(bound as u32).into(),
        |history| play(history, AqmKind::Cobalt),
        || {
            left = left.saturating_sub(1);
            left > 0
        },
    );
    for &(_, aqm) in AqmKind::WORDS {
        play(&found.history, aqm);
    }
}

/// Returns the settings: as many parts as possible are enabled.
fn builder(aqm: AqmKind) -> SmartQueueBuilder {
    let Ok(rate) = Rate::megabits_per_second(10) else { panic!() };
    let builder = SmartQueue::upload(rate).max_len(MAX_LEN).aqm(aqm).l4s(true).ingress(true);
    #[cfg(feature = "ack-filter")]
    let builder = builder.ack_filter(freeboard::AckFilter::Aggressive);
    #[cfg(feature = "tins")]
    let builder = builder.tins(freeboard::TinMode::Diffserv8).hosts_across_tins(true);
    builder
}

/// Plays `history` with frames. Returns the most expensive call of `row`.
fn frames(costs: &mut Costs, row: Row, history: &[Call], aqm: AqmKind) -> Worst {
    static mut MEMORY: FrameMemory = FrameMemory::new();
    // SAFETY: the only reference, which ends with the function: it is called by `main` only, not
    // by itself.
    let memory = unsafe { &mut *&raw mut MEMORY };
    *memory = FrameMemory::new();
    let mut bytes = Frame::new();
    let builder = builder(aqm);
    let (mut built, _) = costs.of(Row::FramesIn, || builder.frames_in(memory, KEY));
    let Ok(queue) = &mut built else { panic!("frames_in") };
    let (mut now, mut acked, mut worst) = (Nanos::ZERO, 0, Worst::default());
    for (at, &call) in history.iter().enumerate() {
        let (called, cost) = match call {
            Call::Wait(nanos) => {
                now = now.plus(Nanos(nanos));
                (Row::PollAt, 0)
            }
            Call::Dequeue => (Row::Pop, costs.of(Row::Pop, || queue.pop(now).is_some()).1),
            Call::Enqueue { flow, len } => {
                acked += 1_000;
                let frame = bytes.write(flow, len, acked);
                (Row::Push, costs.of(Row::Push, || queue.push(now, frame).is_ok()).1)
            }
        };
        if called as u8 == row as u8 {
            worst = worst.or(Worst::new(at, cost.into(), 1));
        }
        costs.of(Row::PollAt, || queue.poll_at(now));
    }
    let Ok(rate) = Rate::kilobits_per_second(500) else { panic!() };
    costs.of(Row::Statistics, || queue.statistics());
    costs.of(Row::SetDevice, || queue.set_device(DeviceRoom::Takes(1_000)));
    costs.of(Row::SetRate, || queue.set_rate(now, rate));
    costs.of(Row::SetRtt, || queue.set_rtt(Rtt::SATELLITE));
    costs.of(Row::SetAqm, || queue.set_aqm(AqmKind::CoDel));
    costs.of(Row::Rotate, || queue.rotate(KEY.map(|byte| byte ^ 1)));
    #[cfg(feature = "tins")]
    let _changed = costs.of(Row::SetTins, || queue.set_tins(freeboard::TinMode::Diffserv3).is_ok());
    costs.of(Row::SetIsolation, || queue.set_isolation(Isolation::Flows).is_ok());
    costs.of(Row::SetLimits, || queue.set_limits(Limits::packets(1)));
    worst
}

/// Labels of a flow, derived from its number.
struct OfFlow(u32);

impl Labelled for OfFlow {
    fn flow(&self) -> u32 {
        scramble(self.0.into()) as u32
    }

    fn source(&self) -> u32 {
        scramble((self.0 / 4).into()) as u32
    }

    fn destination(&self) -> u32 {
        self.0 % 3
    }

    fn tin(&self) -> u8 {
        (self.0 % 8) as u8
    }
}

/// Plays `history` with descriptors. Returns the most expensive call of `row`.
fn descriptors(costs: &mut Costs, row: Row, history: &[Call], aqm: AqmKind) -> Worst {
    let mut tables = StaticTables::<PACKETS, GROUPS, TINS>::new();
    let (mut states, mut settings) = ([ChosenAqmState::EMPTY; QUEUES], [AqmSetting::EMPTY; TINS]);
    let plan = &mut [TinPlan::EMPTY][..];
    let memory = AqmMemory { states: &mut states[..], settings: &mut settings[..], plan };
    let builder = builder(aqm).limits(Limits::NONE.within_pool(PACKETS as u32));
    let Ok(queue) = &mut builder.descriptors_in(tables.memory(), memory) else { panic!() };
    let mut acks = [None; PACKETS];
    let mut free: u32 = (1 << PACKETS) - 1;
    let (mut now, mut acked, mut worst) = (Nanos::ZERO, 0_u32, Worst::default());
    for (at, &call) in history.iter().enumerate() {
        let mut dropped = 0_u32;
        let mut drops = |packet: Packet, _: DropReason| dropped |= 1 << packet.handle;
        let (called, cost) = match call {
            Call::Wait(nanos) => {
                now = now.plus(Nanos(nanos));
                (Row::PollAt, 0)
            }
            Call::Dequeue => {
                let (packet, cost) = costs.of(Row::Dequeue, || queue.dequeue(now, &mut drops));
                dropped |= packet.map_or(0, |packet| 1 << packet.handle);
                (Row::Dequeue, cost)
            }
            Call::Enqueue { flow, len } => {
                if free == 0 {
                    queue.evict(&mut drops);
                    free |= dropped;
                    dropped = 0;
                }
                let handle = free.trailing_zeros();
                free &= !(1 << handle);
                acked += 1_000;
                let transport = Transport { protocol: 6, src_port: 80, dst_port: 443 };
                let (src, dst) = (flow.to_be_bytes(), [192, 0, 2, 1]);
                let ack = Ack::new(FlowKey::V4 { src, dst, transport }, 1, acked);
                acks[handle as usize] = (len == 40).then_some(ack);
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][flow as usize % 3];
                let packet = Packet { ecn, ..Packet::new(handle, len) };
                let mut drops = |packet: Packet, _: DropReason| dropped |= 1 << packet.handle;
                let read = |packet: Packet| acks[packet.handle as usize];
                let (result, cost) = costs.of(Row::Enqueue, || {
                    queue.enqueue_with_acks(now, &OfFlow(flow), packet, &read, &mut drops)
                });
                dropped |= result.map_or(1 << handle, |()| 0);
                (Row::Enqueue, cost)
            }
        };
        free |= dropped;
        if called as u8 == row as u8 {
            worst = worst.or(Worst::new(at, cost.into(), 1));
        }
    }
    worst
}
