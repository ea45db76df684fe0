//! Configuration from command line and file, validated before anything is opened.

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

/// Queue settings, shared by both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    pub(crate) kind: QueueKind,
    pub(crate) hosts: HostMode,
    /// Maximum number of isolated hosts, for isolation modes without a fixed number.
    pub(crate) max_hosts: u32,
    pub(crate) limit: Limit,
    /// SQF only: on overflow, a queue not served for this long is dropped whole.
    pub(crate) flush_unserved: Option<Nanos>,
    /// `None` for a FIFO.
    pub(crate) aqm: AqmKind,
    /// True if packets with ECT(1) are marked above a shallow threshold.
    pub(crate) l4s: bool,
    /// Round-trip time to the other ends; sets the AQM and rate-derived limits.
    pub(crate) rtt: Rtt,
}

/// Validated configuration: values in range and free of contradictions.
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
    /// True if hosts are looked up behind this machine's own NAT.
    pub(crate) nat: bool,
    pub(crate) stats: Option<PathBuf>,
    pub(crate) stats_interval: u64,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) user: String,
    /// Host identity and the lists of [names].
    pub(crate) names: Names,
    /// The lists of [names] as written.
    pub(crate) lists: BTreeMap<String, Vec<String>>,
    /// Weights of hosts on the LAN side; the default is 1.
    pub(crate) weights: BTreeMap<Host, u32>,
    /// Committed rates of hosts on the LAN side, per direction.
    pub(crate) rates: BTreeMap<Host, Rate>,
    /// Ceilings of hosts on the LAN side, per direction.
    pub(crate) ceils: BTreeMap<Host, Rate>,
    /// Hints about options without effect and about deprecated names.
    pub(crate) hints: Vec<String>,
    /// Source locations of options.
    pub(crate) places: Places,
}

impl Config {
    /// Returns true if frames of several packets are segmented; a TAP never delivers any.
    pub(crate) fn cuts(&self) -> bool {
        self.handling.splits_gso && self.io == Io::Packet
    }

    /// Returns the frame handling of a direction with this rate. Limits derived from the rate use
    /// the highest rate that autorate may set.
    pub(crate) fn treatment(&self, heading: Heading, rate: Rate) -> Treatment {
        let rate = self.follow.most(heading).unwrap_or(rate);
        self.handling.of(heading, rate, self.share.rtt)
    }
}

/// File and line of options whose values the system may refuse, by option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(BTreeMap<&'static str, String>);

impl Places {
    /// Returns a function that prefixes an error about an option's value with its file and line, if
    /// the value comes from a file.
    pub(crate) fn of(&self, option: &str) -> impl Fn(String) -> String + use<> {
        let place = self.0.get(option).cloned().unwrap_or_default();
        move |why| format!("{place}{why}")
    }
}

/// Maximum weight of a host.
pub(crate) const MAX_WEIGHT: u32 = 1_000;

/// Default of `--max-hosts`.
pub(crate) const DEFAULT_MAX_HOSTS: u32 = 2_048;
