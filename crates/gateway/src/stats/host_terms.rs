//! Settings of hosts, as shown in reports.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::config::hosts::Host;

/// A list of addresses, a host in a table, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostTerms {
    /// Name of the host as in the tables.
    pub(crate) host: String,
    /// Members of the list as written; empty if it is not a list.
    pub(crate) members: Vec<String>,
    /// Null if not configured; so are the following ones.
    pub(crate) weight: Option<u32>,
    pub(crate) committed_bits_per_second: Option<u64>,
    pub(crate) ceil_bits_per_second: Option<u64>,
}

impl HostTerms {
    /// Returns the terms of all lists and of all hosts in tables, ordered by kind.
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
