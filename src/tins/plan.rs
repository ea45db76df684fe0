//! Plans of tins: the tins and the tin of each code point.

use core::fmt;

use sched_core::TinConfig;
use shaper::Rate;

use super::{Dscp, TinMode, TinName, TinPlanError, TinShare};

/// A class of the link: its name, the share of the rate within which it is served before lower
/// tins, and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tin {
    pub(super) name: TinName,
    pub(super) share: TinShare,
    pub(super) weight: u16,
}

impl Tin {
    pub(super) const NONE: Self =
        Self { name: TinName::NONE, share: TinShare::ALL, weight: Self::WHOLE };
    /// The weight of a tin whose share is the whole link.
    const WHOLE: u16 = 1_024;

    /// Creates a tin with this share; its weight is 1,024 times the share, at least 1.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "no share is above 1")]
    pub const fn new(name: TinName, share: TinShare) -> Self {
        let weight = share.of(Self::WHOLE as u64) as u16;
        Self { name, share, weight: if weight == 0 { 1 } else { weight } }
    }

    /// Sets the weight.
    ///
    /// # Errors
    /// [`TinPlanError::Weight`] for 0.
    pub const fn with_weight(self, weight: u16) -> Result<Self, TinPlanError> {
        if weight == 0 { Err(TinPlanError::Weight) } else { Ok(Self { weight, ..self }) }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> &TinName {
        &self.name
    }

    /// Returns the share of the link's rate within which the tin is served before lower ones.
    #[must_use]
    pub const fn share(&self) -> TinShare {
        self.share
    }

    /// Returns its weight relative to the other tins, used where the link has no rate.
    #[must_use]
    pub const fn weight(&self) -> u16 {
        self.weight
    }
}

/// A set of up to eight tins (one without the feature `tins`), and the mapping of packets to them.
///
/// A tin is a class of the link. Its number is its rank: within its share of the rate it is served
/// before every tin of a lower number; beyond that it is served only while no other tin is within
/// its share. On a link without a rate, tins share by weight.
///
/// A plan is one of CAKE's ([`TinMode`]), or has tins of your own:
///
/// ```
/// use freeboard::shaper::Rate;
/// use freeboard::{Dscp, Tin, TinMode, TinName, TinPlan, TinShare};
///
/// let line = Rate::megabits_per_second(20)?;
/// let plan = TinMode::Diffserv4.plan();
/// assert_eq!(plan.tin(3).map(|tin| tin.name().as_str()), Some("voice"));
/// assert_eq!(plan.of_dscp(Dscp::EF), 3);
/// assert_eq!(plan.rate(3, line), Rate::megabits_per_second(5)?);
///
/// let tin = |name, share: &str| {
///     Ok::<_, freeboard::TinPlanError>(Tin::new(TinName::new(name)?, share.parse()?))
/// };
/// let plan = TinPlan::new(&[tin("rest", "1")?, tin("backup", "5%")?, tin("calls", "1/4")?])?
///     .with(Dscp::LE, "backup")?
///     .with(Dscp::EF, "calls")?;
/// assert_eq!([Dscp::CS0, Dscp::LE, Dscp::EF].map(|dscp| plan.of_dscp(dscp)), [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Guarantee.** On a link of rate `C`, a tin gets at least the smaller of its share and of `C`
/// less the shares of the tins above it, whatever the others send ([`TinPlan::promised`]).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TinPlan {
    /// The mode that it was created from.
    mode: Option<TinMode>,
    count: u8,
    /// The tin of code points that were given none, and of packets with no tin.
    default_tin: u8,
    has_default: bool,
    tins: [Tin; Self::MAX_TINS],
    /// The tin of each code point; below `count`.
    map: [u8; Dscp::COUNT],
    /// Code points whose tin was set by [`TinPlan::with`].
    given: u64,
    /// Code points that are in the default tin only because it is the default.
    follow: u64,
    /// The tins in the order in which they are shown and numbered by marks.
    shown: [u8; Self::MAX_TINS],
}

impl TinPlan {
    /// The maximum number of tins: 8, or 1 without the feature `tins`.
    pub const MAX_TINS: usize = TinConfig::MAX_TINS as usize;
    /// A plan without tins, all zero, to initialize memory.
    pub const EMPTY: Self = {
        let tins = [Tin { name: TinName::NONE, share: TinShare::NONE, weight: 0 }; Self::MAX_TINS];
        let shown = [0; Self::MAX_TINS];
        Self { mode: None, count: 0, tins, follow: 0, shown, ..TinMode::BestEffort.plan() }
    };
    /// CAKE's minimum quantum in bytes.
    const LEAST_QUANTUM: u32 = 300;

    /// Creates a plan with these tins, the lowest first: up to eight, or one without the feature
    /// `tins`. All code points go to the first tin, until others are [set](Self::with) or [another
    /// tin is the default](Self::with_default).
    ///
    /// # Errors
    /// [`TinPlanError`] for no tins or more than [`MAX_TINS`](Self::MAX_TINS), two with the same
    /// name, or tins above the first whose shares add up to the whole link or more.
    pub fn new(tins: &[Tin]) -> Result<Self, TinPlanError> {
        let plan = Self::of_any_sum(tins)?;
        plan.check_sum()?;
        Ok(plan)
    }

    /// Creates a plan as [`TinPlan::new`] does, without [`TinPlan::check_sum`].
    pub(crate) fn of_any_sum(tins: &[Tin]) -> Result<Self, TinPlanError> {
        let (given, mut all) = (tins.len(), [Tin::NONE; Self::MAX_TINS]);
        let count = u8::try_from(given).ok().filter(|_| (1..=Self::MAX_TINS).contains(&given));
        let count = count.ok_or(TinPlanError::Tins { given })?;
        for (at, (place, tin)) in all.iter_mut().zip(tins).enumerate() {
            if tins.iter().take(at).any(|other| other.name == tin.name) {
                return Err(TinPlanError::SameName(tin.name));
            }
            *place = *tin;
        }
        Ok(Self {
            mode: None,
            count,
            default_tin: 0,
            has_default: false,
            tins: all,
            map: [0; Dscp::COUNT],
            given: 0,
            follow: u64::MAX,
            shown: in_order(),
        })
    }

    /// Checks that the tins above the first leave it a share.
    pub(crate) fn check_sum(&self) -> Result<(), TinPlanError> {
        let above: u64 = self.tins().iter().skip(1).map(|tin| tin.share.of_2_32()).sum();
        if above < 1 << 32 {
            return Ok(());
        }
        let thousandths = above.saturating_mul(1_000).div_ceil(1 << 32);
        let thousandths = u32::try_from(thousandths).unwrap_or(u32::MAX);
        Err(TinPlanError::Crowded { thousandths })
    }

    /// Creates the plan of a mode with the tins `of`, to whose numbers `map` maps code points.
    #[expect(clippy::indexing_slicing, reason = "evaluated when the program is compiled")]
    pub(super) const fn of_mode(
        mode: TinMode,
        default_tin: u8,
        of: &[Tin],
        map: [u8; Dscp::COUNT],
        shown: [u8; Self::MAX_TINS],
    ) -> Self {
        let (mut tins, mut count) = ([Tin::NONE; Self::MAX_TINS], 0);
        while (count as usize) < of.len() {
            tins[count as usize] = of[count as usize];
            count += 1;
        }
        let (mut follow, mut code) = (0, 0);
        while code < Dscp::COUNT {
            if map[code] == default_tin {
                follow |= 1 << code;
            }
            code += 1;
        }
        let mode = Some(mode);
        Self { mode, count, default_tin, has_default: false, tins, map, given: 0, follow, shown }
    }

    /// Sets the tin of this code point, by name.
    ///
    /// # Errors
    /// [`TinPlanError`] if no tin has the name, or the code point's tin was set before.
    pub fn with(mut self, dscp: Dscp, tin: &str) -> Result<Self, TinPlanError> {
        let tin = self.named(tin)?;
        if self.given & dscp.bit() != 0 {
            return Err(TinPlanError::Twice(dscp));
        }
        if let Some(place) = self.map.get_mut(usize::from(dscp.get())) {
            *place = tin;
        }
        self.given |= dscp.bit();
        self.follow &= !dscp.bit();
        Ok(self)
    }

    /// Sets the default tin, by name: code points that were in the default tin so far and were not
    /// [set](Self::with) move there.
    ///
    /// # Errors
    /// [`TinPlanError`] if no tin has the name, or the default was set before.
    pub fn with_default(mut self, tin: &str) -> Result<Self, TinPlanError> {
        let tin = self.named(tin)?;
        if self.has_default {
            return Err(TinPlanError::TwoDefaults);
        }
        (self.has_default, self.default_tin) = (true, tin);
        for (place, dscp) in self.map.iter_mut().zip(Dscp::all()) {
            if self.follow & dscp.bit() != 0 {
                *place = tin;
            }
        }
        Ok(self)
    }

    /// Returns the number of the tin of this name.
    fn named(&self, name: &str) -> Result<u8, TinPlanError> {
        let name = TinName::new(name)?;
        self.number_of(&name).ok_or(TinPlanError::UnknownTin { name, mode: self.mode })
    }

    /// Returns the number of the tin of this name; `None` if there is none.
    #[must_use]
    pub fn number_of(&self, name: &TinName) -> Option<u8> {
        let found = (0..self.count).zip(self.tins()).find(|(_, tin)| tin.name == *name);
        found.map(|(number, _)| number)
    }

    /// Returns the mode that it was created from; `None` for tins of your own.
    #[must_use]
    pub const fn mode(&self) -> Option<TinMode> {
        self.mode
    }

    /// Returns the number of tins: 1 to [`MAX_TINS`](Self::MAX_TINS).
    #[must_use]
    pub const fn count(&self) -> u8 {
        if Self::MAX_TINS == 1 { 1 } else { self.count }
    }

    /// Returns the tins, the lowest first.
    #[must_use]
    pub fn tins(&self) -> &[Tin] {
        self.tins.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Returns the tin of this number.
    #[must_use]
    pub fn tin(&self, number: u8) -> Option<&Tin> {
        self.tins().get(usize::from(number))
    }

    /// Returns the numbers of the tins in the order in which `tc` shows them: bulk before best
    /// effort. Marks number the tins in this order.
    #[must_use]
    pub fn shown(&self) -> &[u8] {
        self.shown.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Returns the tin of packets that select none, or one that does not exist.
    #[must_use]
    pub const fn default_tin(&self) -> u8 {
        self.default_tin
    }

    /// Returns the tin of packets with this code point. Cost: a load.
    #[inline]
    #[must_use]
    pub fn of_dscp(&self, dscp: Dscp) -> u8 {
        self.map.get(usize::from(dscp.get())).copied().unwrap_or(self.default_tin)
    }

    /// Returns the tin of a packet with a mark of the caller: a mark `n` from 1 to the number of
    /// tins selects the `n`-th tin as [shown](Self::shown); with any other mark the code point
    /// decides. Cost: a load.
    ///
    /// ```
    /// use freeboard::{Dscp, TinMode};
    ///
    /// let plan = TinMode::Diffserv4.plan();
    /// let tin = |mark| plan.tin(plan.of_marked(mark, Dscp::EF)).map(|tin| tin.name().as_str());
    /// assert_eq!(
    ///     [0, 1, 2, 3, 4, 5].map(tin),
    ///     ["voice", "bulk", "best-effort", "video", "voice", "voice"].map(Some)
    /// );
    /// ```
    #[inline]
    #[must_use]
    pub fn of_marked(&self, mark: u32, dscp: Dscp) -> u8 {
        let place = mark.checked_sub(1).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| self.shown().get(place)) {
            Some(&tin) => tin,
            None => self.of_dscp(dscp),
        }
    }

    /// Returns the rate within which tin `number` is served before lower ones, in bytes per second,
    /// rounded down; `None` on a link without a rate. A number out of range counts as the default
    /// tin.
    #[must_use]
    pub fn threshold(&self, number: u8, line: Rate) -> Option<u64> {
        let share = self.tin_or_default(number).share;
        line.as_bits_per_second().map(|bits| share.of(bits >> 3))
    }

    /// Returns [`TinPlan::threshold`] as a rate, for the AQM of the tin: at least 1 kbit/s, and the
    /// link's own rate if the share is the whole link, or the link is stopped or unlimited.
    #[must_use]
    pub fn rate(&self, number: u8, line: Rate) -> Rate {
        if self.tin_or_default(number).share == TinShare::ALL || line == Rate::STOPPED {
            return line;
        }
        let bits = self.threshold(number, line).map(|bytes| bytes.saturating_mul(8));
        let bits = bits.map(|bits| bits.max(Rate::MIN_BITS_PER_SECOND));
        bits.and_then(|bits| Rate::bits_per_second(bits).ok()).unwrap_or(line)
    }

    /// Returns the rate that tin `number` gets at least while it is backlogged, whatever the others
    /// send, in bytes per second: the smaller of its threshold and of what the thresholds of the
    /// tins above it leave. `None` on a link without a rate, where weights apply.
    ///
    /// The shares of `precedence` and `diffserv8` add up to more than the link: the highest three
    /// tins are promised 39, 45 and 16 %, and the others nothing.
    ///
    /// ```
    /// use freeboard::TinMode;
    /// use freeboard::shaper::Rate;
    ///
    /// let (plan, line) = (TinMode::Diffserv4.plan(), Rate::kilobits_per_second(128)?);
    /// let promised = [0, 1, 2, 3].map(|tin| plan.promised(tin, line));
    /// assert_eq!(promised, [3_000, 1_000, 8_000, 4_000].map(Some));
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn promised(&self, number: u8, line: Rate) -> Option<u64> {
        let own = self.threshold(number, line)?;
        let above =
            (number.saturating_add(1)..self.count).filter_map(|tin| self.threshold(tin, line));
        let all = line.as_bits_per_second()? >> 3;
        Some(own.min(all.saturating_sub(above.sum())))
    }

    /// Returns CAKE's quantum for tin `number`: what its threshold carries in 1/4,096 s, at least
    /// 300 bytes and at most the longest packet. The schedulers here require the longest packet as
    /// quantum and use that instead.
    #[must_use]
    pub fn quantum(&self, number: u8, line: Rate, max_len: u32) -> u32 {
        let carried = self.threshold(number, line).map_or(u64::MAX, |bytes| bytes >> 12);
        u32::try_from(carried).unwrap_or(u32::MAX).max(Self::LEAST_QUANTUM).min(max_len)
    }

    fn tin_or_default(&self, number: u8) -> &Tin {
        let tin = self.tin(number).or_else(|| self.tin(self.default_tin));
        tin.unwrap_or(const { &Tin::NONE })
    }
}

/// Returns the identity mapping of tin numbers.
#[expect(clippy::indexing_slicing, reason = "evaluated when the program is compiled")]
pub(super) const fn in_order() -> [u8; TinPlan::MAX_TINS] {
    let (mut all, mut number) = ([0; TinPlan::MAX_TINS], 0);
    while (number as usize) < all.len() {
        all[number as usize] = number;
        number += 1;
    }
    all
}

impl Default for TinPlan {
    /// Returns the plan with one tin.
    fn default() -> Self {
        TinMode::BestEffort.plan()
    }
}

impl From<TinMode> for TinPlan {
    fn from(mode: TinMode) -> Self {
        mode.plan()
    }
}

/// Prints [`Display`](fmt::Display) in parentheses.
impl fmt::Debug for TinPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TinPlan({self})")
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for TinPlan {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{}", defmt::Display2Format(self));
    }
}

/// Prints the keywords from which [`QueueSettings`](crate::QueueSettings) parses an equal plan:
/// `diffserv4 map NQB voice`, `tin rest share 1 weight 1024 tin calls share 1/4 weight 256 map
/// EF,VA calls`.
impl fmt::Display for TinPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Some(mode) => f.write_str(mode.word())?,
            None => self.tins().iter().enumerate().try_for_each(|(at, tin)| {
                let Tin { name, share, weight } = tin;
                f.write_str(if at > 0 { " " } else { "" })?;
                write!(f, "tin {name} share {share} weight {weight}")
            })?,
        }
        if let Some(tin) = self.tin(self.default_tin).filter(|_| self.has_default) {
            write!(f, " default-tin {}", tin.name)?;
        }
        for (number, tin) in (0..self.count).zip(self.tins()) {
            let mut before = " map ";
            for dscp in Dscp::all() {
                if self.given & dscp.bit() != 0 && self.of_dscp(dscp) == number {
                    write!(f, "{before}{dscp}")?;
                    before = ",";
                }
            }
            if before == "," {
                write!(f, " {}", tin.name)?;
            }
        }
        Ok(())
    }
}
