//! How much a call did, counted where a test or a search asks for it.
//!
//! - Turns of loops, with the feature `steps`. Everything outside a loop is a constant. So what a
//!   call costs is bounded if and only if the turns of its loops are, and these can be counted on
//!   any machine: `cargo xtask search-cost` looks for the call with the most. Without the feature
//!   [`step`] is nothing; with it, the crate needs `std`.
//! - Records looked at, in the tests of this crate. Elsewhere [`look`] is nothing.

/// A turn of a loop that a packet can cause, here or in a crate above this one.
#[cfg(not(feature = "steps"))]
#[inline(always)]
pub const fn step() {}

#[cfg(feature = "steps")]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// A turn of a loop that a packet can cause, here or in a crate above this one.
#[cfg(feature = "steps")]
pub fn step() {
    STEPS.with(|steps| steps.set(steps.get().saturating_add(1)));
}

/// Turns of loops in calls of this thread since it was asked last. Only with the feature `steps`.
#[cfg(feature = "steps")]
pub fn take_steps() -> u64 {
    STEPS.with(core::cell::Cell::take)
}

/// A record is looked at: a flow, a slot or a group of a discipline without loops.
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

/// Records looked at in calls of this thread since it was asked last.
#[cfg(test)]
pub(crate) fn take_looks() -> u32 {
    LOOKS.with(core::cell::Cell::take)
}
