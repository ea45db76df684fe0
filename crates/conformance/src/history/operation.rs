//! Operations on a scheduler, and their encoding in bytes.

use super::Setting;
use crate::Xorshift;

/// Number of flows; every other flow number is unknown.
pub const FLOWS: u32 = 8;
/// Number of handles.
pub const DESCRIPTORS: u32 = 32;

/// An operation on a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Enqueues a packet with a free handle, or with handle 0 if none is free.
    Enqueue {
        /// Flow.
        flow: u32,
        /// Length in bytes; may be invalid.
        len: u32,
    },
    /// Enqueues a packet with this handle, which may be free, in use or unknown.
    EnqueueAs {
        /// Flow.
        flow: u32,
        /// Length in bytes.
        len: u32,
        /// Handle.
        handle: u32,
    },
    /// Enqueues a burst that alternates between a flow and the next one, limited by the number of
    /// free handles.
    EnqueueBurst {
        /// Flow of the first packet.
        flow: u32,
        /// Length of each packet in bytes.
        len: u32,
        /// Number of packets.
        packets: u8,
    },
    /// Dequeues one packet.
    Dequeue,
    /// Dequeues a burst.
    DequeueBurst {
        /// Maximum number of packets.
        packets: u8,
    },
    /// Adds or changes a flow, which may hold packets.
    Configure {
        /// Flow.
        flow: u32,
        /// New setting.
        setting: Setting,
    },
    /// Removes a flow.
    Remove {
        /// Flow.
        flow: u32,
    },
    /// Changes the limits.
    SetLimits {
        /// Limit in packets.
        packets: u32,
        /// Limit in bytes.
        bytes: u32,
    },
    /// Drops one packet to free its buffer. Has no encoding in bytes; tests append it to a
    /// sequence.
    Evict,
    /// Removes a packet from the queue of a flow. Has no encoding in bytes; tests append it to a
    /// sequence.
    FilterOut {
        /// Flow.
        flow: u32,
        /// Number of packets of the flow that came after it.
        younger: u32,
    },
    /// Drops all packets.
    Drain,
    /// Moves the clock forward.
    Forward {
        /// Nanoseconds.
        nanos: u64,
    },
    /// Moves the clock back, at most to zero.
    Back {
        /// Nanoseconds.
        nanos: u64,
    },
}

const LENGTHS: [u32; 16] =
    [40, 64, 64, 100, 100, 200, 400, 576, 999, 1_000, 1_001, 1_400, 1_499, 1_500, 1_500, 1_500];
/// Lengths that no flow accepts, and lengths that only a discipline without a maximum accepts.
const ODD_LENGTHS: [u32; 8] = [0, 1, 1_501, 9_000, 65_535, 65_536, (1 << 20) + 1, u32::MAX];
const ODD_FLOWS: [u32; 4] = [FLOWS, FLOWS - 1, u32::MAX - 1, u32::MAX];
const ODD_HANDLES: [u32; 4] = [DESCRIPTORS, DESCRIPTORS - 1, u32::MAX - 1, u32::MAX];
const WEIGHTS: [u32; 16] =
    [1, 2, 3, 3, 3, 4, 5, 7, 8, 16, 100, 1_000, 4_096, 40_000, 65_535, 65_536];
const ODD_WEIGHTS: [u32; 4] = [0, 65_537, 1 << 28, u32::MAX];
const MAX_LENGTHS: [u32; 8] = [1_500, 1_500, 1_500, 1_500, 1_000, 576, 1, 53];
const ODD_MAX_LENGTHS: [u32; 4] = [0, 1_501, 65_536, u32::MAX];
const PACKETS: [u32; 8] = [u32::MAX, DESCRIPTORS, 24, 12, 4, 2, 1, 0];
const BYTES: [u32; 8] = [u32::MAX, 1 << 20, 20_000, 20_000, 8_000, 3_000, 1_500, 99];

pub(super) fn pick<T: Copy>(menu: &[T], byte: u8) -> T {
    menu[usize::from(byte) % menu.len()]
}

impl Operation {
    /// Decodes an operation; all byte sequences are valid. About 45 % of the values of the first
    /// byte are arrivals, 40 % departures.
    fn decode(next: &mut impl FnMut() -> Option<u8>) -> Option<Self> {
        let operation = match next()? {
            0..=114 => Self::Enqueue { flow: flow(next()?), len: len(next()?) },
            115..=217 => Self::Dequeue,
            218..=224 => {
                let (flow, len, packets) = (flow(next()?), len(next()?), next()? % 9);
                Self::EnqueueBurst { flow, len, packets }
            }
            225..=229 => Self::DequeueBurst { packets: next()? % 9 },
            230..=233 => {
                let (flow, len, byte) = (flow(next()?), len(next()?), next()?);
                let handle = match byte {
                    0..192 => u32::from(byte) % DESCRIPTORS,
                    _ => pick(&ODD_HANDLES, byte),
                };
                Self::EnqueueAs { flow, len, handle }
            }
            234..=243 => {
                Self::Configure { flow: flow(next()?), setting: setting(next()?, next()?) }
            }
            244..=246 => Self::Remove { flow: flow(next()?) },
            247..=250 => {
                let (packets, bytes) = (next()?, next()?);
                // Usually one limit at a time and often none; otherwise queues never become long.
                let packets = if packets < 96 { u32::MAX } else { pick(&PACKETS, packets) };
                let bytes = if bytes < 96 { u32::MAX } else { pick(&BYTES, bytes) };
                Self::SetLimits { packets, bytes }
            }
            251 if next()? < 64 => Self::Drain,
            251..=253 => Self::Forward { nanos: 1 << (next()? % 40) },
            254.. => Self::Back { nanos: 1 << (next()? % 40) },
        };
        Some(operation)
    }
}

fn setting(weight: u8, max_len: u8) -> Setting {
    let weight = match weight {
        0..240 => pick(&WEIGHTS, weight),
        _ => pick(&ODD_WEIGHTS, weight),
    };
    let max_len = match max_len {
        0..240 => pick(&MAX_LENGTHS, max_len),
        _ => pick(&ODD_MAX_LENGTHS, max_len),
    };
    Setting { weight, max_len }
}

fn flow(byte: u8) -> u32 {
    match byte {
        0..=243 => u32::from(byte) % 6,
        _ => pick(&ODD_FLOWS, byte),
    }
}

fn len(byte: u8) -> u32 {
    match byte {
        0..=239 => pick(&LENGTHS, byte),
        _ => pick(&ODD_LENGTHS, byte),
    }
}

/// Returns operations that add six of the eight flows, with weights 3 to 8. Sequences decoded from
/// bytes should begin with them; otherwise most arrivals belong to unknown flows.
pub fn prelude() -> impl Iterator<Item = Operation> {
    (0..6).map(|flow| Operation::Configure {
        flow,
        setting: Setting { weight: 3 + flow, max_len: 1_500 },
    })
}

/// Decodes the sequence in `bytes`; an incomplete last operation is ignored.
pub fn operations(bytes: &[u8]) -> impl Iterator<Item = Operation> {
    let mut rest = bytes.iter().copied();
    core::iter::from_fn(move || Operation::decode(&mut || rest.next()))
}

/// An endless random sequence of operations. It begins by adding six of the eight flows; then
/// phases of filling, draining and balance alternate.
#[derive(Clone, Debug)]
pub struct Operations {
    random: Xorshift,
    added: u32,
    spell: u32,
    mood: u32,
}

impl Operations {
    /// Creates the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { random: Xorshift::new(seed), added: 0, spell: 0, mood: 0 }
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.added < 6 {
            let flow = self.added;
            self.added += 1;
            let weight = 3 + self.random.below(6) * self.random.below(6);
            return Some(Operation::Configure {
                flow,
                setting: Setting { weight, max_len: 1_500 },
            });
        }
        if self.spell == 0 {
            self.spell = 1 + self.random.below(400);
            self.mood = self.random.below(4);
        }
        self.spell -= 1;
        loop {
            let operation = Operation::decode(&mut || Some(self.random.byte()))?;
            let unwanted = match operation {
                Operation::Dequeue | Operation::DequeueBurst { .. } => self.mood == 0,
                Operation::Enqueue { .. } | Operation::EnqueueBurst { .. } => self.mood == 1,
                _ => false,
            };
            if !unwanted || self.random.below(2) == 0 {
                return Some(operation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_string_is_a_history_and_every_kind_of_operation_occurs() {
        let mut random = Xorshift::new(1);
        let bytes: Vec<u8> = (0..10_000).map(|_| random.byte()).collect();
        for cut in 0..100 {
            assert!(operations(&bytes[..cut]).count() <= cut);
        }
        let all: Vec<Operation> = operations(&bytes).collect();
        let kinds: std::collections::HashSet<_> = all.iter().map(core::mem::discriminant).collect();
        assert_eq!(kinds.len(), 11);
        let arrivals = all.iter().filter(|o| matches!(o, Operation::Enqueue { .. })).count();
        assert!((40..50).contains(&(100 * arrivals / all.len())), "{arrivals} of {}", all.len());
    }
}
