//! Tins: classes of traffic with a share of the line each, priority within the share, and borrowing beyond it.
//!
//! Every flow belongs to a *tin*, and tins are numbered from 0 to at most 7. Inside a tin flows take turns as under
//! [`Drr`](crate::Drr). Which tin is served goes by one of two rules:
//!
//! - **By share**, if a tin has a threshold rate. A tin that is sent no more than its rate is *within its share*. Among
//!   these tins the one with the highest number is served. If none is within its share, the tin that is the first to come
//!   within it again borrows what is left.
//! - **By weight**, if no tin has a rate: deficit round robin over the tins.
//!
//! So a tin that keeps within its share goes first, one that exceeds it loses its priority and not its packets, and the
//! line never idles while packets wait. A tin without a rate among others with one is always within its share.
//!
//! **The clock of a tin** says until when its rate covers what it was sent. Each packet moves the clock on by the time that the packet takes
//! at the rate of the tin. What a tin borrows moves its clock to at most the time of that packet ahead of now. A tin that becomes
//! backlogged has no credit for the time in which it was idle. A tin that waits while it is backlogged gets a credit, of
//! at most `2^(n − t + 1) − 1` of the longest packets for tin `t` of `n`: as much as the tins above can delay it.
//!
//! **Promises.** `r` is the rate of a tin, `C` the rate of the line, `L` the longest packet on the wire, `F` the
//! [floor](TinDrr::with_floor). `docs/disciplines/tins.md` has the proofs. Behind the rule by share, in any interval of length `T`:
//!
//! - *Priority has an end.* While tin `t` of `n` is within its share it is sent at most `r·T + 2^(n − t + 1)·L` bytes.
//! - *Share.* A tin that stays backlogged is sent at least `min(r, (1 − L/F)·C − R)·T − 2^(n − t + 1)·L` bytes, where `R` is
//!   the sum of the rates of the tins above.
//! - *Wait of the highest tin.* A packet that finds the highest tin idle and within its share starts after at most one
//!   packet on the wire, and one of the floor.
//! - *No tin starves.* A tin that stays backlogged sends a packet after at most `n·F + n·L` bytes of all tins, whatever
//!   their rates: one packet in `F` bytes is of the tin that was not served for longest, if that was for `F` bytes.
//!
//! By weight, tin `t` of quantum `Q` waits for at most a turn of every other tin, `Q + L − 1` bytes each.
//!
//! Which flow is next changes only when a packet is served, and when a tin becomes backlogged or idle: a tin that comes within
//! its share in between is seen at the next of these calls.
//!
//! **Time.** From [`FlowScheduler::advance`]; counted in these calls only. A step back is no time, unless it is of more
//! than a second: then time goes on from the new reading. A step forward counts for at most ten hours.
//!
//! **Cost.** O(1): a multiplication and a few comparisons a packet; a loop over the tins where one comes within its share,
//! and where none is within it. With one tin, that of [`Drr`](crate::Drr). Memory: 24 bytes a flow, and 600 for the tins.
//!
//! **Source.** T. Høiland-Jørgensen, D. Täht, J. Morton, *Piece of CAKE*, 2018, §III-D, and RFC 8290 §4 for the flows of
//! a tin. The bound on credit and the floor are ours: `docs/disciplines/tins.md`.

mod config;
mod tin;

pub use config::TinConfig;

use super::drr::ring::{self, OnRing, Ring, RingFlow, debt};
use super::drr::{Noted, note, upcoming};
use crate::flow_scheduler::{ConfigError, DropFrom, FlowScheduler, FlowState, Needs, Table};
use crate::hosts::token_bucket::{AsBooked, WireLength};
use crate::queues::queue::NONE;
use crate::{FlowId, Imbalance, Nanos, Packet};
use tin::{FAR, Tin, TinTime};

/// What [`TinDrr`] knows of one flow: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinFlow {
    flow: RingFlow,
    /// The tin in the high bits, and in the others a note ([`Noted`]). A note of a flow beyond them is a wrong guess.
    tin_and_note: u32,
}

/// The bits of a [`TinFlow`] that are a note.
const NOTE: u32 = u32::MAX >> 3;
/// Above these bits is the tin.
const NOTE_BITS: u32 = 29;
/// The most bytes of the floor. A tin waits for at most as many of each of the others, which is less than the count of
/// bytes sent can tell apart: 2^32.
const MOST_FLOOR: u32 = 1 << 28;
/// The most tins.
const TINS: usize = TinConfig::MAX_TINS as usize;

impl TinFlow {
    /// A flow that was not added, of tin 0.
    pub const EMPTY: Self = Self { flow: RingFlow::EMPTY, tin_and_note: 0 };

    const fn tin(&self) -> u32 {
        self.tin_and_note >> NOTE_BITS
    }

    /// Puts the flow, on no ring, into `tin`, as if it had just been added.
    const fn renew(&mut self, tin: u32) {
        self.flow = self.flow.renewed();
        self.tin_and_note = self.tin_and_note & NOTE | tin << NOTE_BITS;
    }
}

impl Default for TinFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl OnRing for TinFlow {
    #[inline]
    fn on_ring(&self) -> &RingFlow {
        &self.flow
    }

    #[inline]
    fn on_ring_mut(&mut self) -> &mut RingFlow {
        &mut self.flow
    }
}

impl Noted for TinFlow {
    #[inline]
    fn noted(&self) -> u32 {
        self.tin_and_note & NOTE
    }

    #[inline]
    fn set_noted(&mut self, flow: u32) {
        self.tin_and_note = self.tin_and_note & !NOTE | flow & NOTE;
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

/// Tins, and deficit round robin over the flows of each, in the memory `N`, on a link where packets are as long as `L` says.
///
/// [`FlowScheduler::Config`] is the quantum of a flow in bytes, as for [`Drr`](crate::Drr). A flow is of tin 0 until it is
/// [assigned](TinDrr::assign) to another. Put under [`HostDrr`](crate::HostDrr), the flows here are hosts.
///
/// ```
/// use sched_core::{FlowId, FlowScheduler, Nanos, TinConfig, TinDrr, TinFlow};
///
/// let mut tins = TinDrr::new([TinFlow::EMPTY; 2], 1_500)?;
/// tins.add_all(1_500)?;
/// // On a line of 12 Mbit/s, which sends a packet a millisecond, tin 1 has priority up to a quarter.
/// let share = |bits| TinConfig::by_weight(1).with_rate(bits);
/// tins.set_tins(&[share(12_000_000), share(3_000_000)])?;
/// tins.assign(FlowId(1), 1)?;
///
/// let mut sent = [0; 2];
/// (0..2).for_each(|flow| tins.backlogged(FlowId(flow), 1_500));
/// for millis in 0..1_000 {
///     tins.advance(Nanos::from_millis(millis));
///     let flow = tins.select().expect("both are backlogged");
///     tins.served(flow, 1_500, Some(1_500));
///     sent[flow.index()] += 1;
/// }
/// assert_eq!(sent, [750, 250]);
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinDrr<N, L = AsBooked> {
    nodes: N,
    tins: [Tin; TINS],
    /// How many tins there are. All others are idle.
    count: u32,
    rule: Rule,
    /// The tin served next, if any is backlogged.
    front: u32,
    /// Bit `t` is set if and only if tin `t` is backlogged. Not kept with one tin.
    backlogged: u32,
    /// The backlogged tins that were within their share when that was last looked at.
    within: u32,
    /// No tin that is backlogged and not in `within` comes within its share before.
    next_within: u64,
    time: TinTime,
    /// Whether the tin at the front has been sent something in its turn by weight.
    has_begun: bool,
    /// Bytes sent. Wraps: two counts compare by the sign of their difference.
    sent: u32,
    /// The count of bytes before which no tin is to be served by the floor.
    floor_at: u32,
    /// Bytes after which a tin that is not served in them is.
    floor: u32,
    /// Where the next ticket of tin 0 is noted.
    note_at: u32,
    max_len: u32,
    sparse_first: bool,
    link: L,
}

impl<N: Table<TinFlow>> TinDrr<N> {
    /// One tin with `nodes.len()` flows, none added, for packets of at most `max_len` bytes, which are as long on the wire
    /// as they are booked. Cost: O(flows).
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] unless `max_len` is in `1..=`[`Packet::MAX_LEN`].
    pub fn new(nodes: N, max_len: u32) -> Result<Self, ConfigError> {
        Self::on_link(nodes, max_len, AsBooked)
    }
}

impl<N: Table<TinFlow>, L: WireLength> TinDrr<N, L> {
    /// The largest quantum, in bytes.
    pub const MAX_QUANTUM: u32 = RingFlow::MAX_QUANTUM;

    /// The floor unless another is [set](TinDrr::with_floor), in longest packets.
    pub const FLOOR: u32 = 64;

    /// As [`TinDrr::new`], where packets are as long as `link` says. Rates count these lengths; weights and quanta count
    /// lengths as they are booked.
    ///
    /// # Errors
    /// As [`TinDrr::new`].
    pub fn on_link(mut nodes: N, max_len: u32, link: L) -> Result<Self, ConfigError> {
        let most = Packet::MAX_LEN.into();
        ConfigError::check_range("longest packet in bytes", max_len.into(), 1, most)?;
        nodes.as_mut().fill(TinFlow::EMPTY);
        let floor = max_len.wrapping_mul(Self::FLOOR);
        let first = TinConfig::by_weight(1);
        let mut tins = Self {
            nodes,
            tins: [Tin::IDLE; TINS],
            count: 0,
            rule: Rule::One,
            front: 0,
            backlogged: 0,
            within: 0,
            next_within: FAR,
            time: TinTime::START,
            has_begun: false,
            sent: 0,
            floor_at: floor,
            floor,
            note_at: 0,
            max_len,
            sparse_first: false,
            link,
        };
        tins.set_tins(&[first])?;
        Ok(tins)
    }

    /// With sparse flows first inside each tin, as [`Drr::sparse_first`](crate::Drr::sparse_first). They overtake flows of
    /// their own tin only.
    #[must_use]
    pub fn sparse_first(mut self) -> Self {
        self.sparse_first = true;
        self
    }

    /// Another floor: a tin that is backlogged, and has been sent nothing while all together were sent `packets` of the longest
    /// packets, is served, at most once in as many bytes. 2 to 1,024 packets, any other number counts as the nearest of
    /// these; and at most 2^28 bytes, whatever the number.
    #[must_use]
    pub fn with_floor(mut self, packets: u32) -> Self {
        self.floor = self.max_len.wrapping_mul(packets.clamp(2, 1_024)).min(MOST_FLOOR);
        self.floor_at = self.sent.wrapping_add(self.floor);
        self
    }

    /// Adds every flow there is room for, or changes it, with the same quantum in bytes.
    /// Cost: O(flows).
    ///
    /// # Errors
    /// As [`FlowScheduler::configure`]; nothing has changed then.
    pub fn add_all(&mut self, quantum: u32) -> Result<(), ConfigError> {
        ring::add_all(self.nodes.as_mut(), quantum, self.max_len)
    }

    /// Other tins, as many as `tins` is long, while flows are backlogged or not. What a tin owes or has to its credit it
    /// owes or has after the change, in bytes. With rates the tins share by them, without any by weight. Idle flows of
    /// tins that there are no longer are of tin 0, as if they had just been added. Cost: O(flows).
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// - [`ConfigError::OutOfRange`] unless the tins are in `1..=`[`TinConfig::MAX_TINS`], and for a rate or a weight outside
    ///   its range.
    /// - [`ConfigError::Backlogged`] if a flow is backlogged in a tin that would not be there.
    pub fn set_tins(&mut self, tins: &[TinConfig]) -> Result<(), ConfigError> {
        let most = TinConfig::MAX_TINS.into();
        ConfigError::check_range("number of tins", tins.len() as u64, 1, most)?;
        let count = u32::try_from(tins.len()).unwrap_or(TinConfig::MAX_TINS);
        tins.iter().try_for_each(TinConfig::check)?;
        for (at, node) in (0..).zip(self.nodes.as_ref()) {
            if node.tin() >= count && node.flow.is_listed() {
                return Err(ConfigError::Backlogged { flow: FlowId(at) });
            }
        }
        for node in self.nodes.as_mut() {
            if node.tin() >= count {
                node.renew(0);
            }
        }
        let by_share = tins.iter().any(|tin| tin.bits_per_second.is_some());
        let rule = match (count, by_share) {
            (1, _) => Rule::One,
            (_, true) => Rule::ByShare,
            (_, false) => Rule::ByWeight,
        };
        let now = self.time.tick();
        let least = tins.iter().map(|tin| tin.weight).min().unwrap_or(1);
        let longest = self.longest();
        for ((above, config), tin) in (0..count).rev().zip(tins).zip(&mut self.tins) {
            if rule != self.rule {
                (tin.charged, tin.served_at) = (0, self.sent);
            }
            tin.set_config(*config, least, self.max_len);
            tin.set_rate(config.bits_per_second, above, longest, now);
        }
        // A tin that is not there owes nothing.
        self.tins.iter_mut().skip(tins.len()).for_each(|tin| *tin = Tin::IDLE);
        (self.count, self.rule, self.has_begun) = (count, rule, false);
        self.look_anew(now);
        Ok(())
    }

    /// How many tins there are.
    #[must_use]
    pub const fn tins(&self) -> u32 {
        self.count
    }

    /// What is set for `tin`; `None` if there is no such tin.
    #[must_use]
    pub fn tin(&self, tin: u32) -> Option<TinConfig> {
        self.tins.get(tin as usize).filter(|_| tin < self.count).map(Tin::config)
    }

    /// What packets are on the wire, from the next on that leaves.
    pub fn set_link(&mut self, link: L) {
        self.link = link;
        let (now, longest) = (self.time.tick(), self.longest());
        for (above, tin) in (0..self.count).rev().zip(&mut self.tins) {
            tin.set_rate(tin.config().bits_per_second, above, longest, now);
        }
        self.look_anew(now);
    }

    /// Makes `flow`, added or not, one of `tin`. A flow that changes its tin is as if it had just been added: debt is
    /// forgotten. The same tin again changes nothing; [`FlowScheduler::remove`] makes it one of tin 0.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`] and [`ConfigError::OutOfRange`] if there is no such flow or tin,
    /// [`ConfigError::Backlogged`] if the flow holds packets; nothing has changed then.
    pub fn assign(&mut self, flow: FlowId, tin: u32) -> Result<(), ConfigError> {
        let (flows, last) = (self.flows(), self.count.saturating_sub(1));
        let node = self.nodes.as_mut().get_mut(flow.index());
        let Some(node) = node.filter(|_| flow.0 < flows) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        ConfigError::check_range("tin", tin.into(), 0, last.into())?;
        if node.flow.is_listed() {
            return Err(ConfigError::Backlogged { flow });
        }
        if node.tin() != tin {
            node.renew(tin);
        }
        Ok(())
    }

    /// The tin of `flow`; `None` if there is no room for such a flow.
    #[must_use]
    pub fn tin_of(&self, flow: FlowId) -> Option<u32> {
        self.nodes.as_ref().get(flow.index()).map(TinFlow::tin)
    }

    /// Whether `tin` is backlogged, and within its share as far as that was last looked at.
    #[must_use]
    pub const fn is_within_share(&self, tin: u32) -> bool {
        tin < TinConfig::MAX_TINS && self.within >> tin & 1 == 1
    }

    fn node(&self, flow: FlowId) -> Option<&TinFlow> {
        self.nodes.as_ref().get(flow.index()).filter(|node| node.flow.is_added())
    }

    /// The most bytes on the wire that a packet takes.
    fn longest(&self) -> u32 {
        self.link.wire_len(self.max_len).max(1)
    }

    /// The tin served next.
    #[inline(always)]
    fn first(&self) -> &Tin {
        let [tin, ..] = &self.tins;
        self.tins.get(self.front as usize).unwrap_or(tin)
    }

    #[inline(always)]
    fn tin_mut(&mut self, tin: u32) -> Option<&mut Tin> {
        self.tins.get_mut(tin as usize)
    }

    /// The masks from the rings, and the tin served next.
    fn look_anew(&mut self, now: u64) {
        (self.backlogged, self.within, self.next_within) = (0, 0, now);
        for (at, tin) in (0..).zip(&self.tins) {
            self.backlogged |= u32::from(tin.ring.front() != NONE) << at;
        }
        if self.rule == Rule::One {
            self.front = 0;
            return;
        }
        if self.rule == Rule::ByWeight && self.backlogged >> (self.front & 31) & 1 == 0 {
            return self.turn_to_next();
        }
        self.choose(now);
    }

    /// By share: the tin served next, as of `now`.
    #[inline]
    fn choose(&mut self, now: u64) {
        if self.rule != Rule::ByShare {
            return;
        }
        if now.wrapping_sub(self.next_within).cast_signed() >= 0 {
            self.look(now);
        }
        if self.is_floor_due()
            && let Some(tin) = self.starving()
        {
            self.front = tin;
            return;
        }
        self.front = if self.within != 0 {
            self.within.ilog2()
        } else if self.backlogged & self.backlogged.wrapping_sub(1) == 0 {
            // One tin, or none.
            self.backlogged.trailing_zeros() & (TinConfig::MAX_TINS - 1)
        } else {
            self.earliest(now)
        };
    }

    /// Which tins have come within their share, and when the next one does.
    #[inline(never)]
    fn look(&mut self, now: u64) {
        self.next_within = now.wrapping_add(FAR);
        for tin in bits(self.backlogged & !self.within) {
            let Some(clock) = self.tins.get(tin as usize).map(|tin| tin.clock) else { return };
            if clock.wrapping_sub(now).cast_signed() <= 0 {
                self.within |= 1 << tin;
            } else {
                self.note_within(clock);
            }
        }
    }

    /// A tin that is backlogged comes within its share at `clock`.
    #[inline]
    const fn note_within(&mut self, clock: u64) {
        if clock.wrapping_sub(self.next_within).cast_signed() < 0 {
            self.next_within = clock;
        }
    }

    /// Of the backlogged tins the one that comes within its share first, the highest of those that do at once; tin 0 if none
    /// is backlogged.
    #[inline(never)]
    fn earliest(&self, now: u64) -> u32 {
        let (mut first, mut least) = (0, i64::MAX);
        for tin in bits(self.backlogged) {
            let Some(clock) = self.tins.get(tin as usize).map(|tin| tin.clock) else { break };
            let ahead = clock.wrapping_sub(now).cast_signed();
            if ahead <= least {
                (first, least) = (tin, ahead);
            }
        }
        first
    }

    /// Whether a tin may have been passed over for as long as the floor allows.
    #[inline(always)]
    const fn is_floor_due(&self) -> bool {
        self.sent.wrapping_sub(self.floor_at).cast_signed() >= 0
    }

    /// The backlogged tin that was not served for longest, if that was for as many bytes as the floor says; the lowest of
    /// several.
    #[inline(never)]
    fn starving(&mut self) -> Option<u32> {
        let (mut first, mut longest) = (0, 0);
        for tin in bits(self.backlogged) {
            let waited = self.sent.wrapping_sub(self.tins.get(tin as usize)?.served_at);
            if waited > longest {
                (first, longest) = (tin, waited);
            }
        }
        if longest >= self.floor {
            return Some(first);
        }
        self.floor_at = self.sent.wrapping_add(self.floor).wrapping_sub(longest);
        None
    }

    /// By weight: the turn is that of the next backlogged tin; tin 0 if none is.
    const fn turn_to_next(&mut self) {
        let behind = self.backlogged & (u32::MAX << 1) << (self.front & 31);
        let next = if behind == 0 { self.backlogged } else { behind }.trailing_zeros();
        self.front = if next < TinConfig::MAX_TINS { next } else { 0 };
        self.has_begun = false;
    }

    /// Several tins: the one at the front has sent `len` bytes.
    #[inline(always)]
    fn charge_tin(&mut self, len: u32) {
        if self.rule == Rule::ByShare { self.charge_share(len) } else { self.charge_turn(len) }
    }

    #[inline(always)]
    fn charge_share(&mut self, len: u32) {
        let (now, at) = (self.time.tick(), self.front);
        let wire_len = self.link.wire_len(len).max(1);
        let was_floor_due = self.is_floor_due();
        self.sent = self.sent.wrapping_add(len.min(self.max_len));
        if was_floor_due {
            self.floor_at = self.sent.wrapping_add(self.floor);
        }
        let sent = self.sent;
        let Some(tin) = self.tin_mut(at) else { return };
        tin.served_at = sent;
        let is_ahead = tin.charge(wire_len, now);
        let (clock, is_idle) = (tin.clock, tin.ring.front() == NONE);
        if is_idle {
            self.backlogged &= !(1 << at);
            self.within &= !(1 << at);
        } else if is_ahead {
            self.within &= !(1 << at);
            self.note_within(clock);
        }
        self.choose(now);
    }

    fn charge_turn(&mut self, len: u32) {
        let (at, max_len) = (self.front, self.max_len);
        let Some(tin) = self.tin_mut(at) else { return };
        let charged = tin.charged.saturating_add(len.min(max_len));
        let is_idle = tin.ring.front() == NONE;
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

    /// Several tins: `tin` has got its first flow that is backlogged.
    fn tin_backlogged(&mut self, at: u32) {
        let now = self.time.tick();
        let was_idle = self.backlogged == 0;
        let (sent, longest) = (self.sent, self.longest());
        let Some(tin) = self.tin_mut(at) else { return };
        tin.served_at = sent;
        let is_ahead = tin.begin(longest, now);
        let clock = tin.clock;
        self.backlogged |= 1 << at;
        if self.rule == Rule::ByWeight {
            if was_idle {
                (self.front, self.has_begun) = (at, false);
            }
            return;
        }
        if is_ahead {
            self.note_within(clock);
        } else {
            self.within |= 1 << at;
        }
        self.choose(now);
    }

    /// Several tins: the last flow of `tin` that was backlogged has lost what it had.
    fn tin_lost(&mut self, at: u32) {
        let is_front = at == self.front;
        self.backlogged &= !(1 << (at & 31));
        self.within &= !(1 << (at & 31));
        if self.rule == Rule::ByShare {
            let now = self.time.tick();
            return self.choose(now);
        }
        if is_front {
            // A loss is no service. A turn that has begun is over, as if the tin had been emptied by service.
            if self.has_begun
                && let Some(tin) = self.tin_mut(at)
            {
                tin.charged = 0;
            }
            self.turn_to_next();
        }
    }

    /// [`FlowScheduler::backlogged`], with several tins.
    #[inline(never)]
    fn backlogged_in_tin(&mut self, flow: FlowId) {
        let Some(node) = self.nodes.as_ref().get(flow.index()) else { return };
        let at = node.tin();
        if !node.flow.is_added() || node.flow.is_listed() {
            return;
        }
        let Some(ring) = self.tins.get_mut(at as usize).map(|tin| &mut tin.ring) else { return };
        let was_idle = ring.front() == NONE;
        let (nodes, note_at) = (self.nodes.as_mut(), &mut self.note_at);
        ring.enter(nodes, flow.0, self.sparse_first, |nodes| {
            if at == 0 {
                note(nodes, note_at, flow.0);
            }
        });
        if was_idle {
            self.tin_backlogged(at);
        }
    }

    /// [`FlowScheduler::select`], with several tins: apart, so that one tin does not pay for the choice among tins.
    #[inline(never)]
    fn select_in_tin(&self) -> Option<FlowId> {
        self.front_of(&self.first().ring)
    }

    #[inline(always)]
    fn front_of(&self, ring: &Ring) -> Option<FlowId> {
        let front = FlowId(ring.front());
        (front.index() < self.nodes.as_ref().len()).then_some(front)
    }

    /// [`FlowScheduler::served`], with several tins.
    #[inline(never)]
    fn served_in_tin(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let (at, max_len) = (self.front, self.max_len);
        let Some(ring) = self.tins.get_mut(at as usize).map(|tin| &mut tin.ring) else { return };
        if flow.0 != ring.front() || flow.index() >= self.nodes.as_ref().len() {
            return;
        }
        if next_head.is_none() {
            ring.leave_front(self.nodes.as_mut(), len, max_len);
        } else {
            let note_at = &mut self.note_at;
            ring.charge(self.nodes.as_mut(), len, max_len, |nodes| {
                if at == 0 {
                    note(nodes, note_at, flow.0);
                }
            });
        }
        self.charge_tin(len);
    }

    /// `flow` of `tin` has left the ring without service.
    #[inline]
    fn settle(&mut self, tin: u32) {
        let is_idle = self.tins.get(tin as usize).is_some_and(|tin| tin.ring.front() == NONE);
        if self.rule != Rule::One && is_idle {
            self.tin_lost(tin);
        }
    }
}

/// The bits that are set, the lowest first: at most as many as there are tins.
fn bits(mut mask: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < TinConfig::MAX_TINS).then_some(bit)
    })
}

impl<N: Table<TinFlow>, L: WireLength> FlowScheduler for TinDrr<N, L> {
    /// The quantum of a flow in bytes, from the longest packet to [`TinDrr::MAX_QUANTUM`].
    type Config = u32;

    fn flows(&self) -> u32 {
        u32::try_from(self.nodes.as_ref().len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.time.tell(now);
    }

    /// Of a backlogged flow the new quantum counts at once, for a turn under way as well.
    fn configure(
        &mut self,
        flow: FlowId,
        quantum: u32,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        ring::configure(self.nodes.as_mut(), flow, quantum, self.max_len)
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(&TinFlow { flow: on_ring, .. }) = self.node(flow) else {
            // What was not added may have a tin.
            if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
                node.renew(0);
            }
            return;
        };
        let tin = self.tin_of(flow).unwrap_or(0);
        if on_ring.is_listed()
            && let Some(ring) = self.tins.get_mut(tin as usize).map(|tin| &mut tin.ring)
        {
            ring.unlist(self.nodes.as_mut(), flow.0);
            self.settle(tin);
        }
        if let Some(node) = self.nodes.as_mut().get_mut(flow.index()) {
            // The note in this row is of another flow.
            node.flow = RingFlow::EMPTY;
            node.renew(0);
        }
    }

    fn config(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|node| node.flow.quantum())
    }

    #[inline]
    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.node(flow).map(|_| self.max_len)
    }

    #[inline]
    fn needs(&self) -> Needs {
        Needs { looks_ahead: false, counts_bytes: false, common_max_len: self.max_len }
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        if self.rule != Rule::One {
            return self.backlogged_in_tin(flow);
        }
        let Self { nodes, tins: [Tin { ring, .. }, ..], note_at, sparse_first, .. } = self;
        let nodes = nodes.as_mut();
        let is_idle = |node: &TinFlow| node.flow.is_added() && !node.flow.is_listed();
        if nodes.get(flow.index()).is_some_and(is_idle) {
            ring.enter(nodes, flow.0, *sparse_first, |nodes| note(nodes, note_at, flow.0));
        }
    }

    /// The old list of tin 0, while this tin is served.
    fn upcoming(&self, ahead: &mut [FlowId]) -> usize {
        if self.front != 0 {
            return 0;
        }
        upcoming(&self.first().ring, self.nodes.as_ref(), self.note_at, ahead)
    }

    #[inline]
    fn grew(&mut self, _flow: FlowId, _len: u32) {}

    #[inline]
    fn select(&self) -> Option<FlowId> {
        if self.rule != Rule::One {
            return self.select_in_tin();
        }
        let [Tin { ring, .. }, ..] = &self.tins;
        self.front_of(ring)
    }

    /// A call for a flow that was not selected changes nothing.
    #[inline]
    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        if self.rule != Rule::One {
            return self.served_in_tin(flow, len, next_head);
        }
        let Self { nodes, tins: [Tin { ring, .. }, ..], note_at, max_len, .. } = self;
        let nodes = nodes.as_mut();
        if flow.0 != ring.front() || flow.index() >= nodes.len() {
            return;
        }
        if next_head.is_none() {
            ring.leave_front(nodes, len, *max_len);
        } else {
            ring.charge(nodes, len, *max_len, |nodes| note(nodes, note_at, flow.0));
        }
    }

    fn lost(&mut self, flow: FlowId, _len: u32, head: Option<u32>) {
        let Some(node) = self.nodes.as_ref().get(flow.index()) else { return };
        let tin = node.tin();
        if head.is_some() || !node.flow.is_listed() {
            return;
        }
        if let Some(ring) = self.tins.get_mut(tin as usize).map(|tin| &mut tin.ring) {
            ring.lose(self.nodes.as_mut(), flow.0, self.max_len);
        }
        self.settle(tin);
    }

    /// A backlogged flow is always selected: none waits.
    #[inline]
    fn waits(&self) -> bool {
        false
    }

    /// No flow waits.
    #[inline]
    fn waiting(&self) -> Option<FlowId> {
        None
    }

    /// No flow waits.
    #[inline]
    fn opens_at(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// No flow waits.
    #[inline]
    fn open(&mut self) {}

    /// No flow has a ceiling.
    #[inline]
    fn pace(&self, _flow: FlowId) -> Nanos {
        Nanos::ZERO
    }

    /// The arrival gives way.
    fn victim(&self) -> Option<(FlowId, DropFrom)> {
        None
    }

    /// No queue is given up whole.
    fn gives_up(&self, _flow: FlowId) -> bool {
        false
    }

    fn recount(&self, flows: &dyn Fn(FlowId) -> FlowState) -> Result<(), Imbalance> {
        let nodes = self.nodes.as_ref();
        for (at, node) in (0..).zip(nodes) {
            let is_backlogged = flows(FlowId(at)).backlog.packets > 0;
            node.flow.recount(at, is_backlogged, self.max_len)?;
            let has_tin = node.tin() < self.count;
            Imbalance::check("a tin that there is", at, 1, has_tin.into())?;
        }
        for (at, tin) in (0..).zip(&self.tins) {
            let is_here = |node: &&TinFlow| node.flow.is_listed() && node.tin() == at;
            let listed = nodes.iter().filter(is_here).count();
            tin.ring.recount(nodes, listed)?;
            if !self.sparse_first {
                Imbalance::check("no new list", at, 0, tin.ring.has_new().into())?;
            }
            for (flow, node) in tin.ring.walk(nodes, listed) {
                Imbalance::check("the tin of a flow", flow, node.tin().into(), at.into())?;
            }
            if self.rule != Rule::One {
                let kept = self.backlogged >> at & 1;
                Imbalance::check("a tin is backlogged", at, u64::from(listed > 0), kept.into())?;
            }
        }
        if self.rule != Rule::One {
            let idle = self.within & !self.backlogged;
            Imbalance::check("tins within their share hold packets", 0, 0, idle.into())?;
        }
        let any = self.tins.iter().any(|tin| tin.ring.front() != NONE);
        let front = self.first().ring.front() != NONE;
        Imbalance::check("the tin served next is backlogged", 0, any.into(), front.into())
    }
}

#[cfg(test)]
mod tests;
