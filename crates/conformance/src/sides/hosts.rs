//! Flow schedulers that know hosts beside their twins.

use crate::history::{Contestant, Dial, Housing, Setting};
use crate::twin::{
    NaiveCeilings, NaiveCommittedRates, NaiveDrr, NaiveHostDrr, NaiveLoadDrr, NaiveLongestHostDrop,
    NaiveOrder, NaiveQfq,
};
use freeboard::sched_core::{
    CeilingFlow, CeilingReturn, Ceilings, CommittedFlow, CommittedRates, CommittedReturn, DropFrom,
    Drr, DrrFlow, FlowId, FlowScheduler, HeldFlow, HostClasses, HostDrr, HostDrrFlow, HostRing,
    Hosted, Limits, LoadDrr, LoadDrrFlow, LoadDrrHost, LongestHost, LongestHostDrop, Qfq,
    QfqConfig, QfqFlow, RoundList, Side,
};

use super::{drr_order, engine, twin};

/// Plays the same on both sides.
pub fn each<A: Contestant, B: Contestant>(
    (mut subject, mut twin): (A, B),
    play: impl Fn(&mut dyn Contestant),
) {
    play(&mut subject);
    play(&mut twin);
}

/// Hosts of weight 3, all added.
fn with_hosts<O: NaiveOrder>(mut order: O, hosts: usize, max_len: u32) -> O {
    for host in (0..hosts as u32).map(FlowId) {
        order.configure(host, Setting { weight: 3, max_len }, None).unwrap();
    }
    order
}

type OverDrr<const F: usize, const H: usize> =
    HostDrr<Drr<[DrrFlow; H]>, [HostDrrFlow; F], [HostRing; H]>;

/// `F` flows of `H` hosts under `order`, whose hosts are added already.
fn hosts<O: FlowScheduler, const F: usize, const H: usize>(
    order: O,
    max_len: u32,
    sparse: bool,
) -> HostDrr<O, [HostDrrFlow; F], [HostRing; H]> {
    let hosts =
        HostDrr::new(order, [HostDrrFlow::EMPTY; F], [HostRing::EMPTY; H], max_len).unwrap();
    if sparse { hosts.sparse_first() } else { hosts }
}

fn drr_sides<const F: usize, const H: usize>(
    max_len: u32,
    sparse: bool,
    sparse_hosts: bool,
) -> (OverDrr<F, H>, NaiveHostDrr<NaiveDrr>) {
    let mut order = drr_order::<H>(max_len, sparse_hosts);
    order.add_all(1_500).unwrap();
    let naive = with_hosts(NaiveDrr::new(H as u32, max_len, sparse_hosts), H, max_len);
    (hosts(order, max_len, sparse), NaiveHostDrr::new(naive, H as u32, F as u32, max_len, sparse))
}

/// Hosts under DRR; inside each and among them, sparse ones may go first.
pub fn over_drr<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse: bool,
    sparse_hosts: bool,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let (order, naive) = drr_sides::<F, H>(max_len, sparse, sparse_hosts);
    (engine::<_, F, S>(order, limits), twin::<_, F, S>(naive, limits))
}

/// `order` twice, with room for a committed rate and a ceiling of all its flows or hosts.
type Rated<O, const H: usize> = Ceilings<
    CommittedRates<O, [CommittedFlow; H], [CommittedReturn; H]>,
    [CeilingFlow; H],
    [CeilingReturn; H],
>;

/// `order` with rates and ceilings, and its twin likewise.
fn rated<O: FlowScheduler + Clone, N: NaiveOrder, const H: usize>(
    order: O,
    naive: N,
) -> (Rated<O, H>, NaiveCeilings<NaiveCommittedRates<N>>) {
    let (flows, returns) = ([CommittedFlow::EMPTY; H], [CommittedReturn::EMPTY; H]);
    let order = CommittedRates::new(order.clone(), order, flows, returns).unwrap();
    let (flows, returns) = ([CeilingFlow::EMPTY; H], [CeilingReturn::EMPTY; H]);
    let order = Ceilings::new(order, flows, returns).unwrap();
    (order, NaiveCeilings::new(NaiveCommittedRates::new(naive, H as u32), H as u32))
}

/// DRR under committed rates and ceilings, whose flows count as hosts.
pub fn committed_drr<const F: usize, const S: usize>(
    max_len: u32,
    sparse: bool,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let naive = NaiveDrr::new(F as u32, max_len, sparse);
    let (order, naive) = rated::<_, _, F>(drr_order::<F>(max_len, sparse), naive);
    (engine::<_, F, S>(order, limits), twin::<_, F, S>(naive, limits))
}

/// Hosts with committed rates and ceilings under DRR, where the longest gives way.
pub fn over_committed_drr<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse_hosts: bool,
    end: DropFrom,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let mut order = drr_order::<H>(max_len, sparse_hosts);
    order.add_all(1_500).unwrap();
    let naive = with_hosts(NaiveDrr::new(H as u32, max_len, sparse_hosts), H, max_len);
    let (order, naive) = rated::<_, _, H>(order, naive);
    let naive = NaiveHostDrr::new(naive, H as u32, F as u32, max_len, true);
    longest_host_drop::<_, _, F, S, H>(hosts::<_, F, H>(order, max_len, true), naive, end, limits)
}

/// Hosts with committed rates and ceilings under QFQ.
pub fn over_committed_qfq<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let mut order = Qfq::new([QfqFlow::EMPTY; H], max_len).unwrap();
    for host in (0..H as u32).map(FlowId) {
        order.configure(host, QfqConfig { weight: 3, max_len }, None).unwrap();
    }
    let naive = with_hosts(NaiveQfq::new(H as u32, max_len), H, max_len);
    let (order, naive) = rated::<_, _, H>(order, naive);
    let naive = NaiveHostDrr::new(naive, H as u32, F as u32, max_len, false);
    (
        engine::<_, F, S>(hosts::<_, F, H>(order, max_len, false), limits),
        twin::<_, F, S>(naive, limits),
    )
}

/// Hosts under QFQ.
pub fn over_qfq<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse: bool,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let mut order = Qfq::new([QfqFlow::EMPTY; H], max_len).unwrap();
    for host in (0..H as u32).map(FlowId) {
        order.configure(host, QfqConfig { weight: 3, max_len }, None).unwrap();
    }
    let order = hosts::<_, F, H>(order, max_len, sparse);
    let naive = with_hosts(NaiveQfq::new(H as u32, max_len), H, max_len);
    let naive = NaiveHostDrr::new(naive, H as u32, F as u32, max_len, sparse);
    (engine::<_, F, S>(order, limits), twin::<_, F, S>(naive, limits))
}

/// `order` and its twin, where the longest host gives way.
fn longest_host_drop<O, N, const F: usize, const S: usize, const H: usize>(
    order: O,
    naive: N,
    end: DropFrom,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone)
where
    O: FlowScheduler<Config: Dial> + Hosted + Housing + Clone,
    N: NaiveOrder,
{
    longest_host_drop_of::<_, _, F, S, H>(order, naive, Side::Source, end, limits)
}

/// The same, where a host is one of the side `local`.
fn longest_host_drop_of<O, N, const F: usize, const S: usize, const H: usize>(
    order: O,
    naive: N,
    local: Side,
    end: DropFrom,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone)
where
    O: FlowScheduler<Config: Dial> + Hosted + Housing + Clone,
    N: NaiveOrder,
{
    let (flows, classes) = ([HeldFlow::EMPTY; F], [HostClasses::EMPTY; H]);
    let order = LongestHostDrop::new(order, flows, [LongestHost::EMPTY; H], classes).unwrap();
    let naive = NaiveLongestHostDrop::new(naive, end).with_hosts_of(local);
    (engine::<_, F, S>(order.drop_from(end), limits), twin::<_, F, S>(naive, limits))
}

/// Hosts under DRR, where the longest gives way.
pub fn over_drr_lhd<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse: bool,
    end: DropFrom,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let (order, naive) = drr_sides::<F, H>(max_len, sparse, sparse);
    longest_host_drop::<_, _, F, S, H>(order, naive, end, limits)
}

/// Rounds in which both sides count, where the longest host of the side `local` gives way.
pub fn rounds_lhd<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    wheel: u32,
    local: Side,
    end: DropFrom,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let (order, naive) = rounds_sides::<F, H>(max_len, wheel, local, true);
    longest_host_drop_of::<_, _, F, S, H>(order, naive, local, end, limits)
}

type Calendar<const F: usize, const H: usize> =
    LoadDrr<[LoadDrrFlow; F], [LoadDrrHost; H], [LoadDrrHost; H], Vec<RoundList>>;

fn rounds_sides<const F: usize, const H: usize>(
    max_len: u32,
    wheel: u32,
    local: Side,
    sparse: bool,
) -> (Calendar<F, H>, NaiveLoadDrr) {
    let hosts = [LoadDrrHost::EMPTY; H];
    let calendar = vec![RoundList::EMPTY; wheel as usize];
    let order = LoadDrr::new([LoadDrrFlow::EMPTY; F], hosts, hosts, calendar, max_len).unwrap();
    let order = if sparse { order.sparse_first() } else { order };
    let naive = NaiveLoadDrr::new(F as u32, [H as u32; 2], wheel, max_len, sparse);
    (order.with_hosts_of(local), naive.with_hosts_of(local))
}

/// Rounds between `H` hosts and `H`, of which both sides count; early turns are limited on the side `local`.
pub fn rounds<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    wheel: u32,
    local: Side,
    sparse: bool,
    limits: Limits,
) -> (impl Contestant + Clone, impl Contestant + Clone) {
    let (order, naive) = rounds_sides::<F, H>(max_len, wheel, local, sparse);
    (engine::<_, F, S>(order, limits), twin::<_, F, S>(naive, limits))
}
