//! Reference model of tins: a list of flows for each, and every rule as defined, evaluated from
//! scratch whenever a tin changes.

use std::collections::BTreeSet;

use freeboard::sched_core::{ConfigError, FlowId, Nanos, TinConfig};
use freeboard::shaper::Overhead;

use super::NaiveDrr;
use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, unknown};
use super::quanta::NaiveQuanta;
use super::token_bucket::wire_len;
use crate::history::Setting;

/// Largest quantum in bytes.
const MAX_QUANTUM: u64 = 1 << 28;
/// Limit for a step of the clock forward in nanoseconds.
const LONGEST_STEP: i128 = 1 << 45;

#[derive(Clone, Debug)]
struct NaiveTin {
    config: TinConfig,
    flows: NaiveDrr,
    backlogged: BTreeSet<FlowId>,
    /// Time from which the tin is within its share. The unit is such that a nanosecond has as many
    /// units as the rate has bits per second; nanoseconds without a rate.
    clock: i128,
    /// Total bytes sent when this tin was last served or became backlogged.
    served_at: u64,
    /// Bytes sent beyond past turns.
    debt: i64,
    /// Bytes sent in the current turn.
    sent: i64,
}

impl NaiveTin {
    /// Returns the units of time per nanosecond.
    fn units(&self) -> i128 {
        self.config.bits_per_second.unwrap_or(1).into()
    }

    /// Returns the time of `bytes` bytes in these units.
    fn time_of(&self, bytes: u32) -> i128 {
        self.config.bits_per_second.map_or(0, |_| i128::from(bytes) * 8_000_000_000)
    }

    /// Returns the first nanosecond in which the tin is within its share.
    fn within_from(&self) -> i128 {
        -(-self.clock).div_euclid(self.units())
    }
}

/// Tins with deficit round robin inside.
#[derive(Clone, Debug)]
pub(super) struct NaiveTins {
    max_len: u32,
    quanta: NaiveQuanta,
    /// Overhead of packets, counted by rates.
    link: Overhead,
    floor: u64,
    tins: Vec<NaiveTin>,
    tin_of: Vec<usize>,
    settings: Vec<Option<Setting>>,
    sparse_first: bool,
    is_across: bool,
    /// True if `is_across` was ever set: a packet served by the floor then ends a turn.
    was_across: bool,
    serves_early: bool,
    has_debts_in_advance: bool,
    /// Tin to serve next.
    front: usize,
    sent: u64,
    /// Total bytes sent at which the floor may serve a tin again.
    floor_from: u64,
    told: i128,
    mark: i128,
    now: i128,
}

impl NaiveTins {
    /// Creates the model without flows, for at most `flows` flows, with flow `f` in tin `f mod n`,
    /// and packets of at most `max_len` bytes.
    pub(super) fn new(
        flows: u32,
        max_len: u32,
        tins: &[TinConfig],
        floor: u32,
        sparse_first: bool,
    ) -> Self {
        let tin = |&config: &TinConfig| NaiveTin {
            config,
            flows: NaiveDrr::new(flows, max_len, sparse_first),
            backlogged: BTreeSet::new(),
            clock: 0,
            served_at: 0,
            debt: 0,
            sent: 0,
        };
        // Limited so that a 32-bit count of bytes is unambiguous for eight tins.
        let floor = (u64::from(floor) * u64::from(max_len)).min(1 << 28);
        Self {
            max_len,
            quanta: NaiveQuanta::default(),
            link: Overhead::RAW,
            floor,
            tins: tins.iter().map(tin).collect(),
            tin_of: (0..flows as usize).map(|flow| flow % tins.len()).collect(),
            settings: vec![None; flows as usize],
            sparse_first,
            is_across: false,
            was_across: false,
            serves_early: false,
            has_debts_in_advance: false,
            front: 0,
            sent: 0,
            floor_from: floor,
            told: 0,
            mark: 0,
            now: 0,
        }
    }

    /// Sets the cost of packets, which does not apply to the shares of tins.
    pub(super) fn with_quanta(mut self, quanta: &NaiveQuanta) -> Self {
        for tin in &mut self.tins {
            tin.flows = tin.flows.clone().with_quanta(quanta);
        }
        Self { quanta: quanta.clone(), ..self }
    }

    /// Sets whether service of a flow is also charged to its siblings; flows `8n` to `8n + 7` are
    /// siblings.
    pub(super) fn set_across(&mut self, on: bool) {
        self.is_across = on;
        self.was_across |= on && self.tins.len() > 1;
        if self.was_across {
            self.serve_early(false);
        }
    }

    /// Resets to a state in which no flow was charged for service in another tin.
    pub(super) const fn begin_across(&mut self) {
        self.was_across = false;
    }

    /// Allows flows to be overdrawn in advance as well.
    pub(super) fn with_debts_in_advance(mut self) -> Self {
        self.has_debts_in_advance = true;
        self.tins.iter_mut().for_each(|tin| tin.flows.with_debts_in_advance());
        self
    }

    /// Enables or disables service in advance of turns; it stays disabled once flows had one share
    /// across all tins.
    pub(super) fn serve_early(&mut self, on: bool) {
        self.serves_early = on && !self.was_across;
        for tin in &mut self.tins {
            tin.flows.serve_early(self.serves_early);
        }
    }

    /// Sets whether `flow` holds packets that may be sent in advance of its turn.
    pub(super) fn set_sparse(&mut self, flow: FlowId, is_sparse: bool) {
        self.tins[self.tin_of[flow.index()]].flows.set_sparse(flow, is_sparse);
    }

    /// Adds `flow`, which is backlogged, to the early list if it may be served in advance.
    pub(super) fn come_early(&mut self, flow: FlowId) {
        self.tins[self.tin_of[flow.index()]].flows.come_early(flow);
    }

    /// Counts the flows on the early list, and those that have used up their turns in advance.
    pub(super) fn in_advance(&self) -> [u64; 2] {
        self.tins
            .iter()
            .map(|tin| tin.flows.in_advance())
            .fold([0; 2], |sum, tin| [sum[0] + tin[0], sum[1] + tin[1]])
    }

    /// Updates the early list after the packets of `flow`, which stays backlogged, changed.
    pub(super) fn note_early(&mut self, flow: FlowId) {
        self.tins[self.tin_of[flow.index()]].flows.note_early(flow);
    }

    /// Returns the flows that are charged for the service of `flow`.
    fn siblings_of(&self, flow: FlowId) -> impl Iterator<Item = FlowId> + use<> {
        let first = flow.0 & !7;
        let tins = if self.is_across { self.tins.len() as u32 } else { 0 };
        (first..first + tins).map(FlowId).filter(move |sibling| *sibling != flow)
    }

    /// Returns true if tins are chosen by share: there are several, and at least one has a rate.
    fn by_share(&self) -> bool {
        self.tins.len() > 1 && self.tins.iter().any(|tin| tin.config.bits_per_second.is_some())
    }

    /// Sets the tins. The credit or debt of a tin in bytes is kept. Flows of removed tins are
    /// empty; they move to tin 0 in the state of newly added flows.
    ///
    /// # Panics
    /// If `tins` is empty.
    pub(super) fn set_tins(&mut self, tins: &[TinConfig]) {
        self.tick();
        let rule = |this: &Self| (this.tins.len() > 1, this.by_share());
        let (before, now) = (rule(self), self.now);
        let ahead = |tin: &NaiveTin| {
            tin.config.bits_per_second.map_or(0, |_| tin.clock - now * tin.units())
        };
        let ahead: Vec<_> = self.tins.iter().map(ahead).collect();
        let gone = tins.len();
        for tin in self.tin_of.iter_mut().filter(|tin| **tin >= gone) {
            *tin = 0;
        }
        let (max_len, longest) = (self.max_len, self.longest());
        self.tins.truncate(gone);
        let (flows, sparse_first) = (self.tin_of.len() as u32, self.sparse_first);
        let mut ring = NaiveDrr::new(flows, max_len, sparse_first).with_quanta(&self.quanta);
        ring.serve_early(self.serves_early);
        if self.has_debts_in_advance {
            ring.with_debts_in_advance();
        }
        self.tins.resize_with(gone, || NaiveTin {
            config: tins[0],
            flows: ring.clone(),
            backlogged: BTreeSet::new(),
            clock: 0,
            served_at: 0,
            debt: 0,
            sent: 0,
        });
        for (tin, config) in self.tins.iter_mut().zip(tins) {
            tin.config = *config;
        }
        for flow in (0..flows).map(FlowId) {
            let setting = self.settings[flow.index()];
            let of = &mut self.tins[self.tin_of[flow.index()]].flows;
            if let Some(setting) = setting.filter(|_| of.setting(flow).is_none()) {
                of.configure(flow, setting, None).expect("as before");
            }
        }
        let has_changed = rule(self) != before;
        for at in 0..self.tins.len() {
            // The lead in bits is kept, which is the same number of units.
            let ahead = ahead.get(at).copied().unwrap_or(0);
            self.set_ahead(at, ahead, longest);
            if has_changed {
                (self.tins[at].debt, self.tins[at].sent) = (0, 0);
                self.tins[at].served_at = self.sent;
            }
        }
        self.look_anew();
    }

    /// Returns the number of tins.
    pub(super) const fn count(&self) -> usize {
        self.tins.len()
    }

    /// Takes over the tins of `other` with their credit and debt. No flow is backlogged in either.
    pub(super) fn take_over(&mut self, other: &Self) {
        self.set_tins(&other.tins.iter().map(|tin| tin.config).collect::<Vec<_>>());
        for (tin, NaiveTin { config, clock, served_at, debt, sent, .. }) in
            self.tins.iter_mut().zip(&other.tins)
        {
            (tin.config, tin.clock, tin.served_at) = (*config, *clock, *served_at);
            (tin.debt, tin.sent) = (*debt, *sent);
        }
        (self.front, self.sent, self.floor_from) = (other.front, other.sent, other.floor_from);
        (self.told, self.mark, self.now) = (other.told, other.mark, other.now);
    }

    /// Sets the overhead of packets, which rates count. Clocks are clamped to at most one longest
    /// packet ahead and to their maximum credit behind.
    pub(super) fn set_link(&mut self, link: Overhead) {
        self.tick();
        self.link = link;
        for at in 0..self.tins.len() {
            let ahead = self.tins[at].clock - self.now * self.tins[at].units();
            self.set_ahead(at, ahead, self.longest());
        }
        self.choose();
    }

    /// Returns the maximum number of bytes of a packet on the wire.
    fn longest(&self) -> u32 {
        wire_len(self.link, self.max_len)
    }

    /// Chooses the next tin after tins have changed.
    fn look_anew(&mut self) {
        self.front = self.front.min(self.tins.len() - 1);
        if self.by_share() {
            self.choose();
        } else if !self.is_backlogged(self.front) {
            self.turn();
        } else {
            // The turn continues; service so far counts as debt.
            let tin = &mut self.tins[self.front];
            tin.debt += core::mem::take(&mut tin.sent);
        }
    }

    /// Sets the clock of a tin to `ahead` of now, clamped to at most one packet ahead and its
    /// credit behind.
    fn set_ahead(&mut self, at: usize, ahead: i128, longest: u32) {
        let (now, credit, tin) = (self.now, self.credit(at), &mut self.tins[at]);
        tin.clock = now * tin.units() + ahead.clamp(-credit, tin.time_of(longest));
    }

    /// Returns the maximum by which a clock may lag behind, in whole nanoseconds rounded up.
    fn credit(&self, at: usize) -> i128 {
        let tin = &self.tins[at];
        let packets = (2 << (self.tins.len() - at)) - 1;
        let time = packets * tin.time_of(self.longest());
        -(-time).div_euclid(tin.units()) * tin.units()
    }

    fn quantum(&self, tin: usize) -> i64 {
        let least = self.tins.iter().map(|tin| tin.config.weight).min().expect("there is one");
        let quantum = u64::from(self.max_len) * u64::from(self.tins[tin].config.weight);
        (quantum / u64::from(least)).min(MAX_QUANTUM) as i64
    }

    /// Advances the time to the latest timestamp.
    fn tick(&mut self) {
        let step = self.told - self.mark;
        if step >= 0 {
            self.now += step.min(LONGEST_STEP);
            self.mark = self.told;
        } else if step < -1_000_000_000 {
            self.mark = self.told;
        }
    }

    fn is_backlogged(&self, tin: usize) -> bool {
        !self.tins[tin].backlogged.is_empty()
    }

    fn all_backlogged(&self) -> Vec<usize> {
        (0..self.tins.len()).filter(|&tin| self.is_backlogged(tin)).collect()
    }

    /// By weight: ends the turn and begins that of the next backlogged tin in cyclic order.
    fn turn(&mut self) {
        let count = self.tins.len();
        self.tins[self.front].sent = 0;
        let next = (1..=count).map(|step| (self.front + step) % count);
        self.front = next.clone().find(|&tin| self.is_backlogged(tin)).unwrap_or(0);
    }

    /// By share: chooses the tin to serve next.
    fn choose(&mut self) {
        if !self.by_share() {
            return;
        }
        let backlogged = self.all_backlogged();
        let waited = |tin: usize| self.sent - self.tins[tin].served_at;
        if self.sent >= self.floor_from {
            let longest = backlogged.iter().map(|&tin| waited(tin)).max().unwrap_or(0);
            if longest >= self.floor {
                self.front = *backlogged.iter().find(|&&tin| waited(tin) == longest).expect("it");
                return;
            }
            self.floor_from = self.sent + self.floor - longest;
        }
        let clock = |tin: usize| self.tins[tin].within_from();
        let within = backlogged.iter().copied().filter(|&tin| clock(tin) <= self.now).max();
        let earliest = backlogged.iter().rev().copied().min_by_key(|&tin| clock(tin));
        self.front = within.or(earliest).unwrap_or(0);
    }

    /// Handles a backlogged tin that lost all its packets.
    fn tin_lost(&mut self, tin: usize) {
        if self.by_share() {
            self.tick();
            self.choose();
        } else if tin == self.front {
            if self.tins[tin].sent > 0 {
                self.tins[tin].debt = 0;
            }
            self.turn();
        }
    }

    fn unlist(&mut self, flow: FlowId) {
        let tin = self.tin_of[flow.index()];
        if self.tins[tin].backlogged.remove(&flow) && !self.is_backlogged(tin) {
            self.tin_lost(tin);
        }
    }

    /// Assigns `flow`, which is empty, to tin `to`.
    pub(super) fn assign(&mut self, flow: FlowId, to: usize) {
        let at = self.tin_of[flow.index()];
        assert!(!self.tins[at].backlogged.contains(&flow), "{flow:?} holds packets");
        if at != to {
            self.tins[at].flows.remove(flow);
            self.tin_of[flow.index()] = to;
            if let Some(setting) = self.settings[flow.index()] {
                self.tins[to].flows.configure(flow, setting, None).expect("as before");
            }
        }
    }
}

impl NaiveFlowScheduler for NaiveTins {
    fn advance(&mut self, now: Nanos) {
        self.told = now.0.into();
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.settings.len();
        let tin = *self.tin_of.get(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        self.tins[tin].flows.configure(flow, setting, head_len)?;
        self.settings[flow.index()] = Some(setting);
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(&tin) = self.tin_of.get(flow.index()) else { return };
        self.unlist(flow);
        self.tins[tin].flows.remove(flow);
        self.settings[flow.index()] = None;
        self.tin_of[flow.index()] = 0;
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.tins.get(*self.tin_of.get(flow.index())?)?.flows.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        (*self.settings.get(flow.index())?).map(|_| self.max_len)
    }

    fn common_max_len(&self) -> u32 {
        self.max_len
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        let at = self.tin_of[flow.index()];
        let was_idle = !self.is_backlogged(at);
        let none = self.all_backlogged().is_empty();
        self.tins[at].flows.backlogged(flow, head_len);
        self.tins[at].backlogged.insert(flow);
        if !was_idle || self.tins.len() == 1 {
            return;
        }
        self.tick();
        let (now, sent) = (self.now, self.sent);
        let tin = &mut self.tins[at];
        tin.served_at = sent;
        tin.clock = tin.clock.max(now * tin.units());
        if self.by_share() {
            self.choose();
        } else if none {
            self.front = at;
        }
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let at = self.tin_of[flow.index()];
        let is_of_floor = self.by_share() && self.sent >= self.floor_from;
        if is_of_floor && self.was_across && next_head.is_some() {
            self.tins[at].flows.charge_elsewhere(flow, u32::MAX);
        }
        self.tins[at].flows.served(flow, len, next_head);
        if self.tins.len() > 1 {
            for sibling in self.siblings_of(flow) {
                self.tins[self.tin_of[sibling.index()]].flows.charge_elsewhere(sibling, len);
            }
        }
        if next_head.is_none() {
            self.tins[at].backlogged.remove(&flow);
        }
        let is_idle = !self.is_backlogged(at);
        if self.tins.len() > 1 {
            self.tick();
        }
        if !self.by_share() {
            let quantum = self.quantum(at);
            let tin = &mut self.tins[at];
            tin.sent += i64::from(len);
            let over = tin.debt + tin.sent - quantum;
            if over >= 0 || is_idle {
                tin.debt = over.clamp(0, i64::from(self.max_len) - 1);
                self.turn();
            }
            return;
        }
        self.sent += u64::from(len);
        if is_of_floor {
            self.floor_from = self.sent + self.floor;
        }
        let (now, sent, credit) = (self.now, self.sent, self.credit(at));
        let wire_len = wire_len(self.link, len);
        let tin = &mut self.tins[at];
        tin.served_at = sent;
        let (time, begin) = (tin.time_of(wire_len), now * tin.units());
        if tin.clock <= begin {
            tin.clock = tin.clock.max(begin - credit) + time;
        } else {
            // Rounded to whole nanoseconds.
            tin.clock = tin.clock.max(begin + time / tin.units() * tin.units());
        }
        self.choose();
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        let tin = self.tin_of[flow.index()];
        self.tins[tin].flows.lost(flow, head);
        if head.is_none() {
            if self.was_across {
                self.tins[tin].flows.forgive(flow, self.max_len.into());
            }
            self.unlist(flow);
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.tins[self.front].flows.select(queues)
    }
}
