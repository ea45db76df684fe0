//! *Shortest queue first* for audio and video: Figs. 3, 4 and 6 to 8, rule (3) and Table I.
//!
//! - [`theory`]: Figs. 3 and 4 by formula and by simulation of the queue, and rule (3)
//! - [`testbed`]: Fig. 6, Fig. 7 and Table I
//! - [`peak`]: the peak rate from which on SQF fails the video
//! - [`jitter`]: Fig. 8

pub mod formulas;
pub mod jitter;
mod overtaking;
pub mod peak;
pub mod saturated;
pub mod scenario;
pub mod testbed;
pub mod theory;
