//! Calls that begin at random times, and what they are rated.

use core::ops::Range;

use freeboard::flowhash::{FlowKey, Transport};
use freeboard::sched_core::Nanos;
use serde::{Deserialize, Serialize};

use super::site::{App, CALL_PORT, Path, Site, address};
use crate::measure::seconds;
use crate::network::{Network, Side};

/// A call as heard on the Internet.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Call {
    /// Time of its start in seconds.
    pub start: f64,
    /// Mean opinion score.
    pub mos: f64,
    /// Part of its packets that were in the default queue.
    pub in_default: f64,
}

/// A call of a network.
pub(in crate::experiments) struct Placed {
    host: u16,
    start: Nanos,
    path: Path,
}

impl Site {
    /// Adds `count` calls of this duration that begin at random within `starts`, in order of time,
    /// each with a host of its own from `host` on.
    pub(in crate::experiments) fn add_calls(
        &mut self,
        host: u16,
        count: u16,
        starts: Range<Nanos>,
        duration: Nanos,
    ) -> Vec<Placed> {
        let span = starts.end.since(starts.start);
        let mut phases = self.phases("start of call", count, span);
        phases.sort_unstable();
        (0..)
            .zip(phases)
            .map(|(n, phase)| {
                let start = starts.start.plus(phase);
                let path = self.add_call(host + n, n, start, start.plus(duration));
                Placed { host: host + n, start, path }
            })
            .collect()
    }
}

impl Network<App> {
    /// Rates a call that was added with [`Site::add_calls`].
    pub(in crate::experiments) fn rate(&self, call: &Placed) -> Call {
        let placed = self.uplink().queue().placement(&key(call.host)).unwrap_or_default();
        let all = (placed.own + placed.default).max(1);
        let stream = self.stream(call.path, call.start);
        Call {
            start: seconds(call.start),
            mos: stream.rating().expect("a call sends packets").mos,
            in_default: placed.default as f64 / all as f64,
        }
    }
}

/// Returns the key of the packets that call `host` sends from home.
const fn key(host: u16) -> FlowKey {
    let transport = Transport { protocol: 17, src_port: CALL_PORT, dst_port: CALL_PORT };
    let [src, dst] = [address(Side::Home, host).octets(), address(Side::Internet, host).octets()];
    FlowKey::V4 { src, dst, transport }
}
