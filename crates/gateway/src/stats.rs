//! Counters, delays, and the reports made of them.

pub(crate) mod accounts;
pub(crate) mod display;
pub(crate) mod flow_stats;
pub(crate) mod histogram;
pub(crate) mod host_terms;
pub(crate) mod metrics;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod tin_delays;
