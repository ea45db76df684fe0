//! The workloads of Fig. 9 and Table III as the harness can run them.
//!
//! The paper's own multipliers are lost: that backlogs swing between 0 and 5 packets a flow (SMALL), 0 and
//! 30 (LARGE) or 15 and 30 (FULL) is a choice, 30 being the most that the controller can tell apart.

use core::fmt;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

/// Between which backlogs the controller swings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Small,
    Large,
    Full,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Small => "SMALL",
            Self::Large => "LARGE",
            Self::Full => "FULL",
        })
    }
}

/// The lengths of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// All 1,500 bytes.
    Equal,
    /// 64, 576 and 1,500 bytes in the ratio 7:4:1, drawn for each packet whatever its flow.
    Imix,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Equal => "1500",
            Self::Imix => "imix",
        })
    }
}

/// The weights of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    /// All 1.
    Equal,
    /// Most 1, the others 2, 4, 8, 128 and 1,024.
    Mixed,
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Equal => "equal",
            Self::Mixed => "mixed",
        })
    }
}

/// The order in which packets lie on the free list at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    Sequential,
    Shuffled,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sequential => "sequential",
            Self::Shuffled => "shuffled",
        })
    }
}

/// What the controller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) flows: u32,
    pub(super) load: Load,
    pub(super) sizes: Sizes,
    pub(super) weights: Weights,
    pub(super) pool: Pool,
}

/// The longest packet, in bytes.
pub(super) const MTU: u32 = 1_500;

/// With more flows, 30 packets of each would be more than the 4 GB that a scheduler counts to: 20 then.
const ROOMY: u32 = 1 << 16;

/// How many lengths are drawn before they repeat: a prime, so that no number of flows resonates with it.
const LENGTHS: u32 = 4_093;

impl Traffic {
    /// The fewest and the most packets queued once the controller has filled up.
    pub(super) fn bounds(&self) -> (u64, u64) {
        let flows = u64::from(self.flows);
        let most = if self.flows > ROOMY { 20 } else { 30 };
        match self.load {
            Load::Small => (0, 5 * flows),
            Load::Large => (0, most * flows),
            Load::Full => (most / 2 * flows, most * flows),
        }
    }

    /// The iterations of one swing, up and down.
    pub(super) fn cycle(&self) -> u64 {
        let (low, high) = self.bounds();
        2 * (high - low)
    }

    /// Weights and how many flows have them, in the order of the flows.
    pub(super) fn sets(&self) -> Vec<(u32, u32)> {
        let flows = self.flows;
        match (self.weights, flows) {
            (Weights::Equal, _) => vec![(1, flows)],
            (Weights::Mixed, ..8) => vec![(8, flows)],
            (Weights::Mixed, _) => {
                let heavy = if flows < 64 { 0 } else { (flows / 2_048).max(1) };
                let others = [
                    (2, flows / 8),
                    (4, (flows / 16).max(1)),
                    (8, (flows / 32).max(1)),
                    (128, heavy),
                    (1_024, u32::from(flows >= 512)),
                ];
                let rest = flows - others.iter().map(|set| set.1).sum::<u32>();
                let mut sets = vec![(1, rest)];
                sets.extend(others);
                sets
            }
        }
    }

    /// The lengths as they are drawn, in turn; empty if all are [`MTU`].
    pub(super) fn lengths(&self) -> Box<[u32]> {
        if self.sizes == Sizes::Equal {
            return Box::default();
        }
        let mut random = Xorshift(2_463_534_242);
        (0..LENGTHS)
            .map(|_| match random.next() % 12 {
                ..7 => 64,
                7..11 => 576,
                _ => 1_500,
            })
            .collect()
    }

    /// The packets in the order in which the free list first gives them out: as many as are ever queued.
    pub(super) fn packets(&self) -> Vec<u32> {
        let (_, high) = self.bounds();
        let mut packets: Vec<u32> = (0..high as u32).collect();
        if self.pool == Pool::Shuffled {
            let mut random = Xorshift(2_463_534_242);
            for place in (1..packets.len()).rev() {
                let other = (u64::from(random.next()) * (place as u64 + 1)) >> 32;
                packets.swap(place, other as usize);
            }
        }
        packets
    }
}

/// xorshift32 with the shifts 13, 17, 5 (Marsaglia 2003).
struct Xorshift(u32);

impl Xorshift {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}
