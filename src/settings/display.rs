//! Printing settings as keywords.

use core::fmt;

use super::QueueSettings;
use super::units::{BY_RATE, Size};
use crate::ack_filter::AckFilter;
use crate::smart_queue::{AqmKind, MemoryLimit};

/// Writes keywords separated by a space.
struct Line<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    is_empty: bool,
}

impl Line<'_, '_> {
    fn put(&mut self, words: fmt::Arguments<'_>) -> fmt::Result {
        if !core::mem::take(&mut self.is_empty) {
            self.f.write_str(" ")?;
        }
        self.f.write_fmt(words)
    }

    fn put_one_of(&mut self, on: Option<bool>, yes: &str, no: &str) -> fmt::Result {
        on.map_or(Ok(()), |on| self.put(format_args!("{}", if on { yes } else { no })))
    }
}

/// Prints the keywords that [`QueueSettings::from_words`] parses; empty for no settings.
impl fmt::Display for QueueSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line { f, is_empty: true };
        if let Some(rate) = self.rate {
            line.put(format_args!("bandwidth {rate}"))?;
        }
        if let Some(plan) = &self.tins {
            line.put(format_args!("{plan}"))?;
        }
        if let Some(tin_by) = self.tin_by {
            line.put(format_args!("tin-by {tin_by}"))?;
        }
        if let Some(mask) = self.fwmark {
            line.put(format_args!("fwmark {mask:#x}"))?;
        }
        if let Some(isolation) = self.isolation {
            line.put(format_args!("{isolation}"))?;
        }
        line.put_one_of(self.hosts_across_tins, "hosts-across-tins", "hosts-in-each-tin")?;
        line.put_one_of(self.nat, "nat", "nonat")?;
        line.put_one_of(self.wash, "wash", "nowash")?;
        if let Some(filter) = self.ack_filter {
            let word = match filter {
                AckFilter::Off => "no-ack-filter",
                #[cfg(feature = "ack-filter")]
                AckFilter::Conservative => "ack-filter",
                #[cfg(feature = "ack-filter")]
                AckFilter::Aggressive => "ack-filter-aggressive",
            };
            line.put(format_args!("{word}"))?;
        }
        line.put_one_of(self.ingress, "ingress", "egress")?;
        line.put_one_of(self.autorate, "autorate-ingress", "no-autorate-ingress")?;
        if let Some(rtt) = self.rtt {
            let before = if rtt.preset().is_some() { "" } else { "rtt " };
            line.put(format_args!("{before}{rtt}"))?;
        }
        if let Some(aqm) = self.aqm {
            match aqm {
                AqmKind::None => line.put(format_args!("no-aqm"))?,
                aqm => line.put(format_args!("{aqm}"))?,
            }
        }
        line.put_one_of(self.l4s, "l4s", "no-l4s")?;
        match self.memory_limit {
            None => {}
            Some(MemoryLimit::ByRate) => line.put(format_args!("memlimit {BY_RATE}"))?,
            Some(MemoryLimit::Bytes(bytes)) => {
                line.put(format_args!("memlimit {}", Size(bytes)))?
            }
        }
        line.put_one_of(self.split_gso, "split-gso", "no-split-gso")?;
        match self.framing {
            Some((of_frames, _)) => line.put(format_args!("{of_frames}")),
            None => Ok(()),
        }
    }
}
