//! Applies a new configuration at run time and describes the changes.

use std::collections::{BTreeMap, BTreeSet};

use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;

use crate::config::handling::{Handling, memory_word, rtt_word, tins_word};
use crate::config::hosts::{Host, host_by_word};
use crate::config::keywords::{Switch, Words as _, rate_word};
use crate::config::{Config, Sharing};

impl Config {
    /// Takes over from `new` what can change while packets are queued; returns one line per change,
    /// and one per setting that needs a restart.
    pub(crate) fn take_over(&mut self, new: Self) -> Vec<String> {
        let mut said = Vec::new();
        let mut changed = |what: &str, from: String, to: String| {
            if from != to {
                said.push(format!("{what}: {from} -> {to}"));
            }
        };
        changed("up", rate_word(self.up), rate_word(new.up));
        changed("down", rate_word(self.down), rate_word(new.down));
        changed("queue", self.share.kind.word().into(), new.share.kind.word().into());
        changed("hosts", self.share.hosts.word().into(), new.share.hosts.word().into());
        changed("max-hosts", self.share.max_hosts.to_string(), new.share.max_hosts.to_string());
        changed("host-by", host_by_word(self.names.by), host_by_word(new.names.by));
        changed("limit", self.share.limit.word(), new.share.limit.word());
        let flush = |share: Sharing| share.flush_unserved.map_or("off".to_owned(), millis_word);
        changed("flush-unserved", flush(self.share), flush(new.share));
        changed("aqm", self.share.aqm.word().into(), new.share.aqm.word().into());
        let l4s = |share: Sharing| Switch::of(share.l4s).word().to_owned();
        changed("l4s", l4s(self.share), l4s(new.share));
        changed("rtt", rtt_word(self.share.rtt), rtt_word(new.share.rtt));
        changed("framing", self.framing.to_string(), new.framing.to_string());
        let (before, after) = (self.handling, new.handling);
        changed("catch-up", before.late.word(), after.late.word());
        let ack_filter = |of: Handling| of.ack_filter.word().to_owned();
        changed("ack-filter", ack_filter(before), ack_filter(after));
        changed("wash", before.wash.word().into(), after.wash.word().into());
        let split = |of: Handling| Switch::of(of.splits_gso).word().to_owned();
        changed("split-gso", split(before), split(after));
        let ingress = |of: Handling| Switch::of(of.is_ingress).word().to_owned();
        changed("ingress", ingress(before), ingress(after));
        let across = |of: Handling| Switch::of(of.hosts_across_tins).word().to_owned();
        changed("hosts-across-tins", across(before), across(after));
        changed("tins", tins_word(before.tins), tins_word(after.tins));
        let tin_by = |of: Handling| of.tin_by.word().to_owned();
        changed("tin-by", tin_by(before), tin_by(after));
        let mask = |of: Handling| format!("{:#x}", of.fwmark.mask());
        changed("fwmark", mask(before), mask(after));
        changed("memory-limit", memory_word(before.memory_limit), memory_word(after.memory_limit));
        changed("autorate", self.follow.word(), new.follow.word());
        let nat = |is_on| Switch::of(is_on).word().to_owned();
        changed("nat", nat(self.nat), nat(new.nat));
        changed("stats-interval", self.stats_interval.to_string(), new.stats_interval.to_string());
        said.extend(changed_hosts("names", &self.names.sizes(), &new.names.sizes(), |members| {
            members.map_or("none".to_owned(), |members| match members.len() {
                1 => "1 address".to_owned(),
                count => format!("{count} addresses"),
            })
        }));
        said.extend(changed_hosts("weights", &self.weights, &new.weights, |weight| {
            weight.map_or("1".to_owned(), u32::to_string)
        }));
        let word = |rate: Option<&Rate>| rate.map_or("none".to_owned(), |&rate| rate_word(rate));
        said.extend(changed_hosts("rates", &self.rates, &new.rates, word));
        said.extend(changed_hosts("ceils", &self.ceils, &new.ceils, word));
        said.extend(new.hints.iter().cloned());
        let kept = [
            ("lan", self.lan == new.lan),
            ("wan", self.wan == new.wan),
            ("io", self.io == new.io),
            ("stats", self.stats == new.stats),
            ("metrics", self.metrics == new.metrics),
            ("user", self.user == new.user),
        ];
        for (what, is_same) in kept {
            if !is_same {
                said.push(format!(
                    "{what}: cannot change at run time; restart needed, old value kept"
                ));
            }
        }
        let Self {
            up,
            down,
            share,
            framing,
            handling,
            follow,
            nat,
            stats_interval,
            names,
            lists,
            weights,
            rates,
            ceils,
            hints,
            places,
            ..
        } = new;
        (self.up, self.down, self.share, self.framing) = (up, down, share, framing);
        (self.handling, self.follow, self.stats_interval) = (handling, follow, stats_interval);
        self.nat = nat;
        (self.names, self.lists) = (names.numbered_as(&self.names), lists);
        (self.weights, self.rates, self.ceils) = (weights, rates, ceils);
        (self.hints, self.places) = (hints, places);
        said
    }
}

fn millis_word(span: Nanos) -> String {
    format!("{} ms", span.0 / 1_000_000)
}

/// Maximum number of hosts named in one line of changes.
const NAMED: usize = 8;

/// Describes the changes of a table of hosts in one line with the first few hosts; `None` without
/// changes. `word` formats a host's value, or that of a host not in the table.
fn changed_hosts<T: PartialEq>(
    table: &str,
    old: &BTreeMap<Host, T>,
    new: &BTreeMap<Host, T>,
    word: impl Fn(Option<&T>) -> String,
) -> Option<String> {
    let hosts: BTreeSet<&Host> = old.keys().chain(new.keys()).collect();
    let change = |host: &Host| {
        let (from, to) = (old.get(host), new.get(host));
        (from != to).then_some((from, to))
    };
    let mut changes = hosts.into_iter().filter_map(|host| Some((host, change(host)?)));
    let named: Vec<String> = (&mut changes)
        .take(NAMED)
        .map(|(host, (from, to))| format!("{host} {} -> {}", word(from), word(to)))
        .collect();
    let more = match changes.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!named.is_empty()).then(|| format!("{table}: {}{more}", named.join(", ")))
}
