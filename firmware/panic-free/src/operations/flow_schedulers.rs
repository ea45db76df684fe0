//! The operations of `FlowScheduler`, and those of single flow schedulers.

use core::hint::black_box;

use conformance::catalog::{Arrays, Drr, FlowRecipe, Qfq, QfqPlus, Wf2q};
use freeboard::sched_core::{FlowId, FlowScheduler, FlowState, Nanos};

use super::catalog::room;
use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static FLOW_SCHEDULERS_ALONE: &[fn()] = sizes![drr qfq qfq_plus wf2q];

fn drr<const N: usize>() {
    let Some(mut drr) = Drr { sparse_first: false }.flow_scheduler(room(Arrays::<N>)) else {
        return;
    };
    seen(black_box(&mut drr).add_all(any()));
    seen(black_box(&drr).guarantee(FlowId(any())));
}

fn qfq<const N: usize>() {
    let Some(mut qfq) = Qfq.flow_scheduler(room(Arrays::<N>)) else { return };
    seen(black_box(&mut qfq).check_lag());
    seen(black_box(&qfq).guarantee(FlowId(any())));
}

fn qfq_plus<const N: usize>() {
    let plus = QfqPlus { members: any() }.flow_scheduler(room(Arrays::<N>));
    let Some(mut plus) = plus else { return };
    seen(black_box(&mut plus).check_lag());
    seen(black_box(&plus).guarantee(FlowId(any())));
}

fn wf2q<const N: usize>() {
    let Some(wf2q) = Wf2q.flow_scheduler(room(Arrays::<N>)) else { return };
    seen(black_box(&wf2q).guarantee(FlowId(any())));
}

/// All operations of `FlowScheduler`.
pub(crate) fn flow_scheduler<O: FlowScheduler>(scheduler: &mut O, config: O::Config) {
    let flow = FlowId(any());
    let len = black_box(Some(0));
    one_of!(scheduler;
        scheduler.flows();
        scheduler.configure(flow, black_box(config), len);
        scheduler.remove(flow);
        scheduler.config(flow);
        scheduler.max_len(flow);
        scheduler.backlogged(flow, any());
        scheduler.grew(flow, any());
        scheduler.select();
        scheduler.served(flow, any(), len);
        scheduler.lost(flow, any(), len);
        scheduler.victim();
        scheduler.advance(Nanos(u64::from(any()) << 20));
        scheduler.needs();
        scheduler.recount(&|_| black_box(FlowState::default()));
    );
}
