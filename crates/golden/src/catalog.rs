//! One pinned run for each entry of the catalog.

use conformance::catalog::{Arrays, Dial, FlowRecipe, QueuesRecipe, Recipe, Room, Setting, queues};
use sched_core::{FlowId, Limits, NoAqm, Packet, Scheduler};

use crate::disciplines::{DESCRIPTORS, QUEUES, removes};
use crate::{Hash, run};

/// Number of operations in each pinned run.
const OPERATIONS: u32 = 10_000;
/// Longest accepted packet of an entry, in bytes; longer ones are offered too.
pub const ENTRY_MAX_LEN: u32 = 1_500;
const MAX_LEN: u32 = ENTRY_MAX_LEN;

/// A run for one entry of the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the entry in the catalog.
    pub name: &'static str,
    /// Performs the run and returns the hash of its trace.
    pub hash: fn() -> u64,
}

macro_rules! entries {
    ([$of:ident] $($name:ident: $recipe:expr,)*) => {
        &[$(Entry { name: stringify!($name), hash: || $of($recipe, seed(stringify!($name))) }),*]
    };
}

/// All entries, list by list.
pub const CATALOG: [&[Entry]; 3] = [
    conformance::flow_schedulers!(entries, [of_flows]),
    conformance::schedulers!(entries, [of_packets]),
    conformance::compositions!(entries, [of_packets]),
];

/// Returns the expected value of [`Entry::hash`], equal on every target; `None` for a new entry.
#[must_use]
pub fn pinned(name: &str) -> Option<u64> {
    PINNED.iter().find(|pinned| pinned.0 == name).map(|pinned| pinned.1)
}

const PINNED: &[(&str, u64)] = &[
    ("drr", 0xb2ec_d296_e928_ab2b),
    ("drr_sparse", 0xdf8c_526a_8d8a_78fc),
    ("drr_lqd_tail", 0x1569_d53c_0b6e_9f53),
    ("drr_sparse_lqd", 0x9a31_126e_a820_36bb),
    ("age", 0x2d3a_bd97_6c39_cc39),
    ("age_floor", 0x1a2e_4adb_6e64_4d71),
    ("age_least", 0x1eab_1122_e91d_8b0f),
    ("age_learned", 0xd173_8a84_64e7_55d5),
    ("sqf", 0x5cc0_a06f_a7dc_8ce6),
    ("sqf_tail", 0x14fd_01ae_6a70_b749),
    ("sqf_coarse", 0xc325_3583_383a_a6e5),
    ("sqf_floor", 0x56f9_e426_7aa0_9f03),
    ("sqf_flush", 0xd7f7_ad57_f077_4f20),
    ("sqf_flush_tail", 0xcae5_8124_a540_9045),
    ("qfq", 0x2cef_2840_01fd_ad99),
    ("qfq_lqd", 0xcbf4_564b_4ab0_1ad9),
    ("qfq_lqd_tail", 0xd505_b148_c74a_df5d),
    ("qfq_plus", 0xce28_d115_bbf0_1427),
    ("qfq_plus_lqd", 0xc2e6_1a8a_3d8a_a2fd),
    ("qfq_plus_lqd_tail", 0x554f_8f6e_8a3e_ae5d),
    ("wf2q", 0xd355_0412_5b4a_a5b5),
    ("wf2q_lqd", 0x7aee_9353_20d5_8e2a),
    ("wf2q_lqd_tail", 0xda58_b745_f8a6_a7e9),
    ("fifo", 0xf348_c9dc_a28a_bb00),
    ("fifo_head", 0x8cc6_c9b6_bf73_9d9f),
    ("drr_codel", 0x7dd2_d500_fd3a_f378),
    ("sqf_codel", 0x54f0_7c34_e653_87b6),
    ("qfq_codel", 0xf480_f276_98fd_a7a3),
    ("age_codel", 0xab84_85b6_11d5_bc21),
    ("age_pie", 0x7018_ee21_997b_3fe9),
    ("drr_red", 0x237d_15ec_039e_0d3e),
    ("age_red_adaptive", 0x9104_0ca0_ac03_ddc7),
    ("drr_blue", 0x945a_f292_580d_09bc),
    ("drr_cobalt", 0xac2e_dda8_4c0d_4dc2),
    ("drr_cobalt_ce", 0x0cc0_8af5_c641_b013),
    ("drr_chosen_codel", 0x1e03_17a1_f8cd_0fbe),
    ("drr_chosen_cobalt_l4s", 0x26fe_d5de_3cf7_f910),
    ("drr_pie", 0x408b_9eb6_488f_6aaa),
    ("drr_pi2", 0x63fb_b8d6_a6bd_e898),
    ("one_codel", 0xb8c1_c3f4_5e20_472f),
    ("one_cobalt", 0x2a66_25c4_16e1_0282),
    ("one_pie", 0x6775_a874_b1d8_c6ef),
    ("dual_pi2", 0x9be9_02e1_230c_116f),
    ("dual_pi2_step", 0xd1a3_9447_ca69_2dd0),
    ("qfq_without_aqm", 0xa215_a488_334d_dc93),
    ("hashed_drr", 0x68c1_394d_c051_feac),
    ("tree", 0x7261_599b_4dce_c821),
    ("metered_fifo", 0xff67_93c7_624f_c5c1),
    ("isolated_sources", 0x735a_614c_cf56_76e9),
    ("isolated_triple", 0x3e9e_6543_59d5_7b2c),
    ("isolated_flows_cobalt", 0x033e_2b00_5c6d_b424),
    ("isolated_src_cobalt", 0x7350_0615_2991_8393),
    ("isolated_dst_cobalt", 0xc113_46e6_d571_99cb),
    ("isolated_hosts_cobalt", 0x085e_17b1_c223_9270),
    ("isolated_dual_src_cobalt", 0xe7f7_23dc_bf96_3e1d),
    ("isolated_dual_dst_cobalt", 0xbadc_ea7f_cc0d_b7ea),
    ("isolated_triple_cobalt", 0xffac_f12a_1c9c_080c),
    ("isolated_flows_tins", 0x2b88_f3b7_ed2b_50bd),
    ("isolated_dual_tins", 0x70cd_2d46_3c84_7d90),
    ("isolated_triple_tins", 0x9584_654f_ed82_28e5),
    ("isolated_dual_tins_by_weight", 0x9e45_1306_aba6_e36d),
    ("isolated_triple_tins_by_weight", 0x0f76_00d6_7129_82d4),
    ("isolated_chosen_pie", 0xe386_348e_38ca_9600),
    ("isolated_chosen_pi2", 0x1beb_9766_9a14_e43f),
    ("isolated_chosen_red", 0x88db_2927_3d10_eaf5),
    ("isolated_chosen_blue", 0x28b6_91ed_41be_d9e9),
    ("isolated_dual_rates", 0xe44f_0d3e_9134_1e09),
    ("isolated_dual_tins_rates", 0x7ad6_08e9_69ce_fc21),
    ("smart", 0xb221_b779_1afd_6e2f),
    ("smart_pie", 0x7aba_aa5d_7c62_cd6b),
    ("smart_pi2", 0x9497_9670_07d2_12b4),
    ("smart_red", 0x51ca_8a8f_d3bc_9497),
    ("smart_blue", 0x29cb_0a0b_0ac3_696a),
    ("smart_tins", 0x6087_abbe_02fa_220a),
    ("smart_triple_tins", 0x045e_3643_cc9f_9d79),
    ("smart_triple_tins_across", 0xb18f_15b4_aa10_cbc9),
    ("smart_tins_across", 0x83db_05b2_17c1_308f),
];

/// Derives a seed from a name.
fn seed(name: &str) -> u64 {
    name.bytes().fold(1, |seed, byte| conformance::scramble(seed ^ u64::from(byte)))
}

/// Capacity for the flows.
const ROOM: Room<Arrays<QUEUES>> = Room::of_flows(Arrays, MAX_LEN);

/// Flows are added, removed and changed; one weight in eight is invalid.
fn of_flows<R: QueuesRecipe>(recipe: R, seed: u64) -> u64 {
    let Some(scheduler) = recipe.of().flow_scheduler(ROOM) else { return 0 };
    let Some(policy) = recipe.policy(&scheduler, ROOM) else { return 0 };
    let room = (Arrays::<QUEUES>, Arrays::<DESCRIPTORS>, Arrays::<0>);
    let mut queues = queues(scheduler, NoAqm, room, Limits::NONE).with_drop_policy(policy);
    run(&mut queues, OPERATIONS, seed, |queues, flow: FlowId, random, hash: &mut Hash| {
        if removes(random) {
            let mut gone = *hash;
            queues.remove_flow(flow, &mut |packet: Packet, reason| gone.drop(packet, reason));
            *hash = gone;
            return;
        }
        let setting = Setting { weight: random & 7, max_len: MAX_LEN - (random >> 8 & 1) * 914 };
        hash.word(queues.configure(flow, Dial::of(setting)).is_ok().into());
    })
}

/// All flows are added once and never change. The hash is 0 if no packet was delivered.
fn of_packets<R: Recipe>(recipe: R, seed: u64) -> u64 {
    let Some(mut made) = recipe.scheduler(ROOM, Arrays::<DESCRIPTORS>, Limits::NONE) else {
        return 0;
    };
    if R::add_flows(&mut made, ROOM).is_none() {
        return 0;
    }
    run_packets(&mut made, seed)
}

fn run_packets(scheduler: &mut impl Scheduler, seed: u64) -> u64 {
    let hash = run(scheduler, OPERATIONS, seed, |_: &mut _, _, _, _| {});
    if scheduler.counters().delivered.packets > 0 { hash } else { 0 }
}

/// Performs the run of the entry with this name, which is not of a flow scheduler, on another
/// implementation of its queue. Returns its hash: that of [`pinned`] if both behave equally.
pub fn run_entry(scheduler: &mut impl Scheduler, name: &str) -> u64 {
    run_packets(scheduler, seed(name))
}
