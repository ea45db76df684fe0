//! What a device may hand over as one frame that is several packets: asked before the first frame
//! comes, and said with the command that helps.

use core::ffi::c_int;

use crate::io::sys::{Interface, link, links, merging};

/// What may be wrong with what `index` hands over, a line each with the command to type; nothing if
/// it hands over single packets.
///
/// With `is_start` a line names also what cannot be asked. Other namespaces can be asked with
/// CAP_NET_ADMIN only, which the gateway has at its start.
///
/// A gateway that `splits` frames of several packets asks for what it cannot cut alone.
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
    /// Looks at an interface, and at those that its frames come from.
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

    /// The other end of a pair hands over what its kernel does not cut up.
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

/// Which of these offloads, by the words of `ethtool -K`, the gateway cannot live with. What is
/// merged so that it can be cut again is no harm where it is cut; `lro` loses what the packets had.
pub(crate) fn harmful(mut merging: Vec<&'static str>, splits: bool) -> Vec<&'static str> {
    merging.retain(|&word| !splits || word == "lro");
    merging
}

/// The command that stops a device from merging the packets that it receives; `merging` are its
/// offloads by the words of `ethtool -K`.
pub(crate) fn stop_merging(name: &str, merging: &[&str]) -> String {
    let off: Vec<String> = merging.iter().map(|word| format!("{word} off")).collect();
    format!("ethtool -K {name} {}", off.join(" "))
}
