//! Pinned runs that must behave identically on every target.
//!
//! Equal operations must give equal packets, drops and reasons on a 64-bit host and on a
//! microcontroller. [`CATALOG`] has a run for each entry of the catalog, [`ALL`] has longer runs
//! with weights and rates. Each run has an expected hash of its trace, which is asserted by a test
//! on the host and by the program in `firmware/trace`. The crate uses no allocation, no floats and
//! no operating system.
//!
//! Each run keeps its scheduler on the stack: at most [`STACK_BYTES`].
#![no_std]

mod catalog;
mod disciplines;
mod hash;
mod hosts;
mod report;
mod smart;

pub use catalog::{CATALOG, ENTRY_MAX_LEN, Entry, pinned, run_entry};
pub use disciplines::{ALL, Run, STACK_BYTES};
pub use hash::Hash;
pub use report::{Outcome, report};
pub use smart::{ACK_LEN, Assembled, Change, PACKETS, ack, run_assembled};

use conformance::Xorshift;
use sched_core::{
    Backlog, Counters, DropReason, Ecn, FlowId, Limits, Nanos, Packet, RejectReason, Scheduler,
    Volume,
};

/// Number of flows in a run. Operations occasionally name one more, which is unknown.
pub const FLOWS: u32 = 16;
/// Number of handles in a run. Operations occasionally name one more, which is unknown.
pub const HANDLES: u32 = 128;
/// Longest packet of a run, in bytes; longer ones are offered occasionally.
pub const MAX_LEN: u32 = 1_514;

/// Performs `operations` random operations on `scheduler` and hashes everything observable:
/// delivered packets, drops with their reasons, rejections with theirs, and the counters.
///
/// `tune` is called occasionally with a flow and a random number. It adds, changes or removes the
/// flow and hashes the packets that are returned.
pub fn run<S: Scheduler>(
    scheduler: &mut S,
    operations: u32,
    seed: u64,
    tune: impl FnMut(&mut S, FlowId, u32, &mut Hash),
) -> u64 {
    run_named(scheduler, operations, seed, |flow| flow, tune)
}

/// Variant of [`run`] for a scheduler that does not identify flows by their numbers, but for
/// example by hashes.
pub fn run_named<S: Scheduler>(
    scheduler: &mut S,
    operations: u32,
    seed: u64,
    name: impl Fn(FlowId) -> FlowId,
    mut tune: impl FnMut(&mut S, FlowId, u32, &mut Hash),
) -> u64 {
    let (mut random, mut hash) = (Xorshift::new(seed), Hash::default());
    let mut now = Nanos(0);
    for flow in 0..FLOWS {
        tune(scheduler, FlowId(flow), random.next_u32(), &mut hash);
    }
    for _ in 0..operations {
        now = now.plus(Nanos(u64::from(random.below(1 << 20))));
        // One operation in 32 is a rare one; the others are arrivals and departures at random.
        match random.below(64) {
            0 => tune(scheduler, FlowId(random.below(FLOWS)), random.next_u32(), &mut hash),
            1 => {
                let packets = random.below(2 * HANDLES);
                let limits = Limits { packets, bytes: random.below(1 << 18) };
                let mut gone = hash;
                scheduler.set_limits(limits, &mut |packet, reason| gone.drop(packet, reason));
                hash = gone;
            }
            2..34 => {
                let flow = FlowId(if random.below(64) == 0 { FLOWS } else { random.below(FLOWS) });
                let packet = arrival(&mut random);
                let mut gone = hash;
                let outcome = scheduler.enqueue(now, name(flow), packet, &mut |packet, reason| {
                    gone.drop(packet, reason)
                });
                hash = gone;
                match outcome {
                    Ok(()) => hash.word(1),
                    Err(rejected) => {
                        hash.packet(rejected.packet);
                        hash.rejection(rejected.reason);
                    }
                }
            }
            34 if random.below(64) == 0 => {
                let mut gone = hash;
                scheduler.drain(&mut |packet, reason| gone.drop(packet, reason));
                hash = gone;
            }
            _ => {
                let mut gone = hash;
                let packet =
                    scheduler.dequeue(now, &mut |packet, reason| gone.drop(packet, reason));
                hash = gone;
                match packet {
                    Some(packet) => hash.packet(packet),
                    None => hash.word(2),
                }
            }
        }
        hash.backlog(scheduler.backlog());
    }
    hash.counters(&scheduler.counters());
    hash.value()
}

fn arrival(random: &mut Xorshift) -> Packet {
    let handle = random.below(HANDLES + 1);
    let len = match random.below(8) {
        0 => random.below(2 * MAX_LEN),
        1..4 => 64,
        _ => random.below(MAX_LEN) + 1,
    };
    Packet { handle, len, ecn: Ecn::from_bits(random.byte()) }
}

impl Hash {
    /// Hashes a dropped packet and the reason.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.packet(packet);
        self.word(match reason {
            DropReason::Overflow => 0x10,
            DropReason::Aqm => 0x11,
            DropReason::LimitLowered => 0x12,
            DropReason::FlowRemoved => 0x13,
            DropReason::Drained => 0x14,
            DropReason::Rejected => 0x15,
            DropReason::Unserved => 0x16,
            DropReason::Filtered => 0x18,
            // A reason added later: it occurs in no pinned run.
            _ => 0x17,
        });
    }

    fn packet(&mut self, packet: Packet) {
        self.word(packet.handle);
        self.word(packet.len);
        self.word(packet.ecn.bits().into());
    }

    fn rejection(&mut self, reason: RejectReason) {
        self.word(match reason {
            RejectReason::UnknownFlow { .. } => 0x20,
            RejectReason::Length { .. } => 0x21,
            RejectReason::UnknownHandle { .. } => 0x22,
            RejectReason::HandleInUse { .. } => 0x23,
            RejectReason::Full { .. } => 0x24,
            _ => 0x2f,
        });
    }

    fn backlog(&mut self, held: Backlog) {
        self.word(held.packets);
        self.word(held.bytes);
    }

    fn counters(&mut self, counters: &Counters) {
        let volumes = [counters.accepted, counters.rejected, counters.delivered];
        // Flushes and filters are hashed only if there were any, so that the hash of a run without
        // the option does not depend on it.
        let is_optional = |why| matches!(why, DropReason::Unserved | DropReason::Filtered);
        let dropped = DropReason::ALL.iter().map(|&why| (why, counters.dropped_for(why)));
        let told = dropped.filter(|&(why, of)| !is_optional(why) || of != Volume::ZERO);
        for Volume { packets, bytes } in volumes.into_iter().chain(told.map(|(_, of)| of)) {
            self.double(packets);
            self.double(bytes);
        }
        self.double(counters.marked);
        self.backlog(counters.peak);
    }
}
