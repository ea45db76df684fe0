//! What the configuration says of hosts, as reports have it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config::hosts::Host;

/// A list of addresses, or a host of which a table says something, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostTerms {
    /// As a table takes it.
    pub(crate) host: String,
    /// What is on the list, as it is written; empty if the host is no list.
    pub(crate) members: Vec<String>,
    /// Null if nothing is said of it, and so on.
    pub(crate) weight: Option<u32>,
    pub(crate) committed_bits_per_second: Option<u64>,
    pub(crate) ceil_bits_per_second: Option<u64>,
}

impl HostTerms {
    /// Of all lists and all hosts of which a table says something, in the order of their kinds.
    pub(crate) fn all(config: &Config) -> Vec<Self> {
        let Config { lists, weights, rates, ceils, .. } = config;
        let mut hosts: BTreeSet<Host> = lists.keys().cloned().map(Host::Named).collect();
        hosts.extend(weights.keys().chain(rates.keys()).chain(ceils.keys()).cloned());
        let of = |host: &Host| {
            let name = host.to_string();
            Self {
                members: lists.get(&name).cloned().unwrap_or_default(),
                weight: weights.get(host).copied(),
                committed_bits_per_second: rates
                    .get(host)
                    .and_then(|rate| rate.as_bits_per_second()),
                ceil_bits_per_second: ceils.get(host).and_then(|rate| rate.as_bits_per_second()),
                host: name,
            }
        };
        hosts.iter().map(of).collect()
    }
}
