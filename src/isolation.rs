//! Flows, hosts and tins of one queue: four records, and a queue that serves by them.
//!
//! | record | is | one for each |
//! |---|---|---|
//! | [`Flow`](records::Flow) | a place on the ring of its turn | queue |
//! | [`Turn`](records::Turn) | one host in one tin: a place on the ring of the tin, and the ring of its flows | host and tin |
//! | [`Host`](records::Host) | the tins that it holds packets in | entry of the table of hosts |
//! | [`Tin`](records::Tin) | the ring of the turns in it | tin |
//!
//! The number of a turn is `host << k | tin`: from a flow to its host and its tin is a shift, and
//! the turns of a host lie side by side. A packet is served by asking which tin is next
//! ([`TinChoice`](sched_core::TinChoice)), which turn of the tin, and which flow of the turn. Both
//! rings are deficit round robin with sparse ones first ([`Ring`](sched_core::Ring)).
//!
//! Where hosts do not count, all flows are of host 0 and nothing of a host is looked up.
//!
//! **`triple-isolate`.** The turns and flows are on no rings: each tin has rounds, and a flow has a
//! turn in every n-th of them (`rounds.rs`). A [`Turn`](records::Turn) then counts the flows of a
//! host of the local side; its hosts of the other side are in a table of their own.
//!
//! **Rates and ceilings.** A host conforms to its committed rate, is in excess of it, or waits at
//! its ceiling, with all of its turns at once (`rates.rs`). Those in excess are on one ring behind
//! all tins.
//!
//! **A full set of flows.** A flow that finds all ways of its set taken shares a queue of its own
//! host: that of its own way, if this is of the same turn, or else the *spare queue* of its host.
//! There is one for each host. Flows of a host that are crowded out in several tins at once share
//! it, and are then served in the tin that had it first. Where hosts do not count there is a spare
//! queue for each tin.
//!
//! **A full set of hosts.** Hosts share an entry: its turn in each tin, and its spare queue.
//!
//! **What is inherited.** A turn keeps what it owes, less than a quantum and a packet, and that it
//! is used up in this round. The next host that claims the entry has it. So an entry has one early
//! turn a round, whatever addresses its senders make up.
//!
//! **Other settings under load.** The records are begun anew, and each queued packet is offered
//! again under its labels: another isolation, another number of tins or another key
//! ([`Isolated::rebuild`]).
//!
//! **Cost.** A packet of a flow that is backlogged: a lookup, two rings and the choice among tins,
//! O(1). A packet of an idle flow: a lookup of its host more.

mod acks;
mod calendar;
mod config;
mod directory;
mod early;
mod memory;
mod mode;
mod parts;
mod quanta;
mod queue;
mod rates;
mod rebuild;
mod records;
mod rounds;
mod serve;
mod static_tables;
mod statistics;
mod tin_counters;
mod tins;

pub use config::{IsolatedConfig, IsolatedError};
pub(crate) use memory::is_long_enough;
pub use memory::{AqmMemory, IsolatedMemory};
pub use mode::Isolation;
pub use queue::Isolated;
pub use static_tables::StaticTables;
pub use tin_counters::TinCounters;

pub(crate) use static_tables::ALL;
