//! Flow schedulers that know hosts beside their twins.

use crate::catalog::{
    ByHost, Ceilings, CommittedRates, Drr, HostDrr, LoadDrr, LongestHost, Qfq, Vecs,
};
use crate::history::Contestant;
use freeboard::sched_core::{self, DropFrom, Limits};

use super::{Side, flows};

/// Plays the same on both sides.
pub fn each<A: Contestant, B: Contestant>(
    (mut subject, mut twin): (A, B),
    play: impl Fn(&mut dyn Contestant),
) {
    play(&mut subject);
    play(&mut twin);
}

/// Hosts under DRR; inside each and among them, sparse ones may go first.
pub fn over_drr<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse_first: bool,
    sparse_hosts: bool,
    limits: Limits,
) -> (impl Side, impl Side) {
    let of = Drr { sparse_first: sparse_hosts };
    flows::<F, S, H, _>(ByHost(HostDrr { of, sparse_first }), max_len, limits)
}

/// DRR under committed rates and ceilings, whose flows count as hosts.
pub fn committed_drr<const F: usize, const S: usize>(
    max_len: u32,
    sparse_first: bool,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, 1, _>(Ceilings(CommittedRates(Drr { sparse_first })), max_len, limits)
}

/// Hosts with committed rates and ceilings under DRR, where the longest gives way.
pub fn over_committed_drr<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse_hosts: bool,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    let of = Ceilings(CommittedRates(Drr { sparse_first: sparse_hosts }));
    let of = HostDrr { of, sparse_first: true };
    flows::<F, S, H, _>(LongestHost { of, end }, max_len, limits)
}

/// Hosts with committed rates and ceilings under QFQ.
pub fn over_committed_qfq<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    limits: Limits,
) -> (impl Side, impl Side) {
    let of = HostDrr { of: Ceilings(CommittedRates(Qfq)), sparse_first: false };
    flows::<F, S, H, _>(ByHost(of), max_len, limits)
}

/// Hosts under QFQ.
pub fn over_qfq<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse_first: bool,
    limits: Limits,
) -> (impl Side, impl Side) {
    flows::<F, S, H, _>(ByHost(HostDrr { of: Qfq, sparse_first }), max_len, limits)
}

/// Hosts under DRR, where the longest gives way.
pub fn over_drr_lhd<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    sparse_first: bool,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    let of = HostDrr { of: Drr { sparse_first }, sparse_first };
    flows::<F, S, H, _>(LongestHost { of, end }, max_len, limits)
}

/// Rounds in which both sides count, where the longest host of the side `local` gives way.
pub fn load_drr_lhd<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    rounds: u32,
    local: sched_core::Side,
    end: DropFrom,
    limits: Limits,
) -> (impl Side, impl Side) {
    let of = LoadDrr { calendar: Vecs(rounds as usize), local, sparse_first: true };
    flows::<F, S, H, _>(LongestHost { of, end }, max_len, limits)
}

/// Rounds between `H` hosts and `H`, of which both sides count; early turns are limited on the side `local`.
pub fn load_drr<const F: usize, const S: usize, const H: usize>(
    max_len: u32,
    rounds: u32,
    local: sched_core::Side,
    sparse_first: bool,
    limits: Limits,
) -> (impl Side, impl Side) {
    let calendar = Vecs(rounds as usize);
    flows::<F, S, H, _>(ByHost(LoadDrr { calendar, local, sparse_first }), max_len, limits)
}
