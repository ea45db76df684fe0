//! Sequences of calls, and a search for those that make a call expensive: on the host
//! (`worst_call`) and on microcontrollers (`firmware/worst-call`).

/// Longest packet of a sequence in bytes.
pub const MAX_LEN: u32 = 1_514;
/// Number of calls in a sequence.
const CALLS: usize = 600;
/// Unsuccessful changes after which the search restarts.
const PATIENCE: u32 = 300;

/// A call in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Enqueues a packet with a free handle, if there is one.
    Enqueue {
        /// Flow, modulo the number of flows.
        flow: u32,
        /// Length in bytes.
        len: u32,
    },
    /// Dequeues a packet.
    Dequeue,
    /// Advances the time by this number of nanoseconds, without a call.
    Wait(u64),
}

/// The call of a sequence with the highest cost per packet moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Steps or instructions per packet moved, rounded up.
    pub per_packet: u64,
    /// Steps or instructions of the call.
    pub cost: u64,
    /// Packets moved by the call: one, or two if it was rejected, and those it dropped.
    pub moved: u64,
    /// Position of the call in the sequence.
    pub at: usize,
}

impl Worst {
    /// Creates an entry for call number `at` of a sequence.
    #[must_use]
    pub const fn new(at: usize, cost: u64, moved: u64) -> Self {
        Self { per_packet: cost.div_ceil(moved), cost, moved, at }
    }

    /// Returns the more expensive of `self` and `other`.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if other.per_packet > self.per_packet { other } else { self }
    }
}

/// The worst sequence that a search has found.
#[derive(Clone, Debug)]
pub struct Climb {
    /// Its worst call.
    pub worst: Worst,
    /// The sequence.
    pub history: [Call; CALLS],
    /// Number of sequences played.
    pub played: u64,
}

/// Varies random sequences step by step to increase the cost of a call, as determined by `measure`,
/// while `go_on` returns true. `below` returns random numbers below its argument.
pub fn climb(
    mut below: impl FnMut(u64) -> u64,
    mut measure: impl FnMut(&[Call]) -> Worst,
    mut go_on: impl FnMut() -> bool,
) -> Climb {
    let mut best = Climb { worst: Worst::default(), history: [Call::Dequeue; CALLS], played: 0 };
    let mut played = 0;
    while go_on() {
        let mut history = [Call::Dequeue; CALLS];
        history.fill_with(|| draw(&mut below));
        let mut worst = measure(&history);
        played += 1;
        let mut in_vain = 0;
        while in_vain < PATIENCE && go_on() {
            let mut next = history;
            for _ in 0..=below(8) {
                let at = below(CALLS as u64) as usize;
                next[at] = draw(&mut below);
                // Also try calls in another order.
                next.swap(at, below(CALLS as u64) as usize);
            }
            let found = measure(&next);
            played += 1;
            in_vain = if found.per_packet > worst.per_packet { 0 } else { in_vain + 1 };
            if found.per_packet >= worst.per_packet {
                (history, worst) = (next, found);
            }
        }
        if worst.per_packet > best.worst.per_packet {
            best = Climb { worst, history, played };
        }
    }
    Climb { played, ..best }
}

/// Draws a random call: more arrivals than departures, flows nearby and far apart, lengths of all
/// sizes.
fn draw(below: &mut impl FnMut(u64) -> u64) -> Call {
    match below(16) {
        0 => Call::Wait([1, 1_000, 100_000, 10_000_000, 1_000_000_000][below(5) as usize]),
        1..=6 => Call::Dequeue,
        _ => {
            let far = below(13);
            let flow = below(1 << far) as u32;
            let len = [1, 40, 64, 576, 1_500, MAX_LEN][below(6) as usize];
            Call::Enqueue { flow, len }
        }
    }
}
