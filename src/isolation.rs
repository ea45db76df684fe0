//! Host isolation: flows, hosts and tins of one queue, in four kinds of records, and the queue that
//! serves by them.
//!
//! | record | contents | one for each |
//! |---|---|---|
//! | [`Flow`](records::Flow) | position on the ring of its turn | queue |
//! | [`Turn`](records::Turn) | one host in one tin: position on the ring of the tin, and the ring of its flows | host and tin |
//! | [`Host`](records::Host) | the tins in which it is backlogged | entry of the table of hosts |
//! | [`Tin`](records::Tin) | the ring of the turns in it | tin |
//!
//! The number of a turn is `host << k | tin`: host and tin of a flow are found by a shift, and the
//! turns of a host are adjacent. The next packet is found by selecting a tin
//! ([`TinChoice`](sched_core::TinChoice)), a turn of the tin, and a flow of the turn. Both rings
//! are deficit round robin with sparse ones first ([`Ring`](sched_core::Ring)).
//!
//! In modes without hosts all flows belong to host 0, and no host is looked up.
//!
//! **`triple-isolate`.** Turns and flows are on no rings: each tin has rounds, and a flow has a
//! turn in every n-th of them (`rounds.rs`). A [`Turn`](records::Turn) then counts the flows of a
//! host of the local side; the hosts of the other side are in a separate table.
//!
//! **Rates and ceilings.** A host conforms to its committed rate, is in excess of it, or waits at
//! its ceiling, with all of its turns at once (`rates.rs`). The turns of hosts in excess are on one
//! ring, served after all tins.
//!
//! **A full set of flows.** A flow that finds all ways of its set taken shares a queue of its own
//! host: the queue of its own way if that belongs to the same turn, or else the *spare queue* of
//! its host. There is one for each host. Flows of a host that spill in several tins at once share
//! it, and are then served in the tin that had it first. In modes without hosts there is a spare
//! queue for each tin.
//!
//! **A full set of hosts.** Hosts share an entry: its turn in each tin, and its spare queue.
//!
//! **Inherited state.** A turn keeps its debt, which is less than a quantum and a packet, and
//! whether it is used up in this round; the next host that claims the entry inherits both. So an
//! entry has one early turn per round, however many addresses its senders make up.
//!
//! **Reconfiguration under load.** For another isolation, number of tins or key, all records are
//! reset and each queued packet is enqueued once more under its new labels ([`Isolated::rebuild`]).
//!
//! **Cost.** A packet of a backlogged flow: a lookup, two rings and the choice among tins, O(1). A
//! packet of an idle flow: also a lookup of its host.

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
