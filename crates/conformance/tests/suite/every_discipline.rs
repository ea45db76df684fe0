//! Every variant of every discipline.

/// A module of tests: `$play(variants, seed, sides)` for every variant of every discipline, where
/// `variants` says how many the discipline has and `sides` makes it and its twin.
macro_rules! every_discipline {
    ($what:ident, $play:path) => {
        mod $what {
            use conformance::sides::{self, FLOWS, HOSTS, MAX_LEN, SLOTS};
            use freeboard::sched_core::{DropFrom::*, Limits, Side::*};

            #[test]
            fn fifo_with_tail_drop() {
                $play(2, 1, || sides::fifo::<SLOTS>(Tail, Limits::NONE));
            }

            #[test]
            fn fifo_with_head_drop() {
                $play(2, 2, || sides::fifo::<SLOTS>(Head, Limits::NONE));
            }

            #[test]
            fn drr() {
                $play(4, 3, || sides::drr::<FLOWS, SLOTS>(MAX_LEN, false, Limits::NONE));
            }

            #[test]
            fn drr_with_sparse_flows_first() {
                $play(4, 4, || sides::drr::<FLOWS, SLOTS>(MAX_LEN, true, Limits::NONE));
            }

            #[test]
            fn drr_with_tail_drop_from_the_longest() {
                $play(4, 5, || sides::drr_lqd::<FLOWS, SLOTS>(MAX_LEN, false, Tail, Limits::NONE));
            }

            #[test]
            fn drr_with_sparse_flows_first_and_head_drop_from_the_longest() {
                $play(4, 6, || sides::drr_lqd::<FLOWS, SLOTS>(MAX_LEN, true, Head, Limits::NONE));
            }

            #[test]
            fn qfq() {
                $play(3, 13, || sides::qfq::<FLOWS, SLOTS>(MAX_LEN, Limits::NONE));
            }

            #[test]
            fn qfq_with_head_drop_from_the_longest() {
                $play(3, 14, || sides::qfq_lqd::<FLOWS, SLOTS>(MAX_LEN, Head, Limits::NONE));
            }

            #[test]
            fn qfq_with_tail_drop_from_the_longest() {
                $play(3, 15, || sides::qfq_lqd::<FLOWS, SLOTS>(MAX_LEN, Tail, Limits::NONE));
            }

            #[test]
            fn wf2q() {
                $play(3, 16, || sides::wf2q::<FLOWS, SLOTS>(MAX_LEN, Limits::NONE));
            }

            #[test]
            fn wf2q_with_head_drop_from_the_longest() {
                $play(3, 17, || sides::wf2q_lqd::<FLOWS, SLOTS>(MAX_LEN, Head, Limits::NONE));
            }

            #[test]
            fn wf2q_with_tail_drop_from_the_longest() {
                $play(3, 18, || sides::wf2q_lqd::<FLOWS, SLOTS>(MAX_LEN, Tail, Limits::NONE));
            }

            #[test]
            fn qfq_plus() {
                $play(3, 19, || sides::qfq_plus::<FLOWS, SLOTS>(MAX_LEN, 2, Limits::NONE));
            }

            #[test]
            fn qfq_plus_with_head_drop_from_the_longest() {
                $play(3, 20, || {
                    sides::qfq_plus_lqd::<FLOWS, SLOTS>(MAX_LEN, 3, Head, Limits::NONE)
                });
            }

            #[test]
            fn qfq_plus_with_tail_drop_from_the_longest() {
                $play(3, 21, || {
                    sides::qfq_plus_lqd::<FLOWS, SLOTS>(MAX_LEN, 8, Tail, Limits::NONE)
                });
            }

            #[test]
            fn sqf_with_head_drop() {
                $play(6, 7, || sides::sqf::<FLOWS, SLOTS>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_tail_drop() {
                $play(6, 8, || sides::sqf::<FLOWS, SLOTS>(Tail, Limits::NONE));
            }

            #[test]
            fn sqf_with_one_virtual_queue() {
                $play(6, 9, || sides::virtual_queues::<FLOWS, SLOTS, 2>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_three_virtual_queues_and_head_drop() {
                $play(6, 10, || sides::virtual_queues::<FLOWS, SLOTS, 4>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_three_virtual_queues_and_tail_drop() {
                $play(6, 11, || sides::virtual_queues::<FLOWS, SLOTS, 4>(Tail, Limits::NONE));
            }

            #[test]
            fn sqf_with_a_virtual_queue_for_every_label() {
                $play(6, 12, || sides::virtual_queues::<FLOWS, SLOTS, 9>(Head, Limits::NONE));
            }

            #[test]
            fn hosts_under_drr() {
                $play(4, 22, || {
                    sides::hosts::over_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        false,
                        false,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_under_drr_with_sparse_flows_first() {
                $play(4, 23, || {
                    sides::hosts::over_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        true,
                        false,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_under_drr_with_sparse_hosts_first() {
                $play(4, 24, || {
                    sides::hosts::over_drr::<FLOWS, SLOTS, HOSTS>(MAX_LEN, true, true, Limits::NONE)
                });
            }

            #[test]
            fn hosts_under_qfq() {
                $play(4, 25, || {
                    sides::hosts::over_qfq::<FLOWS, SLOTS, HOSTS>(MAX_LEN, true, Limits::NONE)
                });
            }

            #[test]
            fn rounds() {
                $play(4, 26, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Source,
                        false,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_with_sparse_flows_first() {
                $play(4, 27, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Source,
                        true,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_on_the_smallest_wheel() {
                $play(4, 28, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        2,
                        Source,
                        true,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_on_a_wheel_with_room_for_less_than_the_load() {
                $play(4, 29, || {
                    sides::hosts::rounds::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        4,
                        Destination,
                        true,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_with_tail_drop_from_the_longest_source() {
                $play(3, 32, || {
                    sides::hosts::rounds_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Source,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn rounds_with_tail_drop_from_the_longest_destination() {
                $play(3, 39, || {
                    sides::hosts::rounds_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        16,
                        Destination,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_head_drop_from_the_longest() {
                $play(3, 30, || {
                    sides::hosts::over_drr_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        true,
                        Head,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_tail_drop_from_the_longest() {
                $play(3, 31, || {
                    sides::hosts::over_drr_lhd::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        false,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn sqf_with_a_service_floor() {
                $play(6, 33, || sides::sqf_with_floor::<FLOWS, SLOTS>(Head, 2, Limits::NONE));
            }

            #[test]
            fn sqf_whose_default_queue_takes_the_longest_from_one_virtual_queue() {
                $play(6, 34, || sides::takes_longest::<FLOWS, SLOTS, 2>(Tail, Limits::NONE));
            }

            #[test]
            fn sqf_whose_default_queue_takes_the_longest_from_three_virtual_queues() {
                $play(6, 35, || sides::takes_longest::<FLOWS, SLOTS, 4>(Head, Limits::NONE));
            }

            #[test]
            fn sqf_with_both_options() {
                $play(6, 36, || {
                    sides::repaired::<FLOWS, SLOTS, 4>(Head, 1, sides::MILLISECOND, Limits::NONE)
                });
            }

            #[test]
            fn sqf_that_flushes_what_is_not_served() {
                $play(6, 38, || {
                    sides::sqf_flushing::<FLOWS, SLOTS>(Head, sides::MILLISECOND, Limits::NONE)
                });
            }

            #[test]
            fn sqf_that_flushes_and_else_drops_from_the_tail() {
                $play(6, 39, || {
                    sides::sqf_flushing::<FLOWS, SLOTS>(Tail, sides::MILLISECOND, Limits::NONE)
                });
            }

            #[test]
            fn drr_with_caps() {
                $play(5, 37, || {
                    sides::hosts::committed_drr::<FLOWS, SLOTS>(MAX_LEN, false, Limits::NONE)
                });
            }

            #[test]
            fn drr_with_caps_and_sparse_flows_first() {
                $play(5, 38, || {
                    sides::hosts::committed_drr::<FLOWS, SLOTS>(MAX_LEN, true, Limits::NONE)
                });
            }

            #[test]
            fn hosts_with_caps_under_drr() {
                $play(5, 39, || {
                    sides::hosts::over_committed_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        false,
                        Head,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_caps_under_drr_with_sparse_hosts_first() {
                $play(5, 40, || {
                    sides::hosts::over_committed_drr::<FLOWS, SLOTS, HOSTS>(
                        MAX_LEN,
                        true,
                        Tail,
                        Limits::NONE,
                    )
                });
            }

            #[test]
            fn hosts_with_caps_under_qfq() {
                $play(5, 41, || {
                    sides::hosts::over_committed_qfq::<FLOWS, SLOTS, HOSTS>(MAX_LEN, Limits::NONE)
                });
            }

            #[test]
            fn qfq_over_fifos() {
                $play(25, 16, || sides::hierarchy::qfq_over_fifos(Limits::NONE));
            }

            #[test]
            fn drr_over_qfq() {
                $play(25, 17, || sides::hierarchy::drr_over_qfq(Limits::NONE));
            }

            #[test]
            fn sqf_over_drr_where_the_longest_class_gives_way() {
                $play(25, 18, || sides::hierarchy::sqf_over_drr(Limits::NONE));
            }

            #[test]
            fn drr_over_classes_of_every_kind() {
                $play(25, 19, || sides::hierarchy::drr_over_everything(Limits::NONE));
            }

            #[test]
            fn qfq_over_drr_over_sqf() {
                $play(25, 20, || sides::hierarchy::three_levels(Limits::NONE));
            }
        }
    };
}

pub(crate) use every_discipline;
