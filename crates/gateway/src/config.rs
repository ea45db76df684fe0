//! What the gateway is told, by words and by a file, and checked before anything is opened.

mod changes;
mod check;
pub(crate) mod follow;
pub(crate) mod handling;
pub(crate) mod hosts;
mod idle;
pub(crate) mod keywords;
pub(crate) mod memory;
mod mistakes;
pub(crate) mod options;
pub(crate) mod per_host;
mod raw_options;
#[cfg(test)]
mod tests;

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::path::PathBuf;

use freeboard::sched_core::Nanos;
use freeboard::shaper::{Overhead, Rate};
use freeboard::{AqmKind, Rtt};

use crate::config::follow::Follow;
use crate::config::handling::{Handling, Treatment};
use crate::config::hosts::{Host, Names};
use crate::config::keywords::{HostMode, Io, Limit, QueueKind};
use crate::forward::queue::Heading;
pub(crate) use raw_options::{RawOptions, Word};

/// One direction's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    pub(crate) kind: QueueKind,
    pub(crate) hosts: HostMode,
    /// Hosts that are told apart at once, where they are told apart and not a fixed number.
    pub(crate) max_hosts: u32,
    pub(crate) limit: Limit,
    /// With SQF: a queue that has to make room and was not served for so long is dropped whole.
    pub(crate) flush_unserved: Option<Nanos>,
    /// With a FIFO none.
    pub(crate) aqm: AqmKind,
    /// Whether packets with ECT(1) are marked above a shallow threshold.
    pub(crate) l4s: bool,
    /// How far away the other ends are: it sets the AQM, and limits by the rate.
    pub(crate) rtt: Rtt,
}

/// All that was told, in range and without contradictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) lan: String,
    pub(crate) wan: String,
    pub(crate) io: Io,
    pub(crate) up: Rate,
    pub(crate) down: Rate,
    pub(crate) share: Sharing,
    pub(crate) framing: Overhead,
    pub(crate) handling: Handling,
    pub(crate) follow: Follow,
    /// Whether hosts are those behind the machine's own translation of addresses.
    pub(crate) nat: bool,
    pub(crate) stats: Option<PathBuf>,
    pub(crate) stats_interval: u64,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) user: String,
    /// What a host on the LAN side is.
    pub(crate) names: Names,
    /// The lists of hosts, as they are written.
    pub(crate) lists: BTreeMap<String, Vec<String>>,
    /// The weights of hosts on the LAN side; the others have 1.
    pub(crate) weights: BTreeMap<Host, u32>,
    /// The committed rates of hosts on the LAN side, each way; the others have none.
    pub(crate) rates: BTreeMap<Host, Rate>,
    /// The ceilings of hosts on the LAN side, each way; the others have none.
    pub(crate) ceils: BTreeMap<Host, Rate>,
    /// Options without effect, and words that will not be accepted for long.
    pub(crate) hints: Vec<String>,
    /// Where it was written.
    pub(crate) places: Places,
}

impl Config {
    /// Whether frames of several packets are cut: a TAP never hands over such.
    pub(crate) fn cuts(&self) -> bool {
        self.handling.splits_gso && self.io == Io::Packet
    }

    /// How frames are handled in a direction of this rate. Limits by the rate are for the greatest
    /// that it may have.
    pub(crate) fn treatment(&self, heading: Heading, rate: Rate) -> Treatment {
        let rate = self.follow.most(heading).unwrap_or(rate);
        self.handling.of(heading, rate, self.share.rtt)
    }
}

/// Where options were written whose values the system may refuse: file and line, by option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(BTreeMap<&'static str, String>);

impl Places {
    /// Puts the place of an option's value in front of what is wrong with it, if that place is a
    /// file.
    pub(crate) fn of(&self, option: &str) -> impl Fn(String) -> String + use<> {
        let place = self.0.get(option).cloned().unwrap_or_default();
        move |why| format!("{place}{why}")
    }
}

/// The heaviest host.
pub(crate) const MAX_WEIGHT: u32 = 1_000;

/// Hosts that are told apart, if nothing is said.
pub(crate) const DEFAULT_MAX_HOSTS: u32 = 2_048;
