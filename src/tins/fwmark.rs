//! Selection of a tin by a mark.

/// A mask of the mark's bits that select a tin, like `fwmark` of CAKE. The masked bits are shifted
/// down so that the lowest of them counts as 1. The value `n`, from 1 to the number of tins,
/// selects the `n`-th tin as they are shown ([`TinPlan::of_marked`](super::TinPlan::of_marked));
/// with any other value the code point decides.
///
/// ```
/// use freeboard::{Dscp, Fwmark, TinMode};
///
/// let (plan, fwmark) = (TinMode::Diffserv4.plan(), Fwmark::new(0x0f00));
/// assert_eq!([0x0400, 0x1234, 0x00ff].map(|mark| fwmark.value(mark)), [4, 2, 0]);
/// // The fourth of bulk, best effort, video and voice.
/// assert_eq!(plan.of_marked(fwmark.value(0x0400), Dscp::CS0), plan.of_dscp(Dscp::EF));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Fwmark(u32);

impl Fwmark {
    /// All bits: the mark itself.
    pub const ALL: Self = Self(u32::MAX);
    /// No bits: marks select no tin.
    pub const NONE: Self = Self(0);

    /// Creates a mask of these bits, which need not be adjacent.
    #[must_use]
    pub const fn new(mask: u32) -> Self {
        Self(mask)
    }

    /// Returns the mask.
    #[must_use]
    pub const fn mask(self) -> u32 {
        self.0
    }

    /// Returns the masked value of `mark`; 0 for a mask without bits. Cost: constant.
    #[inline]
    #[must_use]
    pub const fn value(self, mark: u32) -> u32 {
        match (mark & self.0).checked_shr(self.0.trailing_zeros()) {
            Some(value) => value,
            // A mask without bits.
            None => 0,
        }
    }
}

impl Default for Fwmark {
    /// Returns [`Fwmark::ALL`].
    fn default() -> Self {
        Self::ALL
    }
}
