//! Packet classification: turns the bytes of a packet into a flow key, keyed hashes and a queue.
//!
//! ```text
//! bytes ─ parse ─▶ FlowKey ─ keyed hash ─▶ Labels ─ table ─▶ queue
//! ```
//!
//! The crate answers one question of a packet scheduler: *which flow, and which hosts*. It works
//! for gateways and microcontrollers alike: no operating system, no allocation, no panicking path,
//! no clock, and no dependency on a scheduler.
//!
//! # Parts
//! 1. [`parse`] reads an Ethernet frame or an IP packet into a [`FlowKey`]. Parsing never fails:
//!    hostile, truncated or foreign bytes get a key too, in a bounded number of steps. A [`Parser`]
//!    also follows tunnels.
//! 2. A [`FlowHasher`] with a secret key turns the key into [`Labels`]: [`SipHash13`] by default,
//!    [`HalfSipHash13`] on 32-bit microcontrollers, or the hash of a network card, spread by
//!    [`mix`]. Use a [`Labeller`] if tunnels are followed or addresses are translated.
//! 3. A [`FlowTable`] maps a flow's label to one of your queues. It separates flows as far as there
//!    are queues, and takes a queue back once it has emptied.
//!
//! Optional: a [`HostMap`] decides which addresses count as one host, and [`Ack`] recognizes pure
//! TCP acknowledgements, for ACK filters.
//!
//! # Example
//! Two packets of one flow get the same queue; once it is empty, other flows may use it:
//!
//! ```
//! use flowhash::{Ending, FlowTable, Labels, Outcome, SipHash13, TagLine, parse};
//!
//! // UDP from 10.0.0.1 port 5004 to 192.0.2.1 port 5006, without payload.
//! let packet = [
//!     0x45, 0xb8, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1, //
//!     0x13, 0x8c, 0x13, 0x8e, 0, 8, 0, 0,
//! ];
//! let hasher = SipHash13::new([42; 16]); // in production: bytes of a secure random source
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
//!
//! # Where to go next
//! - [`key`] lists the key of every kind of packet, and [`parse`] the tunnels that are followed.
//! - [`hash`] explains why the hash key must be secret.
//! - [`flow_table`] explains when a queue is in use, collisions, and changing the key.
//! - The package `freeboard` combines this crate with `sched_core` and `shaper` in its
//!   `SmartQueue`.
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

/// Examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
