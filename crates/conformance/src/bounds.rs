//! Are the proven bounds ever exceeded? A link of constant rate, flows with known shares, and a
//! history of arrivals made to hurt.
//!
//! A [`Trial`] is played on a flow scheduler through its public interface only: a byte a unit of
//! time, packets back to back while anything is queued, arrivals at any byte of a packet on the
//! wire. The meters of `sched-core` measure B-WFI, T-WFI and the relative fairness of every pair;
//! an [`Outcome`] says how near each came to its bound. [`Trials`] draws trials at random,
//! [`climb`] changes one step by step to come nearer. All arithmetic is exact but the last
//! division. A [`Changing`] history also re-configures flows, adds and removes them.
//!
//! `docs/guarantees.md` has the bounds, their conventions, and what was reached.

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

/// Packets of one flow that come at one instant; every other one is `first` long, the rest
/// `second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The instant, in bytes of link time.
    pub at: u64,
    /// How many packets.
    pub packets: u32,
    /// The length of the first, third, fifth …, in bytes.
    pub first: u32,
    /// The length of the others, in bytes.
    pub second: u32,
}

/// A flow and everything that it will send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// Its weight; DRR makes a quantum of it.
    pub weight: u32,
    /// Its longest packet, in bytes; longer ones are cut to it.
    pub max_len: u32,
    /// What it sends.
    pub bursts: Vec<Burst>,
}

/// Flows and what they send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The longest packet of the scheduler, in bytes.
    pub max_len: u32,
    /// The flows.
    pub flows: Vec<FlowPlan>,
}

impl Trial {
    /// How many packets are sent.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let bursts = self.flows.iter().flat_map(|flow| &flow.bursts);
        bursts.map(|burst| u64::from(burst.packets)).sum()
    }

    /// Every arrival: instant, flow, length. In the order of the instants, then of the flows.
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

    /// The same with `alike` flows in a row of the weight and the longest packet of the first of
    /// them, the longest packet `less` bytes shorter.
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

    /// Whether all packets of `flow` are as long as its longest.
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

/// A flow scheduler that promises something.
pub trait Promising: FlowScheduler + Sized {
    /// The flow scheduler with all flows of `trial` added.
    fn of(trial: &Trial) -> Self;

    /// What it promises to `flow`.
    fn promise(&self, flow: FlowId) -> Guarantee;

    /// What has to hold of its inner state beside its books.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    fn check_inside(&self) -> Result<(), Imbalance> {
        Ok(())
    }

    /// Bounds on B-WFI in bytes that are not promised but watched.
    fn watched(&self, _flow: FlowId, _trial: &Trial) -> Option<Watched> {
        None
    }
}

/// Bounds on B-WFI in bytes, rounded up, that are not promised but watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// What is quoted for flows of one packet length, where their packets end. QFQ keeps it for
    /// those and not for all; WF²Q+, whose `V` grows by whole packets, does not keep it.
    pub one_length: u64,
    /// What could be promised if every flow counted all the time; a flow scheduler that does not
    /// may exceed it.
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

    /// Theorem 2; the rest is in the books.
    fn check_inside(&self) -> Result<(), Imbalance> {
        self.check_lag()
    }

    /// `3φσ + 2φL`, and `max(3φσ + φL + (1 − φ)L_k, 2φσ + 2φL)`, from the definitions.
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

/// The longest packet says how many members an aggregate has at most.
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

    /// `L_k + φ(L − L_k)`, which Bennett and Zhang have where `V` grows byte by byte.
    fn watched(&self, flow: FlowId, trial: &Trial) -> Option<Watched> {
        let own = trial.flows.get(flow.index())?.max_len;
        let promise = self.promise(flow);
        let longer = promise.share.of_link(u64::from(trial.max_len - own));
        Some(Watched { one_length: u64::from(own) + longer, all_count: promise.b_wfi() })
    }
}

/// The quantum is the longest packet and a byte for each unit of weight above the first.
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
    /// B-WFI, at any instant.
    AnyInstant,
    /// B-WFI, where packets of the flow end.
    Completion,
    /// T-WFI.
    Delay,
    /// Relative fairness of two flows.
    Fairness,
}

impl Bound {
    /// All of them, as numbered by `as usize`.
    pub const ALL: [Self; 4] = [Self::AnyInstant, Self::Completion, Self::Delay, Self::Fairness];

    /// One or two words.
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

/// The largest measured/bound and what it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// Of a flow, or of two.
    pub flows: [u32; 2],
    /// In bytes, rounded up.
    pub measured: u64,
    /// In bytes, rounded up.
    pub bound: u64,
}

impl Worst {
    /// Measured over bound; 0 if nothing was measured.
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

/// How near a trial came to the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// For each [`Bound`] the worst flow.
    pub worst: [Worst; 4],
    /// B-WFI at completion of flows of one packet length against [`Watched::one_length`].
    pub one_length: Worst,
    /// B-WFI at any instant, of all flows, against the same.
    pub any_length: Worst,
    /// B-WFI at any instant against [`Watched::all_count`].
    pub all_count: Worst,
    /// Packets sent.
    pub packets: u64,
}

impl Outcome {
    /// Keeps of each the worse.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.worst.iter_mut().zip(other.worst) {
            mine.take(theirs);
        }
        self.one_length.take(other.one_length);
        self.any_length.take(other.any_length);
        self.all_count.take(other.all_count);
        self.packets += other.packets;
    }

    /// The worst of `bound`.
    #[must_use]
    pub const fn of(&self, bound: Bound) -> Worst {
        self.worst[bound as usize]
    }
}

/// How much is checked beside the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Nothing: for the search.
    Bounds,
    /// The books and the inner state of the flow scheduler, after every packet.
    Packets,
    /// The same after every arrival as well.
    Steps,
}

/// Sends all that `trial` has through the flow scheduler `O`.
///
/// # Errors
/// The first [`Imbalance`] of the flow scheduler's own invariants. Bounds that are exceeded are no
/// error here: [`Worst::ratio`] says so.
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
            // What comes at the same instant is there before the link takes a packet.
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
