//! Tins: classes of the link, and the mapping of packets to them.
//!
//! A plan defines the tins, their guaranteed rates, and the tin of each code point. It does no
//! scheduling.

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
