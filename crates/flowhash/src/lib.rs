//! What is this packet? From bytes to the numbers a scheduler works with.
//!
//! ```text
//! bytes ─ parse ─▶ FlowKey ─ keyed hash ─▶ Labels ─ table ─▶ queue
//! ```
//!
//! 1. [`parse`] reads an Ethernet frame or an IP packet into a [`FlowKey`]. It is total: hostile,
//!    cut or foreign bytes have a key too, and the steps are bounded. A [`Parser`] looks into
//!    tunnels as well.
//! 2. A [`FlowHasher`] with a secret key turns it into [`Labels`]: [`SipHash13`] by default,
//!    [`HalfSipHash13`] on 32-bit microcontrollers, or a network card's number. A [`Labeller`] does
//!    it where tunnels are followed or addresses are translated.
//! 3. A [`FlowTable`] maps the flow's label to one of the caller's queues, apart from other flows
//!    as far as there are queues, and takes the queue back when it has emptied.
//!
//! The crate needs no operating system, allocates nothing, has no panicking path, knows nothing
//! of schedulers and reads no clock.
//!
//! # Examples
//!
//! Two packets of one flow meet in one queue; when the queue is empty, it is free again:
//!
//! ```
//! use flowhash::{Ending, Labels, TagLine, Outcome, SipHash13, FlowTable, parse};
//!
//! // UDP from 10.0.0.1 port 5004 to 192.0.2.1 port 5006, without payload.
//! let packet = [
//!     0x45, 0xb8, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1, //
//!     0x13, 0x8c, 0x13, 0x8e, 0, 8, 0, 0,
//! ];
//! let hasher = SipHash13::new([42; 16]); // in earnest: from the machine's random source
//! let mut table = FlowTable::new([TagLine::EMPTY; 128], 1024, 8)?;
//! let mut queues = vec![Vec::new(); 1024];
//!
//! let parsed = parse::ip(&packet);
//! assert_eq!(parsed.ending, Ending::Ports);
//! assert_eq!(parsed.ip.map(|ip| ip.dscp()), Some(46));
//! let labels = Labels::new(&parsed.key, &hasher);
//!
//! let first = table.lookup(labels.flow);
//! assert_eq!(first.outcome, Outcome::Claimed);
//! queues[first.queue as usize].push("first packet");
//!
//! let second = table.lookup(labels.flow);
//! assert_eq!((second.queue, second.outcome), (first.queue, Outcome::Hit));
//! queues[second.queue as usize].push("second packet");
//!
//! while let Some(_packet) = queues[first.queue as usize].pop() {}
//! assert!(table.release(first.queue));
//! # Ok::<(), flowhash::TableError>(())
//! ```
#![no_std]
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::todo,
    clippy::unimplemented,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::integer_division,
    clippy::modulo_arithmetic,
    clippy::float_arithmetic
)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::integer_division,
        clippy::cast_possible_truncation
    )
)]
#[cfg(test)]
extern crate std;

pub mod ack;
pub mod flow_table;
pub mod hash;
pub mod hosts;
pub mod key;
pub mod labels;
pub mod parse;

pub use ack::{Ack, SackBlocks, Timestamps};
pub use flow_table::{
    Counts, DEFAULT_WAYS, FlowTable, Lookup, MAX_QUEUES, Outcome, TableError, TagLine,
};
pub use hash::{FlowHasher, HalfSipHash, HalfSipHash13, SipHash13, mix};
pub use hosts::{
    ALONE_AFTER, ByAddress, HostBy, HostError, HostIdentity, HostMap, HostMember, MAX_MEMBERS,
    MAX_SEARCH, PrefixLengths,
};
pub use key::{FlowKey, HostBytes, HostKey, KeyBytes, Transport};
pub use labels::{Labeller, Labels, Nat, NoNat};
pub use parse::{Ending, FlowLabels, Inner, Ip, LinkEnd, LinkHeader, Parsed, Parser, Tunnels};

/// The examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
