//! The lists of recipes.
//!
//! A list takes the name of a macro of the caller and, optionally, one token tree or group that is
//! passed to it first. Entries cover the options that select a different code path; a caller that
//! needs other values writes its own recipe.

/// Passes every flow scheduler, alone and with a drop policy, to the macro `$each` as `name:
/// recipe,`. The recipe is a [`QueuesRecipe`](crate::catalog::QueuesRecipe) with a reference model.
#[macro_export]
macro_rules! flow_schedulers {
    ($each:ident $(, $with:tt)?) => {
        $crate::flow_schedulers! { @entries $each $($with)?;
            drr: Drr { sparse_first: false };
            drr_sparse: Drr { sparse_first: true };
            drr_lqd_tail: LongestQueue { of: Drr { sparse_first: false }, end: Tail };
            drr_sparse_lqd: LongestQueue { of: Drr { sparse_first: true }, end: Head };
            age: Age(AgeParams::two_levels(2_000).with_renewal(Nanos::from_millis(2)));
            age_floor: LongestQueue {
                of: Age(
                    AgeParams::two_levels(1_000)
                        .with_floor(4)
                        .with_renewal(Nanos::from_millis(20))
                ),
                end: Head,
            };
            age_least: Age(
                AgeParams::least_attained(500).with_floor(2).with_renewal(Nanos::from_millis(20))
            );
            age_learned: LongestQueue {
                of: Age(
                    AgeParams::two_levels(2_000)
                        .with_renewal(Nanos::from_millis(1))
                        .with_learned_threshold(ThresholdRange { least: 500, most: 20_000 })
                ),
                end: Tail,
            };
            sqf: ShortestQueue { end: Head };
            sqf_tail: ShortestQueue { end: Tail };
            sqf_coarse: CoarseShortestQueue { end: Tail };
            sqf_floor: FlooredShortestQueue {
                end: Head, floor: Some(Floor { exponent: 2, after: 200 }), flush: None,
            };
            sqf_flush: FlooredShortestQueue {
                end: Head, floor: None, flush: Some(Nanos::from_millis(1)),
            };
            sqf_flush_tail: FlooredShortestQueue {
                end: Tail, floor: None, flush: Some(Nanos::from_millis(1)),
            };
            qfq: Qfq;
            qfq_lqd: LongestQueue { of: Qfq, end: Head };
            qfq_lqd_tail: LongestQueue { of: Qfq, end: Tail };
            qfq_plus: QfqPlus { members: 2 };
            qfq_plus_lqd: LongestQueue { of: QfqPlus { members: 3 }, end: Head };
            qfq_plus_lqd_tail: LongestQueue { of: QfqPlus { members: 8 }, end: Tail };
            wf2q: Wf2q;
            wf2q_lqd: LongestQueue { of: Wf2q, end: Head };
            wf2q_lqd_tail: LongestQueue { of: Wf2q, end: Tail };
        }
    };
    (@entries $each:ident $($with:tt)?; $($name:ident: $recipe:expr;)*) => {
        $each! { $($with)?
            $($name: {
                #[allow(unused_imports, reason = "each entry names some of them")]
                use $crate::catalog::{entry::*, *};
                $recipe
            },)*
        }
    };
}

/// Passes every packet scheduler that is not a flow scheduler with queues to the macro `$each` as
/// `name: recipe,`. The recipe is a [`Recipe`](crate::catalog::Recipe) with a reference model.
#[macro_export]
macro_rules! schedulers {
    ($each:ident $(, $with:tt)?) => {
        $crate::flow_schedulers! { @entries $each $($with)?;
            fifo: Fifo { end: Tail };
            fifo_head: Fifo { end: Head };
        }
    };
}

/// Passes compositions of the other entries to the macro `$each` as `name: recipe,`: wrappers
/// around a scheduler, and AQMs in its queues. The recipe is a [`Recipe`](crate::catalog::Recipe);
/// the reference models exist for its parts.
#[macro_export]
macro_rules! compositions {
    ($each:ident $(, $with:tt)?) => {
        $crate::flow_schedulers! { @entries $each $($with)?;
            drr_codel: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: CoDel(
                    CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100)
                ),
            };
            sqf_codel: Queued {
                of: ShortestQueue { end: Head },
                aqm: CoDel(
                    CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100)
                ),
            };
            qfq_codel: Queued {
                of: LongestQueue { of: Qfq, end: Head },
                aqm: CoDel(
                    CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100)
                ),
            };
            age_codel: Queued {
                of: LongestQueue {
                    of: Age(
                        AgeParams::two_levels(2_000)
                            .with_floor(8)
                            .with_renewal(Nanos::from_millis(2))
                    ),
                    end: Head,
                },
                aqm: CoDel(
                    CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100)
                ),
            };
            age_pie: Queued {
                of: LongestQueue {
                    of: Age(
                        AgeParams::two_levels(2_000)
                            .with_floor(8)
                            .with_renewal(Nanos::from_millis(2))
                    ),
                    end: Head,
                },
                aqm: Pie(QUICK_PIE),
            };
            drr_red: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: Red(QUICK_RED),
            };
            age_red_adaptive: Queued {
                of: Age(AgeParams::two_levels(2_000).with_renewal(Nanos::from_millis(2))),
                aqm: Red(
                    RedParams::new(1_000, 3_000)
                        .with_weight(2)
                        .with_max_probability(Probability::from_raw(1 << 29))
                        .gentle()
                        .adaptive()
                ),
            };
            drr_blue: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: Blue(QUICK_BLUE),
            };
            drr_cobalt: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: Cobalt(CobaltParams::new(Nanos::from_millis(1), Nanos::from_millis(5))
                    .with_steps(Probability::from_raw(1 << 28), Probability::from_raw(1 << 26))),
            };
            drr_cobalt_ce: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: CeThreshold {
                    of: Cobalt(CobaltParams::new(Nanos::from_millis(1), Nanos::from_millis(5))),
                    threshold: Nanos::from_micros(500),
                    ect1_only: true,
                },
            };
            drr_chosen_codel: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: ChosenAqm(
                    AqmChoice::CoDel(
                        CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100)
                    ),
                    None
                ),
            };
            drr_chosen_cobalt_l4s: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: ChosenAqm(
                    AqmChoice::Cobalt(
                        CobaltParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_steps(
                            Probability::from_raw(1 << 28),
                            Probability::from_raw(1 << 26)
                        )
                    ),
                    Some(L4sParams::new(Nanos::from_micros(500)).with_mtu(100))
                ),
            };
            drr_pie: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: Pie(QUICK_PIE),
            };
            drr_pi2: Queued {
                of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                aqm: Pi2(QUICK_PI2),
            };
            one_codel: OneQueue(CoDel(
                    CoDelParams::new(Nanos::from_millis(1), Nanos::from_millis(5)).with_mtu(100)
                ));
            one_cobalt: OneQueue(QUICK_COBALT);
            one_pie: OneQueue(Pie(QUICK_PIE));
            dual_pi2: DualPi2(DualPi2Params::new(QUICK_PI2));
            dual_pi2_step: DualPi2(
                DualPi2Params::new(QUICK_PI2).with_step(Nanos::from_micros(500))
            );
            qfq_without_aqm: Queued { of: Qfq, aqm: WithoutAqm };
            hashed_drr: Shaped {
                of: ByHash {
                    of: LongestQueue { of: Drr { sparse_first: true }, end: Head },
                    lines: Arrays::<2>,
                    ways: 8,
                },
                rate: Rate::UNLIMITED,
                overhead: Overhead::PPPOE_LLCSNAP,
            };
            tree: Tree {
                of: Drr { sparse_first: false },
                class: Shaped {
                    of: Fifo { end: Head }, rate: Rate::UNLIMITED, overhead: Overhead::RAW,
                },
                bits: 2,
            };
            metered_fifo: Measured(Fifo { end: Tail });
            isolated_sources: IsolatedHosts { by: Isolation::DualSrcHost, aqm: WithoutAqm };
            isolated_triple: IsolatedHosts { by: Isolation::TripleIsolate, aqm: WithoutAqm };
            isolated_flows_cobalt: IsolatedHosts { by: Isolation::Flows, aqm: QUICK_COBALT };
            isolated_src_cobalt: IsolatedHosts { by: Isolation::SrcHost, aqm: QUICK_COBALT };
            isolated_dst_cobalt: IsolatedHosts { by: Isolation::DstHost, aqm: QUICK_COBALT };
            isolated_hosts_cobalt: IsolatedHosts { by: Isolation::Hosts, aqm: QUICK_COBALT };
            isolated_dual_src_cobalt: IsolatedHosts { by: Isolation::DualSrcHost, aqm: QUICK_COBALT };
            isolated_dual_dst_cobalt: IsolatedHosts { by: Isolation::DualDstHost, aqm: QUICK_COBALT };
            isolated_triple_cobalt: IsolatedHosts { by: Isolation::TripleIsolate, aqm: QUICK_COBALT };
            isolated_flows_tins: IsolatedTins {
                of: IsolatedHosts { by: Isolation::Flows, aqm: WithoutAqm }, tins: FOUR_TINS, limited: false,
            };
            isolated_dual_tins: IsolatedTins {
                of: IsolatedHosts { by: Isolation::DualSrcHost, aqm: QUICK_COBALT }, tins: FOUR_TINS, limited: false,
            };
            isolated_triple_tins: IsolatedTins {
                of: IsolatedHosts { by: Isolation::TripleIsolate, aqm: QUICK_COBALT }, tins: FOUR_TINS, limited: false,
            };
            isolated_dual_tins_by_weight: IsolatedTins {
                of: IsolatedHosts { by: Isolation::DualSrcHost, aqm: WithoutAqm }, tins: WEIGHTED, limited: false,
            };
            isolated_triple_tins_by_weight: IsolatedTins {
                of: IsolatedHosts { by: Isolation::TripleIsolate, aqm: WithoutAqm }, tins: WEIGHTED, limited: false,
            };
            isolated_dual_rates: IsolatedTins {
                of: IsolatedHosts { by: Isolation::DualSrcHost, aqm: QUICK_COBALT }, tins: ONE_TIN,
                limited: true,
            };
            isolated_dual_tins_rates: IsolatedTins {
                of: IsolatedHosts { by: Isolation::DualSrcHost, aqm: WithoutAqm }, tins: FOUR_TINS,
                limited: true,
            };
            isolated_chosen_pie: IsolatedHosts {
                by: Isolation::DualSrcHost, aqm: ChosenAqm(AqmChoice::Pie(QUICK_PIE), None),
            };
            isolated_chosen_pi2: IsolatedHosts {
                by: Isolation::DualSrcHost, aqm: ChosenAqm(AqmChoice::Pi2(QUICK_PI2), None),
            };
            isolated_chosen_red: IsolatedHosts {
                by: Isolation::DualSrcHost, aqm: ChosenAqm(AqmChoice::Red(QUICK_RED), None),
            };
            isolated_chosen_blue: IsolatedHosts {
                by: Isolation::DualSrcHost, aqm: ChosenAqm(AqmChoice::Blue(QUICK_BLUE), None),
            };
            smart: Smart { rate: Rate::UNLIMITED, aqm: AqmKind::Cobalt };
            smart_pie: Smart { rate: Rate::UNLIMITED, aqm: AqmKind::Pie };
            smart_pi2: Smart { rate: Rate::UNLIMITED, aqm: AqmKind::Pi2 };
            smart_red: Smart { rate: Rate::UNLIMITED, aqm: AqmKind::Red };
            smart_blue: Smart { rate: Rate::UNLIMITED, aqm: AqmKind::Blue };
            smart_tins: SmartTins {
                rate: Rate::UNLIMITED, by: Isolation::DualSrcHost, tins: TinMode::Diffserv4,
                across: false,
            };
            smart_triple_tins: SmartTins {
                rate: Rate::UNLIMITED, by: Isolation::TripleIsolate, tins: TinMode::Diffserv3,
                across: false,
            };
            smart_triple_tins_across: SmartTins {
                rate: Rate::UNLIMITED, by: Isolation::TripleIsolate, tins: TinMode::Diffserv4,
                across: true,
            };
            smart_tins_across: SmartTins {
                rate: Rate::UNLIMITED, by: Isolation::DualSrcHost, tins: TinMode::Diffserv8,
                across: true,
            };
        }
    };
}

/// Names that the entries use in addition to recipes.
pub mod entry {
    use super::super::Cobalt;
    pub use freeboard::sched_core::{
        AgeParams, AqmChoice, BlueParams, CoDelParams, CobaltParams,
        DropFrom::{Head, Tail},
        DualPi2Params, L4sParams, Nanos, Pi2Params, PieParams, Probability, RedParams,
        ThresholdRange, TinConfig,
    };
    pub use freeboard::shaper::{Overhead, Rate};
    pub use freeboard::{AqmKind, Isolation, TinMode};

    /// Tins by share, like CAKE's `diffserv4` at 10 Mbit/s, for packets a few microseconds to
    /// milliseconds apart.
    pub const FOUR_TINS: &[TinConfig] = &[
        TinConfig::by_weight(1_024).with_rate(10_000_000),
        TinConfig::by_weight(64).with_rate(625_000),
        TinConfig::by_weight(512).with_rate(5_000_000),
        TinConfig::by_weight(256).with_rate(2_500_000),
    ];

    /// One tin.
    pub const ONE_TIN: &[TinConfig] = &[TinConfig::by_weight(1)];

    /// Tins by weight.
    pub const WEIGHTED: &[TinConfig] =
        &[TinConfig::by_weight(3), TinConfig::by_weight(1), TinConfig::by_weight(2)];

    /// PIE for short sequences of packets, half a millisecond each: it reacts early and to short
    /// queues.
    pub const QUICK_PIE: PieParams = PieParams::new(Nanos::from_millis(1))
        .with_period(Nanos::from_millis(2))
        .with_max_burst(Nanos::from_millis(4))
        .with_gains(1_000_000, 1_000_000)
        .with_mtu(100);

    /// RED for short sequences of packets.
    pub const QUICK_RED: RedParams = RedParams::new(1_500, 4_500)
        .with_weight(1)
        .with_max_probability(Probability::from_raw(1 << 29))
        .with_packet_time(Nanos::from_micros(100));

    /// BLUE for short sequences of packets.
    pub const QUICK_BLUE: BlueParams = BlueParams::DEFAULT
        .with_steps(Probability::from_raw(1 << 29), Probability::from_raw(1 << 26))
        .with_freeze(Nanos::from_millis(1))
        .with_longest_wait(Nanos::from_millis(4));

    /// COBALT for short sequences of packets and short queues.
    pub const QUICK_COBALT: Cobalt = Cobalt(
        CobaltParams::new(Nanos::from_micros(200), Nanos::from_millis(1))
            .with_mtu(100)
            .with_steps(Probability::from_raw(1 << 28), Probability::from_raw(1 << 26)),
    );

    /// PI2 for short sequences of packets.
    pub const QUICK_PI2: Pi2Params = Pi2Params::new(Nanos::from_millis(1))
        .with_period(Nanos::from_millis(2))
        .with_gains(10_000, 30_000)
        .with_mtu(100);
}
