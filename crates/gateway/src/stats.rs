//! What is counted, and how it is told.

pub(crate) mod accounts;
pub(crate) mod display;
pub(crate) mod flow_stats;
pub(crate) mod histogram;
pub(crate) mod host_terms;
pub(crate) mod metrics;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod tin_delays;
