//! The choice among tins (traffic classes), independent of how a tin stores its packets.
//!
//! The tin to serve is selected by one of two rules:
//!
//! - **By share**, if a tin has a threshold rate. A tin that has sent no more than its rate allows
//!   is *within its share*. Of these tins the one with the highest number is served. If none is
//!   within its share, the tin that will be the first to return within it borrows the unused
//!   bandwidth.
//! - **By weight**, if no tin has a rate: deficit round robin over the tins.
//!
//! So a tin that stays within its share goes first, a tin that exceeds it loses its priority but
//! not its packets, and the link never idles while packets are queued. A tin without a rate among
//! others with one is always within its share.
//!
//! **The clock of a tin** is the time until which its rate covers what it has sent. Each packet
//! advances the clock by the packet's transmission time at the rate of the tin. Borrowing moves the
//! clock to at most that packet's time after now. A tin that becomes backlogged has no credit for
//! its idle time. A tin that waits while backlogged gets credit, at most `2^(n − t + 1) − 1`
//! longest packets for tin `t` of `n`: as much as the tins above can delay it.
//!
//! **Guarantees.** Let `r` be the rate of a tin, `C` the rate of the link, `L` the longest packet
//! on the wire, and `F` the [floor](TinChoice::with_floor). For the proofs see
//! `docs/proofs/tins.md`. By share, in any interval of length `T`:
//!
//! - *Priority is limited.* While tin `t` of `n` is within its share it sends at most `r·T + 2^(n −
//!   t + 1)·L` bytes.
//! - *Share.* A tin that stays backlogged sends at least `min(r, (1 − L/F)·C − R)·T − 2^(n − t +
//!   1)·L` bytes, where `R` is the sum of the rates of the tins above.
//! - *Delay of the highest tin.* A packet that finds the highest tin idle and within its share
//!   starts after at most the packet in transmission and one packet of the floor.
//! - *No starvation.* A tin that stays backlogged sends a packet after at most `n·F + n·L` bytes of
//!   all tins, whatever their rates: one packet in `F` bytes is from the tin that has waited
//!   longest, if it has waited for `F` bytes.
//!
//! By weight, tin `t` waits for at most one turn of every other tin, `Q + L − 1` bytes for quantum
//! `Q`.
//!
//! The next tin changes only when a packet is served, and when a tin becomes backlogged or idle: a
//! tin that returns within its share in between is considered at the next of these calls.
//!
//! **Time.** Timestamps come from [`TinChoice::advance`] and take effect only in the calls named
//! above. A step back counts as no time passing, unless it exceeds a second: then time continues
//! from the new timestamp. A step forward counts for at most ten hours.
//!
//! **Cost.** O(1): the time of a packet and a few comparisons; a loop over the tins if one returns
//! within its share, and if none of more than four is within it. Nothing with one tin. Memory: 72
//! bytes per tin.
//!
//! **Source.** *Piece of CAKE*, 2018, §III-D. The bound on credit and the floor are ours:
//! `docs/disciplines/tins.md`.

mod config;
mod tin;

pub use config::TinConfig;
pub use tin::TinState;

use crate::disciplines::drr::ring::debt;
use crate::flow_scheduler::{ConfigError, Table};
use crate::hosts::wire_length::{AsBooked, WireLength};
use crate::{Elapsed, Imbalance, Nanos, Packet, Volume};
use tin::bits;

/// Maximum floor in bytes. A tin waits for at most this many of each other tin, which stays below
/// the 2^32 wrap of `sent`.
const MOST_FLOOR: u32 = 1 << 28;
/// Times later than this are moved back to the origin. A step of time is at most 2⁴⁵, and no clock
/// is ahead of now by more than the time of a packet, 2⁴⁶. The fast path for few tins does not move
/// time back, but ends when the floor is due: after at most 2²⁸ bytes. Single bytes, of up to 566
/// on the wire, take longest: less than 2⁶¹ − 2⁴⁷ together. So time stays below 2⁶².
const LATEST: Nanos = Nanos(1 << 61);

/// Number of tins compared without a loop.
const FEW: usize = 4;

/// The time at which one of few tins returns within its share, with the tin in the lowest two bits:
/// the minimum of several gives both. Of tins that return at the same time the highest has the
/// minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64);

impl Due {
    /// An idle tin: later than any other.
    const NEVER: Self = Self(u64::MAX);
    /// The bits that contain the tin.
    const TIN: u8 = 3;

    /// Tin `at` returns within its share at `clock`, which is below 2⁶².
    #[inline(always)]
    const fn at(clock: Nanos, at: u32) -> Self {
        Self(clock.0 << 2 | (!at & Self::TIN as u32) as u64)
    }

    #[inline(always)]
    const fn clock(self) -> Nanos {
        Nanos(self.0 >> 2)
    }

    #[inline(always)]
    const fn tin(self) -> u32 {
        let [low, ..] = self.0.to_le_bytes();
        (!low & Self::TIN) as u32
    }
}

/// The rule by which tins are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// There is only one tin.
    One,
    ByShare,
    ByWeight,
}

/// Selects the tin to serve next; the owner stores the packets.
///
/// The owner keeps the packets of each tin in a structure of its own, and serves from that of
/// [`Self::front`]. It reports when an empty tin becomes backlogged ([`Self::backlogged`]), when
/// the tin at the front has sent a packet ([`Self::served`]), and when a tin has lost all its
/// packets without service ([`Self::emptied`]). With one tin ([`Self::is_one`]) none of these calls
/// is needed, and each returns at once.
///
/// For the rules and their guarantees see `docs/disciplines/tins.md`. Every call is O(1), except
/// that changing tins or the link is O(tins).
///
/// ```
/// use sched_core::{AsBooked, Nanos, TinChoice, TinConfig, TinState};
///
/// let mut choice = TinChoice::new([TinState::EMPTY; 2], 1_500, AsBooked)?;
/// // On a link of 12 Mbit/s, one packet per millisecond, tin 1 has priority up to a quarter.
/// let share = |bits| TinConfig::by_weight(1).with_rate(bits);
/// choice.set_tins(&[share(12_000_000), share(3_000_000)], 0)?;
///
/// let mut sent = [0; 2];
/// choice.backlogged(0);
/// choice.backlogged(1);
/// for millis in 0..1_000 {
///     choice.advance(Nanos::from_millis(millis));
///     sent[choice.front() as usize] += 1;
///     choice.served(1_500, false);
/// }
/// assert_eq!(sent, [750, 250]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinChoice<T, L = AsBooked> {
    /// One entry per possible tin; unused tins are idle.
    tins: T,
    /// By share: for each of the first tins, the time at which it returns within its share.
    due: [Due; FEW],
    /// Number of tins in use. All others are idle.
    count: u8,
    rule: Rule,
    /// The tin served next, if any is backlogged.
    front: u32,
    /// Bit `t` is set if and only if tin `t` is backlogged. Not maintained with one tin.
    backlogged: u32,
    /// The backlogged tins that were within their share when last checked.
    within: u32,
    /// Lower bound of the times at which a backlogged tin not in `within` returns within its
    /// share. At most [`LATEST`]. Not maintained while `borrowing_until` is.
    next_within: Nanos,
    /// The equivalent of `next_within` if few tins share and none of them is in `within`; 0
    /// otherwise.
    borrowing_until: Nanos,
    /// The latest timestamp from the owner.
    told: Nanos,
    /// The time as of the last call that changed a tin.
    time: Elapsed,
    /// True if the tin at the front has sent something in its turn by weight.
    has_begun: bool,
    /// Bytes sent. Wraps: two counts compare by the sign of their difference.
    sent: u32,
    /// Value of `sent` before which the floor serves no tin.
    floor_at: u32,
    /// Bytes without service after which the floor serves a tin.
    floor: u32,
    max_len: u32,
    link: L,
}

impl<T: Table<TinState>, L: WireLength> TinChoice<T, L> {
    /// Default of the floor, in longest packets; see [`Self::with_floor`].
    pub const FLOOR: u32 = 64;

    /// Creates a choice with one tin, for packets of at most `max_len` bytes.
    ///
    /// There may be up to `tins.len()` tins. `link` gives the length of packets on the wire. Rates
    /// count lengths on the wire; weights count lengths as accounted.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`], and if `tins`
    /// is empty.
    pub fn new(mut tins: T, max_len: u32, link: L) -> Result<Self, ConfigError> {
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("longest packet in bytes", max_len.into(), 1, most)?;
        let floor = max_len.wrapping_mul(Self::FLOOR);
        let room = tins.as_ref().len() as u64;
        ConfigError::check_range("number of tins", 1, 1, room)?;
        tins.as_mut().fill(TinState::EMPTY);
        let only = tins.as_mut().iter_mut().take(1);
        only.for_each(|tin| tin.set_config(TinConfig::by_weight(1), 1, max_len));
        Ok(Self {
            tins,
            due: [Due::NEVER; FEW],
            count: 1,
            rule: Rule::One,
            front: 0,
            backlogged: 0,
            within: 0,
            next_within: Nanos::ZERO,
            borrowing_until: Nanos::ZERO,
            told: Nanos::ZERO,
            time: Elapsed::START,
            has_begun: false,
            sent: 0,
            floor_at: floor,
            floor,
            max_len,
            link,
        })
    }

    /// Sets the floor, in longest packets.
    ///
    /// A backlogged tin that has sent nothing while all tins together have sent `packets` longest
    /// packets is served, at most once in that many bytes. `packets` is limited to 2 to 1,024, and
    /// the floor to at most 2^28 bytes.
    #[must_use]
    pub fn with_floor(mut self, packets: u32) -> Self {
        self.floor = self.max_len.wrapping_mul(packets.clamp(2, 1_024)).min(MOST_FLOOR);
        self.floor_at = self.sent.wrapping_add(self.floor);
        self
    }

    /// Checks tins as [`Self::set_tins`] does, and returns their number.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless the number of tins is in `1..=`[`TinConfig::MAX_TINS`],
    /// and for a rate or a weight outside its range.
    pub fn check(tins: &[TinConfig]) -> Result<u32, ConfigError> {
        let most = TinConfig::MAX_TINS.into();
        ConfigError::check_range("number of tins", tins.len() as u64, 1, most)?;
        tins.iter().try_for_each(TinConfig::check)?;
        Ok(u32::try_from(tins.len()).unwrap_or(TinConfig::MAX_TINS))
    }

    /// Replaces the tins.
    ///
    /// Bit `t` of `backlogged` is set if tin `t` holds packets; bits of unused tins are ignored.
    /// Each tin keeps its debt or credit, in bytes. If any tin has a rate, the tins share by rate,
    /// otherwise by weight.
    ///
    /// # Errors
    /// See [`Self::check`]; also if there are more tins than entries. Nothing has changed then.
    pub fn set_tins(&mut self, tins: &[TinConfig], backlogged: u32) -> Result<(), ConfigError> {
        let (count, room) = (Self::check(tins)?, self.tins.as_ref().len() as u64);
        ConfigError::check_range("number of tins", count.into(), 1, room)?;
        let by_share = tins.iter().any(|tin| tin.bits_per_second.is_some());
        let rule = match (count, by_share) {
            (1, _) => Rule::One,
            (_, true) => Rule::ByShare,
            (_, false) => Rule::ByWeight,
        };
        let now = self.now();
        let least = tins.iter().map(|tin| tin.weight).min().unwrap_or(1);
        let longest = self.longest();
        for ((above, config), tin) in (0..count).rev().zip(tins).zip(self.tins.as_mut()) {
            if rule != self.rule {
                (tin.charged, tin.served_at) = (0, self.sent);
            }
            tin.set_config(*config, least, self.max_len);
            if TinConfig::MAX_TINS > 1 {
                tin.set_rate(config.bits_per_second, above, longest, now);
            }
        }
        // Unused tins have no debt.
        let unused = self.tins.as_mut().iter_mut().skip(tins.len());
        unused.for_each(|tin| *tin = TinState::EMPTY);
        (self.rule, self.has_begun) = (rule, false);
        self.count = u8::try_from(tins.len()).unwrap_or(0);
        self.borrowing_until = Nanos::ZERO;
        self.look_anew(now, backlogged);
        Ok(())
    }

    /// Returns the number of tins.
    #[must_use]
    pub const fn tins(&self) -> u32 {
        if TinConfig::MAX_TINS == 1 { 1 } else { self.count as u32 }
    }

    /// Returns true if there is only one tin, which needs no choice.
    #[inline(always)]
    #[must_use]
    pub const fn is_one(&self) -> bool {
        TinConfig::MAX_TINS == 1 || matches!(self.rule, Rule::One)
    }

    /// Returns the configuration of `tin`, or `None` if there is no such tin.
    #[must_use]
    pub fn tin(&self, tin: u32) -> Option<TinConfig> {
        self.tins.as_ref().get(tin as usize).filter(|_| tin < self.tins()).map(TinState::config)
    }

    /// Returns the longest packet, in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn max_len(&self) -> u32 {
        self.max_len
    }

    /// Changes the length of packets on the wire, from the next packet sent. For `backlogged` see
    /// [`Self::set_tins`].
    pub fn set_link(&mut self, link: L, backlogged: u32) {
        self.link = link;
        if TinConfig::MAX_TINS == 1 {
            return;
        }
        let (now, longest) = (self.now(), self.longest());
        for (above, tin) in (0..self.tins()).rev().zip(self.tins.as_mut()) {
            tin.set_rate(tin.config().bits_per_second, above, longest, now);
        }
        self.look_anew(now, backlogged);
    }

    /// Sets the current time.
    ///
    /// Time takes effect when a tin changes. A step back counts as no time passing, unless it
    /// exceeds a second: then time continues from the new timestamp. A step forward counts for at
    /// most ten hours.
    #[inline(always)]
    pub const fn advance(&mut self, now: Nanos) {
        self.told = now;
    }

    /// Returns the timestamp last passed to [`Self::advance`].
    #[inline(always)]
    #[must_use]
    pub const fn told(&self) -> Nanos {
        self.told
    }

    /// Returns the tin served next, or any tin if none is backlogged.
    #[inline(always)]
    #[must_use]
    pub const fn front(&self) -> u32 {
        // The mask removes bounds checks.
        self.front & (TinConfig::MAX_TINS - 1)
    }

    /// Returns the maximum length of a packet on the wire.
    fn longest(&self) -> u32 {
        self.link.wire_len(self.max_len).max(1)
    }

    #[inline(always)]
    fn tin_mut(&mut self, tin: u32) -> Option<&mut TinState> {
        self.tins.as_mut().get_mut(tin as usize)
    }

    /// Records that the idle tin `at` is backlogged. Does nothing if there is no such tin.
    pub fn backlogged(&mut self, at: u32) {
        if self.is_one() || at >= self.tins() {
            return;
        }
        let now = self.now();
        let was_idle = self.backlogged == 0;
        let sent = self.sent;
        let Some(tin) = self.tin_mut(at) else { return };
        tin.served_at = sent;
        tin.begin(now);
        let clock = tin.clock();
        self.backlogged |= 1 << at;
        if self.rule == Rule::ByWeight {
            if was_idle {
                (self.front, self.has_begun) = (at, false);
            }
            return;
        }
        self.note_due(at, Due::at(clock, at));
        if clock > now {
            self.note_within(clock);
        } else {
            self.within |= 1 << at;
        }
        self.choose(now);
    }

    /// Records that the tin at the front has sent a packet of `len` accounted bytes, and whether it
    /// `is_idle` now.
    #[inline(always)]
    pub fn served(&mut self, len: u32, is_idle: bool) {
        if self.is_one() {
            return;
        }
        // No queue accepts a longer packet, but other callers may report one.
        let len = len.min(self.max_len);
        let wire_len = self.wire_len(len);
        if is_idle || !self.borrowed(self.front, len, wire_len) {
            self.served_in_full(len, wire_len, is_idle);
        }
    }

    /// Returns the length on the wire of a packet of `len` accounted bytes.
    #[inline(always)]
    #[must_use]
    pub fn wire_len(&self, len: u32) -> u32 {
        self.link.wire_len(len)
    }

    /// Returns the packets and bytes that `tin` has sent, as accounted.
    ///
    /// Counting starts when there are several tins, or when this tin is added. Returns zero if
    /// there is no such tin.
    #[must_use]
    pub fn served_in(&self, tin: u32) -> Volume {
        self.tins.as_ref().get(tin as usize).map_or(Volume::ZERO, TinState::served)
    }

    /// Counts a packet of `len` bytes that `tin` sent without being selected, in
    /// [`Self::served_in`]. Does nothing if there is no such tin.
    pub fn count(&mut self, tin: u32, len: u32) {
        if let Some(tin) = self.tin_mut(tin) {
            tin.count(len);
        }
    }

    /// Fast path of [`Self::served`] for tin `at`, which stays backlogged, if few tins are all
    /// beyond their shares and stay so.
    ///
    /// Returns false, with nothing changed, in other cases. Most packets of a saturated link take
    /// this path, which calls no function.
    #[inline(always)]
    #[must_use]
    pub fn borrowed(&mut self, at: u32, len: u32, wire_len: u32) -> bool {
        let Some(now) = self.time.advance_plainly(self.told) else { return false };
        let sent = self.sent.wrapping_add(len);
        if now >= self.borrowing_until || self.is_floor_due_at(sent) {
            return false;
        }
        self.sent = sent;
        // The mask tells the compiler that `at` is below `FEW`.
        let at = at & u32::from(Due::TIN);
        if let Some(tin) = self.tin_mut(at) {
            tin.served_at = sent;
            tin.count(len);
            tin.charge_beyond(wire_len, now);
            let due = Due::at(tin.clock(), at);
            self.note_due(at, due);
        }
        self.choose_of_few();
        true
    }

    /// [`Self::served`] for all cases.
    #[inline(always)]
    pub fn served_in_full(&mut self, len: u32, wire_len: u32, is_idle: bool) {
        if self.rule != Rule::ByShare {
            return self.charge_turn(len, is_idle);
        }
        self.charge_share(len, wire_len, is_idle);
    }

    /// Records that tin `at`, which was backlogged, has lost all its packets without service.
    pub fn emptied(&mut self, at: u32) {
        if self.is_one() {
            return;
        }
        let is_front = at == self.front;
        self.backlogged &= !(1 << (at & 31));
        self.within &= !(1 << (at & 31));
        if self.rule == Rule::ByShare {
            let now = self.now();
            self.note_due(at, Due::NEVER);
            return self.choose(now);
        }
        if is_front {
            // A loss is not service. A turn that has begun ends, as if service had emptied the tin.
            if self.has_begun
                && let Some(tin) = self.tin_mut(at)
            {
                tin.charged = 0;
            }
            self.turn_to_next();
        }
    }

    /// Checks the choice against the tins that hold packets, one bit each.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self, backlogged: u32) -> Result<(), Imbalance> {
        if !self.is_one() {
            for at in 0..TinConfig::MAX_TINS {
                let (kept, held) = (self.backlogged >> at & 1, backlogged >> at & 1);
                Imbalance::check("a tin is backlogged", at, held.into(), kept.into())?;
            }
            if self.rule == Rule::ByShare {
                for ((at, tin), due) in (0..).zip(self.tins.as_ref()).zip(self.due) {
                    let is_held = self.backlogged >> at & 1 == 1;
                    let right = if is_held { Due::at(tin.clock(), at) } else { Due::NEVER };
                    Imbalance::check("when a tin is due", at, right.0, due.0)?;
                }
            }
            let idle = self.within & !self.backlogged;
            Imbalance::check("tins within their share hold packets", 0, 0, idle.into())?;
        }
        let (any, front) = (backlogged != 0, backlogged >> (self.front & 31) & 1 != 0);
        Imbalance::check("the tin served next is backlogged", 0, any.into(), front.into())
    }

    /// Recomputes the masks, where `backlogged` has a bit for each tin with packets, and selects
    /// the next tin.
    fn look_anew(&mut self, now: Nanos, backlogged: u32) {
        let known = u32::MAX.unbounded_shr(u32::BITS.wrapping_sub(self.tins()));
        (self.backlogged, self.within, self.next_within) = (backlogged & known, 0, now);
        if self.is_one() {
            // Nothing would clear the bit.
            (self.front, self.backlogged) = (0, 0);
            return;
        }
        if self.rule == Rule::ByWeight && self.backlogged >> (self.front & 31) & 1 == 0 {
            return self.turn_to_next();
        }
        if self.rule == Rule::ByShare {
            self.note_all_due();
            self.choose(now);
        }
    }

    /// By share: selects the tin served next at `now`. Rare cases are in functions of their own, in
    /// tail position, so that no registers are saved.
    #[inline(never)]
    fn choose(&mut self, now: Nanos) {
        if now >= self.next_within {
            return self.look(now);
        }
        self.choose_front();
    }

    /// [`Self::choose`] if no other tin has returned within its share.
    #[inline(always)]
    fn choose_front(&mut self) {
        if self.is_floor_due() {
            return self.choose_by_floor();
        }
        self.choose_by_clock();
    }

    /// [`Self::choose_front`] if the floor serves no tin.
    #[inline(always)]
    fn choose_by_clock(&mut self) {
        if self.within == 0 {
            return self.choose_earliest();
        }
        self.front = self.within.ilog2();
    }

    /// Records when tin `at` is due, if it is one of the first.
    #[inline(always)]
    fn note_due(&mut self, at: u32, due: Due) {
        if let Some(noted) = self.due.get_mut(at as usize) {
            *noted = due;
        }
    }

    /// Records when each tin is due.
    fn note_all_due(&mut self) {
        self.due = [0, 1, 2, 3].map(|at: u32| match self.tins.as_ref().get(at as usize) {
            Some(tin) if self.backlogged >> at & 1 == 1 => Due::at(tin.clock(), at),
            _ => Due::NEVER,
        });
    }

    /// [`Self::choose`] if tins may have returned within their share: updates the mask and the next
    /// time.
    #[inline(never)]
    fn look(&mut self, now: Nanos) {
        let now = if now < LATEST { now } else { self.move_time_back() };
        self.next_within = LATEST;
        for tin in bits(self.backlogged & !self.within) {
            let Some(clock) = self.tins.as_ref().get(tin as usize).map(TinState::clock) else {
                break;
            };
            if clock <= now {
                self.within |= 1 << tin;
            } else {
                self.note_within(clock);
            }
        }
        self.choose_front();
    }

    /// Returns the time as of the latest timestamp.
    #[inline]
    fn now(&mut self) -> Nanos {
        let now = self.later();
        if now < LATEST { now } else { self.move_time_back() }
    }

    /// [`Self::now`] without the limit [`LATEST`].
    #[inline(always)]
    fn later(&mut self) -> Nanos {
        if self.borrowing_until > Nanos::ZERO {
            self.next_within = core::mem::take(&mut self.borrowing_until).min(LATEST);
        }
        match self.time.advance_plainly(self.told) {
            Some(now) => now,
            None => self.time.advance(self.told, self.time.now().plus(Elapsed::A_LONG_STEP)),
        }
    }

    /// Moves all times back, long before they could overflow; returns the new current time.
    #[cold]
    fn move_time_back(&mut self) -> Nanos {
        let span = self.time.move_back();
        self.tins.as_mut().iter_mut().for_each(|tin| tin.move_back(span));
        self.next_within = self.next_within.since(span);
        self.note_all_due();
        self.time.now()
    }

    /// Records that a backlogged tin returns within its share at `clock`.
    #[inline]
    fn note_within(&mut self, clock: Nanos) {
        self.next_within = self.next_within.min(clock);
    }

    /// [`Self::choose`] if no tin is within its share: the one that returns first, the highest of
    /// several; tin 0 if none is backlogged.
    #[inline(never)]
    fn choose_earliest(&mut self) {
        if usize::from(self.count) <= FEW {
            return self.choose_of_few();
        }
        let (mut first, mut least) = (0, Nanos::MAX);
        for tin in bits(self.backlogged) {
            let Some(clock) = self.tins.as_ref().get(tin as usize).map(TinState::clock) else {
                break;
            };
            if clock <= least {
                (first, least) = (tin, clock);
            }
        }
        self.front = first;
    }

    /// [`Self::choose_earliest`] for few tins, which are all beyond their shares until then.
    #[inline(always)]
    fn choose_of_few(&mut self) {
        const { assert!(FEW == 1 + Due::TIN as usize) };
        // Without branches: the tin is unpredictable.
        let [a, b, c, d] = self.due;
        let first = a.min(b).min(c.min(d));
        (self.front, self.borrowing_until) = (first.tin(), first.clock());
    }

    /// Returns true if a tin may have waited for as long as the floor allows.
    #[inline(always)]
    const fn is_floor_due(&self) -> bool {
        self.is_floor_due_at(self.sent)
    }

    /// Returns true if the tin at the front is served by the floor.
    #[must_use]
    pub const fn serves_by_floor(&self) -> bool {
        matches!(self.rule, Rule::ByShare) && self.is_floor_due()
    }

    /// Returns true if the floor is due once `sent` bytes have been sent.
    #[inline(always)]
    const fn is_floor_due_at(&self, sent: u32) -> bool {
        sent.wrapping_sub(self.floor_at).cast_signed() >= 0
    }

    /// [`Self::choose`] if a tin may have waited for as long as the floor allows: the one that has
    /// waited longest, the lowest of several, if it has waited for the bytes of the floor.
    #[inline(never)]
    fn choose_by_floor(&mut self) {
        let (mut first, mut longest) = (0, 0);
        for tin in bits(self.backlogged) {
            let Some(of) = self.tins.as_ref().get(tin as usize) else { break };
            let waited = self.sent.wrapping_sub(of.served_at);
            if waited > longest {
                (first, longest) = (tin, waited);
            }
        }
        if longest >= self.floor {
            self.front = first;
            return;
        }
        self.floor_at = self.sent.wrapping_add(self.floor).wrapping_sub(longest);
        self.choose_by_clock();
    }

    /// By weight: passes the turn to the next backlogged tin, or to tin 0 if there is none.
    const fn turn_to_next(&mut self) {
        let behind = self.backlogged & (u32::MAX << 1) << (self.front & 31);
        let next = if behind == 0 { self.backlogged } else { behind }.trailing_zeros();
        self.front = if next < TinConfig::MAX_TINS { next } else { 0 };
        self.has_begun = false;
    }

    #[inline(always)]
    fn charge_share(&mut self, len: u32, wire_len: u32, is_idle: bool) {
        let (now, at) = (self.later(), self.front());
        let was_floor_due = self.is_floor_due();
        self.sent = self.sent.wrapping_add(len);
        if was_floor_due {
            self.floor_at = self.sent.wrapping_add(self.floor);
        }
        let sent = self.sent;
        let Some(tin) = self.tin_mut(at) else { return };
        tin.served_at = sent;
        tin.count(len);
        tin.charge(wire_len, now);
        let clock = tin.clock();
        self.note_due(at, if is_idle { Due::NEVER } else { Due::at(clock, at) });
        if is_idle {
            self.backlogged &= !(1 << at);
            self.within &= !(1 << at);
        } else if clock > now {
            self.within &= !(1 << at);
            self.note_within(clock);
        }
        self.choose(now);
    }

    fn charge_turn(&mut self, len: u32, is_idle: bool) {
        if self.rule == Rule::One {
            return;
        }
        // Called for time, so that it is as late as under the other rule.
        self.now();
        let (at, max_len) = (self.front, self.max_len);
        let Some(tin) = self.tin_mut(at) else { return };
        tin.count(len);
        let charged = tin.charged.saturating_add(len);
        let is_used_up = charged >= tin.quantum;
        tin.charged = match (is_used_up, is_idle) {
            (true, _) => debt(charged, tin.quantum, max_len),
            // Credit does not outlive the turn.
            (false, true) => 0,
            (false, false) => charged,
        };
        self.has_begun = true;
        if is_idle {
            self.backlogged &= !(1 << at);
        }
        if is_idle || is_used_up {
            self.turn_to_next();
        }
    }
}

#[cfg(test)]
mod tests;
