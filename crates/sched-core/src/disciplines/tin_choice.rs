//! Which tin goes next: the choice among tins, whatever it is that they hold.
//!
//! Which tin is served goes by one of two rules:
//!
//! - **By share**, if a tin has a threshold rate. A tin that is sent no more than its rate is
//!   *within its share*. Among these tins the one with the highest number is served. If none is
//!   within its share, the tin that is the first to come within it again borrows what is left.
//! - **By weight**, if no tin has a rate: deficit round robin over the tins.
//!
//! So a tin that keeps within its share goes first, one that exceeds it loses its priority and not
//! its packets, and the line never idles while packets wait. A tin without a rate among others with
//! one is always within its share.
//!
//! **The clock of a tin** says until when its rate covers what it was sent. Each packet moves the
//! clock on by the time that the packet takes at the rate of the tin. What a tin borrows moves its
//! clock to at most the time of that packet ahead of now. A tin that becomes backlogged has no
//! credit for the time in which it was idle. A tin that waits while it is backlogged gets a credit,
//! of at most `2^(n − t + 1) − 1` of the longest packets for tin `t` of `n`: as much as the tins
//! above can delay it.
//!
//! **Promises.** `r` is the rate of a tin, `C` the rate of the line, `L` the longest packet on the
//! wire, `F` the [floor](TinChoice::with_floor). `docs/proofs/tins.md` has the proofs. Behind
//! the rule by share, in any interval of length `T`:
//!
//! - *Priority has an end.* While tin `t` of `n` is within its share it is sent at most `r·T + 2^(n
//!   − t + 1)·L` bytes.
//! - *Share.* A tin that stays backlogged is sent at least `min(r, (1 − L/F)·C − R)·T − 2^(n − t +
//!   1)·L` bytes, where `R` is the sum of the rates of the tins above.
//! - *Wait of the highest tin.* A packet that finds the highest tin idle and within its share
//!   starts after at most one packet on the wire, and one of the floor.
//! - *No tin starves.* A tin that stays backlogged sends a packet after at most `n·F + n·L` bytes
//!   of all tins, whatever their rates: one packet in `F` bytes is of the tin that was not served
//!   for longest, if that was for `F` bytes.
//!
//! By weight, tin `t` of quantum `Q` waits for at most a turn of every other tin, `Q + L − 1` bytes
//! each.
//!
//! Which tin is next changes only when a packet is served, and when a tin becomes backlogged or
//! idle: a tin that comes within its share in between is seen at the next of these calls.
//!
//! **Time.** From [`TinChoice::advance`]; counted in these calls only. A step back is no time,
//! unless it is of more than a second: then time goes on from the new reading. A step forward
//! counts for at most ten hours.
//!
//! **Cost.** O(1): the time of a packet and a few comparisons; a loop over the tins where one comes
//! within its share, and where none of more than four is within it. Nothing with one tin. Memory:
//! 72 bytes a tin.
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

/// The most bytes of the floor. A tin waits for at most as many of each of the others, which is
/// less than the count of bytes sent can tell apart: 2^32.
const MOST_FLOOR: u32 = 1 << 28;
/// Time that is later than this is moved back to where it began. A step of time is at most 2⁴⁵, and
/// no clock is ahead of now by more than the time of a packet, 2⁴⁶. Few tins leave by the short
/// way, which moves no time back, until the floor is due: after 2²⁸ bytes at most. Those that take
/// most are single bytes, of up to 566 on the wire: less than 2⁶¹ − 2⁴⁷ together. So time stays
/// below 2⁶².
const LATEST: Nanos = Nanos(1 << 61);

/// As many tins are looked at without a loop.
const FEW: usize = 4;

/// The instant at which one of few tins comes within its share, and the number of the tin in the
/// lowest two bits: the least of all says both. Of tins that come at once the highest has the
/// least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64);

impl Due {
    /// A tin that is idle: later than any other.
    const NEVER: Self = Self(u64::MAX);
    /// The bits that say which tin it is.
    const TIN: u8 = 3;

    /// Tin `at` comes within its share at `clock`, which is below 2⁶².
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

/// Which tin is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// There is one.
    One,
    ByShare,
    ByWeight,
}

/// Says which tin is served next, and is told what becomes of each: not what a tin holds, nor how
/// it is kept.
///
/// The owner keeps the packets of each tin in a structure of its own, and serves from that of
/// [`Self::front`]. It tells when a tin that held nothing holds something ([`Self::backlogged`]),
/// when the tin at the front has sent a packet ([`Self::served`]), and when a tin has lost all it
/// held without service ([`Self::emptied`]). With one tin ([`Self::is_one`]) none of these calls is
/// needed, and each returns at once.
///
/// The rules and what they promise: `docs/disciplines/tins.md`. Every call is O(1), those that set
/// tins or the link O(tins).
///
/// ```
/// use sched_core::{AsBooked, Nanos, TinChoice, TinConfig, TinState};
///
/// let mut choice = TinChoice::new([TinState::EMPTY; 2], 1_500, AsBooked)?;
/// // On a line of 12 Mbit/s, which sends a packet a millisecond, tin 1 has priority up to a quarter.
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
    /// One for each tin that there may be; those that are not there are idle.
    tins: T,
    /// By share, when each of the first tins comes within its share.
    due: [Due; FEW],
    /// How many tins there are. All others are idle.
    count: u8,
    rule: Rule,
    /// The tin served next, if any is backlogged.
    front: u32,
    /// Bit `t` is set if and only if tin `t` is backlogged. Not kept with one tin.
    backlogged: u32,
    /// The backlogged tins that were within their share when that was last looked at.
    within: u32,
    /// No tin that is backlogged and not in `within` comes within its share before. At most
    /// [`LATEST`]. Not kept while `borrowing_until` is.
    next_within: Nanos,
    /// The same, where few tins share and none of them is in `within`; 0 otherwise.
    borrowing_until: Nanos,
    /// The last reading of the clock of the owner.
    told: Nanos,
    /// The time as of the calls in which a tin changes.
    time: Elapsed,
    /// Whether the tin at the front has been sent something in its turn by weight.
    has_begun: bool,
    /// Bytes sent. Wraps: two counts compare by the sign of their difference.
    sent: u32,
    /// The count of bytes before which no tin is to be served by the floor.
    floor_at: u32,
    /// Bytes after which a tin that is not served in them is.
    floor: u32,
    max_len: u32,
    link: L,
}

impl<T: Table<TinState>, L: WireLength> TinChoice<T, L> {
    /// The floor unless another is [set](Self::with_floor), in longest packets.
    pub const FLOOR: u32 = 64;

    /// One tin, for packets of at most `max_len` bytes, which are as long on the wire as `link`
    /// says; there may be as many tins as `tins` has room for. Rates count lengths on the wire;
    /// weights count lengths as they are booked.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`], and without
    /// room for a tin.
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

    /// Another floor: a tin that is backlogged, and has been sent nothing while all together were
    /// sent `packets` of the longest packets, is served, at most once in as many bytes. 2 to 1,024
    /// packets, any other number counts as the nearest of these; and at most 2^28 bytes, whatever
    /// the number.
    #[must_use]
    pub fn with_floor(mut self, packets: u32) -> Self {
        self.floor = self.max_len.wrapping_mul(packets.clamp(2, 1_024)).min(MOST_FLOOR);
        self.floor_at = self.sent.wrapping_add(self.floor);
        self
    }

    /// Whether [`Self::set_tins`] takes these tins, and how many they are.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless the tins are in `1..=`[`TinConfig::MAX_TINS`], and for a
    /// rate or a weight outside its range.
    pub fn check(tins: &[TinConfig]) -> Result<u32, ConfigError> {
        let most = TinConfig::MAX_TINS.into();
        ConfigError::check_range("number of tins", tins.len() as u64, 1, most)?;
        tins.iter().try_for_each(TinConfig::check)?;
        Ok(u32::try_from(tins.len()).unwrap_or(TinConfig::MAX_TINS))
    }

    /// Other tins, as many as `tins` is long. Bit `t` of `backlogged` says whether tin `t` holds
    /// packets; the bits of tins that there would not be do not count. What a tin owes or has to
    /// its credit it owes or has after the change, in bytes. With rates the tins share by them,
    /// without any by weight.
    ///
    /// # Errors
    /// As [`Self::check`], and for more tins than there is room for; nothing has changed then.
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
        // A tin that is not there owes nothing.
        let unused = self.tins.as_mut().iter_mut().skip(tins.len());
        unused.for_each(|tin| *tin = TinState::EMPTY);
        (self.rule, self.has_begun) = (rule, false);
        self.count = u8::try_from(tins.len()).unwrap_or(0);
        self.borrowing_until = Nanos::ZERO;
        self.look_anew(now, backlogged);
        Ok(())
    }

    /// How many tins there are.
    #[must_use]
    pub const fn tins(&self) -> u32 {
        if TinConfig::MAX_TINS == 1 { 1 } else { self.count as u32 }
    }

    /// Whether there is one tin, which needs no choice.
    #[inline(always)]
    #[must_use]
    pub const fn is_one(&self) -> bool {
        TinConfig::MAX_TINS == 1 || matches!(self.rule, Rule::One)
    }

    /// What is set for `tin`; `None` if there is no such tin.
    #[must_use]
    pub fn tin(&self, tin: u32) -> Option<TinConfig> {
        self.tins.as_ref().get(tin as usize).filter(|_| tin < self.tins()).map(TinState::config)
    }

    /// The longest packet, in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn max_len(&self) -> u32 {
        self.max_len
    }

    /// What packets are on the wire, from the next on that leaves. `backlogged` as in
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

    /// It is `now`. Time counts when a tin changes. A step back is no time, unless it is of more
    /// than a second: then time goes on from the new reading. A step forward counts for at most ten
    /// hours.
    #[inline(always)]
    pub const fn advance(&mut self, now: Nanos) {
        self.told = now;
    }

    /// Returns the time that was given to [`Self::advance`] last.
    #[inline(always)]
    #[must_use]
    pub const fn told(&self) -> Nanos {
        self.told
    }

    /// The tin served next; any if none is backlogged.
    #[inline(always)]
    #[must_use]
    pub const fn front(&self) -> u32 {
        // So that no place of a tin is checked.
        self.front & (TinConfig::MAX_TINS - 1)
    }

    /// The most bytes on the wire that a packet takes.
    fn longest(&self) -> u32 {
        self.link.wire_len(self.max_len).max(1)
    }

    #[inline(always)]
    fn tin_mut(&mut self, tin: u32) -> Option<&mut TinState> {
        self.tins.as_mut().get_mut(tin as usize)
    }

    /// Tin `at`, which held nothing, is backlogged. Without effect if there is no such tin.
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

    /// The tin at the front has been sent a packet of `len` bytes, booked. It `is_idle` if it holds
    /// nothing more.
    #[inline(always)]
    pub fn served(&mut self, len: u32, is_idle: bool) {
        if self.is_one() {
            return;
        }
        // No queue takes a longer one; others may tell of one.
        let len = len.min(self.max_len);
        let wire_len = self.wire_len(len);
        if is_idle || !self.borrowed(self.front, len, wire_len) {
            self.served_in_full(len, wire_len, is_idle);
        }
    }

    /// What a packet of `len` bytes, booked, takes on the wire.
    #[inline(always)]
    #[must_use]
    pub fn wire_len(&self, len: u32) -> u32 {
        self.link.wire_len(len)
    }

    /// What `tin` has been sent, as booked, since there are several tins, or since there is this
    /// one; nothing if there is no such tin.
    #[must_use]
    pub fn served_in(&self, tin: u32) -> Volume {
        self.tins.as_ref().get(tin as usize).map_or(Volume::ZERO, TinState::served)
    }

    /// Counts a packet of `len` bytes that `tin` was sent although it was not chosen:
    /// [`Self::served_in`] has it. Nothing if there is no such tin.
    pub fn count(&mut self, tin: u32, len: u32) {
        if let Some(tin) = self.tin_mut(tin) {
            tin.count(len);
        }
    }

    /// [`Self::served`], of tin `at`, which holds more, where few tins are all beyond their shares
    /// and stay so. Returns whether it is so; nothing has changed if not. Most packets of a line
    /// that is full leave like this: nothing is called here.
    #[inline(always)]
    #[must_use]
    pub fn borrowed(&mut self, at: u32, len: u32, wire_len: u32) -> bool {
        let Some(now) = self.time.advance_plainly(self.told) else { return false };
        let sent = self.sent.wrapping_add(len);
        if now >= self.borrowing_until || self.is_floor_due_at(sent) {
            return false;
        }
        self.sent = sent;
        // Below `FEW`, for compilers too.
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

    /// [`Self::served`], whatever there is to do.
    #[inline(always)]
    pub fn served_in_full(&mut self, len: u32, wire_len: u32, is_idle: bool) {
        if self.rule != Rule::ByShare {
            return self.charge_turn(len, is_idle);
        }
        self.charge_share(len, wire_len, is_idle);
    }

    /// Tin `at`, which was backlogged, has lost what it held, without service.
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
            // A loss is no service. A turn that has begun is over, as if the tin had been emptied
            // by service.
            if self.has_begun
                && let Some(tin) = self.tin_mut(at)
            {
                tin.charged = 0;
            }
            self.turn_to_next();
        }
    }

    /// Checks the choice against the tins that hold packets, a bit each.
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

    /// The masks anew, where `backlogged` says which tins hold packets, and the tin served next.
    fn look_anew(&mut self, now: Nanos, backlogged: u32) {
        let known = u32::MAX.unbounded_shr(u32::BITS.wrapping_sub(self.tins()));
        (self.backlogged, self.within, self.next_within) = (backlogged & known, 0, now);
        if self.is_one() {
            // Nothing would take the bit back.
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

    /// By share: the tin served next, as of `now`. What is rare is in functions of its own, called
    /// last: no registers are saved.
    #[inline(never)]
    fn choose(&mut self, now: Nanos) {
        if now >= self.next_within {
            return self.look(now);
        }
        self.choose_front();
    }

    /// [`Self::choose`], where no other tin has come within its share.
    #[inline(always)]
    fn choose_front(&mut self) {
        if self.is_floor_due() {
            return self.choose_by_floor();
        }
        self.choose_by_clock();
    }

    /// [`Self::choose_front`], where the floor serves none.
    #[inline(always)]
    fn choose_by_clock(&mut self) {
        if self.within == 0 {
            return self.choose_earliest();
        }
        self.front = self.within.ilog2();
    }

    /// Notes when tin `at` is due, if it is one of the first.
    #[inline(always)]
    fn note_due(&mut self, at: u32, due: Due) {
        if let Some(noted) = self.due.get_mut(at as usize) {
            *noted = due;
        }
    }

    /// Notes when each tin is due.
    fn note_all_due(&mut self) {
        self.due = [0, 1, 2, 3].map(|at: u32| match self.tins.as_ref().get(at as usize) {
            Some(tin) if self.backlogged >> at & 1 == 1 => Due::at(tin.clock(), at),
            _ => Due::NEVER,
        });
    }

    /// [`Self::choose`], where others may have come within their share: looks which have, and when
    /// the next one does.
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

    /// The time as of the last reading that was told.
    #[inline]
    fn now(&mut self) -> Nanos {
        let now = self.later();
        if now < LATEST { now } else { self.move_time_back() }
    }

    /// [`Self::now`], which may be later than [`LATEST`].
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

    /// Moves all instants back, long before they would reach the end of their type; returns what
    /// time it is then.
    #[cold]
    fn move_time_back(&mut self) -> Nanos {
        let span = self.time.move_back();
        self.tins.as_mut().iter_mut().for_each(|tin| tin.move_back(span));
        self.next_within = self.next_within.since(span);
        self.note_all_due();
        self.time.now()
    }

    /// A tin that is backlogged comes within its share at `clock`.
    #[inline]
    fn note_within(&mut self, clock: Nanos) {
        self.next_within = self.next_within.min(clock);
    }

    /// [`Self::choose`], where no tin is within its share: the one that comes within it first, the
    /// highest of those that do at once; tin 0 if none is backlogged.
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

    /// [`Self::choose_earliest`] of few tins, which are all beyond their shares until then.
    #[inline(always)]
    fn choose_of_few(&mut self) {
        const { assert!(FEW == 1 + Due::TIN as usize) };
        // Without branches: which tin it is, no processor foresees.
        let [a, b, c, d] = self.due;
        let first = a.min(b).min(c.min(d));
        (self.front, self.borrowing_until) = (first.tin(), first.clock());
    }

    /// Whether a tin may have been passed over for as long as the floor allows.
    #[inline(always)]
    const fn is_floor_due(&self) -> bool {
        self.is_floor_due_at(self.sent)
    }

    /// Whether the tin at the front is served by the floor.
    #[must_use]
    pub const fn serves_by_floor(&self) -> bool {
        matches!(self.rule, Rule::ByShare) && self.is_floor_due()
    }

    /// Whether the floor is due when so many bytes have been `sent`.
    #[inline(always)]
    const fn is_floor_due_at(&self, sent: u32) -> bool {
        sent.wrapping_sub(self.floor_at).cast_signed() >= 0
    }

    /// [`Self::choose`], where a tin may have been passed over for as long as the floor allows: the
    /// one that was not served for longest, if that was for as many bytes as the floor says; the
    /// lowest of several.
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

    /// By weight: the turn is that of the next backlogged tin; tin 0 if none is.
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
        // Counted here too, so that time is as late as it is under the other rule.
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
