//! Every entry of the catalogue, with options unknown to the compiler, in arrays and in parts of
//! arrays of unknown length.

use core::hint::black_box;

use conformance::catalog::{
    Arrays, Dial, FlowRecipe, Memory, Parts, QueuesRecipe, Recipe, Room, Setting,
};

use super::flow_schedulers::flow_scheduler;
use super::schedulers::{bare, full, limits, scheduler};
use super::{any, sizes};

/// Defines a function for each entry, and the list of them in all sizes.
macro_rules! functions {
    ([$of:ident, $list:ident] $($name:ident: $recipe:expr,)*) => {
        #[unsafe(no_mangle)]
        static $list: &[fn()] = sizes![$($name)*];
        $(fn $name<const N: usize>() {
            $of(black_box($recipe), Arrays::<N>);
        })*
    };
}

/// Lists the entries with tables of a length unknown to the compiler.
macro_rules! in_parts {
    ([$of:ident, $list:ident] $($name:ident: $recipe:expr,)*) => {
        #[unsafe(no_mangle)]
        static $list: &[fn()] = &[$(|| $of(black_box($recipe), Parts::<2>(black_box(2)))),*];
    };
}

conformance::flow_schedulers!(functions, [flows, FLOW_SCHEDULERS]);
conformance::schedulers!(functions, [packets, SCHEDULERS]);
conformance::compositions!(functions, [packets, COMPOSITIONS]);
conformance::flow_schedulers!(in_parts, [flows_behind_a_line, FLOW_SCHEDULERS_IN_PARTS]);
conformance::schedulers!(in_parts, [packets, SCHEDULERS_IN_PARTS]);
conformance::compositions!(in_parts, [packets, COMPOSITIONS_IN_PARTS]);

/// Returns a room for flows with unknown sizes.
pub(crate) fn room<M: Memory>(memory: M) -> Room<M> {
    let setting = Setting { weight: any(), max_len: any() };
    Room { flows: memory, max_len: any(), setting }
}

/// Returns an unknown setting in the form of a discipline.
pub(crate) fn config<C: Dial>() -> C {
    C::of(Setting { weight: any(), max_len: any() })
}

/// Runs the flow scheduler alone, and with queues of packets.
fn flows<R: QueuesRecipe, M: Memory>(recipe: R, memory: M) {
    let Some(mut made) = recipe.of().flow_scheduler(room(memory)) else { return };
    flow_scheduler(&mut made, config());
    let Some(policy) = recipe.policy(&made, room(memory)) else { return };
    bare(made, policy, memory, config());
}

/// Runs the flow scheduler alone, and with everything behind a shaper.
fn flows_behind_a_line<R: QueuesRecipe, M: Memory>(recipe: R, memory: M) {
    let Some(mut made) = recipe.of().flow_scheduler(room(memory)) else { return };
    flow_scheduler(&mut made, config());
    let Some(policy) = recipe.policy(&made, room(memory)) else { return };
    full(made, policy, memory, config());
}

fn packets<R: Recipe, M: Memory>(recipe: R, memory: M) {
    if let Some(mut made) = recipe.scheduler(room(memory), memory, limits()) {
        scheduler(&mut made);
    }
}
