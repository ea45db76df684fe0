//! How much a call did: turns of loops, counted where the feature `steps` asks for it.
//!
//! Everything outside a loop is a constant. So what a call costs is bounded if and only if the turns of its loops
//! are, and these can be counted on any machine: `cargo xtask search-cost` looks for the call with the most. Without
//! the feature [`step`] is nothing; with it, the crate needs `std`.

/// A turn of a loop that a packet can cause.
#[cfg(not(feature = "steps"))]
#[inline(always)]
pub(crate) const fn step() {}

#[cfg(feature = "steps")]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

#[cfg(feature = "steps")]
pub(crate) fn step() {
    STEPS.with(|steps| steps.set(steps.get().saturating_add(1)));
}

/// Turns of loops in calls of this thread since it was asked last. Only with the feature `steps`.
#[cfg(feature = "steps")]
pub fn take_steps() -> u64 {
    STEPS.with(core::cell::Cell::take)
}
