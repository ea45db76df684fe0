//! Hosts behind this machine's NAT: maps packets on the outer side to hosts with the kernel's
//! connection tracking table.
//!
//! The kernel reports each connection as it begins, before its first packet leaves the machine's
//! network stack. Reports are read before the frames received with them, so that a connection from
//! a host is known when its first packet is queued. The table itself contains the connections from
//! before, and those whose reports were lost while the socket was full. It is read by the only
//! thread, one piece per iteration of the loop. Lookups use what is known at that time: no packet
//! waits for the kernel.

mod event;
mod line;

use core::net::IpAddr;
use std::collections::HashMap;
use std::io::ErrorKind;

use freeboard::flowhash::{self, FlowKey, Transport};
use freeboard::sched_core::Nanos;
use nix::errno::Errno;

use crate::forward::queue::Heading;
use crate::io::conntrack::events::{Events, Heard};
use crate::io::conntrack::{Conntrack, PATH};
use crate::io::privileges::Capability;
use crate::log::say;
use line::Connection;

/// Interval between passes over the table if the kernel reports no connections. It is short because
/// a flow unknown when queued keeps the machine's address while it is queued.
const EVERY: Nanos = Nanos::from_millis(100);
/// Interval between passes if the kernel reports connections: a pass only forgets those that have
/// ended.
const SELDOM: Nanos = Nanos::from_secs(2);
/// Time since the last report for which the kernel is assumed to report connections.
const TOLD: Nanos = Nanos::from_secs(10);

/// A pass takes at most one part of the time in this many.
const PARTS: u64 = 10;

/// Maximum number of known translated connections. Packets of others count for their own address.
pub(crate) const MOST: usize = 32_768;

/// Maximum size of both tables in bytes: the capacity of a table of [`MOST`] entries, with one byte
/// of hash each.
pub(crate) const BYTES: u64 =
    2 * 2 * MOST as u64 * (size_of::<(OuterConnection, End)>() as u64 + 1);

/// One end of a connection. The port of an echo is its identifier, at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    address: IpAddr,
    port: u16,
}

/// A connection as its packets appear on the outer side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OuterConnection {
    protocol: u8,
    /// This machine's end.
    local: End,
    remote: End,
}

/// Map from connections on the outer side to the host's end.
#[derive(Debug, Default)]
pub(crate) struct Translations {
    /// Entries for lookups: the last complete pass, and additions from the current one.
    known: HashMap<OuterConnection, End>,
    /// Entries read in the current pass.
    read: HashMap<OuterConnection, End>,
}

impl Translations {
    /// Allocates the full capacity, so that no packet waits for a table to grow.
    fn with_room() -> Self {
        Self { known: HashMap::with_capacity(MOST), read: HashMap::with_capacity(MOST) }
    }

    /// Adds a line of the kernel's table; lines that cannot be parsed are ignored.
    fn take_in(&mut self, line: &[u8]) {
        self.learn(Connection::parse(line));
    }

    /// Adds a report of the kernel; reports that cannot be parsed are ignored.
    fn hear(&mut self, event: &[u8]) {
        self.learn(Connection::of_event(event));
    }

    fn learn(&mut self, connection: Option<Connection>) {
        let Some(connection) = connection else { return };
        for (outside, inside) in connection.translations() {
            for table in [&mut self.known, &mut self.read] {
                if table.len() < MOST || table.contains_key(&outside) {
                    table.insert(outside, inside);
                }
            }
        }
    }

    /// Ends a pass: entries that it did not contain are forgotten.
    fn turn(&mut self) {
        core::mem::swap(&mut self.known, &mut self.read);
        self.read.clear();
    }

    fn forget(&mut self) {
        self.known.clear();
        self.read.clear();
    }

    /// Returns the translations of packets in one direction.
    pub(crate) fn of(&self, heading: Heading) -> Translated<'_> {
        Translated { table: self, heading }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

/// [`Translations`] for the packets of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translated<'a> {
    table: &'a Translations,
    heading: Heading,
}

impl flowhash::Nat for Translated<'_> {
    fn inner(&self, key: &FlowKey) -> Option<FlowKey> {
        if self.table.known.is_empty() {
            return None;
        }
        let (source, destination, transport): (IpAddr, IpAddr, _) = match *key {
            FlowKey::V4 { src, dst, transport } => (src.into(), dst.into(), transport),
            FlowKey::V6 { src, dst, transport } => (src.into(), dst.into(), transport),
            _ => return None,
        };
        let is_echo = line::is_echo(transport.protocol, transport.dst_port);
        let (from, to) = match (line::is_icmp(transport.protocol), is_echo) {
            (false, _) => (transport.src_port, transport.dst_port),
            (true, true) => (transport.src_port, transport.src_port),
            (true, false) => return None,
        };
        let (source, destination) =
            (End { address: source, port: from }, End { address: destination, port: to });
        let (local, remote) = match self.heading {
            Heading::Up => (source, destination),
            Heading::Down => (destination, source),
        };
        let outside = OuterConnection { protocol: transport.protocol, local, remote };
        let inside = self.table.known.get(&outside)?;
        let (source, destination) = match self.heading {
            Heading::Up => (*inside, destination),
            Heading::Down => (source, *inside),
        };
        let transport = match is_echo {
            true => Transport { src_port: inside.port, ..transport },
            false => Transport { src_port: source.port, dst_port: destination.port, ..transport },
        };
        match (source.address, destination.address) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Some(FlowKey::V4 { src: src.octets(), dst: dst.octets(), transport })
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(FlowKey::V6 { src: src.octets(), dst: dst.octets(), transport })
            }
            _ => None,
        }
    }
}

/// NAT of this machine, if enabled.
#[derive(Debug, Default)]
pub(crate) struct Nat {
    conntrack: Option<Conntrack>,
    /// `None` if the kernel does not report connections.
    events: Option<Events>,
    /// Time of the last report of a connection.
    told: Option<Nanos>,
    /// True if reports were lost since the pass began.
    is_overrun: bool,
    is_on: bool,
    translations: Translations,
    /// Time at which the next piece is read.
    due: Nanos,
    /// Start of the current pass.
    began: Nanos,
    /// Earliest start of the next pass.
    earliest: Nanos,
    is_reading: bool,
    is_broken: bool,
}

impl Nat {
    /// Opens table and reports, which is possible at the start only.
    pub(crate) fn open(is_on: bool) -> Result<Self, String> {
        if !is_on {
            return Ok(Self::default());
        }
        let conntrack = Conntrack::open().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                format!("{PATH}: {}", Capability::DAC_OVERRIDE.missing())
            }
            _ => format!("{PATH}: {error} (expected a kernel with connection tracking)"),
        })?;
        let events = Events::open().inspect_err(|error| {
            let error = match error {
                Errno::EPERM => Capability::NET_ADMIN.missing(),
                error => error.to_string(),
            };
            let why = format!("{error}; connections are known only after {PATH} was read");
            say(&format!("nat: no reports of new connections: {why}"));
        });
        let translations = Translations::with_room();
        let (conntrack, events) = (Some(conntrack), events.ok());
        Ok(Self { conntrack, events, is_on, translations, ..Self::default() })
    }

    /// Returns true if NAT can be enabled.
    pub(crate) fn is_open(&self) -> bool {
        self.conntrack.is_some()
    }

    /// Enables or disables it from `now` on.
    pub(crate) fn set(&mut self, is_on: bool, now: Nanos) {
        if is_on != self.is_on {
            self.translations.forget();
            (self.is_on, self.due, self.is_reading) = (is_on, now, false);
        }
    }

    pub(crate) fn translations(&self) -> &Translations {
        &self.translations
    }

    /// Returns the number of known translated connections; `None` if disabled.
    pub(crate) fn connections(&self) -> Option<u64> {
        self.is_on.then(|| self.translations.len() as u64)
    }

    /// Returns the descriptor that becomes readable when the kernel has reported something.
    pub(crate) fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// Processes reports of the kernel, up to a bound.
    #[inline]
    pub(crate) fn hear(&mut self, now: Nanos) {
        let Self { events: Some(events), translations, is_on, .. } = self else { return };
        let is_on = *is_on;
        let heard = events.read(|event| {
            if is_on {
                translations.hear(event);
            }
        });
        self.heard(heard, now);
    }

    fn heard(&mut self, heard: Heard, now: Nanos) {
        if heard.count > 0 {
            self.told = Some(now);
        }
        if heard.is_overrun {
            self.is_overrun = true;
            if !self.is_reading {
                self.due = self.due.min(now.max(self.earliest));
            }
        }
    }

    /// Returns the interval between the starts of passes.
    fn every(&self, now: Nanos) -> Nanos {
        let is_told = self.told.is_some_and(|at| now.since(at) < TOLD);
        let has_room = self.translations.len() < MOST;
        if is_told && has_room && !self.is_overrun { SELDOM } else { EVERY }
    }

    /// Returns the time of the next read.
    pub(crate) fn poll_at(&self) -> Option<Nanos> {
        (self.is_on && self.is_open()).then_some(self.due)
    }

    /// Processes reports of the kernel, and reads a piece of the table if due.
    pub(crate) fn read(&mut self, now: Nanos) {
        self.hear(now);
        let Self { conntrack: Some(conntrack), translations, .. } = self else { return };
        if !self.is_on || now < self.due {
            return;
        }
        if !core::mem::replace(&mut self.is_reading, true) {
            (self.began, self.is_overrun) = (now, false);
        }
        match conntrack.read(|line| translations.take_in(line)) {
            Ok(false) => return,
            Ok(true) => self.is_broken = false,
            Err(error) => {
                if !core::mem::replace(&mut self.is_broken, true) {
                    say(&format!("nat: {PATH}: {error}"));
                }
            }
        }
        translations.turn();
        self.is_reading = false;
        let span = Nanos(now.since(self.began).0.saturating_mul(PARTS));
        self.earliest = self.began.plus(EVERY.max(span));
        self.due = self.began.plus(self.every(now)).max(self.earliest);
    }
}

#[cfg(test)]
mod tests;
