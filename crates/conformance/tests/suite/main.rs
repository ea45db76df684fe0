//! All tests in one binary, so that shared code is built once.

mod ack_filter;
mod ack_options;
mod aqm;
mod catalog;
mod contract;
mod debts;
mod differential;
mod dual_pi2;
mod ecn;
mod every_aqm;
mod every_discipline;
mod exhaustive;
mod failures_page;
mod fuzz_corpus;
mod hierarchy;
mod ideal;
mod isolated;
mod judged;
mod known_failures;
mod pie;
mod qfq_rules;
mod weights;
mod wf2q_bounds;
