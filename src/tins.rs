//! Tins: classes of the line, and which packet belongs to which.
//!
//! A plan says which tins there are, what each is promised, and where packets go by their code
//! points. It schedules nothing.

mod dscp;
mod error;
mod fwmark;
mod mode;
mod name;
mod plan;
mod share;
mod tin_by;

pub use dscp::Dscp;
pub use error::TinPlanError;
pub use fwmark::Fwmark;
pub use mode::TinMode;
pub use name::TinName;
pub use plan::{Tin, TinPlan};
pub use share::TinShare;
pub use tin_by::TinBy;
