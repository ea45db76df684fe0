//! Searches for violations of the proven bounds: a link of constant rate, flows with known shares,
//! and adversarial sequences of arrivals.
//!
//! A [`Trial`] is played on a flow scheduler through its public interface only. The link sends one
//! byte per unit of time, and packets back to back while any are queued; packets may arrive at any
//! byte of a transmission. The meters of `sched-core` measure B-WFI, T-WFI and the relative
//! fairness of every pair, and an [`Outcome`] holds the ratio of each to its bound. [`Trials`]
//! draws random trials; [`climb`] modifies one step by step to raise a ratio. All arithmetic is
//! exact except the last division. A [`Changing`] also configures, adds and removes flows.
//!
//! `docs/guarantees.md` lists the bounds, their conventions and the ratios reached.

mod changing;
mod draw;
mod metered_link;
mod search;
mod sparse_first;

use std::fmt;

use freeboard::sched_core::{
    Aggregate, Drr, DrrFlow, FlowId, FlowScheduler, Guarantee, Imbalance, PlusFlow, Qfq, QfqConfig,
    QfqFlow, QfqPlus, Wf2q, Wf2qConfig, Wf2qFlow,
};
use metered_link::MeteredLink;

pub use changing::{
    Change, Changeable, Changing, Histories, Past, What, When, climb_changing, play_changing,
};
pub use draw::{Trials, counterexample};
pub use search::{Climb, climb};
pub use sparse_first::SparseFirst;

/// Packets of one flow that arrive at the same time, with lengths alternating between `first` and
/// `second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Arrival time in bytes of link time.
    pub at: u64,
    /// Number of packets.
    pub packets: u32,
    /// Length in bytes of the first, third, fifth … packet.
    pub first: u32,
    /// Length in bytes of the other packets.
    pub second: u32,
}

/// A flow and all packets that it will send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// Weight; DRR derives the quantum from it.
    pub weight: u32,
    /// Longest packet in bytes; longer ones are truncated to it.
    pub max_len: u32,
    /// Packets it sends.
    pub bursts: Vec<Burst>,
}

/// A scenario: flows and their arrivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Longest packet of the scheduler in bytes.
    pub max_len: u32,
    /// Flows.
    pub flows: Vec<FlowPlan>,
}

impl Trial {
    /// Returns the number of packets of all flows.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let bursts = self.flows.iter().flat_map(|flow| &flow.bursts);
        bursts.map(|burst| u64::from(burst.packets)).sum()
    }

    /// Returns time, flow and length of every arrival, sorted by time, then by flow.
    fn arrivals(&self) -> Vec<(u64, FlowId, u32)> {
        let mut all = Vec::new();
        for (number, flow) in (0..).zip(&self.flows) {
            for burst in &flow.bursts {
                let lengths = [burst.first, burst.second].map(|len| len.clamp(1, flow.max_len));
                let lengths = lengths.into_iter().cycle().take(burst.packets as usize);
                all.extend(lengths.map(|len| (burst.at, FlowId(number), len)));
            }
        }
        all.sort_by_key(|arrival| arrival.0);
        all
    }

    /// Gives every `alike` consecutive flows the weight and the longest packet of the first of
    /// them, and makes the longest packet `less` bytes shorter.
    #[must_use]
    pub fn with_classes(mut self, alike: usize, less: u32) -> Self {
        for flows in self.flows.chunks_mut(alike) {
            let (weight, max_len) = (flows[0].weight, flows[0].max_len);
            for flow in flows {
                (flow.weight, flow.max_len) = (weight, max_len);
            }
        }
        self.max_len = self.max_len.max(8 + less) - less;
        for flow in &mut self.flows {
            flow.max_len = flow.max_len.min(self.max_len);
        }
        self
    }

    /// Returns true if all packets of `flow` have its maximum length.
    fn has_one_length(&self, flow: usize) -> bool {
        let flow = &self.flows[flow];
        let longest = |burst: &Burst| {
            burst.first >= flow.max_len && (burst.second >= flow.max_len || burst.packets < 2)
        };
        flow.bursts.iter().all(longest)
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "longest packet {}", self.max_len)?;
        for (number, flow) in self.flows.iter().enumerate() {
            write!(f, "flow {number}: weight {}, longest {};", flow.weight, flow.max_len)?;
            for Burst { at, packets, first, second } in &flow.bursts {
                write!(f, " at {at}: {packets} of {first}/{second};")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A flow scheduler with guarantees.
pub trait Promising: FlowScheduler + Sized {
    /// Creates the flow scheduler with all flows of `trial` added.
    fn of(trial: &Trial) -> Self;

    /// Returns the guarantee of `flow`.
    fn promise(&self, flow: FlowId) -> Guarantee;

    /// Checks invariants of the internal state beyond the counters.
    ///
    /// # Errors
    /// Returns the first [`Imbalance`] found.
    fn check_inside(&self) -> Result<(), Imbalance> {
        Ok(())
    }

    /// Returns bounds on B-WFI that are monitored but not guaranteed.
    fn watched(&self, _flow: FlowId, _trial: &Trial) -> Option<Watched> {
        None
    }
}

/// Bounds on B-WFI in bytes, rounded up, that are monitored but not guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Bound from the literature for flows with one packet length, at the end of their packets.
    /// QFQ keeps it for those, but not for all flows; WF²Q+, whose `V` advances by whole packets,
    /// does not keep it.
    pub one_length: u64,
    /// Bound that would hold if every flow counted all the time; a flow scheduler for which this
    /// is not so may exceed it.
    pub all_count: u64,
}

impl Promising for Qfq<Vec<QfqFlow>> {
    fn of(trial: &Trial) -> Self {
        let mut qfq = Qfq::new(vec![QfqFlow::EMPTY; trial.flows.len()], trial.max_len)
            .expect("trials have packets of 1 to 65,535 bytes");
        for (number, &FlowPlan { weight, max_len, .. }) in (0..).zip(&trial.flows) {
            qfq.configure(FlowId(number), QfqConfig { weight, max_len }, None)
                .expect("trials have up to 256 flows of weights up to 65,536");
        }
        qfq
    }

    fn promise(&self, flow: FlowId) -> Guarantee {
        self.guarantee(flow).expect("all flows are added")
    }

    /// Theorem 2; the counters cover the rest.
    fn check_inside(&self) -> Result<(), Imbalance> {
        self.check_lag()
    }

    /// Returns `3φσ + 2φL`, and `max(3φσ + φL + (1 − φ)L_k, 2φσ + 2φL)`, derived from the
    /// definitions.
    fn watched(&self, flow: FlowId, trial: &Trial) -> Option<Watched> {
        let plan = trial.flows.get(flow.index())?;
        let inverse = u128::from((1 << 30) / plan.weight);
        let sorted_by = u128::from(plan.max_len.max(trial.max_len.div_ceil(28)));
        let slot = (sorted_by * inverse).next_power_of_two().max(1 << 15);
        let share = self.promise(flow).share;
        let (n, d) = (u128::from(share.numerator()), u128::from(share.denominator()));
        let longest = n * u128::from(trial.max_len);
        let own = (d - n) * u128::from(plan.max_len);
        // σ/inverse bytes of the flow are σ · d/inverse, times the denominator.
        let slots = |count: u128| (count * slot * d).div_ceil(inverse);
        let bytes = |scaled: u128| u64::try_from(scaled.div_ceil(d)).unwrap_or(u64::MAX);
        Some(Watched {
            one_length: bytes(slots(3) + 2 * longest),
            all_count: bytes((slots(3) + longest + own).max(slots(2) + 2 * longest)),
        })
    }
}

/// The longest packet determines the maximum number of flows in an aggregate.
impl Promising for QfqPlus<Vec<PlusFlow>, Vec<Aggregate>, Vec<QfqFlow>> {
    fn of(trial: &Trial) -> Self {
        let count = trial.flows.len();
        let aggregates = vec![Aggregate::EMPTY; count];
        let (flows, nodes) = (vec![PlusFlow::EMPTY; count], vec![QfqFlow::EMPTY; count]);
        let mut plus = Self::new(flows, aggregates, nodes, trial.max_len, 1 + trial.max_len % 8)
            .expect("trials have packets of 1 to 65,535 bytes");
        for (number, &FlowPlan { weight, max_len, .. }) in (0..).zip(&trial.flows) {
            plus.configure(FlowId(number), QfqConfig { weight, max_len }, None)
                .expect("trials have up to 256 flows of weights up to 65,536");
        }
        plus
    }

    fn promise(&self, flow: FlowId) -> Guarantee {
        self.guarantee(flow).expect("all flows are added")
    }

    fn check_inside(&self) -> Result<(), Imbalance> {
        self.check_lag()
    }
}

impl Promising for Wf2q<Vec<Wf2qFlow>> {
    fn of(trial: &Trial) -> Self {
        let mut wf2q = Wf2q::new(vec![Wf2qFlow::EMPTY; trial.flows.len()], trial.max_len)
            .expect("trials have packets of 1 to 65,535 bytes");
        for (number, &FlowPlan { weight, max_len, .. }) in (0..).zip(&trial.flows) {
            wf2q.configure(FlowId(number), Wf2qConfig { weight, max_len }, None)
                .expect("trials have up to 256 flows of weights up to 65,536");
        }
        wf2q
    }

    fn promise(&self, flow: FlowId) -> Guarantee {
        self.guarantee(flow).expect("all flows are added")
    }

    /// Returns `L_k + φ(L − L_k)`, the bound of Bennett and Zhang for a `V` that advances byte by
    /// byte.
    fn watched(&self, flow: FlowId, trial: &Trial) -> Option<Watched> {
        let own = trial.flows.get(flow.index())?.max_len;
        let promise = self.promise(flow);
        let longer = promise.share.of_link(u64::from(trial.max_len - own));
        Some(Watched { one_length: u64::from(own) + longer, all_count: promise.b_wfi() })
    }
}

/// The quantum is the longest packet plus one byte for each unit of weight above the first.
impl Promising for Drr<Vec<DrrFlow>> {
    fn of(trial: &Trial) -> Self {
        let mut drr = Drr::new(vec![DrrFlow::EMPTY; trial.flows.len()], trial.max_len)
            .expect("trials have packets of 1 to 65,535 bytes");
        for (number, flow) in (0..).zip(&trial.flows) {
            drr.configure(FlowId(number), trial.max_len + flow.weight - 1, None)
                .expect("a quantum is at least the longest packet");
        }
        drr
    }

    fn promise(&self, flow: FlowId) -> Guarantee {
        self.guarantee(flow).expect("all flows are added")
    }
}

/// The bounds that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// B-WFI at any time.
    AnyInstant,
    /// B-WFI at the end of packets of the flow.
    Completion,
    /// T-WFI.
    Delay,
    /// Relative fairness of two flows.
    Fairness,
}

impl Bound {
    /// All variants, in the order of `as usize`.
    pub const ALL: [Self; 4] = [Self::AnyInstant, Self::Completion, Self::Delay, Self::Fairness];

    /// Returns a short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnyInstant => "B-WFI",
            Self::Completion => "B-WFI at completion",
            Self::Delay => "T-WFI",
            Self::Fairness => "fairness",
        }
    }
}

/// The largest ratio of a measure to its bound, with both values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// One flow, or a pair of flows.
    pub flows: [u32; 2],
    /// Measured value in bytes, rounded up.
    pub measured: u64,
    /// Bound in bytes, rounded up.
    pub bound: u64,
}

impl Worst {
    /// Returns measured / bound; 0 if nothing was measured.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.measured == 0 { 0.0 } else { self.measured as f64 / self.bound as f64 }
    }

    fn take(&mut self, other: Self) {
        if other.ratio() > self.ratio() {
            *self = other;
        }
    }
}

/// Largest ratios of measures to bounds in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Worst flow for each [`Bound`].
    pub worst: [Worst; 4],
    /// B-WFI at completion against [`Watched::one_length`], for flows of one packet length.
    pub one_length: Worst,
    /// B-WFI at any time against [`Watched::one_length`], for all flows.
    pub any_length: Worst,
    /// B-WFI at any time against [`Watched::all_count`].
    pub all_count: Worst,
    /// Packets sent.
    pub packets: u64,
}

impl Outcome {
    /// Keeps the worse of each.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.worst.iter_mut().zip(other.worst) {
            mine.take(theirs);
        }
        self.one_length.take(other.one_length);
        self.any_length.take(other.any_length);
        self.all_count.take(other.all_count);
        self.packets += other.packets;
    }

    /// Returns the worst case of `bound`.
    #[must_use]
    pub const fn of(&self, bound: Bound) -> Worst {
        self.worst[bound as usize]
    }
}

/// Depth of the checks in addition to the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// No further checks, for the search.
    Bounds,
    /// Counters and internal state of the flow scheduler after every packet.
    Packets,
    /// Counters and internal state after every packet and every arrival.
    Steps,
}

/// Plays `trial` on the flow scheduler `O`.
///
/// # Errors
/// Returns the first [`Imbalance`] of the flow scheduler's own invariants. An exceeded bound is not
/// an error here; [`Worst::ratio`] reports it.
pub fn play<O: Promising>(trial: &Trial, depth: Depth) -> Result<Outcome, Imbalance> {
    let mut link = MeteredLink::<O>::new(trial);
    let arrivals = trial.arrivals();
    let mut arrivals = arrivals.iter().peekable();
    let mut now = 0;
    loop {
        let Some(flow) = link.scheduler.select() else {
            let Some(next) = arrivals.peek() else { break };
            now = now.max(next.0);
            link.meter.transmitted(u32::MAX);
            // Packets that arrive at this time precede the link's next choice.
            while let Some(&(_, flow, len)) = arrivals.next_if(|arrival| arrival.0 <= now) {
                link.arrive(flow, len);
                link.check(depth == Depth::Steps)?;
            }
            continue;
        };
        let len = link.dequeue(flow);
        link.check(depth != Depth::Bounds)?;
        let end = now + u64::from(len);
        while let Some(&(at, flow, len)) = arrivals.next_if(|arrival| arrival.0 <= end) {
            let gone = at.saturating_sub(now);
            link.meter.transmitted(u32::try_from(gone).unwrap_or(u32::MAX));
            link.arrive(flow, len);
            link.check(depth == Depth::Steps)?;
        }
        now = end;
    }
    Ok(link.outcome(trial, (0, 0), 0))
}
