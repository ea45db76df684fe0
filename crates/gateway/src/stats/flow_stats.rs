//! Counters and delays per flow and host, while clients are connected.

use std::collections::HashMap;

use freeboard::flowhash::{FlowKey, HostKey};
use freeboard::sched_core::{DropReason, Nanos};

use crate::config::hosts::Names;
use crate::stats::accounts::{Account, Accounts};
use crate::stats::display;
use crate::stats::histogram::Histogram;
use crate::stats::tin_delays::Tins;

/// Maximum number of flows watched; packets of further flows are counted with none.
const FLOWS: usize = 1_024;
/// Minimum time for which an idle entry is kept; at most twice as long.
const IDLE: Nanos = Nanos(1_000_000_000);

/// Entries in which a packet is counted; `None` if no entry was free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    flow: Option<u16>,
    host: Option<u16>,
    /// Account of its host, which others share if there are many hosts.
    account: u16,
    /// True if no packet of its flow was held on arrival, if the flow has an entry.
    is_sparse: bool,
}

/// Counters of a flow or a host.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) queued_packets: u64,
    /// By reason, in the order of [`reasons`].
    pub(crate) drops: [u64; REASONS],
    /// Delays since the last report.
    pub(crate) delays: Histogram,
    /// True if there was activity since idle entries were last removed.
    is_active: bool,
}

impl Tally {
    fn new(name: String) -> Self {
        Self {
            name,
            sent_bytes: 0,
            sent_packets: 0,
            queued_bytes: 0,
            queued_packets: 0,
            drops: [0; REASONS],
            delays: Histogram::new(),
            is_active: true,
        }
    }
}

/// Number of reasons: those of [`DropReason::ALL`], frames rejected by the queue, and frames
/// refused by the device.
const REASONS: usize = DropReason::COUNT + 2;
/// Index of frames refused by the device in [`Tally::drops`].
const OF_DEVICE: usize = DropReason::COUNT + 1;
/// Reason name of frames refused by the device.
pub(crate) const DEVICE: &str = "device";

/// Returns the names of the reasons in [`Tally::drops`].
pub(crate) fn reasons() -> impl Iterator<Item = &'static str> + Clone {
    let of_queue = DropReason::ALL.iter().copied().map(DropReason::name);
    of_queue.chain([DropReason::Rejected.name(), DEVICE])
}

/// Returns the index of a reason in [`Tally::drops`].
fn reason_at(why: DropReason) -> usize {
    DropReason::ALL.iter().position(|&reason| reason == why).unwrap_or(DropReason::COUNT)
}

/// A bounded number of tallies by key. Idle tallies are removed after a report, or when all are in
/// use.
#[derive(Debug)]
struct Tallies<K> {
    places: HashMap<K, u16>,
    /// Grows to the maximum number used at once.
    tallies: Vec<Option<Box<Tally>>>,
    free: Vec<u16>,
    /// Maximum number of tallies.
    most: usize,
    /// Time at which idle ones were last removed.
    swept: Nanos,
}

impl<K: core::hash::Hash + Eq> Tallies<K> {
    fn new(most: usize) -> Self {
        let (places, tallies, free) = (HashMap::new(), Vec::new(), Vec::new());
        Self { places, tallies, free, most, swept: Nanos::ZERO }
    }

    /// Returns a free index.
    fn vacant(&mut self) -> Option<u16> {
        if self.places.len() >= self.most {
            return None;
        }
        if self.free.is_empty() {
            let place = u16::try_from(self.tallies.len()).ok()?;
            self.tallies.push(None);
            return Some(place);
        }
        self.free.pop()
    }

    fn place(&mut self, now: Nanos, key: K, name: impl FnOnce() -> String) -> Option<u16> {
        if let Some(&place) = self.places.get(&key) {
            return Some(place);
        }
        if self.places.len() >= self.most && now.since(self.swept) >= IDLE {
            self.sweep(now);
        }
        let place = self.vacant()?;
        self.tallies[usize::from(place)] = Some(Box::new(Tally::new(name())));
        self.places.insert(key, place);
        Some(place)
    }

    fn at(&mut self, place: Option<u16>) -> Option<&mut Tally> {
        let tally = self.tallies[usize::from(place?)].as_deref_mut()?;
        tally.is_active = true;
        Some(tally)
    }

    fn all(&self) -> impl Iterator<Item = &Tally> {
        self.tallies.iter().flatten().map(Box::as_ref)
    }

    /// Resets what is counted per report.
    fn looked(&mut self, now: Nanos) {
        for tally in self.tallies.iter_mut().flatten() {
            tally.delays.clear();
        }
        self.sweep(now);
    }

    /// Removes those without activity since the last time.
    fn sweep(&mut self, now: Nanos) {
        let Self { places, tallies, free, swept, .. } = self;
        *swept = now;
        places.retain(|_, &mut place| {
            let Some(tally) = &mut tallies[usize::from(place)] else { return false };
            let stays = tally.is_active || tally.queued_packets > 0;
            tally.is_active = false;
            if !stays {
                tallies[usize::from(place)] = None;
                free.push(place);
            }
            stays
        });
    }
}

/// Level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// All packets together.
    All,
    /// Each flow and each host too.
    Each,
}

/// A flow, and the key of the outer header if the flow is inside a tunnel.
pub(crate) type Flow = (FlowKey, Option<FlowKey>);

/// Counters and delays of one direction.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Empty unless flows and hosts are watched individually.
    flows: Tallies<Flow>,
    hosts: Tallies<HostKey>,
    /// Counters of hosts since the start.
    accounts: Accounts,
    /// Delays of all packets since the start.
    total: Histogram,
    /// Delays of all packets since the last report.
    recent: Histogram,
    tins: Tins,
    /// Names of hosts that are lists.
    names: Names,
}

impl Watch {
    /// Creates the counters, for at most `hosts` hosts at once.
    pub(crate) fn new(watched: Watched, hosts: u32, names: Names) -> Self {
        let each = watched == Watched::Each;
        let (flows, hosts) = if each { (FLOWS, hosts as usize) } else { (0, 0) };
        Self {
            flows: Tallies::new(flows),
            hosts: Tallies::new(hosts),
            accounts: Accounts::new(),
            total: Histogram::new(),
            recent: Histogram::new(),
            tins: Tins::default(),
            names,
        }
    }

    /// Sets the names of hosts: those of lists and prefixes may change.
    pub(crate) fn set_names(&mut self, names: Names) {
        for (host, &place) in &self.hosts.places {
            if let Some(tally) = &mut self.hosts.tallies[usize::from(place)] {
                tally.name = display::host(host, &names);
            }
        }
        self.accounts.forget_others(|host| display::host(host, &names));
        self.names = names;
    }

    /// Sets the maximum number of hosts, if hosts are watched individually. Excess hosts are kept
    /// while they are active.
    pub(crate) fn set_hosts(&mut self, hosts: u32) {
        if self.hosts.most > 0 {
            self.hosts.most = hosts as usize;
        }
    }

    /// Counts an arriving packet of this flow and this host on the LAN side.
    pub(crate) fn arrived(&mut self, now: Nanos, flow: Flow, host: HostKey, bytes: u32) -> Place {
        let names = &self.names;
        let account = self.accounts.arrived(now, host, bytes, || display::host(&host, names));
        let flow = self.flows.place(now, flow, || display::flow(&flow));
        let host = self.hosts.place(now, host, || display::host(&host, names));
        let is_sparse = self.flows.at(flow).is_some_and(|flow| flow.queued_packets == 0);
        for tally in [self.flows.at(flow), self.hosts.at(host)].into_iter().flatten() {
            tally.queued_bytes += u64::from(bytes);
            tally.queued_packets += 1;
        }
        Place { flow, host, account, is_sparse }
    }

    /// Counts a packet of this tin that leaves at `now` after a delay of `waited`.
    pub(crate) fn sent(&mut self, now: Nanos, place: Place, tin: u8, bytes: u32, waited: Nanos) {
        self.tins.sent(now, tin, waited, place.is_sparse);
        self.total.add(waited.0);
        self.recent.add(waited.0);
        self.accounts.left(place.account, bytes, true);
        for tally in [self.flows.at(place.flow), self.hosts.at(place.host)].into_iter().flatten() {
            gone(tally, bytes);
            tally.sent_bytes += u64::from(bytes);
            tally.sent_packets += 1;
            tally.delays.add(waited.0);
        }
    }

    /// Counts a packet that the queue dropped.
    pub(crate) fn dropped(&mut self, place: Place, bytes: u32, why: DropReason) {
        self.lost(place, bytes, reason_at(why));
    }

    /// Counts a packet that the device refused.
    pub(crate) fn refused(&mut self, place: Place, bytes: u32) {
        self.lost(place, bytes, OF_DEVICE);
    }

    fn lost(&mut self, place: Place, bytes: u32, reason: usize) {
        self.accounts.left(place.account, bytes, false);
        for tally in [self.flows.at(place.flow), self.hosts.at(place.host)].into_iter().flatten() {
            gone(tally, bytes);
            tally.drops[reason] += 1;
        }
    }

    pub(crate) fn flows(&self) -> impl Iterator<Item = &Tally> {
        self.flows.all()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Tally> {
        self.hosts.all()
    }

    /// Returns the accounts of hosts since the start, that of unnamed hosts first.
    pub(crate) fn accounts(&self) -> &[Account] {
        self.accounts.all()
    }

    /// Returns the delays since the start.
    pub(crate) fn total(&self) -> &Histogram {
        &self.total
    }

    /// Returns the delays since the last report.
    pub(crate) fn recent(&self) -> &Histogram {
        &self.recent
    }

    /// Returns the delays of tins.
    pub(crate) fn tins(&self) -> &Tins {
        &self.tins
    }

    /// Resets the delays of tins after a change of the tins.
    pub(crate) fn forget_tins(&mut self) {
        self.tins = Tins::default();
    }

    /// Resets what is counted per report.
    pub(crate) fn looked(&mut self, now: Nanos) {
        self.flows.looked(now);
        self.hosts.looked(now);
        self.recent.clear();
        self.tins.looked();
    }
}

fn gone(tally: &mut Tally, bytes: u32) {
    tally.queued_bytes = tally.queued_bytes.saturating_sub(bytes.into());
    tally.queued_packets = tally.queued_packets.saturating_sub(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::flowhash::Transport;

    fn key(port: u16) -> FlowKey {
        let transport = Transport { protocol: 6, src_port: port, dst_port: 443 };
        FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport }
    }

    #[test]
    fn a_packet_is_counted_with_its_flow_and_its_host() {
        let mut watch = Watch::new(Watched::Each, 256, Names::default());
        let host = key(1).src_host();
        let first = watch.arrived(Nanos(0), (key(1), None), host, 100);
        let second = watch.arrived(Nanos(0), (key(2), None), host, 200);
        watch.sent(Nanos(0), first, 0, 100, Nanos::from_millis(3));
        let tally = |tallies: Vec<&Tally>, name: &str| {
            let found = tallies.into_iter().find(|tally| tally.name.contains(name)).unwrap();
            (found.sent_bytes, found.queued_bytes, found.drops.iter().sum::<u64>())
        };
        assert_eq!(tally(watch.flows().collect(), ":1 "), (100, 0, 0));
        assert_eq!(tally(watch.hosts().collect(), "10.0.0.1"), (100, 200, 0));
        watch.dropped(second, 200, DropReason::Rejected);
        assert_eq!(tally(watch.flows().collect(), ":2 "), (0, 0, 1));
        assert_eq!(watch.recent().count(), 1);
        watch.looked(Nanos(0));
        assert_eq!((watch.recent().count(), watch.total().count()), (0, 1));
    }

    #[test]
    fn places_come_back_from_flows_that_are_idle_for_a_look() {
        let mut watch = Watch::new(Watched::Each, 256, Names::default());
        let places: Vec<Place> = (0..FLOWS as u16)
            .map(|port| watch.arrived(Nanos(0), (key(port), None), key(1).src_host(), 60))
            .collect();
        let late = watch.arrived(Nanos(0), (key(60_000), None), key(1).src_host(), 60);
        assert_eq!(late.flow, None);
        // All but one leave, which is active; one report later they are idle.
        for &place in places.iter().skip(1).chain([&late]) {
            watch.sent(Nanos(0), place, 0, 60, Nanos(1));
        }
        watch.looked(Nanos(0));
        assert_eq!(watch.flows().count(), FLOWS);
        watch.looked(Nanos(0));
        assert_eq!(watch.flows().map(|tally| tally.queued_packets).collect::<Vec<_>>(), [1]);
        assert_eq!(
            watch.hosts().map(|tally| tally.sent_packets).collect::<Vec<_>>(),
            [FLOWS as u64]
        );
        assert!(watch.arrived(Nanos(0), (key(60_000), None), key(1).src_host(), 60).flow.is_some());
    }

    /// Goal: without clients, entries of ended flows are reused, and entries are searched at most
    /// once a second.
    #[test]
    fn places_come_back_without_a_look() {
        let mut watch = Watch::new(Watched::Each, 256, Names::default());
        let at = |millis: u64, port: u16| (Nanos::from_millis(millis), key(port));
        let mut pass = |(now, key): (Nanos, FlowKey)| {
            let place = watch.arrived(now, (key, None), key.src_host(), 60);
            watch.sent(Nanos(0), place, 0, 60, Nanos(1));
            place.flow.is_some()
        };
        for port in 0..FLOWS as u16 {
            assert!(pass(at(5_000, port)));
        }
        // The first search finds all active, the second all but one idle.
        assert!(!pass(at(5_000, 60_000)));
        assert!(!pass(at(5_999, 60_000)) && pass(at(5_999, 7)));
        assert!(pass(at(6_000, 60_000)));
        assert_eq!(watch.flows().count(), 2);
        assert!(watch.flows().any(|tally| tally.name.contains(":7 ") && tally.sent_packets == 2));
    }

    #[test]
    fn nothing_is_kept_of_flows_that_no_page_shows() {
        let mut watch = Watch::new(Watched::All, 256, Names::default());
        let place = watch.arrived(Nanos(0), (key(1), None), key(1).src_host(), 60);
        watch.sent(Nanos(0), place, 0, 60, Nanos(1));
        assert_eq!((place.flow, place.host), (None, None));
        assert_eq!((watch.flows().count(), watch.hosts().count()), (0, 0));
        assert_eq!(watch.accounts()[usize::from(place.account)].sent_bytes, 60);
        assert_eq!(watch.total().count(), 1);
    }
}
