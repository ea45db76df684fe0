//! Log messages about devices: frames that cannot be queued or sent, and changes of a device.

use std::os::fd::AsFd as _;

use freeboard::sched_core::Nanos;

use super::Gateway;
use crate::config::hosts::Host;
use crate::config::keywords::Io;
use crate::forward::routers::OF_A_ROUTER;
use crate::io::frame::ETHERNET_HEADER;
use crate::io::offloads::{concerns, stop_merging};
use crate::io::stack::uses;
use crate::io::sys::{self, Interface};
use crate::log::say;

/// Minimum time between two messages about frames dropped as merged.
const AGAIN: Nanos = Nanos(10_000_000_000);
/// Minimum time between two checks of the devices.
const LOOK: Nanos = Nanos(1_000_000_000);

/// State of the messages about one device.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Counters of merged packets and bytes and of received frames at the last message about
    /// merged packets.
    merged: u64,
    merged_bytes: u64,
    received: u64,
    /// Times of the last and of the next possible message about merged packets.
    merged_at: Nanos,
    again_at: Nanos,
    too_long: bool,
    /// Errors that were logged for refused frames.
    refused: Vec<i32>,
    concerns: Vec<String>,
    /// Last known state of the interface.
    is_up: bool,
    has_carrier: bool,
}

/// Formats a line for each use of a device other than the gateway.
fn used(index: core::ffi::c_int) -> impl Iterator<Item = String> {
    uses(index).unwrap_or_default().into_iter().map(|of| {
        let (on, stop) = (of.on(), of.stop());
        format!("{on} now {of}, so frames bypass the gateway; run: {stop}")
    })
}

impl Gateway {
    /// Checks for problematic offloads, with the privileges of the start.
    pub(super) fn look_first(&mut self) {
        for at in 0..2 {
            if let Ok(link) = sys::link(self.devices[at].index(), None) {
                self.said[at].is_up = link.is_up();
                self.said[at].has_carrier = link.has_carrier();
            }
            if self.config.io == Io::Packet {
                self.said[at].concerns =
                    concerns(self.devices[at].index(), true, self.config.cuts());
            }
        }
    }

    /// Logs the findings of the start.
    pub(super) fn say_first(&mut self) {
        self.said.iter().flat_map(|said| &said.concerns).for_each(|line| say(line));
        for (said, device) in self.said.iter().zip(&self.devices) {
            if !said.is_up {
                say_down(device.name());
            }
        }
        self.say_if_unequal();
    }

    /// Logs changes of a device: down or up, carrier, name.
    pub(super) fn say_change(&mut self, link: &Interface) {
        for (said, device) in self.said.iter_mut().zip(&mut self.devices) {
            if device.index() != link.index {
                continue;
            }
            if device.name() != link.name {
                say(&format!("{}: renamed to {}", device.name(), link.name));
                device.set_name(&link.name);
            }
            let name = device.name();
            let (is_up, has_carrier) = (link.is_up(), link.has_carrier());
            match (said.is_up, is_up) {
                (true, false) => say_down(name),
                (false, true) if has_carrier => say(&format!("{name}: up again")),
                (false, true) => say(&format!("{name}: up again, without carrier")),
                _ if said.has_carrier && !has_carrier && is_up => {
                    say(&format!("{name}: carrier lost"));
                }
                _ if !said.has_carrier && has_carrier => {
                    say(&format!("{name}: carrier restored"));
                }
                _ => {}
            }
            // After a change of state the device may refuse the same frames again.
            if is_up != said.is_up {
                said.refused.clear();
            }
            (said.is_up, said.has_carrier) = (is_up, has_carrier);
        }
    }

    /// Schedules a check of the devices after a change of any interface, at most once a second.
    pub(super) fn look_soon(&mut self, now: Nanos) {
        self.look_at.get_or_insert(now.max(self.looked_at.plus(LOOK)));
    }

    /// Checks the devices if due, and logs what is new.
    pub(super) fn look_if_due(&mut self, now: Nanos) {
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        (self.look_at, self.looked_at) = (None, now);
        let mut is_other = false;
        for at in 0..2 {
            let index = self.devices[at].index();
            let Ok(link) = sys::link(index, None) else { continue };
            let (before, most) = (self.devices[at].mtu(), self.pool.mtu());
            if link.mtu != before {
                is_other = true;
                self.devices[at].set_mtu(link.mtu);
                let what = if link.mtu > most {
                    format!(
                        "; frames with more than {most} bytes after the header are dropped as too long until a restart"
                    )
                } else {
                    String::new()
                };
                say(&format!("{}: MTU changed from {before} to {}{what}", link.name, link.mtu));
            }
            if self.config.io == Io::Packet {
                let mut found = concerns(index, false, self.config.cuts());
                found.extend(used(index));
                let known = &self.said[at].concerns;
                found.iter().filter(|line| !known.contains(line)).for_each(|line| say(line));
                self.said[at].concerns = found;
            }
        }
        if is_other {
            self.say_if_unequal();
        }
    }

    /// Logs which frames the device with the lower MTU refuses.
    fn say_if_unequal(&self) {
        let [lan, wan] = &self.devices;
        let (low, high) = if lan.mtu() < wan.mtu() { (lan, wan) } else { (wan, lan) };
        if low.mtu() == high.mtu() {
            return;
        }
        let (name, mtu, other, most) = (low.name(), low.mtu(), high.name(), high.mtu());
        say(&format!(
            "{name} has an MTU of {mtu} and {other} of {most}: {name} refuses frames longer than {} bytes (counted as \
             device); run: ip link set {other} mtu {mtu}",
            mtu + ETHERNET_HEADER
        ));
    }

    /// Logs problems with frames since the last call.
    pub(super) fn say_troubles(&mut self, now: Nanos) {
        if let Some(card) = self.directions[0].router() {
            say(&format!(
                "{}: {OF_A_ROUTER} IPv4 addresses share the MAC address {}, which counts as one host; if it is a router, use \
                 --host-by address to isolate the hosts behind it",
                self.devices[0].name(),
                Host::Mac(card)
            ));
        }
        for at in 0..2 {
            self.say_if_merged(at, now);
            let outside = self.directions[at].outside();
            let said = &mut self.said[at];
            if outside.too_long > 0 && !said.too_long {
                said.too_long = true;
                say(&format!(
                    "{}: dropped a frame longer than the MTU of {} at the start allows (counted as too long); for frames with \
                     two VLAN tags raise the MTU by 4; restart after raising it",
                    self.devices[at].name(),
                    self.pool.mtu()
                ));
            }
            let to = 1 - at;
            let Some(error) = self.directions[at].refused_with() else { continue };
            // Logged when the device went down.
            if matches!(error, libc::ENETDOWN | libc::ENXIO | libc::EIO) {
                continue;
            }
            // A device that has disappeared is logged as such elsewhere.
            if !self.said[to].refused.contains(&error)
                && self.devices[to].exists(self.links.as_fd())
            {
                self.said[to].refused.push(error);
                let (name, mtu) = (self.devices[to].name(), self.devices[to].mtu());
                let why = match error {
                    libc::EMSGSIZE => format!("longer than its MTU of {mtu}"),
                    libc::ENOBUFS => "its own queue is full; lower the rate".to_owned(),
                    _ => std::io::Error::from_raw_os_error(error).to_string(),
                };
                say(&format!("{name}: refuses frames (counted as device): {why}"));
            }
        }
    }

    /// Returns the next time at which a message or a check of the devices is due.
    pub(super) fn troubles_at(&self) -> Option<Nanos> {
        let waits = |at: &usize| self.directions[*at].outside().merged > self.said[*at].merged;
        let again = [0, 1].into_iter().filter(waits).map(|at| self.said[at].again_at).min();
        again.into_iter().chain(self.look_at).min()
    }

    /// Logs frames dropped as merged: at once, then every 10 s while there are more.
    fn say_if_merged(&mut self, at: usize, now: Nanos) {
        let outside = self.directions[at].outside();
        let said = &mut self.said[at];
        let count = outside.merged - said.merged;
        if count == 0 || now < said.again_at {
            return;
        }
        let bytes = outside.merged_bytes - said.merged_bytes;
        let received = (outside.received - said.received).max(1);
        let span = now.since(said.merged_at.max(self.started)).0.div_ceil(1_000_000_000);
        let share = share(count, received);
        (said.merged, said.merged_bytes) = (outside.merged, outside.merged_bytes);
        (said.received, said.merged_at, said.again_at) = (outside.received, now, now.plus(AGAIN));
        let name = self.devices[at].name();
        let merging = sys::merging(name);
        let here = if merging.is_empty() {
            String::new()
        } else {
            format!(", and here: {}", stop_merging(name, &merging))
        };
        say(&format!(
            "{name}: dropped {count} of {received} frames within {span} s ({share}, {bytes} bytes) because they contain \
             several packets each (GSO, GRO); where they come from run: ip link set DEV gso_max_segs 1{here}"
        ));
    }
}

fn say_down(name: &str) {
    say(&format!("{name}: down, frames for it are dropped; run: ip link set {name} up"));
}

/// Returns `count` in percent of `all`, which is not 0, rounded down to a tenth: 100 % means all
/// and 0 % none.
fn share(count: u64, all: u64) -> String {
    match count.saturating_mul(1_000) / all {
        0 if count > 0 => "less than 0.1 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_said_to_a_tenth_of_a_percent() {
        let said = [(0, 9), (1, 250_000), (1, 250), (3, 1_000), (9_999, 10_000), (7, 7)]
            .map(|(count, all)| share(count, all));
        assert_eq!(said, ["0.0 %", "less than 0.1 %", "0.4 %", "0.3 %", "99.9 %", "100.0 %"]);
    }
}
