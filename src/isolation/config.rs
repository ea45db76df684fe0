//! Configuration of an isolated queue, and its errors.

use core::fmt;

use flowhash::TableError;
use sched_core::{ConfigError, Limits, Side};

use super::mode::Isolation;

/// Configuration of an [`Isolated`](crate::Isolated) queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct IsolatedConfig {
    /// The isolation of hosts and flows.
    pub isolation: Isolation,
    /// The longest packet in bytes.
    pub max_len: u32,
    /// The quantum of a queue in bytes, at least `max_len`.
    ///
    /// Quanta are shares, not sizes. Permitting long packets does not make turns longer: a quantum
    /// of `max_len` is worth less than two of the longest packets sent so far, or of frames of
    /// 1,514 bytes. Sending a long packet does, until the next [rebuild](crate::Isolated::rebuild)
    /// or [key](crate::Isolated::relabel).
    pub quantum: u32,
    /// The quantum of a host without another in
    /// [`Labelled::host_terms`](crate::Labelled::host_terms), at least `max_len`.
    pub host_quantum: u32,
    /// The number of ways of the sets of all tables: 1, 2, 4, 8 or 16.
    pub ways: u32,
    /// The limits of the queue.
    pub limits: Limits,
    /// The side whose hosts are isolated from each other in [`Isolation::TripleIsolate`]: the
    /// source for uploads, the destination for downloads. In that mode the hosts of both sides
    /// count for shares, but only the hosts of this side determine which flow is dropped from, to
    /// which spare queue a flow goes, and how many turns begin early. The other modes determine
    /// the side themselves.
    pub local_side: Side,
}

impl IsolatedConfig {
    /// An Ethernet frame of 1,500 bytes with its header.
    pub(crate) const A_FRAME: u32 = 1_514;

    /// Creates a configuration for `dual-srchost` with quanta of the longest packet and sets of
    /// eight ways; the local side is the source.
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

    /// Sets the isolation.
    #[must_use]
    pub const fn isolated_by(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    /// Sets the [`local_side`](Self::local_side).
    #[must_use]
    pub const fn with_local_side(self, local_side: Side) -> Self {
        Self { local_side, ..self }
    }
}

/// Error of building an [`Isolated`](crate::Isolated) queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum IsolatedError {
    /// A length, a quantum or the calendar is out of range.
    Config(ConfigError),
    /// The ways or the number of queues or hosts are out of range, or there are too few tag lines.
    Table(TableError),
    /// [`Isolation::TripleIsolate`] without its tables, which
    /// [`IsolatedMemory::with_triple`](super::IsolatedMemory::with_triple) adds.
    NoTriple,
    /// A table is too short for the number of queues or hosts.
    Memory {
        /// The contents of the table.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The shortest possible length.
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
                write!(f, "triple-isolate: tables are missing (expected another isolation)")
            }
            Self::Memory { what, given, needed } => {
                write!(f, "{what}: {given} elements (expected {needed} or more)")
            }
        }
    }
}

impl core::error::Error for IsolatedError {}
