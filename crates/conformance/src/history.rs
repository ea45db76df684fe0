//! One language for everything that can be done to a scheduler, and a match of two that are to
//! agree.
//!
//! The same [`Operation`]s are enumerated ([`explore`]), drawn at random ([`Operations`]) and
//! decoded from the bytes of a fuzzer ([`operations`]). A [`Match`] does each to both sides and
//! compares all that can be seen. It also keeps its own ledger of every handle, so that two sides
//! that agree on something wrong are noticed where the contract says what is right. A difference
//! comes with the shortest history that shows it ([`check`]).

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
