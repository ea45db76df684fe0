//! Bounds during reconfiguration: those that hold at once, and the time from which all of them hold
//! again.
//!
//! `docs/guarantees.md`, *When flows and weights change*, has the statements; [`Changeable`] gives
//! the numbers.

use std::fmt;

use freeboard::sched_core::{
    Aggregate, Drr, DrrFlow, FlowId, FlowScheduler, Imbalance, PlusFlow, Qfq, QfqConfig, QfqFlow,
    QfqPlus, Wf2q, Wf2qConfig, Wf2qFlow,
};

use super::draw::below;
use super::metered_link::MeteredLink;
use super::search::{MOST_PACKETS, change as change_trial, fit, vary};
use super::{Bound, Depth, Outcome, Promising, Trial, Trials};
use crate::rng::{Stream, Streams};

/// Maximum number of changes; more make a sequence hard to read.
const MOST_CHANGES: u64 = 12;
/// Unsuccessful variations after which the search restarts from another random sequence.
const PATIENCE: u32 = 600;

/// A kind of change to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Adds the flow with this weight, or sets its weight.
    Weigh(u32),
    /// Removes the flow with its packets.
    Remove,
    /// Drops the first packet of the flow.
    LoseHead,
}

/// A change to a flow at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time in bytes of link time.
    pub at: u64,
    /// Number of the flow.
    pub flow: u32,
    /// Kind of change.
    pub what: What,
}

/// A trial with changes to its flows. Packets that a flow would send while it is removed are left
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changing {
    /// Initial flows and their packets.
    pub trial: Trial,
    /// Changes, sorted by time.
    pub changes: Vec<Change>,
}

impl fmt::Display for Changing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.trial)?;
        for Change { at, flow, what } in &self.changes {
            writeln!(f, "at {at}: flow {flow}, {what:?}")?;
        }
        Ok(())
    }
}

/// Time span to which a measure refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Intervals that begin after the last change.
    AtOnce,
    /// Intervals that begin once the unchanged bounds hold again.
    Settled,
}

/// A flow scheduler whose flows change, and its guarantees during changes.
pub trait Changeable: Promising {
    /// True if a dropped first packet counts as a change for other flows.
    const LOSSES_COUNT: bool;

    /// Adds `flow` of `trial` with `weight`, or sets its weight.
    fn set(&mut self, trial: &Trial, flow: FlowId, weight: u32, head: Option<u32>);

    /// Returns the increase of `latency`, in bytes of the link and in bytes of the flow itself,
    /// until the unchanged bounds hold again. `None` (the default) if no bound is guaranteed until
    /// then.
    fn more(_: &Past) -> Option<(u64, u64)> {
        None
    }

    /// Returns the number of link bytes after the last change until the unchanged bounds hold
    /// again. `None` (the default) if they hold again once no flow is backlogged.
    fn settles(_: &Past) -> Option<u64> {
        None
    }
}

/// Changes since no flow was last backlogged.
#[derive(Clone, Debug)]
pub struct Past {
    /// Longest packet of the scheduler.
    longest: u64,
    /// Per flow: current weight (0 if removed), lowest weight so far, longest packet.
    flows: Vec<(u32, u32, u64)>,
    /// Sum of the flow's longest packet over all changes that do not remove a flow.
    changed: u64,
    /// Sum of the flow's longest packet over all removals.
    removed: u64,
}

impl Past {
    fn new(trial: &Trial) -> Self {
        let flows = trial.flows.iter().map(|k| (k.weight, k.weight, k.max_len.into())).collect();
        Self { longest: trial.max_len.into(), flows, changed: 0, removed: 0 }
    }

    fn forget(&mut self) {
        (self.changed, self.removed) = (0, 0);
        for (weight, lowest, _) in &mut self.flows {
            *lowest = *weight;
        }
    }

    fn note(&mut self, flow: FlowId, weight: u32) {
        let (now, lowest, own) = &mut self.flows[flow.index()];
        *now = weight;
        if weight > 0 {
            *lowest = if *lowest == 0 { weight } else { weight.min(*lowest) };
            self.changed += *own;
        } else {
            self.removed += *own;
        }
    }

    /// Returns the longest packet of any flow.
    fn longest_own(&self) -> u64 {
        self.flows.iter().map(|flow| flow.2).max().unwrap_or(0)
    }

    /// Returns the maximum, over all flows, of two longest packets plus the longest packets of the
    /// removed flows, in bytes of the link. The share is the lowest weight of the flow so far over
    /// the current sum of weights. Rounded up, with an allowance for the rounding of shares.
    fn slowest(&self) -> u64 {
        let sum: u64 = self.flows.iter().map(|flow| u64::from(flow.0)).sum();
        let own = |&(_, lowest, len): &(u32, u32, u64)| match u64::from(lowest) {
            0 => 0,
            lowest => ((2 * len + self.removed) * sum).div_ceil(lowest),
        };
        let most = self.flows.iter().map(own).max().unwrap_or(0);
        most + (most >> 20) + 1
    }
}

impl Changeable for Wf2q<Vec<Wf2qFlow>> {
    const LOSSES_COUNT: bool = true;

    fn set(&mut self, trial: &Trial, flow: FlowId, weight: u32, head: Option<u32>) {
        let max_len = trial.flows[flow.index()].max_len;
        self.configure(flow, Wf2qConfig { weight, max_len }, head).expect("in range");
    }

    fn more(past: &Past) -> Option<(u64, u64)> {
        Some((past.longest_own() + 2 * past.changed + past.removed, past.removed))
    }

    fn settles(past: &Past) -> Option<u64> {
        Some(past.slowest() + past.longest + 2 * past.changed + past.removed)
    }
}

/// Sets the weight of `flow` of `trial` in a flow scheduler that is configured like QFQ.
fn set_weight(
    scheduler: &mut impl FlowScheduler<Config = QfqConfig>,
    trial: &Trial,
    flow: FlowId,
    weight: u32,
    head: Option<u32>,
) {
    let max_len = trial.flows[flow.index()].max_len;
    scheduler.configure(flow, QfqConfig { weight, max_len }, head).expect("in range");
}

impl Changeable for Qfq<Vec<QfqFlow>> {
    const LOSSES_COUNT: bool = false;

    fn set(&mut self, trial: &Trial, flow: FlowId, weight: u32, head: Option<u32>) {
        set_weight(self, trial, flow, weight, head);
    }
}

impl Changeable for QfqPlus<Vec<PlusFlow>, Vec<Aggregate>, Vec<QfqFlow>> {
    const LOSSES_COUNT: bool = false;

    fn set(&mut self, trial: &Trial, flow: FlowId, weight: u32, head: Option<u32>) {
        set_weight(self, trial, flow, weight, head);
    }
}

impl Changeable for Drr<Vec<DrrFlow>> {
    const LOSSES_COUNT: bool = false;

    fn set(&mut self, trial: &Trial, flow: FlowId, weight: u32, head: Option<u32>) {
        self.configure(flow, trial.max_len + weight - 1, head).expect("in range");
    }

    fn more(_: &Past) -> Option<(u64, u64)> {
        Some((0, 0))
    }

    fn settles(_: &Past) -> Option<u64> {
        Some(0)
    }
}

enum Event {
    Arrival(FlowId, u32),
    Change(FlowId, What),
}

impl Changing {
    /// Returns all events sorted by time; changes precede arrivals at the same time.
    fn events(&self) -> Vec<(u64, Event)> {
        let change = |&Change { at, flow, what }| (at, Event::Change(FlowId(flow), what));
        let arrival = |(at, flow, len)| (at, Event::Arrival(flow, len));
        let mut all: Vec<_> = self.changes.iter().map(change).collect();
        all.extend(self.trial.arrivals().into_iter().map(arrival));
        all.sort_by_key(|event| event.0);
        all
    }
}

/// A link whose flows change.
struct Player<'a, O> {
    link: MeteredLink<O>,
    trial: &'a Trial,
    past: Past,
    /// Time from which the unchanged bounds hold; 0 while they do, `u64::MAX` if they do only once
    /// the link is idle.
    settles: u64,
    worst: [Outcome; 2],
}

impl<O: Changeable> Player<'_, O> {
    /// Records the measurements and restarts the meters.
    fn restart(&mut self, gone: u32) {
        let at_once = self.settles > 0;
        let more = if at_once { O::more(&self.past) } else { Some((0, 0)) };
        if let Some(latency) = more {
            // Service owed at the old share takes longer at a lower one, so fairness has no bound
            // here.
            let fairness = if at_once { u64::MAX } else { 0 };
            let outcome = self.link.outcome(self.trial, latency, fairness);
            self.worst[usize::from(!at_once)].merge(&outcome);
        }
        self.link.restart(gone);
    }

    /// Resets the state if no flow is backlogged.
    fn settle_if_idle(&mut self, gone: u32) {
        if self.link.scheduler.select().is_none() {
            if self.settles > 0 {
                self.restart(gone);
                self.settles = 0;
            }
            self.past.forget();
        }
    }

    fn apply(&mut self, at: u64, gone: u32, event: &Event) {
        let (flow, what) = match *event {
            Event::Arrival(flow, len) => {
                if self.link.is_added(flow) {
                    self.link.arrive(flow, len);
                }
                return;
            }
            Event::Change(flow, what) => (flow, what),
        };
        let old = self.past.flows[flow.index()].0;
        if what != What::LoseHead || O::LOSSES_COUNT {
            self.restart(gone);
        }
        let weight = match what {
            What::Weigh(weight) => {
                let head = self.link.head(flow);
                self.link.scheduler.set(self.trial, flow, weight, head);
                weight
            }
            What::Remove => {
                while self.link.lose(flow).is_some() {}
                self.link.scheduler.remove(flow);
                0
            }
            What::LoseHead => {
                if self.link.lose(flow).is_none() || !O::LOSSES_COUNT {
                    return self.settle_if_idle(gone);
                }
                old
            }
        };
        self.past.note(flow, weight);
        self.link.restart(gone);
        self.settles = O::settles(&self.past).map_or(u64::MAX, |bytes| at + bytes);
        self.settle_if_idle(gone);
    }
}

/// Plays `history` on the flow scheduler `O`; returns its outcome against the guarantees
/// [`When::AtOnce`] and [`When::Settled`].
///
/// # Errors
/// Returns the first [`Imbalance`] of the flow scheduler's counters.
pub fn play_changing<O: Changeable>(
    history: &Changing,
    depth: Depth,
) -> Result<[Outcome; 2], Imbalance> {
    let trial = &history.trial;
    let (link, past) = (MeteredLink::<O>::new(trial), Past::new(trial));
    let mut player = Player { link, trial, past, settles: 0, worst: [Outcome::default(); 2] };
    let events = history.events();
    let mut events = events.iter().peekable();
    let mut now = 0;
    loop {
        if player.settles > 0 && player.settles <= now {
            player.restart(u32::MAX);
            player.settles = 0;
        }
        let Some(flow) = player.link.scheduler.select() else {
            let Some(next) = events.peek() else { break };
            now = now.max(next.0);
            player.link.meter.transmitted(u32::MAX);
            while let Some((_, event)) = events.next_if(|event| event.0 <= now) {
                player.apply(now, u32::MAX, event);
                player.link.check_books(depth == Depth::Steps)?;
            }
            continue;
        };
        let len = player.link.dequeue(flow);
        player.settle_if_idle(0);
        player.link.check_books(depth != Depth::Bounds)?;
        let end = now + u64::from(len);
        while let Some((at, event)) = events.next_if(|event| event.0 <= end) {
            let gone = u32::try_from(at.saturating_sub(now)).unwrap_or(u32::MAX);
            player.link.meter.transmitted(gone);
            player.apply(now.max(*at), gone, event);
            player.link.check_books(depth == Depth::Steps)?;
        }
        now = end;
    }
    player.restart(u32::MAX);
    Ok(player.worst)
}

/// An endless iterator of random sequences: the trials of [`Trials`] with changes at arbitrary
/// bytes, of single flows, of one flow back and forth, and of all flows at once.
#[derive(Clone, Debug)]
pub struct Histories {
    trials: Trials,
    random: Stream,
}

impl Histories {
    /// Creates the sequences of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { trials: Trials::new(seed), random: Streams::new(seed).stream("flow changes") }
    }
}

impl Iterator for Histories {
    type Item = Changing;

    fn next(&mut self) -> Option<Changing> {
        let trial = self.trials.next()?;
        let changes = changes(&trial, &mut self.random);
        Some(Changing { trial, changes })
    }
}

fn weight(random: &mut Stream) -> u32 {
    let bits = random.below(17);
    1 + below(random, 1 << bits)
}

fn changes(trial: &Trial, random: &mut Stream) -> Vec<Change> {
    let flows = trial.flows.len() as u32;
    let span = 2 * u64::from(trial.max_len) * (1 + random.below(30));
    let any = |random: &mut Stream| {
        let what = match random.below(8) {
            0 => What::Remove,
            1 => What::LoseHead,
            _ => What::Weigh(weight(random)),
        };
        Change { at: random.below(span), flow: below(random, flows), what }
    };
    let mut all: Vec<Change> = match random.below(4) {
        // One flow, back and forth.
        0 => {
            let (flow, weights) = (below(random, flows), [weight(random), weight(random)]);
            let (first, step) = (random.below(span), 1 + random.below(trial.max_len.into()));
            let count = 1 + random.below(MOST_CHANGES);
            let to = |turn: u64| Change {
                at: first + turn * step,
                flow,
                what: What::Weigh(weights[turn as usize % 2]),
            };
            (0..count).map(to).collect()
        }
        // Most of the flows at one time.
        1 => {
            let (at, what) = (random.below(span), any(random).what);
            let some = (0..flows).filter(|_| random.chance(3, 4));
            some.map(|flow| Change { at, flow, what }).collect()
        }
        _ => (0..=random.below(8)).map(|_| any(random)).collect(),
    };
    all.sort_by_key(|change| change.at);
    all
}

/// Varies random sequences step by step to bring `O` closer to `bound`, while `go_on` returns true.
/// Returns the worst outcome, its sequence and the number of sequences played.
///
/// # Errors
/// Returns the violated invariant and the sequence that violates it.
pub fn climb_changing<O: Changeable>(
    when: When,
    bound: Bound,
    seed: u64,
    mut go_on: impl FnMut() -> bool,
) -> Result<(Outcome, Changing, u64), String> {
    let mut starts = Histories::new(seed);
    let mut random = Streams::new(seed).stream("changes of histories");
    let mut best: Option<(Outcome, Changing)> = None;
    let mut played = 0;
    let play = |history: &Changing| {
        let outcomes = play_changing::<O>(history, Depth::Bounds);
        let outcome = outcomes.map_err(|imbalance| format!("{imbalance}\n{history}"))?;
        Ok::<_, String>(outcome[usize::from(when == When::Settled)])
    };
    while go_on() {
        let Some(mut history) = starts.next() else { break };
        fit(&mut history.trial);
        let flows = history.trial.flows.len() as u32;
        history.changes.retain(|change| change.flow < flows);
        let mut outcome = play(&history)?;
        let mut in_vain = 0;
        while in_vain < PATIENCE && go_on() {
            let mut next = history.clone();
            for _ in 0..=random.below(3) {
                vary_history(&mut next, &mut random);
            }
            if next.trial.packets() > MOST_PACKETS {
                continue;
            }
            played += 1;
            let found = play(&next)?;
            let (old, new) = (outcome.of(bound).ratio(), found.of(bound).ratio());
            in_vain = if new > old { 0 } else { in_vain + 1 };
            if new >= old {
                (history, outcome) = (next, found);
            }
        }
        let ratio = outcome.of(bound).ratio();
        if best.as_ref().is_none_or(|best| ratio > best.0.of(bound).ratio()) {
            best = Some((outcome, history));
        }
    }
    let (outcome, history) = best.ok_or("there was no time for a single history")?;
    Ok((outcome, history, played))
}

fn vary_history(history: &mut Changing, random: &mut Stream) {
    let Changing { trial, changes } = history;
    if random.chance(1, 2) {
        change_trial(trial, random);
        let flows = trial.flows.len() as u32;
        changes.retain(|change| change.flow < flows);
        return;
    }
    let flows = trial.flows.len() as u32;
    let count = changes.len() as u64;
    if count == 0 || (count < MOST_CHANGES && random.chance(1, 6)) {
        let base = changes.last().map_or(0, |change| change.at);
        let at = base + random.below(2 * u64::from(trial.max_len));
        let what = if random.chance(1, 6) { What::Remove } else { What::Weigh(weight(random)) };
        changes.push(Change { at, flow: below(random, flows), what });
    } else {
        let at = random.below(count) as usize;
        let change = &mut changes[at];
        match random.below(6) {
            0 => drop(changes.remove(at)),
            1 => change.flow = below(random, flows),
            2 => change.what = What::Weigh(weight(random)),
            3 => {
                if let What::Weigh(weight) = &mut change.what {
                    *weight = vary(random, *weight, 1 << 16);
                }
            }
            _ => {
                let step = random.below(u64::from(trial.max_len));
                let later = random.chance(1, 2);
                change.at = if later { change.at + step } else { change.at.saturating_sub(step) };
            }
        }
    }
    changes.sort_by_key(|change| change.at);
}
