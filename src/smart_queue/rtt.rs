//! Round-trip times, and the AQM parameters and limits derived from them.

use core::fmt;
use core::str::FromStr;

use sched_core::{
    BlueParams, CoDelParams, CobaltParams, ConfigError, Nanos, Pi2Params, PieParams, RedParams,
};
use shaper::Rate;

use crate::UnknownKeyword;

/// The round-trip time of a typical flow, from which the AQM and the default limit are derived.
///
/// A queue may hold packets for one round-trip time, since a sender cannot react sooner; a standing
/// delay of 5 % of it is acceptable (RFC 8289 §4.2, §4.3). Keywords and values are those of CAKE:
///
/// | keyword | round-trip time | target |
/// |---|---|---|
/// | `datacentre` | 100 µs | 5 µs |
/// | `lan` | 1 ms | 50 µs |
/// | `metro` | 10 ms | 0.5 ms |
/// | `regional` | 30 ms | 1.5 ms |
/// | `internet` | 100 ms | 5 ms |
/// | `oceanic` | 300 ms | 15 ms |
/// | `satellite` | 1 s | 50 ms |
///
/// ```
/// use freeboard::Rtt;
/// use freeboard::sched_core::Nanos;
///
/// let rtt: Rtt = "regional".parse()?;
/// assert_eq!(rtt, Rtt::REGIONAL);
/// assert_eq!((rtt.span(), rtt.target()), (Nanos::from_millis(30), Nanos::from_micros(1_500)));
/// let rtt: Rtt = "45ms".parse()?;
/// assert_eq!((rtt.span(), rtt.to_string()), (Nanos::from_millis(45), "45ms".to_owned()));
/// # Ok::<(), freeboard::UnknownKeyword>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rtt(Nanos);

/// Round-trip times that a queue may hold: one for a sender that fills the link, and three for
/// others.
const ROUND_TRIPS: u128 = 4;
/// Fewest packets of the longest length that a queue may hold.
const FEWEST: u32 = 32;
/// Most bytes that a queue holds unless the caller sets limits: 16 MiB.
const MOST_BYTES: u32 = 1 << 24;
/// Longest target, period and burst of PIE and PI2, and their largest gain.
const LONGEST_TARGET: u64 = 1_000_000_000;
const LONGEST_BURST: u64 = 4_000_000_000;
const GREATEST_MILLIHERTZ: u64 = 1_000_000;
/// Minimum of RED's first threshold, in packets of the longest length.
const RED_PACKETS: u32 = 5;
/// RED's thresholds are in bytes; without a rate they are those for 1 Gbit/s.
const RED_BITS_PER_SECOND: u64 = 1_000_000_000;
/// Longest packet time of RED.
const LONGEST_PACKET_TIME: u64 = 1 << 30;

impl Rtt {
    /// The preset `datacentre`: 100 µs.
    pub const DATACENTRE: Self = Self(Nanos::from_micros(100));
    /// The preset `lan`: 1 ms.
    pub const LAN: Self = Self(Nanos::from_millis(1));
    /// The preset `metro`: 10 ms.
    pub const METRO: Self = Self(Nanos::from_millis(10));
    /// The preset `regional`: 30 ms.
    pub const REGIONAL: Self = Self(Nanos::from_millis(30));
    /// The preset `internet`: 100 ms.
    pub const INTERNET: Self = Self(Nanos::from_millis(100));
    /// The preset `oceanic`: 300 ms.
    pub const OCEANIC: Self = Self(Nanos::from_millis(300));
    /// The preset `satellite`: 1 s.
    pub const SATELLITE: Self = Self(Nanos::from_secs(1));

    /// The presets with their keywords, the shortest first.
    pub const PRESETS: &'static [(&'static str, Self)] = &[
        ("datacentre", Self::DATACENTRE),
        ("lan", Self::LAN),
        ("metro", Self::METRO),
        ("regional", Self::REGIONAL),
        ("internet", Self::INTERNET),
        ("oceanic", Self::OCEANIC),
        ("satellite", Self::SATELLITE),
    ];

    /// Shortest round-trip time: its target is 1,024 ns, the resolution of sojourn times.
    pub(crate) const SHORTEST: u64 = 20 * 1_024;
    /// Longest interval of [`CoDelParams`].
    pub(crate) const LONGEST: u64 = (1 << 33) - 1;

    /// Creates a round-trip time from 20,480 ns to 2^33 − 1 ns (8.6 s).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] outside of this range.
    pub const fn new(span: Nanos) -> Result<Self, ConfigError> {
        if span.0 < Self::SHORTEST || span.0 > Self::LONGEST {
            let (what, value) = ("round-trip time in ns", span.0);
            let (min, max) = (Self::SHORTEST, Self::LONGEST);
            return Err(ConfigError::OutOfRange { what, value, min, max });
        }
        Ok(Self(span))
    }

    /// Returns the keyword of the preset that this is, if any.
    pub(crate) fn preset(self) -> Option<&'static str> {
        Self::PRESETS.iter().find(|(_, preset)| *preset == self).map(|(word, _)| *word)
    }

    /// Returns the round-trip time.
    #[must_use]
    pub const fn span(self) -> Nanos {
        self.0
    }

    /// Returns the acceptable standing delay: 5 % of the round-trip time.
    #[must_use]
    #[expect(clippy::integer_division, reason = "by a constant, at construction")]
    pub const fn target(self) -> Nanos {
        Nanos(self.0.0 / 20)
    }

    /// Returns the default limit in bytes of a queue on a link of this rate: what the rate carries
    /// in four round-trip times, at least 32 packets of `max_len` and at most 16 MiB.
    ///
    /// One round-trip time is for a sender that fills the link, three are for others. This bounds
    /// the backlog of an unresponsive flow.
    ///
    /// ```
    /// use freeboard::Rtt;
    /// use freeboard::shaper::Rate;
    ///
    /// assert_eq!(Rtt::INTERNET.limit_bytes(Rate::megabits_per_second(10)?, 1_514), 500_000);
    /// assert_eq!(Rtt::INTERNET.limit_bytes(Rate::kilobits_per_second(500)?, 1_514), 32 * 1_514);
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn limit_bytes(self, rate: Rate, max_len: u32) -> u32 {
        self.carried(rate).min(MOST_BYTES).max(max_len.saturating_mul(FEWEST))
    }

    /// Returns the bytes that the rate carries in [`ROUND_TRIPS`].
    #[expect(clippy::integer_division, reason = "by a constant, when a rate is set")]
    pub(super) fn carried(self, rate: Rate) -> u32 {
        let Some(bits) = rate.as_bits_per_second() else { return u32::MAX };
        let bits = u128::from(bits).saturating_mul(self.0.0.into()).saturating_mul(ROUND_TRIPS);
        u32::try_from(bits / 8_000_000_000).unwrap_or(u32::MAX)
    }

    /// Returns CoDel parameters for a link of this rate. The target is 5 % of the round-trip time,
    /// or the transmission time of two of the longest packets if that is more. The interval is the
    /// round-trip time plus what was added to the target, at least two targets.
    ///
    /// On a slow link a packet behind only one other has waited longer than 5 %: at 1 Mbit/s two
    /// frames take 24 ms. A shorter target would signal congestion without a standing queue (RFC
    /// 8289 §4.3). The interval grows with it, like CAKE's: a sender cannot react before its
    /// packets have left the link.
    ///
    /// The longest target is 4.3 s, and the longest interval 8.6 s. Below 5.6 kbit/s two frames of
    /// 1,514 bytes take longer than that: at 1 kbit/s one frame takes 12 s, and each frame that
    /// waited for another counts as above the target. CoDel still signals no packet with one `mtu`
    /// or less behind it, so a queue of two frames is always permitted.
    #[must_use]
    pub fn codel(self, rate: Rate, max_len: u32) -> CoDelParams {
        let two = rate.time_of(max_len.saturating_mul(2));
        let target = self.target().max(two).min(Nanos(Self::LONGEST >> 1));
        let later = self.span().plus(target.since(self.target()));
        let interval = later.max(target.plus(target)).min(Nanos(Self::LONGEST));
        CoDelParams::new(target, interval).with_mtu(max_len)
    }

    /// Returns COBALT parameters for a link of this rate, or for a class of a link that is promised
    /// this rate, following CAKE. The target is 5 % of the round-trip time, or one and a half
    /// transmission times of the longest packet if that is more. The interval is the round-trip
    /// time plus what was added to the target, at least two targets.
    ///
    /// One and a half where [`Rtt::codel`] has two, because COBALT, unlike CoDel, never signals a
    /// packet that waited for four of the longest packets or less.
    ///
    /// ```
    /// use freeboard::Rtt;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let slow = Rtt::INTERNET.cobalt(Rate::megabits_per_second(1)?, 1_514);
    /// assert_eq!(slow.target_on_line(), Nanos::from_micros(18_168));
    /// assert_eq!(slow.interval_on_line(), Nanos::from_micros(113_168));
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn cobalt(self, rate: Rate, max_len: u32) -> CobaltParams {
        let mtu_time = rate.time_of(max_len).min(Nanos(Self::LONGEST));
        CobaltParams::new(self.target(), self.span()).with_mtu_time(mtu_time).with_mtu(max_len)
    }

    /// Returns PIE parameters for a link of this rate: the values of RFC 8033 for a round-trip time
    /// of 100 ms, scaled for others. Target and period are 15 % of the round-trip time, the burst
    /// allowance is 150 % of it, and the gains are inversely proportional to it. The target is the
    /// transmission time of two of the longest packets if that is more.
    ///
    /// Target and period are at most 1 s, the burst allowance 4 s, and the gains 1 kHz.
    ///
    /// ```
    /// use freeboard::Rtt;
    /// use freeboard::sched_core::{Nanos, PieParams};
    /// use freeboard::shaper::Rate;
    ///
    /// let fast = Rate::megabits_per_second(100)?;
    /// assert_eq!(Rtt::INTERNET.pie(fast, 1_514), PieParams::default());
    /// let near = Rtt::METRO.pie(fast, 1_514);
    /// assert_eq!((near.target, near.alpha_millihertz), (Nanos::from_micros(1_500), 1_250));
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn pie(self, rate: Rate, max_len: u32) -> PieParams {
        let published = PieParams::default();
        let burst = self.scaled(published.max_burst, LONGEST_BURST);
        let period = self.scaled(published.period, LONGEST_TARGET);
        let gains = [published.alpha_millihertz, published.beta_millihertz];
        let [alpha, beta] = gains.map(|millihertz| self.gain(millihertz));
        let params = PieParams::new(self.delay_target(rate, max_len)).with_period(period);
        params.with_max_burst(burst).with_gains(alpha, beta).with_mtu(max_len)
    }

    /// Returns PI2 parameters for a link of this rate: the values of RFC 9332 for a round-trip time
    /// of 100 ms, scaled for others like those of [`Rtt::pie`].
    #[must_use]
    pub fn pi2(self, rate: Rate, max_len: u32) -> Pi2Params {
        let published = Pi2Params::default();
        let period = self.scaled(published.period, LONGEST_TARGET);
        let gains = [published.alpha_millihertz, published.beta_millihertz];
        let [alpha, beta] = gains.map(|millihertz| self.gain(millihertz));
        let params = Pi2Params::new(self.delay_target(rate, max_len)).with_period(period);
        params.with_gains(alpha, beta).with_mtu(max_len)
    }

    /// Returns RED parameters for a link of this rate, adaptive and gentle, following *Adaptive
    /// RED* (Floyd and others, 2001). The first threshold is half of what the rate carries in
    /// [`Rtt::target`], at least five of the longest packets, and the second is three times the
    /// first. The weight of the average is one over the number of packets that the rate carries in
    /// a round-trip time, rounded down to a power of two. The paper uses ten round-trip times, but
    /// after such a slow average a queue of one flow would stay empty for long.
    ///
    /// On a link without a rate the thresholds are those for 1 Gbit/s; the second is at most 1 GiB.
    ///
    /// ```
    /// use freeboard::Rtt;
    /// use freeboard::shaper::Rate;
    ///
    /// let red = Rtt::INTERNET.red(Rate::megabits_per_second(100)?, 1_514);
    /// assert_eq!((red.min_threshold, red.max_threshold, red.weight), (31_250, 93_750, 9));
    /// let red = Rtt::INTERNET.red(Rate::megabits_per_second(1)?, 1_514);
    /// assert_eq!((red.min_threshold, red.max_threshold, red.weight), (7_570, 22_710, 3));
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[must_use]
    #[expect(clippy::integer_division, reason = "when a rate is set")]
    pub fn red(self, rate: Rate, max_len: u32) -> RedParams {
        const MOST: u64 = (RedParams::MAX_THRESHOLD / 3) as u64;
        let bits = u128::from(rate.as_bits_per_second().unwrap_or(RED_BITS_PER_SECOND));
        let carried = bits.saturating_mul(self.target().0.into()) / 8_000_000_000;
        let half = u64::try_from(carried >> 1).unwrap_or(u64::MAX);
        let first = half.max(max_len.saturating_mul(RED_PACKETS).into()).min(MOST);
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let packet_time = rate.time_of(max_len).0.clamp(1, LONGEST_PACKET_TIME);
        let packets = self.0.0.checked_div(packet_time).unwrap_or(u64::MAX);
        let weight = (u64::BITS - 1).saturating_sub(packets.leading_zeros());
        let params = RedParams::new(first, first.saturating_mul(3)).gentle().adaptive();
        let params = params.with_weight(weight.clamp(1, RedParams::MAX_WEIGHT));
        params.with_packet_time(Nanos(packet_time))
    }

    /// Returns BLUE parameters for a link of this rate: the probability changes at most once per
    /// round-trip time, and a packet that waited longer than both a round-trip time and the
    /// transmission time of four of the longest packets counts as an overflow.
    ///
    /// BLUE was designed for a queue of many connections. Its probability falls sixteen times more
    /// slowly than it rises, so a single TCP connection that overflowed its queue once does not
    /// fill the link for seconds.
    #[must_use]
    pub fn blue(self, rate: Rate, max_len: u32) -> BlueParams {
        let longest = self.span().max(rate.time_of(max_len.saturating_mul(4)));
        BlueParams::DEFAULT.with_freeze(self.span()).with_longest_wait(longest)
    }

    /// Returns the target of PIE and PI2.
    fn delay_target(self, rate: Rate, max_len: u32) -> Nanos {
        let two = rate.time_of(max_len.saturating_mul(2));
        let target = self.scaled(PieParams::default().target, LONGEST_TARGET);
        target.max(two).min(Nanos(LONGEST_TARGET))
    }

    /// Scales a time published for 100 ms to this round-trip time; at most `most` ns.
    #[expect(clippy::integer_division, reason = "by a constant, when a rate is set")]
    fn scaled(self, published: Nanos, most: u64) -> Nanos {
        // The product is below 2^28 · 2^33.
        let scaled = published.0.saturating_mul(self.0.0) / Self::INTERNET.0.0;
        Nanos(scaled.min(most))
    }

    /// Scales a gain published for 100 ms by the inverse of this round-trip time.
    fn gain(self, millihertz: u32) -> u32 {
        let scaled = u64::from(millihertz).saturating_mul(Self::INTERNET.0.0);
        let gain = scaled.checked_div(self.0.0).unwrap_or(GREATEST_MILLIHERTZ);
        u32::try_from(gain.clamp(1, GREATEST_MILLIHERTZ)).unwrap_or(u32::MAX)
    }
}

impl Default for Rtt {
    /// Returns [`Rtt::INTERNET`].
    fn default() -> Self {
        Self::INTERNET
    }
}

/// Prints the keyword of the [preset](Rtt::PRESETS), or the time with its unit: `regional`, `45ms`.
/// Both parse to an equal round-trip time.
impl fmt::Display for Rtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.preset() {
            Some(word) => f.pad(word),
            None => self.0.fmt(f),
        }
    }
}

const UNKNOWN: UnknownKeyword = UnknownKeyword::expecting(
    "a round-trip time must be one of datacentre lan metro regional internet oceanic \
     satellite, or a time from 20480ns to 8589934591ns, as 45ms",
);

/// Parses the keyword of a [preset](Rtt::PRESETS), or a [time](Nanos) with its unit: `regional`,
/// `45ms`.
impl FromStr for Rtt {
    type Err = UnknownKeyword;

    fn from_str(word: &str) -> Result<Self, UnknownKeyword> {
        match Self::PRESETS.iter().find(|(name, _)| *name == word) {
            Some(&(_, rtt)) => Ok(rtt),
            None => word.parse().ok().and_then(|span| Self::new(span).ok()).ok_or(UNKNOWN),
        }
    }
}
