//! Counters of the work that a call does, for tests and for searches for expensive calls.
//!
//! - Loop iterations, with the feature `steps`. Everything outside loops takes constant time, so
//!   the cost of a call is bounded if and only if its iterations are, and these can be counted on
//!   any machine: `cargo xtask search-cost` looks for the call with the most. Without the feature
//!   [`step`] does nothing; with it, the crate needs `std`.
//! - Records accessed, in the tests of this crate. Elsewhere [`look`] does nothing.

/// Counts an iteration of a loop that a packet can cause, in this crate or one that uses it.
#[cfg(not(feature = "steps"))]
#[inline(always)]
pub const fn step() {}

#[cfg(feature = "steps")]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts an iteration of a loop that a packet can cause, in this crate or one that uses it.
#[cfg(feature = "steps")]
pub fn step() {
    STEPS.with(|steps| steps.set(steps.get().saturating_add(1)));
}

/// Returns the loop iterations of this thread since the last call, and resets them. Only with the
/// feature `steps`.
#[cfg(feature = "steps")]
pub fn take_steps() -> u64 {
    STEPS.with(core::cell::Cell::take)
}

/// Counts an access to a record: a flow, a slot or a group of a discipline without loops.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn look() {}

#[cfg(test)]
std::thread_local! {
    static LOOKS: core::cell::Cell<u32> = const { core::cell::Cell::new(0) };
}

#[cfg(test)]
pub(crate) fn look() {
    LOOKS.with(|looks| looks.set(looks.get().saturating_add(1)));
}

/// Returns the records accessed by this thread since the last call, and resets the count.
#[cfg(test)]
pub(crate) fn take_looks() -> u32 {
    LOOKS.with(core::cell::Cell::take)
}
