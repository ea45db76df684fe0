//! What an isolated queue is told at construction, and why that is refused.

use core::fmt;

use flowhash::TableError;
use sched_core::{ConfigError, Limits, Side};

use super::mode::Isolation;

/// What an [`Isolated`](crate::Isolated) queue is told at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct IsolatedConfig {
    /// What shares the line.
    pub isolation: Isolation,
    /// The longest packet in bytes.
    pub max_len: u32,
    /// The quantum of a queue in bytes, from `max_len` on.
    ///
    /// Quanta are shares, not sizes. To permit long packets does not make turns longer: a quantum
    /// of `max_len` is worth less than two of the longest packets sent so far, or of frames of
    /// 1,514 bytes. To send a long one does, until the next [rebuild](crate::Isolated::rebuild) or
    /// [key](crate::Isolated::relabel).
    pub quantum: u32,
    /// The quantum of a host that [`Labelled::host_terms`](crate::Labelled::host_terms) gives no
    /// other, from `max_len` on.
    pub host_quantum: u32,
    /// The ways of the sets of all tables: 1, 2, 4, 8 or 16.
    pub ways: u32,
    /// What the queue may hold.
    pub limits: Limits,
    /// The side whose hosts are to be isolated from each other in [`Isolation::TripleIsolate`]:
    /// the source on the way up, the destination on the way down. The hosts of both sides count
    /// for shares there. The hosts of this side alone decide which flow gives way, to which spare
    /// queue a flow goes, and how many turns begin early. The other isolations name their side
    /// themselves.
    pub local_side: Side,
}

impl IsolatedConfig {
    /// An Ethernet frame of 1,500 bytes with its header.
    pub(crate) const A_FRAME: u32 = 1_514;

    /// Source hosts and then flows, quanta of the longest packet, sets of eight ways; the source is
    /// the local side.
    #[must_use]
    pub const fn new(max_len: u32, limits: Limits) -> Self {
        Self {
            isolation: Isolation::DualSrcHost,
            max_len,
            quantum: max_len,
            host_quantum: max_len,
            ways: flowhash::DEFAULT_WAYS,
            limits,
            local_side: Side::Source,
        }
    }

    /// The same with another isolation.
    #[must_use]
    pub const fn isolated_by(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    /// The same with another [`local_side`](Self::local_side).
    #[must_use]
    pub const fn with_local_side(self, local_side: Side) -> Self {
        Self { local_side, ..self }
    }
}

/// A refused construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum IsolatedError {
    /// A length, a quantum or the calendar is out of range.
    Config(ConfigError),
    /// The ways, the number of queues or hosts, or lines that are too few.
    Table(TableError),
    /// [`Isolation::TripleIsolate`] without its tables:
    /// [`IsolatedMemory::with_triple`](super::IsolatedMemory::with_triple) makes them.
    NoTriple,
    /// A table is shorter than the queues or hosts ask for.
    Memory {
        /// What is in the table.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The least length accepted.
        needed: usize,
    },
}

impl From<ConfigError> for IsolatedError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<TableError> for IsolatedError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

impl fmt::Display for IsolatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::NoTriple => {
                write!(f, "triple-isolate: its tables are missing (expected another isolation)")
            }
            Self::Memory { what, given, needed } => {
                write!(f, "{what}: {given} elements, at least {needed} are needed")
            }
        }
    }
}

impl core::error::Error for IsolatedError {}
