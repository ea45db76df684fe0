//! Queues by name: those of the simulator, and those of other crates.
//!
//! `examples/own-queue` is a crate with an AQM of its own, in 50 lines.

use core::fmt;
use core::num::NonZeroU32;

use freeboard::sched_core::{
    CoDel, CoDelParams, CoDelState, ConfigError, Limits, Nanos, Pie, PieParams, PieState,
};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{QueueSettings, SmartQueue};

use crate::discipline::{Bottleneck, Discipline, QUEUES, fair_queues, one_queue};
use crate::tcp::network::Way;

/// Longest packet of a scenario in bytes.
pub const MTU: u32 = 1_500;
/// Limit in packets of a queue without one of its own.
const LIMIT: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Place of a queue: what it must know of its link.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Direction of its packets.
    pub way: Way,
    /// Rate of the link.
    pub rate: Rate,
    /// Framing of the link.
    pub overhead: Overhead,
    /// Maximum number of packets in the file.
    pub limit: Option<NonZeroU32>,
    /// Seed for random drops.
    pub seed: u64,
}

impl Place {
    /// Returns the limits of a queue that has none of its own: that of the file, or 1,000 packets.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::packets(self.limit.unwrap_or(LIMIT).get())
    }

    /// Returns a shaper with the rate of the link.
    #[must_use]
    pub fn line(&self) -> Shaper {
        Shaper::new(self.rate)
    }
}

/// A queue in front of a link.
pub struct BuiltQueue {
    /// The queue.
    pub queue: Box<dyn Bottleneck>,
    /// Number of handles that it knows.
    pub buffers: u32,
    /// True if all packets are enqueued as flow 0; false if flows are found by the keys of
    /// packets.
    pub is_one_flow: bool,
}

impl BuiltQueue {
    /// Creates a queue that finds flows by the keys of packets, with these limits.
    #[must_use]
    pub fn of_flows(queue: Box<dyn Bottleneck>, limits: Limits) -> Self {
        Self { queue, buffers: limits.packets + 1, is_one_flow: false }
    }

    /// Creates a queue for all packets, with these limits.
    #[must_use]
    pub fn of_one_flow(queue: Box<dyn Bottleneck>, limits: Limits) -> Self {
        Self { queue, buffers: limits.packets + 1, is_one_flow: true }
    }
}

impl fmt::Debug for BuiltQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltQueue").field("buffers", &self.buffers).finish_non_exhaustive()
    }
}

/// Builds a queue from the words that follow its name in the file.
///
/// The error says what was expected.
pub type Build = fn(words: &str, place: &Place) -> Result<BuiltQueue, String>;

/// Queues by name.
///
/// ```
/// use sim::discipline::Discipline;
/// use sim::scenario::Queues;
/// use sim::scenario::queues::BuiltQueue;
///
/// let queues = Queues::new().with("my-fifo", |_, place| {
///     let limits = place.limits();
///     let queue = Discipline::Fifo.behind(place.line(), place.overhead, limits, 1_500);
///     Ok(BuiltQueue::of_one_flow(queue, limits))
/// });
/// assert!(queues.names().any(|name| name == "my-fifo"));
/// ```
#[derive(Clone, Debug)]
pub struct Queues {
    known: Vec<(&'static str, Build)>,
}

impl Default for Queues {
    fn default() -> Self {
        Self::new()
    }
}

impl Queues {
    /// Creates the queues of the simulator: `fifo`, `drr`, `sqf`, `qfq`, `codel`, `pie`,
    /// `fq-codel`, `fq-pie`, and `smart`, the [`SmartQueue`], which is followed by its settings in
    /// the keywords of CAKE.
    #[must_use]
    pub fn new() -> Self {
        let known: [(&'static str, Build); 9] = [
            ("fifo", |words, place| plain(words, place, Discipline::Fifo)),
            ("drr", |words, place| plain(words, place, Discipline::Drr)),
            ("sqf", |words, place| plain(words, place, Discipline::Sqf)),
            ("qfq", |words, place| plain(words, place, Discipline::Qfq)),
            ("codel", |words, place| {
                let limits = place.limits();
                let aqm = CoDel::new(vec![CoDelState::EMPTY; 1], CoDelParams::INTERNET);
                let queue =
                    aqm.and_then(|aqm| one_queue(aqm, place.line(), place.overhead, limits, MTU));
                managed(words, queue).map(|queue| BuiltQueue::of_one_flow(queue, limits))
            }),
            ("pie", |words, place| {
                let limits = place.limits();
                let aqm = Pie::new(vec![PieState::EMPTY; 1], PieParams::default(), place.seed);
                let queue =
                    aqm.and_then(|aqm| one_queue(aqm, place.line(), place.overhead, limits, MTU));
                managed(words, queue).map(|queue| BuiltQueue::of_one_flow(queue, limits))
            }),
            ("fq-codel", |words, place| {
                let limits = place.limits();
                let states = vec![CoDelState::EMPTY; QUEUES as usize];
                let aqm = CoDel::new(states, CoDelParams::INTERNET);
                let queue =
                    aqm.and_then(|aqm| fair_queues(aqm, place.line(), place.overhead, limits, MTU));
                managed(words, queue).map(|queue| BuiltQueue::of_flows(queue, limits))
            }),
            ("fq-pie", |words, place| {
                let limits = place.limits();
                let states = vec![PieState::EMPTY; QUEUES as usize];
                let aqm = Pie::new(states, PieParams::default(), place.seed);
                let queue =
                    aqm.and_then(|aqm| fair_queues(aqm, place.line(), place.overhead, limits, MTU));
                managed(words, queue).map(|queue| BuiltQueue::of_flows(queue, limits))
            }),
            ("smart", smart),
        ];
        Self { known: known.to_vec() }
    }

    /// Adds a queue, or replaces the one of the same name.
    #[must_use]
    pub fn with(mut self, name: &'static str, build: Build) -> Self {
        self.known.retain(|known| known.0 != name);
        self.known.push((name, build));
        self
    }

    /// Returns the names of all queues.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.known.iter().map(|known| known.0)
    }

    /// Builds the queue that `text` describes: a name, and words that are up to the queue.
    ///
    /// # Errors
    /// A text that states the unknown or invalid word and what was expected.
    pub fn build(&self, text: &str, place: &Place) -> Result<BuiltQueue, String> {
        let (name, words) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let known = self.known.iter().find(|known| known.0 == name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            format!("unknown queue {name:?} (expected one of {})", names.join(", "))
        })?;
        (known.1)(words.trim(), place).map_err(|why| format!("{name}: {why}"))
    }
}

fn no_words(words: &str) -> Result<(), String> {
    if words.is_empty() { Ok(()) } else { Err(format!("unknown word {words:?} (expected none)")) }
}

fn plain(words: &str, place: &Place, discipline: Discipline) -> Result<BuiltQueue, String> {
    no_words(words)?;
    let limits = place.limits();
    Ok(BuiltQueue::of_flows(discipline.behind(place.line(), place.overhead, limits, MTU), limits))
}

fn managed(
    words: &str,
    queue: Result<Box<dyn Bottleneck>, ConfigError>,
) -> Result<Box<dyn Bottleneck>, String> {
    no_words(words)?;
    queue.map_err(|error| error.to_string())
}

fn smart(words: &str, place: &Place) -> Result<BuiltQueue, String> {
    let settings = QueueSettings::from_words(words).map_err(|error| error.to_string())?;
    let elsewhere = [
        (settings.rate.is_some(), "a rate (expected in [link])"),
        (settings.nat == Some(true), "nat (expected without: there is no connection table)"),
        (settings.autorate == Some(true), "autorate-ingress (expected a fixed rate)"),
        (
            settings.split_gso == Some(true),
            "split-gso (expected without: packets are not coalesced)",
        ),
    ];
    if let Some((_, what)) = elsewhere.into_iter().find(|&(is_set, _)| is_set) {
        return Err(format!("not available: {what}"));
    }
    let builder = match place.way {
        Way::Up => SmartQueue::upload(place.rate),
        Way::Down => SmartQueue::download(place.rate),
    };
    // No catch-up: departures happen exactly when they are due.
    let builder = builder.catch_up(Nanos::ZERO).raw_ip().overhead(place.overhead).max_len(MTU);
    let mut builder = builder.settings(&settings);
    if let Some(limit) = place.limit {
        builder = builder.limits(Limits::packets(limit.get()));
    }
    let queue = builder.rate(place.rate).descriptors().map_err(|error| error.to_string())?;
    let buffers = queue.limits().packets.saturating_add(1);
    Ok(BuiltQueue { queue: Box::new(queue), buffers, is_one_flow: false })
}
