//! Speech with silence suppression.

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::{Cbr, Sent};

/// One direction of a conversation: packets of a codec while the speaker talks, none in silence.
///
/// Talk spurts and silences are exponential. The frames of the codec are on a clock that runs on in
/// silence, and a frame is sent if the speaker talks when it begins: the rate is exactly that of
/// the codec times the [activity](Self::activity), in expectation.
///
/// Source: ITU-T P.59 (1993), table 1, for the means. P.59 also has a model of both directions
/// with states for double talk and mutual silence; here directions are independent. It takes
/// silences as measured, without the hangover of a voice detector.
///
/// ```
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::Nanos;
/// # use sim::source::{Cbr, TalkSpurts};
/// let talk = TalkSpurts::p59(Cbr::g711(Nanos::ZERO));
/// assert!((talk.activity() - 0.3875).abs() < 1e-4);
/// let mut packets = talk.with(Streams::new(1).stream("talk"));
/// assert_eq!(packets.next().unwrap().payload, 160);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TalkSpurts {
    /// Frames of the codec, as if the speaker always talked. The first talk spurt begins with the
    /// first frame.
    pub codec: Cbr,
    /// Mean length of a talk spurt.
    pub mean_talk: Nanos,
    /// Mean length of a silence.
    pub mean_silence: Nanos,
}

impl TalkSpurts {
    /// Creates speech with the mean lengths of ITU-T P.59: 1.004 s of talk, 1.587 s of silence.
    #[must_use]
    pub fn p59(codec: Cbr) -> Self {
        let (mean_talk, mean_silence) = (Nanos::from_millis(1_004), Nanos::from_millis(1_587));
        Self { codec, mean_talk, mean_silence }
    }

    /// Returns the fraction of time in which the speaker talks; 0 if both means are zero.
    #[must_use]
    pub fn activity(&self) -> f64 {
        let both = self.mean_talk.0 as f64 + self.mean_silence.0 as f64;
        if both > 0.0 { self.mean_talk.0 as f64 / both } else { 0.0 }
    }

    /// Creates the source, which draws its periods from `stream`. If the mean of talk is zero it
    /// ends without a packet.
    #[must_use]
    pub fn with(self, mut stream: Stream) -> TalkSource {
        let talk = stream.exponential(self.mean_talk);
        TalkSource { plan: self, stream, begin: self.codec.due(), talk }
    }
}

/// Packets of [`TalkSpurts`].
#[derive(Clone, Debug)]
pub struct TalkSource {
    plan: TalkSpurts,
    stream: Stream,
    /// Beginning and length of the current talk spurt, or of the next one.
    begin: Nanos,
    talk: Nanos,
}

impl Iterator for TalkSource {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        if self.plan.mean_talk == Nanos::ZERO {
            return None;
        }
        loop {
            let frame = self.plan.codec.next()?;
            if frame.at == Nanos::MAX {
                return None;
            }
            while frame.at >= self.begin.plus(self.talk) {
                let silence = self.stream.exponential(self.plan.mean_silence);
                self.begin = self.begin.plus(self.talk).plus(silence);
                self.talk = self.stream.exponential(self.plan.mean_talk);
            }
            if frame.at >= self.begin {
                return Some(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::statistics::{assert_near, distance};
    use conformance::rng::Streams;

    /// Lengths of spurts and silences in seconds, as frames of 1 ms show them.
    fn periods() -> [Vec<f64>; 2] {
        let codec = Cbr::new(Nanos::from_millis(3), Nanos::from_millis(1), 8);
        let talk = TalkSpurts::p59(codec).with(Streams::new(1).stream("talk"));
        let mut last = Nanos::from_millis(2);
        let (mut spurt, mut spurts, mut silences) = (0.0, Vec::new(), Vec::new());
        for packet in talk {
            let gap = packet.at.since(last);
            if gap > Nanos::from_millis(1) {
                spurts.push(spurt / 1e3);
                silences.push((gap.0 - 1_000_000) as f64 / 1e9);
                spurt = 0.0;
                if spurts.len() == 10_000 {
                    break;
                }
            }
            spurt += 1.0;
            last = packet.at;
        }
        [spurts, silences]
    }

    /// A silence below 1 ms may be between two frames: 6 in 10,000, which join two spurts. That and
    /// the rounding to frames shift a mean by 0.1 %, a tenth of its standard error.
    #[test]
    fn spurts_and_silences_have_the_means_and_shape_of_p59() {
        for (mut lengths, mean) in periods().into_iter().zip([1.004, 1.587]) {
            assert_near(&lengths, mean);
            let furthest = distance(&mut lengths, |length| 1.0 - libm::exp(-length / mean));
            // 1.95/√n, and half a frame against a mean of a second.
            assert!(furthest < 1.95 / 100.0 + 0.001, "{furthest} of {mean}");
        }
    }

    /// With exponential periods of means a and b, the time of talk in T seconds has the variance
    /// 2 a² b² T / (a + b)³: for a day, a standard error of 159 s or 0.18 %.
    #[test]
    fn a_call_sends_its_codec_times_the_activity() {
        let day = 86_400.0;
        let (a, b) = (1.004_f64, 1.587_f64);
        let talk = TalkSpurts::p59(Cbr::g711(Nanos::ZERO));
        let packets = talk
            .with(Streams::new(2).stream("talk"))
            .take_while(|packet| packet.at < Nanos::from_secs(86_400))
            .count();
        let share = packets as f64 * 0.02 / day;
        let error = libm::sqrt(2.0 * a * a * b * b / ((a + b) * (a + b) * (a + b)) / day);
        assert!((share - a / (a + b)).abs() < 4.0 * error, "{share} ± {error}");
        assert!((talk.activity() - 0.387_495).abs() < 1e-6);
    }

    #[test]
    fn frames_keep_the_clock_of_the_codec_and_a_silent_speaker_sends_nothing() {
        let start = Nanos::from_millis(7);
        let talk = TalkSpurts::p59(Cbr::g711(start));
        let mut packets = talk.with(Streams::new(3).stream("talk")).take(5_000);
        assert_eq!(packets.next().map(|packet| packet.at), Some(start));
        assert!(packets.all(|packet| packet.at.since(start).0 % 20_000_000 == 0));
        let never = TalkSpurts { mean_talk: Nanos::ZERO, ..talk };
        assert_eq!(never.with(Streams::new(3).stream("talk")).next(), None);
    }
}
