//! Tests of the clock, the framing and shaped schedulers through the public interface.

mod any_history;
mod any_scheduler;
mod framing_grid;
mod framing_table;
mod ingress;
mod long_run;
