//! The operations of `FlowScheduler`, and what only some flow schedulers can do.

use core::hint::black_box;

use conformance::catalog::{self, Arrays, Drr, FlowRecipe, Qfq, QfqPlus, Wf2q};
use freeboard::sched_core::{
    AsBooked, Ceiling, CeilingFlow, CeilingReturn, Ceilings, CommittedFlow, CommittedRate,
    CommittedRates, CommittedReturn, FlowId, FlowScheduler, FlowState, Nanos, Table,
};

use super::catalog::room;
use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static FLOW_SCHEDULERS_ALONE: &[fn()] = sizes![drr qfq qfq_plus wf2q over_drr over_qfq];

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

fn over_drr<const N: usize>() {
    over(Drr { sparse_first: false }, Arrays::<N>);
}

fn over_qfq<const N: usize>() {
    over(Qfq, Arrays::<N>);
}

/// Rates and ceilings.
fn over<R: FlowRecipe, M: catalog::Memory>(of: R, memory: M) {
    let rated = catalog::CommittedRates(of);
    if let Some(mut made) = rated.flow_scheduler(room(memory)) {
        committed_rates(&mut made);
    }
    if let Some(mut made) = catalog::Ceilings(rated).flow_scheduler(room(memory)) {
        below_ceilings(&mut made);
    }
}

/// What only rates can do.
fn committed_rates<O, C, W>(rates: &mut CommittedRates<O, C, W>)
where
    O: FlowScheduler,
    C: Table<CommittedFlow>,
    W: Table<CommittedReturn>,
{
    let rates = black_box(rates);
    let Ok(rate) = CommittedRate::new(u64::from(any()), any()) else { return };
    let rate = rate.with_burst_of_at_least(any());
    let rate = if any() == 0 { rate } else { rate.with_free_borrowing() };
    seen((rate.bits_per_second(), rate.burst(), rate.borrows_free()));
    seen(rates.set_rate(FlowId(any()), black_box(Some(rate))));
    seen((rates.rate(FlowId(any())), rates.is_excess(FlowId(any())), rates.room()));
    seen(rates.conforming().flows());
}

/// What only ceilings can do.
fn below_ceilings<O, C, W>(ceilings: &mut Ceilings<O, C, W>)
where
    O: FlowScheduler,
    C: Table<CeilingFlow>,
    W: Table<CeilingReturn>,
{
    let ceilings = black_box(ceilings);
    let Ok(ceiling) = Ceiling::new(u64::from(any()), any()) else { return };
    let ceiling = ceiling.with_burst_of_at_least(any());
    seen((ceiling.bits_per_second(), ceiling.burst()));
    seen(ceilings.set_ceiling(FlowId(any()), black_box(Some(ceiling))));
    seen((ceilings.ceiling(FlowId(any())), ceilings.is_waiting(FlowId(any())), ceilings.room()));
    ceilings.set_link(AsBooked);
    seen((ceilings.scheduler().flows(), ceilings.scheduler_mut().flows()));
}

/// Everything that `FlowScheduler` offers.
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
