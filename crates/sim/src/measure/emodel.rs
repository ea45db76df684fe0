//! Call quality by the E-model of ITU-T G.107 in its short form.
//!
//! R = 93.2 − I_d − I_e,eff: 93.2 for a perfect connection, less the impairments by delay (I_d, the
//! fit of Cole and Rosenbluth 2001) and by codec and loss (I_e,eff, G.107 §3.5). R above 80 is
//! good, 70–80 fair, 60–70 poor, below that bad. Only the four basic operations on floats are used,
//! so results are bit-identical on every platform.

use freeboard::sched_core::Nanos;

use super::goodput::Loss;

/// Quality parameters of a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codec {
    /// Equipment impairment factor I_e: the reduction of R without loss.
    pub impairment: f64,
    /// Packet-loss robustness factor Bpl: the loss in percent that costs half of the remaining R.
    pub robustness: f64,
    /// Time from the first sound of a packet to its sending.
    pub packetisation: Nanos,
}

impl Codec {
    /// G.711 without concealment: a lost packet is 20 ms of silence (G.113, appendix I).
    pub const G711: Self =
        Self { impairment: 0.0, robustness: 4.3, packetisation: Nanos(20_000_000) };
    /// G.711 with the packet-loss concealment of its appendix I.
    pub const G711_PLC: Self = Self { robustness: 25.1, ..Self::G711 };
    /// G.729A with voice-activity detection.
    pub const G729A: Self = Self { impairment: 11.0, robustness: 19.0, ..Self::G711 };

    /// Returns the transmission rating R for a mouth-to-ear delay and random loss in [0, 1].
    #[must_use]
    pub fn r_factor(&self, delay: Nanos, loss: f64) -> f64 {
        let ms = delay.0 as f64 / 1e6;
        let percent = loss.clamp(0.0, 1.0) * 100.0;
        let delay_impairment = 0.024 * ms + 0.11 * (ms - 177.3).max(0.0);
        // BurstR = 1: losses are assumed independent.
        let loss_impairment = (95.0 - self.impairment) * percent / (percent + self.robustness);
        93.2 - delay_impairment - self.impairment - loss_impairment
    }
}

/// Returns the mean opinion score for a rating R, from 1 (bad) to 4.5 (G.107 annex B).
#[must_use]
pub fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        // Between R = 0 and 6.5 the cubic is below 1, the lowest score.
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

/// Quality of one direction of a call at its receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Mouth-to-ear delay: packetization, network and jitter buffer.
    pub delay: Nanos,
    /// Packets sent, and those that did not arrive in time to be played.
    pub loss: Loss,
    /// Lost packets that did arrive, but late.
    pub late: u64,
    /// R factor of the E-model.
    pub r: f64,
    /// The mean opinion score.
    pub mos: f64,
}

/// Depth of the receiver's jitter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitterBuffer {
    /// Playout at a fixed time after that of the fastest packet of the call.
    Fixed(Nanos),
    /// The depth with the best rating for this call: an ideal adaptive buffer. An upper bound, most
    /// favourable to the scheduler under test.
    Best,
}

impl Call {
    /// Rates a call from the one-way delay of each packet sent, `None` for a lost one.
    ///
    /// Packets that arrive after their playout time count as lost. If nothing arrived, the call has
    /// no delay, loss 1 and the lowest rating; the formula, made for calls that go on, would give
    /// more. `None` if nothing was sent.
    #[must_use]
    pub fn judge(packets: &[Option<Nanos>], buffer: JitterBuffer, codec: Codec) -> Option<Self> {
        let mut arrived: Vec<Nanos> = packets.iter().copied().flatten().collect();
        arrived.sort_unstable();
        let sent = packets.len();
        let rate = |deadline: Nanos, in_time: usize| {
            let delay = deadline.plus(codec.packetisation);
            let loss = Loss { sent: sent as u64, lost: (sent - in_time) as u64 };
            let r = codec.r_factor(delay, loss.ratio());
            Self { delay, loss, late: (arrived.len() - in_time) as u64, r, mos: mos(r) }
        };
        let Some(&fastest) = arrived.first() else {
            let silence = Self { r: 0.0, mos: mos(0.0), ..rate(Nanos::ZERO, 0) };
            return (sent > 0).then_some(silence);
        };
        match buffer {
            JitterBuffer::Fixed(depth) => {
                let deadline = fastest.plus(depth);
                Some(rate(deadline, arrived.partition_point(|&delay| delay <= deadline)))
            }
            // Between two arrivals a longer wait only adds delay: the best deadline is an arrival.
            // The first of equals wins, so that ties do not depend on the search order.
            JitterBuffer::Best => (1..=arrived.len())
                .filter(|&in_time| arrived.get(in_time) != arrived.get(in_time - 1))
                .map(|in_time| rate(arrived[in_time - 1], in_time))
                .reduce(|best, call| if call.r > best.r { call } else { best }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delay in ms, loss in percent, R and MOS: the worked values of the short form.
    const VECTORS: [(Codec, u64, f64, f64, f64); 9] = [
        (Codec::G711, 20, 0.0, 92.7, 4.40),
        (Codec::G711, 150, 0.0, 89.6, 4.33),
        (Codec::G711, 300, 0.0, 72.5, 3.71),
        (Codec::G711, 500, 0.0, 45.7, 2.35),
        (Codec::G711, 50, 1.0, 74.1, 3.78),
        (Codec::G711_PLC, 50, 5.0, 76.2, 3.87),
        (Codec::G729A, 50, 0.0, 81.0, 4.06),
        (Codec::G729A, 50, 3.0, 69.5, 3.58),
        (Codec::G729A, 300, 0.0, 61.5, 3.18),
    ];

    #[test]
    fn the_worked_values_of_the_short_form() {
        for (codec, ms, percent, r, score) in VECTORS {
            let found = codec.r_factor(Nanos::from_millis(ms), percent / 100.0);
            assert!((found - r).abs() <= 0.05, "{codec:?} {ms} ms {percent} %: R {found}");
            assert!((mos(found) - score).abs() <= 0.005, "{codec:?} {ms} ms: MOS {}", mos(found));
        }
    }

    #[test]
    fn a_score_stays_between_1_and_4_5_and_never_falls_with_r() {
        let scores: Vec<f64> = (-100..=2_000).map(|tenth| mos(f64::from(tenth) / 10.0)).collect();
        assert_eq!((scores[0], *scores.last().unwrap()), (1.0, 4.5));
        assert!(scores.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    /// Ten packets: fastest 30 ms, one late by 50 ms, one lost. With 60 ms of buffer all that
    /// arrived are played after 30 + 60 + 20 ms; with 40 ms two of ten are missing.
    #[test]
    fn a_late_packet_counts_as_lost() {
        let ms = Nanos::from_millis;
        let mut packets = [Some(ms(30)); 10];
        (packets[4], packets[7]) = (Some(ms(80)), None);
        let judge =
            |depth| Call::judge(&packets, JitterBuffer::Fixed(ms(depth)), Codec::G711).unwrap();
        let deep = judge(60);
        assert_eq!((deep.delay, deep.late, deep.loss.lost), (ms(110), 0, 1));
        assert_eq!(deep.r, Codec::G711.r_factor(ms(110), 0.1));
        assert_eq!(judge(50).late, 0, "a packet that is just in time is in time");
        let shallow = judge(40);
        assert_eq!((shallow.delay, shallow.late, shallow.loss.lost), (ms(90), 1, 2));
        assert_eq!(shallow.mos, mos(Codec::G711.r_factor(ms(90), 0.2)));
    }

    /// No fixed depth among a thousand is better than `Best`, and one equals it.
    #[test]
    fn the_best_buffer_is_the_best_of_all_fixed_ones() {
        let mut stream = conformance::rng::Streams::new(5).stream("calls");
        for _ in 0..50 {
            let packets: Vec<Option<Nanos>> = (0..100)
                .map(|_| (!stream.chance(1, 50)).then(|| Nanos::from_millis(stream.below(1_000))))
                .collect();
            let best = Call::judge(&packets, JitterBuffer::Best, Codec::G711_PLC).unwrap();
            let fixed = (0..1_000)
                .map(|ms| JitterBuffer::Fixed(Nanos::from_millis(ms)))
                .map(|buffer| Call::judge(&packets, buffer, Codec::G711_PLC).unwrap().r)
                .fold(f64::MIN, f64::max);
            assert_eq!(best.r, fixed);
        }
    }

    #[test]
    fn a_call_of_which_nothing_arrived_is_lost_entirely() {
        for buffer in [JitterBuffer::Best, JitterBuffer::Fixed(Nanos(1))] {
            for codec in [Codec::G711, Codec::G711_PLC, Codec::G729A] {
                let dead = Call::judge(&[None; 3], buffer, codec).unwrap();
                assert_eq!(dead.loss, Loss { sent: 3, lost: 3 });
                assert_eq!((dead.r, dead.mos), (0.0, 1.0));
                assert_eq!(Call::judge(&[], buffer, codec), None);
            }
        }
    }
}
