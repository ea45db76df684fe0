//! Whole experiments: which host sends what to which over which line, and what is to be measured.

pub mod attack;
pub mod downloads;
pub mod home_gateway;
pub mod sparse;
pub mod three_routers;
pub mod two_sources;
pub mod users;
