//! Pinned runs of individual disciplines, with weights, rates and options.

use conformance::catalog::{
    AqmRecipe, Arrays, ByHash, CoDel, Drr, Fifo, LongestQueue, Qfq, QfqPlus, Queued, QueuesRecipe,
    Recipe, Room, SchedulerOf, Setting, Shaped, ShortestQueue, Tree, Wf2q, WithoutAqm,
};
use freeboard::AckFilter;
use freeboard::flowhash::{Ack, FlowHasher, FlowKey, SackBlocks, SipHash13, Transport};
use freeboard::sched_core::DropFrom::{Head, Tail};
use freeboard::shaper::{Overhead, Rate};
use sched_core::{
    CoDelParams, FlowId, FlowScheduler, Limits, Nanos, Packet, QfqConfig, Wf2qConfig,
};

use crate::{FLOWS, HANDLES, Hash, MAX_LEN, run, run_named};

/// Maximum stack use of a run, with a margin for the calls below it.
pub const STACK_BYTES: usize = 16 << 10;

/// Number of operations in each pinned run.
pub(crate) const OPERATIONS: u32 = 50_000;

pub(crate) const DESCRIPTORS: usize = HANDLES as usize;
pub(crate) const QUEUES: usize = FLOWS as usize;

/// A run and its expected hash.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Name of the discipline.
    pub name: &'static str,
    /// Performs the run and returns the hash of its trace.
    pub hash: fn() -> u64,
    /// Expected value of [`Run::hash`], equal on every target.
    pub pinned: u64,
}

/// All runs.
pub const ALL: &[Run] = &[
    Run { name: "fifo, tail drop", hash: fifo_tail_drop, pinned: 0xe48b_7f0a_ae1a_7562 },
    Run { name: "fifo, head drop", hash: fifo_head_drop, pinned: 0x240e_7860_e787_345a },
    Run { name: "drr", hash: drr, pinned: 0xe29a_05fb_4277_eb12 },
    Run {
        name: "drr, sparse first, longest-queue drop, codel",
        hash: fq_codel,
        pinned: 0xf45c_10c6_f8b0_74a5,
    },
    Run { name: "shortest queue", hash: shortest_queue, pinned: 0xaaab_ac3e_9174_da4e },
    Run { name: "qfq", hash: qfq, pinned: 0x61c4_0389_2c5b_7692 },
    Run { name: "qfq, longest-queue drop", hash: qfq_lqd, pinned: 0x64b4_582c_78bb_2bdb },
    Run {
        name: "acknowledgements filtered out",
        hash: filtered_acks,
        pinned: 0x473f_88d4_987d_c376,
    },
    Run { name: "qfq+, longest-queue drop", hash: qfq_plus, pinned: 0xed17_8530_b5ba_918e },
    Run { name: "wf2q, longest-queue drop", hash: wf2q, pinned: 0xdc15_52cc_3060_ebdf },
    Run { name: "drr over shortest queues", hash: hierarchy, pinned: 0xe56c_260f_25f5_9397 },
    Run { name: "hashed drr behind a shaper", hash: hashed_drr, pinned: 0x1ba8_ed93_ad5f_a29e },
    Run {
        name: "smart queue with a rate, tins, hosts and a filter of acknowledgements",
        hash: crate::smart::with_rate_and_tins,
        pinned: 0x2631_e94d_b507_97f5,
    },
    Run {
        name: "backlogged hosts with new flows",
        hash: crate::hosts::busy,
        pinned: 0x6f84_a7d1_9c54_5a31,
    },
];

/// Capacity for the flows of a run.
const ROOM: Room<Arrays<QUEUES>> =
    Room { setting: Setting { weight: 4, max_len: MAX_LEN }, ..Room::of_flows(Arrays, MAX_LEN) };

fn fifo_tail_drop() -> u64 {
    let fifo = Fifo { end: Tail }.scheduler(ROOM, Arrays::<DESCRIPTORS>, Limits::NONE);
    fifo.map_or(0, |mut fifo| run(&mut fifo, OPERATIONS, 1, |_, _, _, _| {}))
}

fn fifo_head_drop() -> u64 {
    let fifo = Fifo { end: Head }.scheduler(ROOM, Arrays::<DESCRIPTORS>, Limits::NONE);
    fifo.map_or(0, |mut fifo| run(&mut fifo, OPERATIONS, 2, |_, _, _, _| {}))
}

fn drr() -> u64 {
    queues(Drr { sparse_first: false }, WithoutAqm, 3, quantum)
}

fn fq_codel() -> u64 {
    // A clock step is half a millisecond on average, so queues stay backlogged for many intervals.
    let params = CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100);
    let scheduler = LongestQueue { of: Drr { sparse_first: true }, end: Head };
    queues(scheduler, CoDel(params), 4, quantum)
}

/// 10 of 16 quanta are large enough.
fn quantum(random: u32) -> u32 {
    (random & 15) * 250
}

fn shortest_queue() -> u64 {
    queues(ShortestQueue { end: Tail }, WithoutAqm, 5, |_| ())
}

fn qfq() -> u64 {
    queues(Qfq, WithoutAqm, 7, weight)
}

fn qfq_lqd() -> u64 {
    queues(LongestQueue { of: Qfq, end: Head }, WithoutAqm, 8, weight)
}

/// Packets are acknowledgements whose numbers and blocks are derived from their handles. Where
/// other runs add a flow, this one filters the flow's acknowledgements.
fn filtered_acks() -> u64 {
    let queued = Queued { of: Qfq, aqm: WithoutAqm };
    let Some(mut queues) = queued.scheduler(ROOM, Arrays::<DESCRIPTORS>, Limits::NONE) else {
        return 0;
    };
    let transport = Transport { protocol: 6, src_port: 1, dst_port: 2 };
    let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [10, 0, 0, 2], transport };
    let acks = move |packet: Packet| {
        let number = (u32::MAX - 60_000).wrapping_add(packet.handle.wrapping_mul(1_000));
        let mut ack = Ack::new(connection, packet.handle >> 6, number);
        if packet.handle & 3 == 3 {
            ack.sack = SackBlocks::new([(number.wrapping_add(500), number.wrapping_add(2_500))]);
        }
        Some(ack)
    };
    let mut configured = 0_u32;
    run(&mut queues, OPERATIONS, 31, |queues, flow: FlowId, random, hash: &mut Hash| {
        configured = configured.wrapping_add(1);
        if configured <= FLOWS {
            hash.word(queues.configure(flow, weight(random)).is_ok().into());
            return;
        }
        let newest =
            queues.newest_first(flow).next().and_then(|packet| Some((packet, acks(packet)?)));
        let Some((packet, ack)) = newest else { return };
        let filter = if random & 1 == 0 { AckFilter::Conservative } else { AckFilter::Aggressive };
        let chosen = filter.superseded_in(queues, flow, (packet, &ack), &acks);
        let younger = chosen.unwrap_or(random >> 28);
        let mut gone = *hash;
        queues.filter_out(flow, younger, &mut |packet: Packet, why| gone.drop(packet, why));
        gone.word(chosen.unwrap_or(u32::MAX));
        *hash = gone;
    })
}

/// A power of two up to 2^17 (the last one is too large), slightly perturbed.
fn weight(random: u32) -> QfqConfig {
    let weight = (1 << (random % 18)) ^ (random >> 8 & 3);
    QfqConfig { weight, max_len: if random >> 16 & 1 == 0 { MAX_LEN } else { MAX_LEN - 914 } }
}

/// Few distinct weights, so that aggregates fill.
fn qfq_plus() -> u64 {
    let scheduler = LongestQueue { of: QfqPlus { members: 4 }, end: Head };
    queues(scheduler, WithoutAqm, 11, |random| QfqConfig {
        weight: 1 + (random & 1) * 99,
        ..weight(random & 1 << 16)
    })
}

fn wf2q() -> u64 {
    queues(LongestQueue { of: Wf2q, end: Head }, WithoutAqm, 10, |random| {
        let QfqConfig { weight, max_len } = weight(random);
        Wf2qConfig { weight, max_len }
    })
}

/// Four users with four flows each; packets are dropped from the user with the longest backlog. One
/// user is behind a shaper of its own.
fn hierarchy() -> u64 {
    // Less than a quarter of the offered load.
    let Ok(slow) = Rate::kilobits_per_second(400) else { return 0 };
    let user = Queued { of: ShortestQueue { end: Head }, aqm: WithoutAqm };
    let tree = Tree {
        of: Drr { sparse_first: false },
        class: Shaped { of: user, rate: Rate::UNLIMITED, overhead: Overhead::RAW },
        bits: 2,
    };
    let room = Room::of_flows(Arrays::<{ QUEUES / 4 }>, MAX_LEN);
    let Some(mut node) = tree.scheduler(room, Arrays::<DESCRIPTORS>, Limits::NONE) else {
        return 0;
    };
    let slowed = node.with_class(Nanos(0), FlowId(1), &mut |_: Packet, _| {}, |user, _| {
        user.set_rate(Nanos(0), slow);
    });
    if slowed.is_none() {
        return 0;
    }
    run(&mut node, OPERATIONS, 11, |node, flow: FlowId, random, hash: &mut Hash| {
        let (class, number) = (FlowId(flow.0 >> 2), FlowId(flow.0 & 3));
        if removes(random) {
            let mut gone = *hash;
            node.remove_class(class, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
        } else {
            hash.word(node.configure(class, quantum(random)).is_ok().into());
            let drops = &mut |_: Packet, _| {};
            let added = node.with_class(Nanos(0), class, drops, |user, _| {
                user.inner_mut().configure(number, ()).is_ok()
            });
            hash.word(added.unwrap_or(false).into());
        }
    })
}

/// The complete path: keyed hash, set-associative table, DRR with longest-queue drop, shaper.
/// Seventeen flows on sixteen queues, so that some share one.
fn hashed_drr() -> u64 {
    // Below the offered load, 450 bytes per millisecond on average, so that queues stay backlogged.
    let Ok(rate) = Rate::megabits_per_second(2) else { return 0 };
    let of = LongestQueue { of: Drr { sparse_first: true }, end: Head };
    let of = ByHash { of, lines: Arrays::<{ QUEUES / 8 }>, ways: 8 };
    let shaped = Shaped { of, rate, overhead: Overhead::PPPOE_LLCSNAP };
    let Some(mut shaped) = shaped.scheduler(ROOM, Arrays::<DESCRIPTORS>, Limits::NONE) else {
        return 0;
    };
    for queue in 0..QUEUES as u32 {
        let Ok(()) = shaped.inner_mut().configure_queue(queue, MAX_LEN) else { return 0 };
    }
    let hasher = SipHash13::new([9; 16]);
    let name = |flow: FlowId| FlowId(hasher.hash(&flow.0.to_le_bytes()));
    run_named(&mut shaped, OPERATIONS, 9, name, |_, _, _, _| {})
}

/// One call in eight removes the flow; the others add or change it.
pub(crate) const fn removes(random: u32) -> bool {
    random >> 29 == 0
}

fn queues<R: QueuesRecipe, A: AqmRecipe, C>(
    scheduler: R,
    aqm: A,
    seed: u64,
    config: impl Fn(u32) -> C,
) -> u64
where
    SchedulerOf<R, Arrays<QUEUES>>: FlowScheduler<Config = C>,
{
    let queued = Queued { of: scheduler, aqm };
    let Some(mut queues) = queued.scheduler(ROOM, Arrays::<DESCRIPTORS>, Limits::NONE) else {
        return 0;
    };
    run(&mut queues, OPERATIONS, seed, |queues, flow: FlowId, random, hash: &mut Hash| {
        if removes(random) {
            let mut gone = *hash;
            queues.remove_flow(flow, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
        } else {
            hash.word(queues.configure(flow, config(random)).is_ok().into());
        }
    })
}
