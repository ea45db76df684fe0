//! Open-loop sources: they send at predetermined times and receive no feedback.
//!
//! Each is an iterator over [`Sent`], in order of time; all but [`Trace`] are endless. Sizes are
//! payload bytes; headers are added when the payload becomes a packet.
//!
//! | source | traffic | random |
//! |---|---|---|
//! | [`Cbr`] | constant bit rate, calls | nothing |
//! | [`Poisson`] | packets of many independent senders | gaps, lengths |
//! | [`OnOff`] | data in bursts; with Pareto periods self-similar in sum | periods |
//! | [`TalkSpurts`] | speech with silence suppression | periods |
//! | [`Video`] | video of variable bit rate, with groups of pictures | frame sizes |
//! | [`Trace`] | a capture, or one flow of it | nothing |
//! | [`Jittered`] | another source behind a sender with random delays | delays |
//!
//! Traffic that reacts to the network is in [`crate::tcp::traffic`].

use core::num::NonZeroU64;

use freeboard::sched_core::Nanos;

mod cbr;
mod jittered;
mod on_off;
mod poisson;
#[cfg(test)]
pub(crate) mod statistics;
mod talk_spurts;
mod trace;
mod video;

pub use cbr::Cbr;
pub use jittered::Jittered;
pub use on_off::{OnOff, OnOffSource, Periods};
pub use poisson::{Lengths, Poisson};
pub use talk_spurts::{TalkSource, TalkSpurts};
pub use trace::Trace;
pub use video::{Frame, Gop, GopError, Spacing, Variation, Video, VideoError, VideoSource};

/// A payload and its sending time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Sending time.
    pub at: Nanos,
    /// Payload length in bytes.
    pub payload: u32,
}

/// The times 0, s, 2s, … for a spacing s that need not be a whole number of nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// s = `span / parts` nanoseconds.
    span: u64,
    parts: NonZeroU64,
    count: u64,
}

impl Pace {
    fn every(period: Nanos) -> Self {
        Self { span: period.0, parts: NonZeroU64::MIN, count: 0 }
    }

    fn at_rate(bits_per_second: NonZeroU64, payload: u32) -> Self {
        // The largest payload, 2^32 bytes, is 2^35 bits: times 10^9 exceeds a u64 by a few bits. No
        // IP payload exceeds 2^16 bytes, so saturation never affects a packet.
        let span = (u64::from(payload) * 8).saturating_mul(1_000_000_000);
        Self { span, parts: bits_per_second, count: 0 }
    }

    /// Returns the next time, rounded down. Computed from the start each time, so that errors do
    /// not accumulate.
    fn peek(&self) -> Nanos {
        let exact = u128::from(self.span) * u128::from(self.count) / u128::from(self.parts.get());
        Nanos(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    fn advance(&mut self) {
        self.count += 1;
    }
}
