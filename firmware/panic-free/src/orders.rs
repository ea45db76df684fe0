//! The operations of `FlowScheduler` on every order of flows, alone and with queues.

use core::hint::black_box;

use freeboard::sched_core::{
    Aggregate, AsBooked, Ceiling, CeilingFlow, CeilingReturn, Ceilings, CoDel, CoDelParams,
    CoDelState, CommittedFlow, CommittedRate, CommittedRates, CommittedReturn, DropFrom, Drr,
    DrrFlow, FloorShare, FlowId, FlowScheduler, FlowState, HostDrr, HostDrrFlow, HostRing, Hosted,
    LongestFlow, LongestQueueDrop, Nanos, NoAqm, PlusFlow, Qfq, QfqConfig, QfqFlow, QfqPlus,
    ShortestFlow, ShortestQueue, WaitingFlow, Wf2q, Wf2qConfig, Wf2qFlow,
};

use crate::schedulers::{bare, full};
use crate::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static ORDERS: &[fn()] =
    sizes![drr shortest_queue qfq qfq_plus wf2q longest_queue_drop hosts rated below_ceilings];
#[unsafe(no_mangle)]
static IN_SLICES: fn() = in_slices;

/// A flow scheduler by itself and under queues of `N` packets.
macro_rules! exercise {
    ($make:expr, $config:expr) => {
        order(&mut $make, $config);
        bare::<_, N>($make, $config);
    };
}

fn drr<const N: usize>() {
    let Ok(mut plain) = Drr::new([DrrFlow::EMPTY; N], any()) else { return };
    seen(black_box(&mut plain).add_all(any()));
    seen(black_box(&plain).guarantee(FlowId(any())));
    exercise!(plain, 0);
    exercise!(plain.sparse_first(), 0);
}

fn shortest_queue<const N: usize>() {
    let from = black_box(DropFrom::Head);
    exercise!(ShortestQueue::new([ShortestFlow::EMPTY; N]).drop_from(from), ());
    let plain = ShortestQueue::new([ShortestFlow::EMPTY; N]);
    let Ok(share) = FloorShare::one_of_2_to(any()) else { return };
    let Ok(floored) = plain.service_floor(share, [WaitingFlow::EMPTY; N]) else { return };
    let Ok(mut floored) = floored.flush_unserved(Nanos(any().into())) else { return };
    order(&mut floored, ());
    bare::<_, N>(floored, ());
}

fn qfq<const N: usize>() {
    let Ok(mut qfq) = Qfq::new([QfqFlow::EMPTY; N], any()) else { return };
    seen(black_box(&mut qfq).check_lag());
    seen(black_box(&qfq).guarantee(FlowId(any())));
    let config = QfqConfig { weight: 0, max_len: 0 };
    exercise!(qfq.clone(), config);
    exercise!(LongestQueueDrop::new(qfq.clone(), [LongestFlow::EMPTY; N]), config);
}

fn qfq_plus<const N: usize>() {
    let (flows, aggregates) = ([PlusFlow::EMPTY; N], [Aggregate::EMPTY; N]);
    let plus = QfqPlus::new(flows, aggregates, [QfqFlow::EMPTY; N], any(), any());
    let Ok(mut plus) = plus else { return };
    seen(black_box(&mut plus).check_lag());
    seen(black_box(&plus).guarantee(FlowId(any())));
    let config = QfqConfig { weight: 0, max_len: 0 };
    exercise!(plus.clone(), config);
    exercise!(LongestQueueDrop::new(plus.clone(), [LongestFlow::EMPTY; N]), config);
}

fn wf2q<const N: usize>() {
    let Ok(wf2q) = Wf2q::new([Wf2qFlow::EMPTY; N], any()) else { return };
    seen(black_box(&wf2q).guarantee(FlowId(any())));
    let config = Wf2qConfig { weight: 0, max_len: 0 };
    exercise!(wf2q.clone(), config);
    exercise!(LongestQueueDrop::new(wf2q.clone(), [LongestFlow::EMPTY; N]), config);
}

/// Over a flow scheduler that names no victims and over one that does.
fn longest_queue_drop<const N: usize>() {
    let from = black_box(DropFrom::Head);
    let Ok(drr) = Drr::new([DrrFlow::EMPTY; N], any()) else { return };
    exercise!(LongestQueueDrop::new(drr, [LongestFlow::EMPTY; N]).drop_from(from), 0);
    let shortest = || ShortestQueue::new([ShortestFlow::EMPTY; N]);
    exercise!(LongestQueueDrop::new(shortest(), [LongestFlow::EMPTY; N]), ());
}

/// Over a flow scheduler of hosts with turns and over one with weights.
fn hosts<const N: usize>() {
    let (nodes, rings) = ([HostDrrFlow::EMPTY; N], [HostRing::EMPTY; N]);
    let Ok(drr) = Drr::new([DrrFlow::EMPTY; N], any()) else { return };
    let Ok(mut plain) = HostDrr::new(drr, nodes, rings, any()) else { return };
    houses(&mut plain, 0);
    exercise!(plain, 0);
    exercise!(plain.sparse_first(), 0);
    let Ok(qfq) = Qfq::new([QfqFlow::EMPTY; N], any()) else { return };
    let Ok(mut weighted) = HostDrr::new(qfq, nodes, rings, any()) else { return };
    houses(&mut weighted, QfqConfig { weight: 0, max_len: 0 });
    exercise!(weighted.clone(), 0);
}

/// What only a flow scheduler of hosts can do.
fn houses<O: FlowScheduler, const N: usize>(
    hosts: &mut HostDrr<O, [HostDrrFlow; N], [HostRing; N]>,
    config: O::Config,
) {
    let hosts = black_box(hosts);
    seen(hosts.add_all(any()));
    seen(hosts.configure_host(any(), black_box(config)));
    seen(hosts.assign(FlowId(any()), any()));
    seen(hosts.host_config(any()).is_some());
    seen(hosts.guarantee_in_host(FlowId(any())));
    seen((hosts.host_of(FlowId(any())), hosts.hosts(), hosts.flows_of(any())));
    seen((hosts.order().flows(), hosts.order_mut().flows()));
}

/// Over a flow scheduler with turns and over one with weights, and as the flow scheduler of hosts.
fn rated<const N: usize>() {
    let Ok(drr) = Drr::new([DrrFlow::EMPTY; N], any()) else { return };
    let Some(mut plain) = committed_rates::<_, N>(drr) else { return };
    let Ok(mut hosts) = HostDrr::new(plain, [HostDrrFlow::EMPTY; N], [HostRing::EMPTY; N], any())
    else {
        return;
    };
    exercise!(plain, 0);
    exercise!(hosts, 0);
    let Ok(qfq) = Qfq::new([QfqFlow::EMPTY; N], any()) else { return };
    let Some(mut weighted) = committed_rates::<_, N>(qfq) else { return };
    order(&mut weighted, QfqConfig { weight: 0, max_len: 0 });
}

/// What only rates can do.
fn committed_rates<O: FlowScheduler + Clone, const N: usize>(
    order: O,
) -> Option<CommittedRates<O, [CommittedFlow; N], [CommittedReturn; N]>> {
    let (flows, returns) = ([CommittedFlow::EMPTY; N], [CommittedReturn::EMPTY; N]);
    let mut made = CommittedRates::new(order.clone(), order, flows, returns).ok()?;
    let rates = black_box(&mut made);
    let rate = CommittedRate::new(u64::from(any()), any()).ok()?.with_burst_of_at_least(any());
    let rate = if any() == 0 { rate } else { rate.with_free_borrowing() };
    seen((rate.bits_per_second(), rate.burst(), rate.borrows_free()));
    seen(rates.set_rate(FlowId(any()), black_box(Some(rate))));
    seen((rates.rate(FlowId(any())), rates.is_excess(FlowId(any())), rates.room()));
    seen(rates.conforming().flows());
    Some(made)
}

/// Over committed rates, and under hosts.
fn below_ceilings<const N: usize>() {
    let Ok(drr) = Drr::new([DrrFlow::EMPTY; N], any()) else { return };
    let Some(rates) = committed_rates::<_, N>(drr) else { return };
    let (flows, returns) = ([CeilingFlow::EMPTY; N], [CeilingReturn::EMPTY; N]);
    let Ok(mut made) = Ceilings::new(rates, flows, returns) else { return };
    let ceilings = black_box(&mut made);
    let Ok(ceiling) = Ceiling::new(u64::from(any()), any()) else { return };
    let ceiling = ceiling.with_burst_of_at_least(any());
    seen((ceiling.bits_per_second(), ceiling.burst()));
    seen(ceilings.set_ceiling(FlowId(any()), black_box(Some(ceiling))));
    seen((ceilings.ceiling(FlowId(any())), ceilings.is_waiting(FlowId(any())), ceilings.room()));
    ceilings.set_link(AsBooked);
    seen((ceilings.order().flows(), ceilings.order_mut().flows()));
    let mut plain = made;
    let Ok(mut hosts) = HostDrr::new(plain, [HostDrrFlow::EMPTY; N], [HostRing::EMPTY; N], any())
    else {
        return;
    };
    exercise!(plain, 0);
    exercise!(hosts, 0);
}

/// Every order in memory whose size the compiler does not know, with CoDel.
fn in_slices() {
    let params = black_box(CoDelParams::INTERNET);
    let nodes = &mut [DrrFlow::EMPTY; 2][..];
    let Ok(drr) = Drr::new(black_box(nodes), any()) else { return };
    let longest = &mut [LongestFlow::EMPTY; 2][..];
    let mut drr = LongestQueueDrop::new(drr, black_box(longest));
    order(&mut drr, 0);
    let Ok(codel) = CoDel::new([CoDelState::EMPTY; 64], params) else { return };
    full(drr, codel, 0);

    let flows = &mut [QfqFlow::EMPTY; 2][..];
    let Ok(mut qfq) = Qfq::new(black_box(flows), any()) else { return };
    let config = QfqConfig { weight: 0, max_len: 0 };
    order(&mut qfq, config);
    full(qfq, NoAqm, config);

    let flows = &mut [PlusFlow::EMPTY; 2][..];
    let aggregates = &mut [Aggregate::EMPTY; 2][..];
    let nodes = &mut [QfqFlow::EMPTY; 2][..];
    let plus =
        QfqPlus::new(black_box(flows), black_box(aggregates), black_box(nodes), any(), any());
    let Ok(mut plus) = plus else { return };
    order(&mut plus, config);
    full(plus, NoAqm, config);

    let flows = &mut [Wf2qFlow::EMPTY; 2][..];
    let Ok(mut wf2q) = Wf2q::new(black_box(flows), any()) else { return };
    let config = Wf2qConfig { weight: 0, max_len: 0 };
    order(&mut wf2q, config);
    full(wf2q, NoAqm, config);

    let shortest = &mut [ShortestFlow::EMPTY; 2][..];
    let mut shortest = ShortestQueue::new(black_box(shortest));
    order(&mut shortest, ());
    let states = &mut [CoDelState::EMPTY; 2][..];
    let Ok(codel) = CoDel::new(black_box(states), params) else { return };
    seen(codel.params());
    full(shortest, codel, ());
}

/// Everything that `FlowScheduler` offers.
pub(crate) fn order<O: FlowScheduler>(order: &mut O, config: O::Config) {
    let flow = FlowId(any());
    let len = black_box(Some(0));
    one_of!(order;
        order.flows();
        order.configure(flow, black_box(config), len);
        order.remove(flow);
        order.config(flow);
        order.max_len(flow);
        order.backlogged(flow, any());
        order.grew(flow, any());
        order.select();
        order.served(flow, any(), len);
        order.lost(flow, any(), len);
        order.victim();
        order.advance(Nanos(u64::from(any()) << 20));
        order.looks_ahead();
        order.counts_bytes();
        order.recount(&|_| black_box(FlowState::default()));
    );
}
