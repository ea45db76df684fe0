//! Finds devices that may deliver several packets as one frame, before the first frame arrives, and
//! the commands that help.

use core::ffi::c_int;

use crate::io::sys::{Interface, link, links, merging};

/// Returns one line with a command for each source of unsegmented frames behind interface `index`.
///
/// With `is_start`, lines also name what cannot be checked. Other namespaces can be checked with
/// CAP_NET_ADMIN only, which the gateway has at the start. If the gateway `splits` frames of
/// several packets, only those that it cannot segment matter.
pub(crate) fn concerns(index: c_int, is_start: bool, splits: bool) -> Vec<String> {
    let all = links().unwrap_or_default();
    let mut search = Search { all: &all, is_start, splits, seen: Vec::new(), lines: Vec::new() };
    search.look(index);
    search.lines
}

struct Search<'a> {
    all: &'a [Interface],
    is_start: bool,
    splits: bool,
    seen: Vec<c_int>,
    lines: Vec<String>,
}

impl Search<'_> {
    /// Checks an interface, and those that its frames come from.
    fn look(&mut self, index: c_int) {
        if self.seen.contains(&index) {
            return;
        }
        self.seen.push(index);
        let all = self.all;
        let Some(of) = all.iter().find(|link| link.index == index) else { return };
        let name = &of.name;
        let merging = harmful(merging(name), self.splits);
        let then = if self.splits { "then" } else { "with --split-gso=off" };
        if !merging.is_empty() {
            self.lines.push(format!(
                "{name} coalesces received packets, which are dropped {then}; run: {}",
                stop_merging(name, &merging)
            ));
        }
        match &*of.kind {
            "veth" if !self.splits => self.pair(of),
            "tun" if of.has_headers && !self.splits => self.lines.push(format!(
                "{name}: the program at its other end, such as a virtual machine, may send unsegmented packets, which are \
                 dropped with --split-gso=off; in that machine run: ip link set DEV gso_max_segs 1"
            )),
            "bridge" | "bond" | "team" => {
                for port in all.iter().filter(|link| link.master == Some(index)) {
                    self.look(port.index);
                }
            }
            "vlan" | "macvlan" | "macvtap" | "ipvlan" if of.namespace.is_none() => {
                of.other.into_iter().for_each(|below| self.look(below));
            }
            _ => {}
        }
    }

    /// Checks the other end of a pair, which delivers what its kernel does not segment.
    fn pair(&mut self, of: &Interface) {
        let name = &of.name;
        let other = of.other.map(|index| link(index, of.namespace));
        match other {
            Some(Ok(other)) if other.gso_max_segs > 1 => {
                let far = &other.name;
                let at = if of.namespace.is_some() { " in its namespace" } else { "" };
                self.lines.push(format!(
                    "{name}: {far}, the other end of the pair, sends unsegmented packets, which are dropped with \
                     --split-gso=off; run{at}: ip link set {far} gso_max_segs 1"
                ));
            }
            Some(Err(_)) if self.is_start => self.lines.push(format!(
                "{name}: the other end of the pair is in another namespace and cannot be checked; unless done already, run \
                 there: ip link set DEV gso_max_segs 1"
            )),
            _ => {}
        }
    }
}

/// Returns those of these offloads, named as in `ethtool -K`, that the gateway cannot handle.
/// Coalesced frames that can be segmented again do no harm if they are; `lro` loses information.
pub(crate) fn harmful(mut merging: Vec<&'static str>, splits: bool) -> Vec<&'static str> {
    merging.retain(|&word| !splits || word == "lro");
    merging
}

/// Returns the command that disables these offloads, named as in `ethtool -K`, at a device.
pub(crate) fn stop_merging(name: &str, merging: &[&str]) -> String {
    let off: Vec<String> = merging.iter().map(|word| format!("{word} off")).collect();
    format!("ethtool -K {name} {}", off.join(" "))
}
