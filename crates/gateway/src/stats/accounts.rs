//! Counters of hosts since the start, for metrics: a bounded number of named hosts, and one entry
//! for all others.
//!
//! A collector stores a series for every name that it has seen. So a host keeps its entry until it
//! has been idle for [`KEPT`]; only then another host gets it. At most [`MOST`] new names appear in
//! that time, whatever addresses are forged.

use std::collections::HashMap;

use freeboard::flowhash::HostKey;
use freeboard::sched_core::Nanos;

/// Maximum number of named hosts at one time, per direction.
pub(crate) const MOST: usize = 256;
/// Time for which an idle host keeps its entry.
const KEPT: Nanos = Nanos(600_000_000_000);
/// Minimum time between two searches for an idle host.
const SEARCH: Nanos = Nanos(1_000_000_000);
/// Name of the entry for all other hosts.
const OTHERS: &str = "other";

/// Counters of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) dropped_packets: u64,
    pub(crate) queued_packets: u64,
    pub(crate) queued_bytes: u64,
    used: Nanos,
}

/// Accounts of one direction. The first one is that of all unnamed hosts.
#[derive(Debug)]
pub(crate) struct Accounts {
    places: HashMap<HostKey, u16>,
    accounts: Vec<Account>,
    searched: Nanos,
}

impl Accounts {
    pub(crate) fn new() -> Self {
        let others = Account { name: OTHERS.to_owned(), ..Account::default() };
        Self { places: HashMap::new(), accounts: vec![others], searched: Nanos::ZERO }
    }

    pub(crate) fn all(&self) -> &[Account] {
        &self.accounts
    }

    /// Counts an arriving packet of this host; returns the index of its account.
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        host: HostKey,
        bytes: u32,
        name: impl FnOnce() -> String,
    ) -> u16 {
        let place = self.place(now, host, name);
        if let Some(account) = self.accounts.get_mut(usize::from(place)) {
            account.used = now;
            account.queued_packets += 1;
            account.queued_bytes += u64::from(bytes);
        }
        place
    }

    /// Counts a packet that leaves or is dropped.
    pub(crate) fn left(&mut self, place: u16, bytes: u32, is_sent: bool) {
        let Some(account) = self.accounts.get_mut(usize::from(place)) else { return };
        account.queued_packets = account.queued_packets.saturating_sub(1);
        account.queued_bytes = account.queued_bytes.saturating_sub(bytes.into());
        if is_sent {
            account.sent_packets += 1;
            account.sent_bytes += u64::from(bytes);
        } else {
            account.dropped_packets += 1;
        }
    }

    /// Releases accounts whose hosts have other names now: a list with the number of a former list
    /// gets a new account, and so does a prefix with the first address of a former one.
    pub(crate) fn forget_others(&mut self, name: impl Fn(&HostKey) -> String) {
        let Self { places, accounts, .. } = self;
        places.retain(|host, place| {
            accounts.get(usize::from(*place)).is_some_and(|of| of.name == name(host))
        });
    }

    fn place(&mut self, now: Nanos, host: HostKey, name: impl FnOnce() -> String) -> u16 {
        if let Some(&place) = self.places.get(&host) {
            return place;
        }
        let place = if self.accounts.len() <= MOST {
            self.accounts.push(Account::default());
            self.accounts.len() as u16 - 1
        } else {
            self.freed(now)
        };
        if let Some(account) = self.accounts.get_mut(usize::from(place)).filter(|_| place > 0) {
            *account = Account { name: name(), ..Account::default() };
            self.places.insert(host, place);
        }
        place
    }

    /// Returns the account of the host that has been idle longest, if longer than [`KEPT`], or else
    /// that of the unnamed hosts.
    fn freed(&mut self, now: Nanos) -> u16 {
        if now.since(self.searched) < SEARCH {
            return 0;
        }
        self.searched = now;
        let idle = |(_, account): &(usize, &Account)| {
            account.queued_packets == 0 && now.since(account.used) >= KEPT
        };
        let named = self.accounts.iter().enumerate().skip(1).filter(idle);
        let Some((place, _)) = named.min_by_key(|(_, account)| account.used) else { return 0 };
        self.places.retain(|_, of| usize::from(*of) != place);
        place as u16
    }
}

#[cfg(test)]
mod tests {
    use freeboard::flowhash::{HostBy, PrefixLengths};

    use super::*;
    use crate::config::hosts::Names;
    use crate::stats::display;

    fn host(number: u32) -> HostKey {
        HostKey::V4(number.to_be_bytes())
    }

    /// Goal: a list with the number of a removed list is not counted under its name.
    #[test]
    fn a_number_of_another_list_has_another_account() {
        let mut accounts = Accounts::new();
        let list = |at| (HostKey::Named(at), format!("list {at}"));
        let places = [1, 2].map(|at| {
            let (host, name) = list(at);
            accounts.arrived(Nanos(0), host, 100, || name)
        });
        accounts.forget_others(|host| match host {
            HostKey::Named(1) => "another".to_owned(),
            _ => "list 2".to_owned(),
        });
        let again = accounts.arrived(Nanos(1), list(1).0, 100, || "another".to_owned());
        assert_ne!(again, places[0]);
        assert_eq!(accounts.arrived(Nanos(1), list(2).0, 100, || unreachable!()), places[1]);
        let names: Vec<&str> = accounts.all().iter().map(|account| &*account.name).collect();
        assert_eq!(names, ["other", "list 1", "list 2", "another"]);
    }

    /// Goal: prefixes of another length get new accounts, and an unchanged one keeps its account.
    #[test]
    fn a_prefix_of_another_length_has_another_account() {
        let by = |v4, v6| Names::new(HostBy::Prefix(PrefixLengths::new(v4, v6).unwrap()));
        let (v4, v6) = (HostKey::V4([10, 0, 0, 0]), HostKey::V6([0xfd; 16]));
        let (before, after) = (by(24, 128), by(16, 128));
        let mut accounts = Accounts::new();
        let places = [v4, v6]
            .map(|host| accounts.arrived(Nanos(0), host, 100, || display::host(&host, &before)));
        for names in [&before, &after] {
            accounts.forget_others(|host| display::host(host, names));
        }
        let again = [v4, v6]
            .map(|host| accounts.arrived(Nanos(1), host, 100, || display::host(&host, &after)));
        assert_ne!(again[0], places[0]);
        assert_eq!(again[1], places[1], "an address is the same host");
        let names: Vec<&str> = accounts.all().iter().map(|account| &*account.name).collect();
        let address = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd";
        assert_eq!(names, ["other", "10.0.0.0/24", address, "10.0.0.0/16"]);
    }

    /// Goal: for any number of addresses there are few names, every packet is counted, and a name
    /// is replaced only after long idle time.
    #[test]
    fn hosts_without_a_place_are_counted_as_one() {
        let mut accounts = Accounts::new();
        let name = |number| move || display::host(&host(number), &Names::default());
        let pass = |accounts: &mut Accounts, now: Nanos, number: u32| {
            let place = accounts.arrived(now, host(number), 100, name(number));
            accounts.left(place, 100, true);
            place
        };
        let second = |seconds: u64| Nanos::from_secs(seconds);
        for number in 0..10_000 {
            pass(&mut accounts, second(1), number);
        }
        assert_eq!(accounts.all().len(), MOST + 1);
        let sent = |accounts: &Accounts| {
            accounts.all().iter().map(|account| account.sent_packets).sum::<u64>()
        };
        assert_eq!(
            (sent(&accounts), accounts.all()[0].sent_packets),
            (10_000, 10_000 - MOST as u64)
        );
        // One goes on, one holds a packet; the others are idle for ten minutes.
        let holding = accounts.arrived(second(1), host(8), 100, name(8));
        assert_eq!(pass(&mut accounts, second(600), 20_000), 0);
        pass(&mut accounts, second(600), 7);
        let place = pass(&mut accounts, second(602), 20_000);
        assert!(place > 0 && place != holding, "{place}");
        assert_eq!(pass(&mut accounts, second(602), 20_000), place);
        assert_eq!(accounts.all()[usize::from(place)].sent_packets, 2);
        // At most one a second, and never the two.
        for seconds in 603..2_000 {
            pass(&mut accounts, second(seconds), 7);
            pass(&mut accounts, second(seconds), 30_000 + seconds as u32);
        }
        let names: Vec<&str> = accounts.all().iter().map(|account| &*account.name).collect();
        assert!(names.contains(&"0.0.0.7") && names.contains(&"0.0.0.8"), "{names:?}");
        assert_eq!(accounts.all().len(), MOST + 1);
        assert_eq!(accounts.places.len(), MOST);
    }
}
