//! Tests over all entries of the catalogue that have a reference model.

/// Defines a module of tests that call `$play(share, seed, sides)` for every entry and for some
/// trees of them. `share` is the divisor for the number of operations in a long run; `sides` builds
/// the entry and its reference model, without their types.
macro_rules! every_discipline {
    ($what:ident, $play:path) => {
        mod $what {
            #[allow(unused_imports, reason = "the entries of one list or the other name them")]
            use crate::every_discipline::{of_flows, of_packets, seed};
            use conformance::history::pair;
            use conformance::sides::{self, DESCRIPTORS, FLOWS, MAX_LEN};
            use freeboard::sched_core::Limits;

            conformance::flow_schedulers!(of_flows, [$play]);
            conformance::schedulers!(of_packets, [$play]);

            #[test]
            fn qfq_over_fifos() {
                $play(25, 16, &|| pair(sides::hierarchy::qfq_over_fifos(Limits::NONE)));
            }

            #[test]
            fn drr_over_qfq() {
                $play(25, 17, &|| pair(sides::hierarchy::drr_over_qfq(Limits::NONE)));
            }

            #[test]
            fn sqf_over_drr_where_the_longest_class_gives_way() {
                $play(25, 18, &|| pair(sides::hierarchy::sqf_over_drr(Limits::NONE)));
            }

            #[test]
            fn drr_over_classes_of_every_kind() {
                $play(25, 19, &|| pair(sides::hierarchy::drr_over_everything(Limits::NONE)));
            }

            #[test]
            fn qfq_over_drr_over_sqf() {
                $play(25, 20, &|| pair(sides::hierarchy::three_levels(Limits::NONE)));
            }
        }
    };
}

macro_rules! of_flows {
    ([$play:path] $($name:ident: $recipe:expr,)*) => {$(
        #[test]
        fn $name() {
            $play(3, seed(stringify!($name)), &|| {
                pair(sides::flows::<FLOWS, DESCRIPTORS, _>($recipe, MAX_LEN, Limits::NONE))
            });
        }
    )*};
}

macro_rules! of_packets {
    ([$play:path] $($name:ident: $recipe:expr,)*) => {$(
        #[test]
        fn $name() {
            $play(3, seed(stringify!($name)), &|| {
                pair(sides::packets::<FLOWS, DESCRIPTORS, _>($recipe, MAX_LEN, Limits::NONE))
            });
        }
    )*};
}

/// Returns a seed derived from a name.
pub(crate) fn seed(name: &str) -> u64 {
    name.bytes().fold(1, |seed, byte| conformance::scramble(seed ^ u64::from(byte)))
}

pub(crate) use {every_discipline, of_flows, of_packets};
