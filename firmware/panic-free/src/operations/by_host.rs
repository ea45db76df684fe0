//! What only flow schedulers that know hosts can do.

use core::hint::black_box;

use conformance::catalog::{
    Arrays, Drr, FlowRecipe, HostDrr, HostRecipe, LoadDrr, LongestHost, Memory, Qfq, QueuesRecipe,
};
use freeboard::sched_core::{
    self, DropFrom, DropPolicy, FlowId, FlowScheduler, HostDrrFlow, HostRing, Hosted, Limits,
    LoadDrrFlow, LoadDrrHost, RoundList, Side, Sides, Table,
};

use super::catalog::{config, room};
use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static BY_HOST: &[fn()] = sizes![loads over_drr over_qfq];

/// Turns by load, alone and where the longest host gives way.
fn loads<const N: usize>() {
    let of = LoadDrr {
        calendar: Arrays::<64>,
        local: black_box(Side::Source),
        sparse_first: any() == 0,
    };
    let Some(mut made) = of.over_hosts(room(Arrays::<N>)) else { return };
    by_load(&mut made);
    let end = black_box(DropFrom::Tail);
    let policy = LongestHost { of, end }.policy(&made, room(Arrays::<N>));
    let Some(mut policy) = policy else { return };
    limits(&mut policy, &made);
    seen(black_box(&policy).bytes_of(any()));
    seen(black_box(&policy).grain());
}

fn by_load<N, S, D, W>(loads: &mut sched_core::LoadDrr<N, S, D, W>)
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
{
    hosted(loads);
    one_of!(loads;
        loads.add_all(any());
        loads.assign(FlowId(any()), any(), any());
        loads.assigned(FlowId(any()));
        loads.set_mode(black_box(Sides::Both));
        loads.mode();
        loads.flows_of_source(any());
        loads.flows_of_destination(any());
    );
}

fn limits<O: FlowScheduler>(policy: &mut impl DropPolicy<O>, _scheduler: &O) {
    black_box(policy).limits_changed(Limits::bytes(any()));
}

fn hosted(scheduler: &mut impl Hosted) {
    one_of!(scheduler;
        scheduler.host_of(FlowId(any()));
        scheduler.hosts();
        scheduler.flows_of(any());
    );
}

/// Over turns.
fn over_drr<const N: usize>() {
    over(Drr { sparse_first: any() == 0 }, Arrays::<N>);
}

/// Over weights.
fn over_qfq<const N: usize>() {
    over(Qfq, Arrays::<N>);
}

fn over<R: FlowRecipe, M: Memory>(of: R, memory: M) {
    let recipe = HostDrr { of, sparse_first: any() == 0 };
    if let Some(mut made) = recipe.over_hosts(room(memory)) {
        hosts::<_, _, _>(&mut made);
    }
}

/// What only hosts in turns can do.
fn hosts<O, N, G>(hosts: &mut sched_core::HostDrr<O, N, G>)
where
    O: FlowScheduler<Config: conformance::catalog::Dial>,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    let hosts = black_box(hosts);
    seen(hosts.add_all(any()));
    seen(hosts.configure_host(any(), config()));
    seen(hosts.assign(FlowId(any()), any()));
    seen(hosts.host_config(any()).is_some());
    seen(hosts.guarantee_in_host(FlowId(any())));
    seen((hosts.host_of(FlowId(any())), hosts.hosts(), hosts.flows_of(any())));
    seen((hosts.scheduler().flows(), hosts.scheduler_mut().flows()));
}
