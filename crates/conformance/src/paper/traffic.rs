//! The workloads of Fig. 9 and Table III as the harness can run them.
//!
//! The paper's own multipliers are lost. It is our choice that backlogs swing between 0 and 5
//! packets a flow (SMALL), 0 and 30 (LARGE) or 15 and 30 (FULL). 30 is the most that the controller
//! can tell apart.

use core::fmt;

use crate::Xorshift;

/// Between which backlogs the controller swings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// From 0 to 5 packets a flow.
    Small,
    /// From 0 to 30.
    Large,
    /// From 15 to 30.
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
pub enum Sizes {
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
pub enum Weights {
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
pub enum Pool {
    /// By number.
    Sequential,
    /// At random.
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
pub struct Traffic {
    /// How many.
    pub flows: u32,
    /// Between which backlogs.
    pub load: Load,
    /// The lengths of packets.
    pub sizes: Sizes,
    /// The weights of flows.
    pub weights: Weights,
    /// The order on the free list.
    pub pool: Pool,
}

/// The longest packet, in bytes.
pub const MTU: u32 = 1_500;

/// With more flows, 30 packets of each would be more than the 4 GB that a scheduler counts to: 20
/// then.
const ROOMY: u32 = 1 << 16;

/// How many lengths are drawn before they repeat: a prime, so that no number of flows resonates
/// with it.
const LENGTHS: u32 = 4_093;

impl Traffic {
    /// The fewest and the most packets queued once the controller has filled up.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        let flows = u64::from(self.flows);
        let most = if self.flows > ROOMY { 20 } else { 30 };
        match self.load {
            Load::Small => (0, 5 * flows),
            Load::Large => (0, most * flows),
            Load::Full => (most / 2 * flows, most * flows),
        }
    }

    /// The iterations of one swing, up and down.
    #[must_use]
    pub fn cycle(&self) -> u64 {
        let (low, high) = self.bounds();
        2 * (high - low)
    }

    /// Weights and how many flows have them, in the order of the flows.
    #[must_use]
    pub fn sets(&self) -> Vec<(u32, u32)> {
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
    #[must_use]
    pub fn lengths(&self) -> Box<[u32]> {
        if self.sizes == Sizes::Equal {
            return Box::default();
        }
        let mut random = Xorshift::new(0);
        (0..LENGTHS)
            .map(|_| match random.below(12) {
                ..7 => 64,
                7..11 => 576,
                _ => 1_500,
            })
            .collect()
    }

    /// The packets in the order in which the free list first gives them out: as many as are ever
    /// queued.
    #[must_use]
    pub fn packets(&self) -> Vec<u32> {
        let (_, high) = self.bounds();
        let mut packets: Vec<u32> = (0..high as u32).collect();
        if self.pool == Pool::Shuffled {
            let mut random = Xorshift::new(0);
            for place in (1..packets.len()).rev() {
                packets.swap(place, random.below(place as u32 + 1) as usize);
            }
        }
        packets
    }
}
