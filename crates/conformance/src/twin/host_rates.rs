//! Reference model of committed rates and ceilings of hosts over all their turns: at each
//! timestamp, every bucket is filled and every host is checked.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::{ConfigError, FlowId, Nanos, TokenBucket};
use freeboard::shaper::Overhead;

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView};
use super::tins::NaiveTins;
use super::token_bucket::{Bucket, Forward, wire_len};
use crate::history::Setting;

/// Maximum number of hosts that return in one call.
const RETURNS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Conforming,
    Excess,
    Waiting,
}

#[derive(Clone, Debug)]
struct Host {
    committed: Option<(TokenBucket, Bucket)>,
    ceiling: Option<(TokenBucket, Bucket)>,
    place: Place,
    /// Tin of the last turn served.
    last: u32,
}

impl Host {
    const NEW: Self = Self { committed: None, ceiling: None, place: Place::Conforming, last: 0 };

    const fn is_limited(&self) -> bool {
        self.committed.is_some() || self.ceiling.is_some()
    }
}

/// Lists of turns by tin: turns of conforming hosts, turns in excess, which are served after them,
/// and waiting ones. Each host has `each` turns.
#[derive(Clone, Debug)]
pub(super) struct NaiveHostRates {
    conforming: NaiveTins,
    excess: NaiveTins,
    hosts: BTreeMap<u32, Host>,
    /// Turns that hold packets; the next field has those of them that are listed.
    held: BTreeSet<FlowId>,
    listed: BTreeSet<FlowId>,
    each: u32,
    max_len: u32,
    link: Overhead,
    /// Latest timestamp; `clock` has the time of the last call that needed it.
    told: Nanos,
    clock: Forward,
}

impl NaiveHostRates {
    /// Creates the model without rates over `turns`, none of which is backlogged.
    pub(super) fn new(turns: NaiveTins, each: u32, max_len: u32) -> Self {
        Self {
            conforming: turns.clone().with_debts_in_advance(),
            excess: turns,
            hosts: BTreeMap::new(),
            held: BTreeSet::new(),
            listed: BTreeSet::new(),
            each,
            max_len,
            link: Overhead::RAW,
            told: Nanos::ZERO,
            clock: Forward::default(),
        }
    }

    /// Returns the turns of conforming hosts, for their own operations.
    pub(super) const fn tins_mut(&mut self) -> &mut NaiveTins {
        &mut self.conforming
    }

    pub(super) const fn tins(&self) -> &NaiveTins {
        &self.conforming
    }

    /// Resets the debt of `turn`, which is empty, and configures it with `setting`.
    pub(super) fn renew(&mut self, turn: FlowId, setting: Setting) {
        for turns in [&mut self.conforming, &mut self.excess] {
            turns.remove(turn);
            turns.configure(turn, setting, None).expect("as before");
        }
    }

    pub(super) fn set_link(&mut self, link: Overhead) {
        self.conforming.set_link(link);
        self.link = link;
        if !self.are_set() {
            return;
        }
        self.tell_time();
        for host in self.hosts.keys().copied().collect::<Vec<_>>() {
            if self.wait(host, Place::Waiting) > 0 && self.hosts[&host].place != Place::Waiting {
                self.go(host, Place::Waiting);
            }
        }
    }

    /// Returns true if a bucket of `host` is not full.
    pub(super) fn is_short(&self, host: u32) -> bool {
        let Some(Host { committed, ceiling, .. }) = self.hosts.get(&host) else { return false };
        committed.is_some_and(|(_, bucket)| bucket.wait(0) > 0)
            || ceiling.is_some_and(|(_, bucket)| bucket.wait(0) > 0)
    }

    /// Removes the rates of all hosts.
    pub(super) fn forget_all(&mut self) {
        self.hosts.clear();
    }

    /// Removes the rates of an entry that is reused for another host.
    pub(super) fn forget(&mut self, host: u32) {
        self.hosts.remove(&host);
    }

    fn are_set(&self) -> bool {
        self.hosts.values().any(Host::is_limited)
    }

    pub(super) fn tell_time(&mut self) {
        let step = self.clock.advance(self.told);
        for host in self.hosts.values_mut() {
            if let Some((_, bucket)) = &mut host.committed {
                bucket.pass(step);
            }
            if let Some((_, bucket)) = &mut host.ceiling {
                bucket.pass(step);
            }
        }
    }

    fn longest(&self) -> u32 {
        wire_len(self.link, self.max_len)
    }

    fn host_of(&self, turn: FlowId) -> u32 {
        turn.0 / self.each
    }

    fn turns_of(&self, host: u32) -> Vec<FlowId> {
        let turns = host * self.each..(host + 1) * self.each;
        turns.map(FlowId).filter(|turn| self.held.contains(turn)).collect()
    }

    fn place(&self, host: u32) -> Place {
        self.hosts.get(&host).map_or(Place::Conforming, |host| host.place)
    }

    /// Returns the time until `host` leaves `place`; not positive if it should leave now.
    fn wait(&self, host: u32, place: Place) -> i128 {
        let Some(Host { committed, ceiling, .. }) = self.hosts.get(&host) else { return 0 };
        match place {
            Place::Conforming => 0,
            Place::Excess => {
                committed.map_or(0, |(rate, bucket)| bucket.wait(bucket.time_of(rate.burst())))
            }
            Place::Waiting => ceiling.map_or(0, |(ceiling, bucket)| {
                bucket.wait(bucket.time_of(ceiling.burst().saturating_sub(self.longest())))
            }),
        }
    }

    /// Returns the place of a host that is no longer waiting.
    fn below(&self, host: u32) -> Place {
        if self.wait(host, Place::Excess) > 0 { Place::Excess } else { Place::Conforming }
    }

    fn belongs(&self, host: u32) -> Place {
        if self.wait(host, Place::Waiting) > 0 { Place::Waiting } else { self.below(host) }
    }

    fn list(&mut self, turn: FlowId) {
        let place = self.place(self.host_of(turn));
        if place == Place::Waiting || !self.listed.insert(turn) {
            return;
        }
        let turns = if place == Place::Excess { &mut self.excess } else { &mut self.conforming };
        turns.backlogged(turn, 1);
    }

    fn unlist(&mut self, turn: FlowId) {
        if self.listed.remove(&turn) {
            let borrows = self.place(self.host_of(turn)) == Place::Excess;
            let turns = if borrows { &mut self.excess } else { &mut self.conforming };
            turns.lost(turn, None);
        }
    }

    fn go(&mut self, host: u32, place: Place) {
        if self.turns_of(host).is_empty() {
            return;
        }
        self.turns_of(host).into_iter().for_each(|turn| self.unlist(turn));
        if let Some(of) = self.hosts.get_mut(&host) {
            of.place = place;
        }
        self.turns_of(host).into_iter().for_each(|turn| self.list(turn));
    }

    /// Lists all turns of hosts that are not waiting.
    fn finish_return(&mut self) {
        let held: Vec<FlowId> = self.held.iter().copied().collect();
        held.into_iter().for_each(|turn| self.list(turn));
    }

    /// Returns the host that is due first, with the time until then.
    fn first(&self) -> Option<(i128, u32)> {
        let held: BTreeSet<u32> = self.held.iter().map(|turn| self.host_of(*turn)).collect();
        let due = held.into_iter().filter(|host| self.place(*host) != Place::Conforming);
        due.map(|host| (self.wait(host, self.place(host)), host)).min()
    }

    fn recall(&mut self) {
        self.finish_return();
        for _ in 0..RETURNS {
            let Some((..=0, host)) = self.first() else { return };
            self.go(host, self.below(host));
        }
    }

    /// Returns the turn after the last one served.
    fn first_waiting(&self) -> Option<FlowId> {
        let (_, host) = self.first().filter(|_| self.listed.is_empty())?;
        let turns = self.turns_of(host);
        let behind = turns.iter().find(|turn| turn.0 % self.each > self.hosts[&host].last);
        behind.or_else(|| turns.first()).copied()
    }

    fn set_committed(&mut self, host: u32, rate: Option<TokenBucket>) {
        let before = self.hosts.get(&host).and_then(|host| host.committed);
        if before.map(|(rate, _)| rate) == rate {
            return;
        }
        if self.place(host) == Place::Excess {
            self.go(host, Place::Conforming);
        }
        let after = rate.map(|rate| {
            let mut bucket = Bucket::full(rate.bits_per_second());
            if let Some((_, before)) = before {
                bucket = bucket.lacking_as(&before);
                bucket.clamp(2 * bucket.time_of(rate.burst()));
                self.clock.look_ahead(&bucket);
            }
            (rate, bucket)
        });
        self.hosts.entry(host).or_insert(Host::NEW).committed = after;
        if self.place(host) == Place::Conforming && self.below(host) == Place::Excess {
            self.go(host, Place::Excess);
        }
    }

    fn set_ceiling(&mut self, host: u32, ceiling: Option<TokenBucket>) {
        let before = self.hosts.get(&host).and_then(|host| host.ceiling);
        if before.map(|(ceiling, _)| ceiling) == ceiling {
            return;
        }
        let after = ceiling.map(|ceiling| {
            let mut bucket = Bucket::full(ceiling.bits_per_second());
            if let Some((_, before)) = before {
                bucket = bucket.lacking_as(&before);
                bucket.clamp(bucket.time_of(ceiling.burst()));
                self.clock.look_ahead(&bucket);
            }
            (ceiling, bucket)
        });
        self.hosts.entry(host).or_insert(Host::NEW).ceiling = after;
        if self.place(host) == Place::Waiting {
            self.go(host, self.below(host));
        }
        if self.wait(host, Place::Waiting) > 0 {
            self.go(host, Place::Waiting);
        }
    }

    /// Sets rate and ceiling of a host.
    pub(super) fn set(
        &mut self,
        host: u32,
        rate: Option<TokenBucket>,
        ceiling: Option<TokenBucket>,
    ) {
        self.tell_time();
        let longest = self.longest();
        self.set_committed(host, rate.map(|rate| rate.with_burst_of_at_least(longest)));
        self.set_ceiling(host, ceiling.map(|ceiling| ceiling.with_burst_of_at_least(longest)));
        if self.are_set() {
            self.conforming.serve_early(false);
        }
    }

    /// Returns the number of backlogged hosts in excess of their rates, and of those waiting.
    pub(super) fn places(&self) -> [u64; 2] {
        let held: BTreeSet<u32> = self.held.iter().map(|turn| self.host_of(*turn)).collect();
        [Place::Excess, Place::Waiting]
            .map(|place| held.iter().filter(|host| self.place(**host) == place).count() as u64)
    }

    fn takes(&mut self, turn: FlowId, len: u32) {
        let wire = wire_len(self.link, len);
        let of = self.hosts.get_mut(&(turn.0 / self.each)).filter(|of| of.is_limited());
        let Some(of) = of else { return };
        of.last = turn.0 % self.each;
        if let Some((_, bucket)) = &mut of.ceiling {
            bucket.take(wire);
            self.clock.look_ahead(bucket);
        }
        let borrows = of.place == Place::Excess;
        if let Some((rate, bucket)) = &mut of.committed
            && !(borrows && rate.borrows_free())
        {
            bucket.take(wire);
            if borrows {
                bucket.clamp(2 * bucket.time_of(rate.burst()));
            }
            self.clock.look_ahead(bucket);
        }
    }

    fn let_go(&mut self, turn: FlowId) {
        self.held.remove(&turn);
        let host = self.host_of(turn);
        if self.turns_of(host).is_empty()
            && let Some(of) = self.hosts.get_mut(&host)
        {
            of.place = Place::Conforming;
        }
    }
}

impl NaiveFlowScheduler for NaiveHostRates {
    fn advance(&mut self, now: Nanos) {
        self.conforming.advance(now);
        self.told = now;
    }

    fn configure(
        &mut self,
        turn: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.conforming.configure(turn, setting, head_len)?;
        self.excess.configure(turn, setting, head_len)
    }

    fn remove(&mut self, turn: FlowId) {
        self.conforming.remove(turn);
        self.excess.remove(turn);
    }

    fn setting(&self, turn: FlowId) -> Option<[u32; 2]> {
        self.conforming.setting(turn)
    }

    fn max_len(&self, turn: FlowId) -> Option<u32> {
        self.conforming.max_len(turn)
    }

    fn backlogged(&mut self, turn: FlowId, _head_len: u32) {
        if self.are_set() {
            self.tell_time();
        }
        let host = self.host_of(turn);
        let was_idle = self.turns_of(host).is_empty();
        self.held.insert(turn);
        let place = self.belongs(host);
        if let Some(of) = self.hosts.get_mut(&host).filter(|_| was_idle) {
            of.place = place;
        }
        self.list(turn);
        self.recall();
    }

    fn served(&mut self, turn: FlowId, len: u32, next_head: Option<u32>) {
        if self.are_set() {
            self.tell_time();
        }
        let host = self.host_of(turn);
        let before = self.place(host);
        self.takes(turn, len);
        let after = match (before, self.belongs(host)) {
            // A host in excess that conforms again returns with the other hosts that are due.
            (Place::Excess, Place::Conforming) => Place::Excess,
            (_, place) => place,
        };
        let stays = next_head.filter(|_| before == after);
        let turns = if before == Place::Excess { &mut self.excess } else { &mut self.conforming };
        turns.served(turn, len, stays);
        if stays.is_none() {
            self.listed.remove(&turn);
        }
        if next_head.is_none() {
            self.let_go(turn);
        }
        if before != after {
            self.go(host, after);
        }
        self.recall();
    }

    fn lost(&mut self, turn: FlowId, head: Option<u32>) {
        if head.is_none() {
            if self.are_set() {
                self.finish_return();
            }
            self.unlist(turn);
            self.let_go(turn);
        }
    }

    fn select(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        self.conforming.select(&[]).or_else(|| self.excess.select(&[]))
    }

    fn waiting(&self, _queues: QueuesView<'_>) -> Option<FlowId> {
        self.first_waiting()
    }

    fn opens_at(&self, now: Nanos) -> Option<Nanos> {
        self.first_waiting()?;
        self.clock.after(self.first()?.0, now)
    }

    fn open(&mut self) {
        if self.are_set() {
            self.tell_time();
        }
        let Some(turn) = self.first_waiting() else { return };
        let (wait, host) = self.first().expect("it waits");
        if wait > 0 {
            return;
        }
        let place = self.below(host);
        self.hosts.get_mut(&host).expect("it waits").place = place;
        self.list(turn);
    }
}
