#![no_main]

#[path = "../../crates/conformance/tests/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::ops_drr(bytes));
