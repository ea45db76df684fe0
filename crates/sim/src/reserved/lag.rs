//! Lag of a flow behind its reserved rate, packet by packet.

use std::collections::VecDeque;

use freeboard::sched_core::Nanos;

use super::CORE_RATE;

/// Time by which a packet was late, in nanoseconds; negative if it was early.
pub type Lag = i64;

/// Measures `t_c − t_a − Q/(φ·R)` for every packet of one flow at each of two links, and keeps the
/// maximum. `t_a` is the packet's arrival, `t_c` the departure of its last bit, `Q` the flow's
/// backlog at the link right after `t_a`, including the untransmitted rest of a packet on the link.
/// The maximum possible is the flow's T-WFI (QFQ §VI). The flow must not lose packets.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    weight: u64,
    sum: u64,
    hops: [Hop; 2],
    worst: Lag,
}

#[derive(Clone, Debug, Default)]
struct Hop {
    /// Departure time of each queued packet at the reserved rate.
    due: VecDeque<Lag>,
    queued_bytes: u64,
    /// Time at which the last bit of the flow's latest packet is on the link.
    line_until: Nanos,
}

impl Meter {
    /// Creates a meter for a flow with a share of `weight` in `sum`.
    pub(super) fn new(weight: u32, sum: u64) -> Self {
        let weight = u64::from(weight.max(1));
        Self { weight, sum, hops: Default::default(), worst: Lag::MIN }
    }

    pub(super) fn enters(&mut self, hop: usize, now: Nanos, len: u32) {
        const NANOS_PER_BYTE: u64 = 8_000_000_000 / CORE_RATE;
        let Some(hop) = self.hops.get_mut(hop) else { return };
        hop.queued_bytes += u64::from(len);
        let at_line_rate = hop.queued_bytes * NANOS_PER_BYTE + hop.line_until.since(now).0;
        // 2,000 packets of 1,500 bytes are 2^32 ns, and no sum of weights exceeds 2^24. Rounded
        // down, so that a lag is never understated.
        let at_own_rate = at_line_rate * self.sum / self.weight;
        hop.due.push_back((now.0 + at_own_rate).cast_signed());
    }

    pub(super) fn leaves(&mut self, hop: usize, last_bit: Nanos, len: u32) {
        let Some(hop) = self.hops.get_mut(hop) else { return };
        let Some(due) = hop.due.pop_front() else { return };
        hop.queued_bytes -= u64::from(len);
        hop.line_until = last_bit;
        self.worst = self.worst.max(last_bit.0.cast_signed() - due);
    }

    /// Returns the maximum lag so far; [`Lag::MIN`] if no packet has left.
    pub(super) const fn worst(&self) -> Lag {
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 10 Mbit/s 200 bytes take 160 µs; a flow with a quarter of the link should get 640 µs
    /// each.
    #[test]
    fn a_lag_is_what_a_packet_takes_beyond_its_flows_backlog_at_the_reserved_rate() {
        let micros = Nanos::from_micros;
        let mut meter = Meter::new(1, 4);
        assert_eq!(meter.worst(), Lag::MIN);
        meter.enters(0, micros(0), 200);
        meter.leaves(0, micros(160), 200);
        assert_eq!(meter.worst(), 160_000 - 640_000);
        // Half of the first packet is still on the link: (80 + 160) · 4 = 960 µs after 80 µs.
        meter.enters(0, micros(80), 200);
        meter.leaves(0, micros(1_200), 200);
        assert_eq!(meter.worst(), 1_200_000 - 80_000 - 960_000);
        // The other link has a backlog of its own.
        meter.enters(1, micros(2_000), 200);
        meter.enters(1, micros(2_000), 200);
        meter.leaves(1, micros(2_700), 200);
        assert_eq!(meter.worst(), 160_000);
        meter.leaves(1, micros(3_600), 200);
        assert_eq!(meter.worst(), 320_000);
    }
}
