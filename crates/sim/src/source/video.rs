//! Video of variable bit rate.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};
use core::str::FromStr;

use conformance::rng::Stream;
use freeboard::sched_core::Nanos;

use super::Sent;

/// Kind of a coded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Intra-coded: a complete picture.
    I,
    /// Predicted from earlier frames.
    P,
    /// Predicted from earlier and later frames.
    B,
}

/// A group of pictures: the pattern of frames that a video repeats, in order of transmission.
///
/// ```
/// # use sim::source::Gop;
/// let gop: Gop = "IBBPBBPBBPBB".parse().unwrap();
/// assert_eq!(gop.frames().len(), 12);
/// let error = "IBX".parse::<Gop>().unwrap_err();
/// assert_eq!(error.to_string(), "group of pictures: \"IBX\" (expected letters I, P and B)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gop(Vec<Frame>);

impl Gop {
    /// Returns 12 frames, IBBPBBPBBPBB: the usual pattern of MPEG-2.
    #[must_use]
    pub fn mpeg2() -> Self {
        use Frame::{B, I, P};
        Self(vec![I, B, B, P, B, B, P, B, B, P, B, B])
    }

    /// Returns the frames.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.0
    }
}

impl FromStr for Gop {
    type Err = GopError;

    fn from_str(text: &str) -> Result<Self, GopError> {
        let frame = |letter| match letter {
            'I' => Some(Frame::I),
            'P' => Some(Frame::P),
            'B' => Some(Frame::B),
            _ => None,
        };
        let frames: Option<Vec<Frame>> = text.chars().map(frame).collect();
        frames.filter(|frames| !frames.is_empty()).map(Self).ok_or(GopError(text.to_owned()))
    }
}

/// A pattern that is empty or has other letters than I, P and B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GopError(String);

impl fmt::Display for GopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group of pictures: {:?} (expected letters I, P and B)", self.0)
    }
}

impl core::error::Error for GopError {}

/// Distribution of the size of a frame around the mean of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variation {
    /// All frames of a kind have one size.
    None,
    /// Lognormal with this coefficient of variation (standard deviation / mean).
    Lognormal(f64),
    /// Gamma with this coefficient of variation.
    Gamma(f64),
}

impl Variation {
    fn is_valid(self) -> bool {
        match self {
            Self::None => true,
            Self::Lognormal(variation) | Self::Gamma(variation) => {
                variation.is_finite() && variation > 0.0
            }
        }
    }

    /// Returns a factor of mean 1.
    fn draw(self, stream: &mut Stream) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Lognormal(variation) => {
                let variance = libm::log1p(variation * variation);
                libm::exp(libm::sqrt(variance) * stream.normal() - variance / 2.0)
            }
            Self::Gamma(variation) => {
                let shape = 1.0 / (variation * variation);
                gamma(stream, shape) / shape
            }
        }
    }
}

/// Returns a number of the gamma distribution with this shape and scale 1 (Marsaglia and Tsang
/// 2000, "A simple method for generating gamma variables").
fn gamma(stream: &mut Stream, shape: f64) -> f64 {
    if shape < 1.0 {
        let power = libm::pow(stream.unit(), 1.0 / shape);
        return gamma(stream, shape + 1.0) * power;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let normal = stream.normal();
        let root = 1.0 + c * normal;
        let cube = root * root * root;
        let log = libm::log(stream.unit());
        if cube > 0.0 && log < normal * normal / 2.0 + d * (1.0 - cube + libm::log(cube)) {
            return d * cube;
        }
    }
}

/// Sending times of a frame's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At this rate of payload in bits per second, back to back. A frame that takes longer than its
    /// interval delays the next ones.
    Burst(NonZeroU64),
    /// Evenly over the interval of the frame.
    Even,
}

/// Settings of a video of variable bit rate.
///
/// Each frame has the mean size of its kind times a random factor; frames are independent of each
/// other. Real encoders correlate them over scenes, which is not modelled: over seconds, real video
/// varies more.
///
/// ```
/// # use core::num::{NonZeroU32, NonZeroU64};
/// # use conformance::rng::Streams;
/// # use freeboard::sched_core::Nanos;
/// # use sim::source::{Gop, Spacing, Variation, Video};
/// let video = Video {
///     start: Nanos::ZERO,
///     frame_rate: 25.0,
///     gop: Gop::mpeg2(),
///     rate: NonZeroU64::new(5_000_000).unwrap(),
///     ratio: [5.0, 3.0, 1.0],
///     variation: Variation::Lognormal(0.2),
///     packet: NonZeroU32::new(1_316).unwrap(),
///     spacing: Spacing::Even,
/// };
/// // 25,000 bytes a frame; the ratios of a group are 5 + 3 · 3 + 8 · 1 = 22 in 12 frames.
/// assert!((video.mean_sizes()[0] - 25_000.0 * 5.0 * 12.0 / 22.0).abs() < 1e-6);
/// let mut packets = video.with(Streams::new(1).stream("video"))?;
/// assert_eq!(packets.next().unwrap().payload, 1_316);
/// # Ok::<(), sim::source::VideoError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Video {
    /// Time of the first frame.
    pub start: Nanos,
    /// Frames per second.
    pub frame_rate: f64,
    /// Pattern of frames.
    pub gop: Gop,
    /// Mean rate of payload in bits per second. Exact in expectation over groups of pictures.
    pub rate: NonZeroU64,
    /// Mean sizes of I, P and B frames in relation to each other.
    pub ratio: [f64; 3],
    /// Distribution of frame sizes.
    pub variation: Variation,
    /// Largest payload of a packet in bytes. All packets of a frame but the last have it.
    pub packet: NonZeroU32,
    /// Sending times of a frame's packets.
    pub spacing: Spacing,
}

impl Video {
    /// Creates the settings of MPEG-2 with a mean rate of payload in bits per second: 25 frames per
    /// second, IBBPBBPBBPBB, I : P : B as 5 : 3 : 1, lognormal sizes that vary by 0.2, evenly
    /// spaced packets of 1,316 bytes (seven of the MPEG transport stream). The ratios and the
    /// variation are typical values, not those of a certain film.
    #[must_use]
    pub fn mpeg2(start: Nanos, rate: NonZeroU64) -> Self {
        Self {
            start,
            frame_rate: 25.0,
            gop: Gop::mpeg2(),
            rate,
            ratio: [5.0, 3.0, 1.0],
            variation: Variation::Lognormal(0.2),
            packet: NonZeroU32::new(1_316).expect("not zero"),
            spacing: Spacing::Even,
        }
    }

    /// Returns the mean sizes of I, P and B frames in bytes.
    #[must_use]
    pub fn mean_sizes(&self) -> [f64; 3] {
        let frames = self.gop.frames();
        let of_group: f64 = frames.iter().map(|&frame| self.ratio[frame as usize]).sum();
        let group = self.rate.get() as f64 / 8.0 / self.frame_rate * frames.len() as f64;
        self.ratio.map(|ratio| group * ratio / of_group)
    }

    /// Returns the peak rate of payload in bits per second: that of a burst, or with
    /// [`Spacing::Even`] the rate within a frame of the largest kind in the pattern, of mean size.
    /// Random sizes exceed the latter.
    #[must_use]
    pub fn peak_rate(&self) -> f64 {
        match self.spacing {
            Spacing::Burst(rate) => rate.get() as f64,
            Spacing::Even => {
                let sizes = self.mean_sizes();
                let of_kinds = self.gop.frames().iter().map(|&frame| sizes[frame as usize]);
                of_kinds.fold(0.0, f64::max) * 8.0 * self.frame_rate
            }
        }
    }

    /// Creates the source, which draws frame sizes from `stream`.
    ///
    /// # Errors
    /// [`VideoError`] if a setting is out of range.
    pub fn with(self, stream: Stream) -> Result<VideoSource, VideoError> {
        let refused = |what, found, expected| Err(VideoError { what, found, expected });
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        if !is_positive(self.frame_rate) {
            return refused("frame rate", self.frame_rate, "a positive number");
        }
        if let Some(&ratio) = self.ratio.iter().find(|&&ratio| !is_positive(ratio)) {
            return refused("ratio of frame sizes", ratio, "a positive number");
        }
        if !self.variation.is_valid() {
            let (Variation::Lognormal(found) | Variation::Gamma(found)) = self.variation else {
                unreachable!("no variation is valid");
            };
            return refused("coefficient of variation", found, "a positive number");
        }
        if let Spacing::Burst(peak) = self.spacing
            && peak <= self.rate
        {
            return refused("peak rate", peak.get() as f64, "more than the mean rate");
        }
        let sizes = self.mean_sizes();
        Ok(VideoSource {
            plan: self,
            sizes,
            stream,
            frames: 0,
            rest: 0.0,
            left: 0,
            next: 0.0,
            gap: 0.0,
        })
    }
}

/// A setting of a video that is out of range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoError {
    what: &'static str,
    found: f64,
    expected: &'static str,
}

impl fmt::Display for VideoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "video: {} {} (expected {})", self.what, self.found, self.expected)
    }
}

impl core::error::Error for VideoError {}

/// Packets of a [`Video`].
#[derive(Clone, Debug)]
pub struct VideoSource {
    plan: Video,
    /// Mean sizes of I, P and B frames in bytes.
    sizes: [f64; 3],
    stream: Stream,
    /// Number of frames begun.
    frames: u64,
    /// Fraction of a byte that the frames so far lack.
    rest: f64,
    /// Bytes of the current frame that are not sent.
    left: u64,
    /// Time of the next packet in nanoseconds after the start.
    next: f64,
    /// Nanoseconds between packets of the current frame, for [`Spacing::Even`].
    gap: f64,
}

impl VideoSource {
    /// Returns the number of frames of which a packet was returned, and of empty ones before.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    fn begin_frame(&mut self) {
        let gop = self.plan.gop.frames();
        let kind = gop[(self.frames % gop.len() as u64) as usize];
        let interval = 1e9 / self.plan.frame_rate;
        let begins = self.frames as f64 * interval;
        let size = self.sizes[kind as usize] * self.plan.variation.draw(&mut self.stream);
        let exact = size + self.rest;
        // Rounded down; the rest goes to the next frame, so that rounding takes nothing.
        self.left = exact as u64;
        self.rest = exact - self.left as f64;
        self.frames += 1;
        self.next = match self.plan.spacing {
            Spacing::Burst(_) => begins.max(self.next),
            Spacing::Even => begins,
        };
        self.gap = interval / self.left.div_ceil(self.plan.packet.get().into()).max(1) as f64;
    }
}

impl Iterator for VideoSource {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        while self.left == 0 {
            self.begin_frame();
        }
        let payload = self.left.min(self.plan.packet.get().into());
        self.left -= payload;
        let at = self.plan.start.plus(Nanos(self.next as u64));
        self.next += match self.plan.spacing {
            Spacing::Burst(rate) => payload as f64 * 8e9 / rate.get() as f64,
            Spacing::Even => self.gap,
        };
        // No payload exceeds the largest packet.
        Some(Sent { at, payload: payload as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::statistics::{assert_near, distance};
    use conformance::rng::Streams;

    const RATE: NonZeroU64 = NonZeroU64::new(5_000_000).unwrap();
    const INTERVAL: u64 = 40_000_000;

    fn video(variation: Variation) -> Video {
        Video { variation, ..Video::mpeg2(Nanos::ZERO, RATE) }
    }

    fn source(video: Video, seed: u64) -> VideoSource {
        video.with(Streams::new(seed).stream("video")).unwrap()
    }

    /// Bytes of the first frames of evenly spaced video.
    fn frames(video: Video, count: usize) -> Vec<f64> {
        let mut frames = vec![0.0; count];
        for packet in source(video, 1) {
            let Some(frame) = frames.get_mut((packet.at.0 / INTERVAL) as usize) else { break };
            *frame += f64::from(packet.payload);
        }
        frames
    }

    /// 5 Mbit/s are 25,000 bytes per frame; in a group of 12, I : P : B = 5 : 3 : 1 gives 22 parts
    /// of 13,636.36 bytes.
    #[test]
    fn frames_have_the_pattern_the_ratio_and_the_rate() {
        let part = 25_000.0 * 12.0 / 22.0;
        for (place, &size) in frames(video(Variation::None), 120).iter().enumerate() {
            let ratio = [5.0, 1.0, 1.0, 3.0, 1.0, 1.0, 3.0, 1.0, 1.0, 3.0, 1.0, 1.0][place % 12];
            assert!((size - ratio * part).abs() <= 1.0, "{place}: {size}");
        }
        // The rest of a byte is not lost: 5 Mbit/s over 100 groups.
        let total: f64 = frames(video(Variation::None), 1_200).iter().sum();
        assert!((total - 1_200.0 * 25_000.0).abs() < 1.0, "{total}");
    }

    /// Goal: sizes have the means, the coefficient of variation and, for the lognormal, the shape
    /// asked for. Rounding to a byte is 0.0001 of a B frame.
    #[test]
    fn sizes_vary_as_asked_for() {
        let part = 25_000.0 * 12.0 / 22.0;
        // Coefficients below and above 1 take both branches of the gamma generator.
        for variation in [Variation::Lognormal(0.3), Variation::Gamma(0.3), Variation::Gamma(1.25)]
        {
            let sizes = frames(video(variation), 60_000);
            let groups: Vec<f64> =
                sizes.as_chunks::<12>().0.iter().map(|group| group.iter().sum()).collect();
            assert_near(&groups, 25_000.0 * 12.0);
            let (Variation::Lognormal(cv) | Variation::Gamma(cv)) = variation else {
                unreachable!();
            };
            for (offset, ratio) in [(0, 5.0), (3, 3.0), (1, 1.0)] {
                let mut of_kind: Vec<f64> =
                    sizes.iter().skip(offset).step_by(12).map(|size| size / part / ratio).collect();
                assert_near(&of_kind, 1.0);
                let squares: Vec<f64> = of_kind.iter().map(|x| (x - 1.0) * (x - 1.0)).collect();
                assert_near(&squares, cv * cv);
                if let Variation::Lognormal(_) = variation {
                    let sigma = libm::sqrt(libm::log1p(cv * cv));
                    let cdf = |x: f64| {
                        let z = (libm::log(x) + sigma * sigma / 2.0) / sigma;
                        0.5 * libm::erfc(-z / core::f64::consts::SQRT_2)
                    };
                    let furthest = distance(&mut of_kind, cdf);
                    assert!(furthest < 1.95 / libm::sqrt(5_000.0), "{furthest}");
                }
            }
        }
        // Shape 1 (a coefficient of variation of 1) is the exponential distribution.
        let mut sizes = frames(video(Variation::Gamma(1.0)), 60_000);
        let mut of_kind: Vec<f64> =
            sizes.drain(..).skip(1).step_by(3).map(|size| size / part).collect();
        let furthest = distance(&mut of_kind, |x| 1.0 - libm::exp(-x));
        assert!(furthest < 1.95 / libm::sqrt(20_000.0), "{furthest}");
    }

    /// 1,316 bytes at 20 Mbit/s are 526.4 µs. An I frame of 68,182 bytes takes 27.3 of its 40 ms.
    #[test]
    fn a_burst_has_its_peak_rate_and_then_pauses() {
        let peak = NonZeroU64::new(20_000_000).unwrap();
        let video = Video { spacing: Spacing::Burst(peak), ..video(Variation::None) };
        assert_eq!(video.peak_rate(), 2e7);
        let packets: Vec<Sent> = source(video, 1).take(500).collect();
        let first: Vec<&Sent> =
            packets.iter().take_while(|packet| packet.at.0 < INTERVAL).collect();
        assert_eq!((first.len(), first[51].payload), (52, 68_181 - 51 * 1_316));
        for (place, packet) in first.iter().enumerate() {
            assert_eq!(packet.at.0, 526_400 * place as u64);
        }
        assert_eq!(packets[52].at.0, INTERVAL);
    }

    /// With a peak 10 % above the mean, frames queue at the sender: I frames take 124 ms. The rate
    /// between packets never exceeds the peak, and over all it is the mean.
    #[test]
    fn frames_that_exceed_their_interval_delay_the_next() {
        let peak = NonZeroU64::new(5_500_000).unwrap();
        let video = Video { spacing: Spacing::Burst(peak), ..video(Variation::Lognormal(0.2)) };
        let packets: Vec<Sent> = source(video, 1).take(100_000).collect();
        for pair in packets.windows(2) {
            let needed = f64::from(pair[0].payload) * 8e9 / 5.5e6;
            let gap = pair[1].at.since(pair[0].at).0 as f64;
            assert!(gap >= needed - 1.0, "{gap} after {pair:?}");
        }
        let bits: f64 = packets.iter().map(|packet| f64::from(packet.payload) * 8.0).sum();
        let rate = bits / (packets[99_999].at.0 as f64 / 1e9);
        // 4,900 frames: their sum varies by 0.2 · √(Σ mean²)/Σ mean = 0.4 %.
        assert!((rate / 5e6 - 1.0).abs() < 0.016, "{rate}");
    }

    #[test]
    fn even_packets_fill_the_interval_at_the_peak_rate_of_an_i_frame() {
        let video = video(Variation::None);
        let peak = video.peak_rate();
        assert!((peak - 5e6 * 5.0 * 12.0 / 22.0).abs() < 1e-3, "{peak}");
        let packets: Vec<Sent> = source(video, 1).take_while(|p| p.at.0 < INTERVAL).collect();
        assert_eq!(packets.len(), 52);
        let bits: u32 = packets.iter().map(|packet| packet.payload * 8).sum();
        assert!((f64::from(bits) / 0.04 / peak - 1.0).abs() < 1e-4);
        for (place, packet) in packets.iter().enumerate() {
            assert!(packet.at.0.abs_diff(INTERVAL * place as u64 / 52) <= 1);
        }
    }

    #[test]
    fn settings_out_of_range_are_refused_by_value() {
        let refused =
            |video: Video| video.with(Streams::new(1).stream("video")).unwrap_err().to_string();
        let good = || video(Variation::None);
        let peak = Spacing::Burst(RATE);
        for (video, text) in [
            (Video { frame_rate: 0.0, ..good() }, "frame rate 0 (expected a positive number)"),
            (
                Video { ratio: [1.0, -1.0, 1.0], ..good() },
                "ratio of frame sizes -1 (expected a positive number)",
            ),
            (
                video(Variation::Gamma(f64::NAN)),
                "coefficient of variation NaN (expected a positive number)",
            ),
            (
                Video { spacing: peak, ..good() },
                "peak rate 5000000 (expected more than the mean rate)",
            ),
        ] {
            assert_eq!(refused(video), format!("video: {text}"));
        }
        assert!("".parse::<Gop>().is_err());
    }
}
