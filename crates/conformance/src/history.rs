//! Sequences of operations on a scheduler, and a comparison of two schedulers that must agree.
//!
//! [`Operation`]s are enumerated ([`explore`]), drawn at random ([`Operations`]) or decoded from
//! the bytes of a fuzzer ([`operations`]). A [`Match`] applies each to both sides and compares
//! everything observable. It also keeps its own ledger of all handles, to detect cases in which
//! both sides agree but violate the contract. A difference is reported with the shortest sequence
//! that shows it ([`check`]).

mod churn;
mod contestant;
mod exhaustive;
mod frames;
mod indifference;
mod judged;
mod labelled;
mod ledger;
mod lockstep;
mod operation;
mod shortest;

pub use crate::catalog::{Dial, Setting};
pub use churn::Coming;
pub(crate) use contestant::nothing_to_set;
pub use contestant::{ConfigurableScheduler, Order, Pair, pair};
pub use exhaustive::explore;
pub use frames::play_frames;
pub use indifference::{Peeked, Shifted};
pub use judged::{AQMS, Signals, play_aqm};
pub use labelled::{Coverage, Shape, WithTerms, play_labelled};
pub use lockstep::Match;
pub use operation::{DESCRIPTORS, FLOWS, Operation, Operations, operations, prelude};
pub use shortest::{Difference, check, soak, soak_on};
