//! WFI meters, which compare the service of every flow with its guarantee.
//!
//! The *worst-case fair index* measures how far a flow may fall behind its share `φ` while it is
//! backlogged. With `W` the bytes that the link sends in an interval and `W_k` those of flow k,
//! over all intervals in which k stays backlogged:
//!
//! - B-WFI is the largest `φW − W_k`, in bytes of the flow: over intervals that end at any time,
//!   and over those that end when a packet of k is completely sent (Bennett & Zhang 1996);
//! - T-WFI is the largest delay of a packet, in bytes of link time, beyond the delay on a link of
//!   rate `φR` for this flow alone, which would have had to send the flow's whole backlog at the
//!   arrival of the packet;
//! - the relative fairness of two flows is the largest `|W_a/φ_a − W_b/φ_b|`, in bytes of the link,
//!   over intervals in which both stay backlogged, with service charged at the dequeue.
//!
//! [`WfiMeter`] measures the first two for every flow of any scheduler, [`PairMeter`] the third for
//! a pair of flows; [`Metered`] is a scheduler that feeds its own meter. The measurements are
//! compared with a [`Guarantee`](freeboard::sched_core::Guarantee).
//!
//! **Backlog.** A flow is backlogged from the scheduler's point of view: from the arrival that
//! finds its queue empty until the dequeue that empties it. A packet that arrives while the last
//! one is on the wire begins a new backlog. The bounds hold only with this definition.
//!
//! **Position on the wire.** A packet may arrive while another is being sent. If the caller reports
//! how much of that is sent ([`WfiMeter::transmitted`]), the measurement is exact. Otherwise it is
//! the largest possible value, which the bounds cover: their proofs assume the worst case for the
//! rest on the wire (`docs/guarantees.md`).
//!
//! **Cost.** O(1) per event, no division; reports divide. Memory: 144 bytes per flow and 16 per
//! packet.
//!
//! **Method.** `c = φW − W_k`, times the denominator of `φ`, decreases only while k sends. So it is
//! smallest where a backlog begins and where packets of k end, and largest where they start; only
//! those times matter. **Overflow**: `|c| < 2^125` for 2^63 bytes ([`Share::MAX_DENOMINATOR`]), so
//! differences fit `i128`.

mod metered;
mod pair;
mod report;
#[cfg(test)]
mod tests;

use freeboard::sched_core::{ConfigError, FlowId, Share, Table};

pub use metered::Metered;
pub use pair::PairMeter;
pub use report::{Compared, WfiReport};

/// State of a flow in a [`WfiMeter`]. Opaque; fill tables with [`WfiFlow::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct WfiFlow {
    /// Share; `None` if the flow is not measured.
    share: Option<Share>,
    /// Bytes dequeued, including those on the wire.
    served: u64,
    /// Packets dequeued.
    sent: u64,
    /// Bytes not dequeued yet; 0 if and only if the flow is idle.
    queued: u64,
    /// Shortest packet dequeued; `u32::MAX` if there was none.
    shortest: u32,
    /// Smallest `c` of this backlog, at its beginning and at the ends of the flow's packets.
    low: i128,
    /// Largest `c` of this backlog, with service charged at the dequeue.
    high: i128,
    /// Largest `c − low`: B-WFI.
    lag: i128,
    /// Largest `c − low` at the ends of the flow's own packets.
    lag_at_completion: i128,
    /// Largest `high − c`, with service charged at the dequeue.
    lead: i128,
    /// Largest delay of a packet, times the numerator of the share: T-WFI.
    delay: i128,
}

impl WfiFlow {
    /// An unused entry, all zero.
    pub const EMPTY: Self = Self {
        share: None,
        served: 0,
        sent: 0,
        queued: 0,
        shortest: 0,
        low: 0,
        high: 0,
        lag: 0,
        lag_at_completion: 0,
        lead: 0,
        delay: 0,
    };

    /// A flow that is not measured.
    const ABSENT: Self = Self { shortest: u32::MAX, ..Self::EMPTY };
}

impl Default for WfiFlow {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Data of a packet that the meter needs at its dequeue: 16 bytes, kept with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes that the link had sent at the arrival.
    link: u64,
    /// Backlog of the flow in bytes at the arrival, including this packet and the rest on the
    /// wire; saturating.
    backlog: u32,
    flow: FlowId,
}

impl Arrival {
    /// An unused entry, all zero.
    pub const EMPTY: Self = Self { link: 0, backlog: 0, flow: FlowId(0) };

    /// Marker for no packet.
    const NONE: Self = Self { flow: FlowId(u32::MAX), ..Self::EMPTY };

    /// Returns the flow of the packet.
    #[must_use]
    pub const fn flow(&self) -> FlowId {
        self.flow
    }
}

impl Default for Arrival {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The packet being sent.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    flow: FlowId,
    len: u32,
    /// Bytes of it that are sent, if the caller has reported them.
    gone: Option<u32>,
}

/// A meter for B-WFI and T-WFI of the flows of any scheduler, with memory `N`.
///
/// Report every packet: [`WfiMeter::arrived`], [`WfiMeter::dequeued`] and [`WfiMeter::lost`].
///
/// ```
/// use conformance::wfi::{WfiFlow, WfiMeter};
/// use sched_core::{Drr, DrrFlow, FlowId, FlowScheduler};
///
/// let mut drr = Drr::new([DrrFlow::EMPTY; 2], 1_500)?;
/// drr.add_all(1_500)?;
/// let mut meter = WfiMeter::new([WfiFlow::EMPTY; 2]);
/// for flow in [FlowId(0), FlowId(1)] {
///     meter.add(flow, drr.guarantee(flow).expect("just added").share)?;
/// }
/// // Both hold two packets. Those of flow 0 are full, those of flow 1 short.
/// let mut queues = [vec![], vec![]];
/// for (flow, len) in [(0, 1_500), (0, 1_500), (1, 500), (1, 500)] {
///     let arrival = meter.arrived(FlowId(flow), len);
///     queues[flow as usize].push((arrival, len));
///     if queues[flow as usize].len() == 1 {
///         drr.backlogged(FlowId(flow), len);
///     }
/// }
/// while let Some(flow) = drr.select() {
///     let queue = &mut queues[flow.index()];
///     let (arrival, len) = queue.remove(0);
///     drr.served(flow, len, queue.first().map(|next| next.1));
///     meter.dequeued(arrival, len);
/// }
/// let report = meter.report(FlowId(1)).expect("just added");
/// assert_eq!(report.b_wfi, 750, "half of the first packet of flow 0, before anything of its own");
/// let guarantee = drr.guarantee(FlowId(1)).expect("just added");
/// assert!(report.against(&guarantee).iter().all(|compared| compared.holds()));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WfiMeter<N> {
    flows: N,
    /// Bytes of the packets before the one on the wire.
    completed: u64,
    wire: OnWire,
}

impl<N: Table<WfiFlow>> WfiMeter<N> {
    /// Creates a meter for `flows.len()` flows, none of which is measured yet. Cost: O(flows).
    #[must_use]
    pub fn new(mut flows: N) -> Self {
        flows.as_mut().fill(WfiFlow::ABSENT);
        let wire = OnWire { flow: FlowId(u32::MAX), len: 0, gone: None };
        Self { flows, completed: 0, wire }
    }

    /// Starts to measure `flow` against `share`. Previous measurements are discarded; queued
    /// packets are kept.
    ///
    /// # Errors
    /// [`ConfigError::UnknownFlow`]; the meter is then unchanged.
    pub fn add(&mut self, flow: FlowId, share: Share) -> Result<(), ConfigError> {
        let flows = u32::try_from(self.flows.as_ref().len()).unwrap_or(u32::MAX);
        let Some(k) = self.flows.as_mut().get_mut(flow.index()) else {
            return Err(ConfigError::UnknownFlow { flow, flows });
        };
        let WfiFlow { served, queued, .. } = *k;
        *k = WfiFlow { share: Some(share), served, queued, ..WfiFlow::ABSENT };
        k.begin(flow, share, self.completed, self.wire);
        Ok(())
    }

    /// Stops measuring `flow` and discards its state. A second call has no effect.
    pub fn remove(&mut self, flow: FlowId) {
        if let Some(k) = self.flows.as_mut().get_mut(flow.index()) {
            *k = WfiFlow::ABSENT;
        }
    }

    /// Records a packet of `len` bytes that arrived at `flow`. Keep the result with the packet and
    /// pass it to [`WfiMeter::dequeued`].
    pub fn arrived(&mut self, flow: FlowId, len: u32) -> Arrival {
        let (completed, wire) = (self.completed, self.wire);
        let (link, rest) = wire.seen_by(flow);
        let mut arrival = Arrival { link: completed.wrapping_add(link.into()), backlog: 0, flow };
        let Some(k) = self.flows.as_mut().get_mut(flow.index()) else { return arrival };
        let was_idle = k.queued == 0;
        k.queued = k.queued.wrapping_add(len.into());
        let backlog = k.queued.wrapping_add(rest.into());
        arrival.backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        if let Some(share) = k.share
            && was_idle
        {
            k.begin(flow, share, completed, wire);
        }
        arrival
    }

    /// Records the dequeue of the packet of `arrival`, `len` bytes long; the packet before it is
    /// completely sent.
    pub fn dequeued(&mut self, arrival: Arrival, len: u32) {
        let flow = arrival.flow;
        self.completed = self.completed.wrapping_add(self.wire.len.into());
        self.wire = OnWire { flow, len, gone: None };
        let start = self.completed;
        let Some(k) = self.flows.as_mut().get_mut(flow.index()) else { return };
        let before = k.served;
        k.served = before.wrapping_add(len.into());
        k.queued = k.queued.saturating_sub(len.into());
        let Some(share) = k.share else { return };
        k.sent = k.sent.wrapping_add(1);
        k.shortest = k.shortest.min(len);
        let end = start.wrapping_add(len.into());
        let (at_start, at_end) = (excess(share, start, before), excess(share, end, k.served));
        k.lag = k.lag.max(at_start.wrapping_sub(k.low));
        k.lag_at_completion = k.lag_at_completion.max(at_end.wrapping_sub(k.low));
        k.low = k.low.min(at_end);
        k.high = k.high.max(at_start);
        k.lead = k.lead.max(k.high.wrapping_sub(at_end));
        // R(t_c − t_a) − Q/φ, times the numerator.
        let span = end.wrapping_sub(arrival.link);
        k.delay = k.delay.max(excess(share, span, arrival.backlog.into()));
    }

    /// Records a packet of `len` bytes of `flow` that left its queue without service.
    pub fn lost(&mut self, flow: FlowId, len: u32) {
        let (completed, wire) = (self.completed, self.wire);
        let Some(k) = self.flows.as_mut().get_mut(flow.index()) else { return };
        let standing = k.standing(completed, wire);
        k.queued = k.queued.saturating_sub(len.into());
        if k.queued == 0 {
            // The end of a backlog is part of it, and no packet starts there to record it.
            k.lag = k.lag.max(standing);
        }
    }

    /// Records that `bytes` of the packet on the wire are sent; clamped to the length of the
    /// packet.
    pub fn transmitted(&mut self, bytes: u32) {
        self.wire.gone = Some(bytes.min(self.wire.len).max(self.wire.gone.unwrap_or(0)));
    }

    /// Returns the measurements of `flow`, including a backlog in progress; `None` if it is not
    /// measured.
    #[must_use]
    pub fn report(&self, flow: FlowId) -> Option<WfiReport> {
        let k = self.flows.as_ref().get(flow.index())?;
        let share = k.share?;
        let lag = k.lag.max(k.standing(self.completed, self.wire));
        Some(WfiReport {
            share,
            packets: k.sent,
            shortest: k.shortest,
            b_wfi: own_bytes(share, lag),
            b_wfi_at_completion: own_bytes(share, k.lag_at_completion),
            t_wfi: link_bytes(share, k.delay),
            lag: link_bytes(share, lag),
            lead: link_bytes(share, k.lead),
        })
    }
}

impl WfiFlow {
    /// Begins a backlog while `wire` is being sent.
    fn begin(&mut self, flow: FlowId, share: Share, completed: u64, wire: OnWire) {
        // While another flow sends, c increases, so it is smallest now. While the last packet of
        // this flow is sent, c decreases, so it is smallest at its end.
        let link = if wire.flow == flow { wire.len } else { wire.gone.unwrap_or(0) };
        self.low = excess(share, completed.wrapping_add(link.into()), self.served);
        self.high = self.low; // until its first packet starts, where c is highest
    }

    /// Returns the current `c − low`, 0 if the flow is idle. Smaller while a packet of the flow is
    /// on the wire, whose start has been recorded.
    fn standing(&self, completed: u64, wire: OnWire) -> i128 {
        let Some(share) = self.share.filter(|_| self.queued > 0) else { return 0 };
        let gone = wire.gone.unwrap_or(wire.len);
        excess(share, completed.wrapping_add(gone.into()), self.served).wrapping_sub(self.low)
    }
}

impl OnWire {
    /// Returns the bytes on the wire that are sent, and those of `flow` that are not, for an
    /// arrival now. Unless the caller has reported them, assumes the values with the longest delay.
    fn seen_by(self, flow: FlowId) -> (u32, u32) {
        if self.flow == flow {
            let gone = self.gone.unwrap_or(self.len);
            (gone, self.len.saturating_sub(gone))
        } else {
            (self.gone.unwrap_or(0), 0)
        }
    }
}

/// Returns `c = φ·link − own`, times the denominator of `φ`.
fn excess(share: Share, link: u64, own: u64) -> i128 {
    let part = i128::from(share.numerator()).wrapping_mul(link.into());
    part.wrapping_sub(i128::from(share.denominator()).wrapping_mul(own.into()))
}

/// Converts from units of the meters to bytes of the flow: `⌈scaled / denominator⌉`, 0 if negative.
fn own_bytes(share: Share, scaled: i128) -> u64 {
    ceil(u128::try_from(scaled).unwrap_or(0), share.denominator())
}

/// Converts from units of the meters to bytes of the link: `⌈scaled / numerator⌉`, 0 if negative.
fn link_bytes(share: Share, scaled: i128) -> u64 {
    ceil(u128::try_from(scaled).unwrap_or(0), share.numerator())
}

/// Returns `⌈dividend / divisor⌉`, saturating.
fn ceil(dividend: u128, divisor: u64) -> u64 {
    u64::try_from(dividend.div_ceil(divisor.into())).unwrap_or(u64::MAX)
}
