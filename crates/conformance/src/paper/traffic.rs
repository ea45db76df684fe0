//! The workloads of QFQ Fig. 9 and Table III, as far as the harness can run them.
//!
//! The multipliers used in the paper are lost. We chose backlogs that swing between 0 and 5 packets
//! per flow (SMALL), 0 and 30 (LARGE), or 15 and 30 (FULL). 30 is the maximum that the controller
//! can distinguish.

use core::fmt;

use crate::Xorshift;

/// Range of backlogs over which the controller swings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// 0 to 5 packets per flow.
    Small,
    /// 0 to 30 packets per flow.
    Large,
    /// 15 to 30 packets per flow.
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

/// Packet lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// 1,500 bytes for all packets.
    Equal,
    /// 64, 576 and 1,500 bytes in the ratio 7:4:1, drawn per packet regardless of the flow.
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

/// Weights of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Weight 1 for all flows.
    Equal,
    /// Weight 1 for most flows; 2, 4, 8, 128 and 1,024 for the others.
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

/// Initial order of packets on the free list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// By number.
    Sequential,
    /// Random.
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

/// A workload for the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Number of flows.
    pub flows: u32,
    /// Range of backlogs.
    pub load: Load,
    /// Packet lengths.
    pub sizes: Sizes,
    /// Weights of the flows.
    pub weights: Weights,
    /// Initial order of the free list.
    pub pool: Pool,
}

/// Longest packet in bytes.
pub const MTU: u32 = 1_500;

/// Number of flows above which the maximum backlog is 20 instead of 30 packets each: with 30, the
/// bytes queued would exceed the 4 GB that a scheduler can count.
const ROOMY: u32 = 1 << 16;

/// Period of the drawn lengths: a prime, to avoid resonance with the number of flows.
const LENGTHS: u32 = 4_093;

impl Traffic {
    /// Returns the minimum and maximum number of queued packets once the controller has filled up.
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

    /// Returns the iterations of one swing up and down.
    #[must_use]
    pub fn cycle(&self) -> u64 {
        let (low, high) = self.bounds();
        2 * (high - low)
    }

    /// Returns each weight with its number of flows, in the order of the flows.
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

    /// Returns the packet lengths in the order of use; empty if all are [`MTU`].
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

    /// Returns the packets in the initial order of the free list, as many as are ever queued at
    /// once.
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
