//! Hosts behind the machine's own translation of addresses: what the kernel's table of connections
//! says of a packet on the outer side.
//!
//! The kernel tells of each connection as it begins, before its first packet leaves the machine's
//! stack. What is told is read before the frames that have come with it, so that a connection from
//! a host is known when its first packet is queued. The table itself says what there was before,
//! and what was told while the socket was full. It is read by the one thread there is, a piece
//! between two turns of the loop. What is looked up meanwhile is what is known: no packet waits for
//! the kernel.

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

/// From the begin of a pass over the table to that of the next, where nothing else tells of
/// connections: a flow that was not known when it was queued keeps to the machine's address while
/// it is queued, so this is short.
const EVERY: Nanos = Nanos::from_millis(100);
/// The same where the kernel tells of them: a pass forgets those that have ended.
const SELDOM: Nanos = Nanos::from_secs(2);
/// The kernel is taken to tell of connections for this long after it last told of one.
const TOLD: Nanos = Nanos::from_secs(10);

/// A pass takes one part of the time in so many.
const PARTS: u64 = 10;

/// The most translated connections that are known. A packet of another one counts for the address
/// that it has.
pub(crate) const MOST: usize = 32_768;

/// What both tables take at most, in bytes: as many places as a table of [`MOST`] has, with a byte
/// of the hash each.
pub(crate) const BYTES: u64 = 2 * 2 * MOST as u64 * (size_of::<(Outside, End)>() as u64 + 1);

/// An end of a connection. The port of an echo is its identifier, at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    address: IpAddr,
    port: u16,
}

/// A connection as its packets are on the outer side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Outside {
    protocol: u8,
    /// The machine's end.
    local: End,
    remote: End,
}

/// From connections as they are outside to the end of the host.
#[derive(Debug, Default)]
pub(crate) struct Translations {
    /// What packets are looked up in: the last whole pass, and what is new of this one.
    known: HashMap<Outside, End>,
    /// What this pass has read.
    read: HashMap<Outside, End>,
}

impl Translations {
    /// With the memory that it will need, so that no packet waits for a table that grows.
    fn with_room() -> Self {
        Self { known: HashMap::with_capacity(MOST), read: HashMap::with_capacity(MOST) }
    }

    /// A line of the kernel's table. One that is not understood is left out.
    fn take_in(&mut self, line: &[u8]) {
        self.learn(Connection::parse(line));
    }

    /// What the kernel tells. What is not understood is left out.
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

    /// A pass is over: what it did not have is forgotten.
    fn turn(&mut self) {
        core::mem::swap(&mut self.known, &mut self.read);
        self.read.clear();
    }

    fn forget(&mut self) {
        self.known.clear();
        self.read.clear();
    }

    /// What a packet that goes this way on the outer side is on the inner one.
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
        let outside = Outside { protocol: transport.protocol, local, remote };
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

/// The translation of this machine, if it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Nat {
    conntrack: Option<Conntrack>,
    /// None where the kernel does not tell.
    events: Option<Events>,
    /// When the kernel last told of a connection.
    told: Option<Nanos>,
    /// Something was lost of what it told, since the pass began.
    is_overrun: bool,
    is_on: bool,
    translations: Translations,
    /// When the next piece is read.
    due: Nanos,
    /// When the pass began.
    began: Nanos,
    /// When the next one may begin.
    earliest: Nanos,
    is_reading: bool,
    is_broken: bool,
}

impl Nat {
    /// Opens what is read, which can only be done at the start; one line says why not.
    pub(crate) fn open(is_on: bool) -> Result<Self, String> {
        if !is_on {
            return Ok(Self::default());
        }
        let conntrack = Conntrack::open().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                format!("{PATH}: {}", Capability::DAC_OVERRIDE.missing())
            }
            _ => format!("{PATH}: {error}; a kernel that tracks connections has it"),
        })?;
        let events = Events::open().inspect_err(|error| {
            let error = match error {
                Errno::EPERM => Capability::NET_ADMIN.missing(),
                error => error.to_string(),
            };
            let why = format!("{error}; connections are known once {PATH} was read");
            say(&format!("nat: the kernel tells of no connections: {why}"));
        });
        let translations = Translations::with_room();
        let (conntrack, events) = (Some(conntrack), events.ok());
        Ok(Self { conntrack, events, is_on, translations, ..Self::default() })
    }

    /// Whether it can be asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.conntrack.is_some()
    }

    /// On or off from `now` on.
    pub(crate) fn set(&mut self, is_on: bool, now: Nanos) {
        if is_on != self.is_on {
            self.translations.forget();
            (self.is_on, self.due, self.is_reading) = (is_on, now, false);
        }
    }

    pub(crate) fn translations(&self) -> &Translations {
        &self.translations
    }

    /// Connections that are translated, as far as they are known; none if they are not looked for.
    pub(crate) fn connections(&self) -> Option<u64> {
        self.is_on.then(|| self.translations.len() as u64)
    }

    /// What wakes when the kernel has told something.
    pub(crate) fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// Takes in what the kernel has told, up to a bound.
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

    /// From the begin of a pass to that of the next.
    fn every(&self, now: Nanos) -> Nanos {
        let is_told = self.told.is_some_and(|at| now.since(at) < TOLD);
        let has_room = self.translations.len() < MOST;
        if is_told && has_room && !self.is_overrun { SELDOM } else { EVERY }
    }

    /// When there is something to read.
    pub(crate) fn poll_at(&self) -> Option<Nanos> {
        (self.is_on && self.is_open()).then_some(self.due)
    }

    /// Takes in what the kernel has told, and reads a piece of the table, if it is time.
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
