//! CUBIC behind a queue under test in both directions, with a probe: the scenarios in which Linux
//! was [measured](super::aqm_linux), one of which is [CAKE Fig. 2](super::cake_fig2).
//!
//! ```text
//! uploads, probe ─▶ queue ─▶ 10 or 1 Mbit/s, 25 ms ─▶ server
//!        client  ◀─ queue ◀─ 10 or 1 Mbit/s, 25 ms ◀─ downloads, video, probe
//! ```
//!
//! The probe is 160 bytes every 20 ms, headers included. The video is 5 Mbit/s in packets of 1,428
//! bytes, evenly spaced. A packet takes 14 bytes more on the link, the header of an Ethernet frame.
//! Connections begin within the first second, at random.

mod figures;

use core::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use freeboard::sched_core::{Ecn, Nanos};
use freeboard::shaper::Shaper;

use super::dumbbell::{self, Dumbbell, Traffic};
use crate::discipline::Managed;
use crate::measure::delay::Delays;
use crate::measure::goodput::Loss;
use crate::source::Cbr;
use crate::tcp::network::{Naming, Way};
use crate::tcp::{Config, Data};

pub use figures::{DELAY, DELAY_MILLIS, Figures, GOODPUT, Quantiles};

/// Start of the measurement.
pub const WARM_UP: Nanos = Nanos::from_secs(10);
/// Time to send the packets that are queued when the measurement ends.
const DRAIN: Nanos = Nanos::from_secs(14);
/// UDP payload of the video and of the unresponsive flow, and the video's rate.
const VIDEO: u32 = 1_400;
const VIDEO_RATE: u32 = 5_000_000;
/// Rate of the unresponsive flow for each Mbit/s of the link.
const DEAF_RATE: u32 = 1_500_000;

/// A traffic mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name in tables.
    pub name: &'static str,
    /// Rate of the link in Mbit/s.
    pub megabits: u32,
    /// Numbers of uploads and of downloads.
    pub connections: [u8; 2],
    /// True if a video is sent beside the downloads.
    pub video: bool,
    /// True if segments are paced.
    pub paced: bool,
    /// ECN code point of an unresponsive upload at 1.5 times the rate of the link, if there is
    /// one.
    pub deaf: Option<Ecn>,
    /// Duration of the measurement.
    pub measured: Nanos,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Bytes of each upload and of each download that arrived in order.
    pub bytes: [Vec<u64>; 2],
    /// Probes up and down.
    pub probes: [Traffic; 2],
    /// Results of the video.
    pub video: Traffic,
    /// Results of the unresponsive flow.
    pub deaf: Traffic,
    /// Timeouts of all senders.
    pub timeouts: u64,
    /// True if every packet is accounted for.
    pub balanced: bool,
}

impl Load {
    /// Creates a load of this many uploads and downloads, to be measured for 50 s.
    #[must_use]
    pub const fn new(name: &'static str, megabits: u32, connections: [u8; 2]) -> Self {
        let measured = Nanos::from_secs(50);
        Self { name, megabits, connections, video: false, paced: false, deaf: None, measured }
    }

    /// Runs the load once behind a queue.
    ///
    /// # Panics
    /// If the link has a rate of zero.
    #[must_use]
    pub fn run(&self, queueing: Managed, seed: u64) -> Outcome {
        let end = WARM_UP.plus(self.measured);
        let rate = dumbbell::megabits_per_second(self.megabits);
        let naming = if queueing.is_one_queue() { Naming::One } else { Naming::Key };
        let mut site = Dumbbell::new(seed, naming, (WARM_UP, end), |_, stream| {
            let line = Shaper::new(rate);
            let queue = queueing.behind(line, dumbbell::ethernet(), Data::LEN, stream.bits());
            let queue = queue.expect("lengths and parameters are within their ranges");
            dumbbell::link(queue, queueing.limits(), stream, dumbbell::DELAY)
        });
        let config = || Config { paced: self.paced, ..dumbbell::cubic() };
        let connections = site.connect_both(self.connections, config);
        let mut phases = site.stream("probes");
        let probes = site.probe_both(&mut phases, dumbbell::CALL);
        let mut large = |rate: u32| {
            let rate = NonZeroU64::new(rate.into()).expect("a rate above zero");
            Cbr::at_rate(Nanos(phases.below(2_000_000)), rate, VIDEO)
        };
        let video = self.video.then(|| large(VIDEO_RATE));
        let video = video.map(|source| site.send(Way::Down, [1, 2], Ecn::NotEct, source));
        let deaf = self.deaf.map(|ecn| (ecn, large(self.megabits * DEAF_RATE)));
        let deaf = deaf.map(|(ecn, source)| site.send(Way::Up, [1, 3], ecn, source));
        site.run_until(end.plus(DRAIN));
        let senders = connections.iter().flatten().map(|&id| site.sender(id));
        Outcome {
            bytes: connections.each_ref().map(|ids| site.bytes(ids)),
            probes: probes.map(|probe| site.report(probe)),
            video: video.map(|video| site.report(video)).unwrap_or_default(),
            deaf: deaf.map(|deaf| site.report(deaf)).unwrap_or_default(),
            timeouts: senders.map(|sender| sender.events().timeouts).sum(),
            balanced: site.is_balanced(),
        }
    }
}

impl Load {
    /// Returns the figures up and down over all runs; none for a direction without connections.
    #[must_use]
    pub fn figures(&self, runs: &[Outcome]) -> [Figures; 2] {
        [0, 1].map(|way| {
            if self.connections[way] == 0 {
                return Figures::NONE;
            }
            let is_video = self.video && way == 1;
            let seen = runs.iter().map(|run| if is_video { &run.video } else { &run.probes[way] });
            let loss: Loss = seen.clone().map(|seen| seen.loss).sum();
            let added: Delays = seen.flat_map(|seen| seen.added.samples()).copied().collect();
            let bits: u64 = runs.iter().flat_map(|run| &run.bytes[way]).map(|b| b * 8).sum();
            let span = self.measured.0 as f64 / 1e3;
            Figures {
                goodput: Some(bits as f64 / runs.len() as f64 / span),
                added: Some([500, 950, 990].map(|of| added.millis(of))),
                loss: Some(loss.ratio() * 100.0),
            }
        })
    }
}
