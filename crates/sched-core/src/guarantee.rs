//! Service guarantees of flow schedulers, in bytes.
//!
//! Times are *link times*: the bytes that the link sends in that time, so that a bound of `n` link
//! bytes is `n/R` seconds at rate `R`. `docs/guarantees.md` has definitions and derivations.

use core::num::{NonZeroU64, NonZeroU128};

use crate::ConfigError;

/// A flow's share of the link: a ratio in `(0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Share {
    /// At most the denominator.
    numerator: NonZeroU64,
    /// At most [`Share::MAX_DENOMINATOR`].
    denominator: NonZeroU64,
}

impl Share {
    /// The largest denominator. It keeps `denominator · bytes` below 2^125 for up to 2^63 bytes,
    /// which take 23 years at 100 Gbit/s.
    pub const MAX_DENOMINATOR: u64 = 1 << 62;

    /// Creates the share `numerator / denominator`.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `denominator` is in `1..=`[`Share::MAX_DENOMINATOR`] and
    /// `numerator` in `1..=denominator`.
    pub const fn new(numerator: u64, denominator: u64) -> Result<Self, ConfigError> {
        let most = Self::MAX_DENOMINATOR;
        let (Some(d), true) = (NonZeroU64::new(denominator), denominator <= most) else {
            let what = "denominator of a share";
            return Err(ConfigError::OutOfRange { what, value: denominator, min: 1, max: most });
        };
        match NonZeroU64::new(numerator) {
            Some(n) if numerator <= denominator => Ok(Self { numerator: n, denominator: d }),
            _ => {
                let what = "numerator of a share";
                Err(ConfigError::OutOfRange { what, value: numerator, min: 1, max: denominator })
            }
        }
    }

    /// Returns the numerator.
    #[must_use]
    pub const fn numerator(self) -> u64 {
        self.numerator.get()
    }

    /// Returns the denominator.
    #[must_use]
    pub const fn denominator(self) -> u64 {
        self.denominator.get()
    }

    /// Returns the product of this share and `of`: the share of the link that a flow has if it has
    /// this share of a class that has the share `of`. If the denominator becomes too large, the
    /// result is rounded down by less than `3/`[`Share::MAX_DENOMINATOR`].
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if the result rounds to zero.
    #[expect(clippy::integer_division, reason = "by type never by zero; rounded down")]
    pub fn part_of(self, of: Self) -> Result<Self, ConfigError> {
        let numerator = u128::from(self.numerator()) * u128::from(of.numerator());
        let denominator = u128::from(self.denominator()) * u128::from(of.denominator());
        let narrow = |product: u128| u64::try_from(product).unwrap_or(u64::MAX);
        if denominator <= Self::MAX_DENOMINATOR.into() {
            return Self::new(narrow(numerator), narrow(denominator));
        }
        // Both are below 2^125. Truncated to 66 bits, the numerator still fits after a shift by 62.
        let cut = 62_u32.saturating_sub(numerator.leading_zeros());
        let wide = numerator.unbounded_shr(cut).unbounded_shl(62);
        let below =
            NonZeroU128::new(denominator.unbounded_shr(cut).saturating_add(u128::from(cut > 0)));
        let parts = below.map_or(0, |below| wide / below);
        Self::new(narrow(parts), Self::MAX_DENOMINATOR)
    }

    /// Returns `⌈link · φ⌉`: the bytes of the flow among `link` bytes of the link.
    #[must_use]
    pub fn of_link(self, link: u64) -> u64 {
        ceil(u128::from(link) * u128::from(self.numerator()), self.denominator)
    }

    /// Returns `⌈own / φ⌉`, saturating: the bytes that the link sends while the flow gets `own`
    /// bytes.
    #[must_use]
    pub fn link_of(self, own: u64) -> u64 {
        ceil(u128::from(own) * u128::from(self.denominator()), self.numerator)
    }

    /// Returns `⌈scaled / denominator⌉`, 0 if negative: bytes of the flow.
    fn own_bytes(self, scaled: i128) -> u64 {
        ceil(u128::try_from(scaled).unwrap_or(0), self.denominator)
    }

    /// Returns `⌈scaled / numerator⌉`, 0 if negative: bytes of the link.
    fn link_bytes(self, scaled: i128) -> u64 {
        ceil(u128::try_from(scaled).unwrap_or(0), self.numerator)
    }
}

/// Returns `⌈dividend / divisor⌉`, saturating.
pub(crate) fn ceil(dividend: u128, divisor: NonZeroU64) -> u64 {
    u64::try_from(ceil_wide(dividend, divisor)).unwrap_or(u64::MAX)
}

/// Returns `⌊dividend / divisor⌋`.
#[expect(clippy::integer_division, reason = "by type never by zero; rounded down")]
pub(crate) fn floor_wide(dividend: u128, divisor: NonZeroU64) -> u128 {
    dividend / NonZeroU128::from(divisor)
}

/// Returns `⌈dividend / divisor⌉`.
#[expect(clippy::integer_division, reason = "by type never by zero; rounded up")]
pub(crate) fn ceil_wide(dividend: u128, divisor: NonZeroU64) -> u128 {
    let divisor = NonZeroU128::from(divisor);
    let below = dividend / divisor;
    let exact = below.wrapping_mul(divisor.get()) == dividend;
    below.saturating_add(u128::from(!exact))
}

/// The service that a flow scheduler guarantees to one flow while no configuration changes and no
/// packet of the flow is dropped. The method of the flow scheduler that returns the guarantee
/// documents what holds after a change, and from when on the full guarantee holds again.
///
/// Of `W` bytes that the link sends while the flow is backlogged, the flow gets at least `φW` less
/// [`Self::b_wfi`]. *Backlogged* is the scheduler's view: until the dequeue that empties the queue.
/// A packet that arrives while the last one is still on the wire begins a new backlog. For B-WFI
/// and T-WFI, service is counted byte by byte on the wire; for [`Self::fairness`] it is counted at
/// the dequeue.
///
/// ```
/// use sched_core::{Drr, DrrFlow, FlowId};
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 4], 1_500)?;
/// drr.add_all(1_500)?;
/// let promise = drr.guarantee(FlowId(0)).expect("the flow was added");
/// assert_eq!((promise.share.numerator(), promise.share.denominator()), (1_500, 6_000));
/// // Each other flow may have a turn first, of its quantum and an overdraft.
/// assert!(promise.latency >= 3 * 1_500);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Guarantee {
    /// `φ`: the share of the link.
    pub share: Share,
    /// `B-WFI/φ` in bytes of the link, rounded up: the latency of the equivalent rate-latency
    /// server. In time it is the longest that a flow waits for service that it would have had on a
    /// private link of rate `φR`.
    pub latency: u64,
    /// `ω` in bytes of the link, rounded up. The relative fairness bound: two flows `a` and `b`
    /// that stay backlogged are served in the ratio of their shares up to `|W_a/φ_a − W_b/φ_b| ≤
    /// ω_a + ω_b`.
    pub fairness: u64,
}

impl Guarantee {
    /// Returns the guarantee that a flow of a [hierarchy](crate::Classes) has on the link. `self`
    /// is the guarantee of the flow in its class, and `class` the guarantee of the class in the
    /// node above. Compose level by level, starting at the flow.
    ///
    /// B-WFI adds up, that of the class weighted by the share in it: `α + ψ·α_class`, which in
    /// bytes of the link is `latency/ψ_class + latency_class`. `fairness` holds between flows of
    /// the same class. Between flows of different classes there is no such bound, because a class
    /// with fewer flows divides unused capacity among fewer. See `docs/proofs/hierarchy.md`.
    ///
    /// # Errors
    /// See [`Share::part_of`].
    pub fn in_class(&self, class: &Self) -> Result<Self, ConfigError> {
        let above = |bytes| class.share.link_of(bytes);
        Ok(Self {
            share: self.share.part_of(class.share)?,
            latency: above(self.latency).saturating_add(class.latency),
            fairness: above(self.fairness),
        })
    }

    /// Returns the B-WFI: the largest `φW − W_k` in bytes over all intervals in which the flow
    /// stays backlogged, rounded up.
    #[must_use]
    pub fn b_wfi(&self) -> u64 {
        self.share.of_link(self.latency)
    }

    /// Returns the B-WFI over the intervals that end when a packet of `len` bytes of the flow is
    /// completely sent. It is less by `(1 − φ)·len`, because that packet is service of the flow.
    #[must_use]
    pub fn b_wfi_at_completion(&self, len: u32) -> u64 {
        self.share.own_bytes(self.scaled_latency() - self.scaled_others_share(len))
    }

    /// Returns the T-WFI of a packet of `len` bytes in bytes of link time, rounded up: how much
    /// later, at most, the packet is completely sent than on a private link of rate `φR`. That link
    /// sends everything the flow had when the packet arrived: the packet itself, those before it,
    /// and the rest of a packet on the wire.
    ///
    /// The T-WFI follows from the B-WFI. The flow is backlogged until the packet starts, so until
    /// then the link sends at most `(work ahead)/φ + latency`. The packet then takes `len`, and on
    /// the private link `len/φ`.
    #[must_use]
    pub fn t_wfi(&self, len: u32) -> u64 {
        self.share.link_bytes(self.scaled_latency() - self.scaled_others_share(len))
    }

    /// Returns `φ·latency` times the denominator of `φ`. Below 2^64 · 2^62.
    fn scaled_latency(&self) -> i128 {
        i128::from(self.latency) * i128::from(self.share.numerator())
    }

    /// Returns `(1 − φ)·len` times the denominator. Below 2^62 · 2^32.
    fn scaled_others_share(&self, len: u32) -> i128 {
        let others = self.share.denominator() - self.share.numerator();
        i128::from(others) * i128::from(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_zero_and_at_most_one() {
        let refused = |numerator, denominator| Share::new(numerator, denominator).is_err();
        assert!(refused(0, 1) && refused(1, 0) && refused(3, 2) && refused(0, 0));
        assert!(refused(1, Share::MAX_DENOMINATOR + 1));
        let share = Share::new(Share::MAX_DENOMINATOR, Share::MAX_DENOMINATOR).unwrap();
        assert_eq!(share.of_link(u64::MAX), u64::MAX);
        assert_eq!(Share::new(1, 1 << 62).unwrap().link_of(4), u64::MAX);
    }

    #[test]
    fn bytes_are_rounded_up() {
        let share = Share::new(2, 7).unwrap();
        assert_eq!((share.of_link(7), share.of_link(8)), (2, 3));
        assert_eq!((share.link_of(2), share.link_of(3)), (7, 11));
        assert_eq!((share.own_bytes(-1), share.own_bytes(0), share.own_bytes(8)), (0, 0, 2));
        assert_eq!((share.link_bytes(-1), share.link_bytes(4), share.link_bytes(5)), (0, 2, 3));
    }

    /// A tenth of a quarter: 100 bytes of the class are 400 of the link.
    #[test]
    fn in_a_class_shares_multiply_and_latencies_add_up() {
        let flow = Guarantee { share: Share::new(1, 10).unwrap(), latency: 100, fairness: 30 };
        let class = Guarantee { share: Share::new(1, 4).unwrap(), latency: 50, fairness: 7 };
        let composed = flow.in_class(&class).unwrap();
        let share = Share::new(1, 40).unwrap();
        assert_eq!(composed, Guarantee { share, latency: 450, fairness: 120 });
        // 10 bytes in the class itself, and a tenth of the 13 of the class.
        assert_eq!((flow.b_wfi(), class.b_wfi(), composed.b_wfi()), (10, 13, 12));
    }

    #[test]
    fn a_product_that_is_too_long_is_rounded_down() {
        let most = Share::MAX_DENOMINATOR;
        let all_but_one = Share::new(most - 1, most).unwrap();
        let square = all_but_one.part_of(all_but_one).unwrap();
        // (1 - e)^2 = 1 - 2e + e^2
        assert_eq!((square.numerator(), square.denominator()), (most - 3, most));
        let third = Share::new(1, 3).unwrap();
        let product = Share::new(1 << 61, most).unwrap().part_of(third).unwrap();
        assert_eq!((product.numerator(), product.denominator()), (most / 6, most));
        let least = Share::new(1, most).unwrap();
        assert_eq!(least.part_of(Share::new(1, 1).unwrap()), Ok(least));
        assert!(least.part_of(least).is_err() && least.part_of(third).is_err());
    }

    /// `φ = 1/4` and 1,000 link bytes: 250 bytes of the flow. A packet of 100 bytes at the end
    /// takes off 75, which are 300 in link time.
    #[test]
    fn time_and_completion_follow_from_the_latency() {
        let share = Share::new(1, 4).unwrap();
        let guarantee = Guarantee { share, latency: 1_000, fairness: 0 };
        assert_eq!(guarantee.b_wfi(), 250);
        assert_eq!((guarantee.b_wfi_at_completion(100), guarantee.t_wfi(100)), (175, 700));
        assert_eq!((guarantee.b_wfi_at_completion(1_000), guarantee.t_wfi(1_000)), (0, 0));
    }
}
