//! Hints about options that have no effect in combination with the others; each is logged once.

use freeboard::flowhash::HostBy;
use freeboard::shaper::Rate;
use freeboard::{AqmKind, Isolation, MemoryLimit};

use crate::config::hosts::host_by_word;
use crate::config::keywords::{HostMode, Io, Limit, QueueKind, Words as _};
use crate::config::{Config, RawOptions, Word};

impl RawOptions {
    /// Returns hints about options without effect in `config`, which was built from them.
    pub(super) fn idle(&self, config: &Config) -> Vec<String> {
        let share = &config.share;
        let queue = format!("--queue {}", share.kind.word());
        let hosts = format!("--hosts {}", share.hosts.word());
        // Neither do hosts have a share, nor their flows a weight.
        let no_hosts = match (share.kind, share.hosts) {
            (QueueKind::Fifo, _) => Some(queue.clone()),
            (_, HostMode::By(Isolation::Flows)) if config.weights.is_empty() => Some(hosts),
            _ => None,
        };
        let only_reports =
            no_hosts.map(|with| format!("no effect with {with}, except on statistics"));
        // A translated address does not reveal a network card or a VLAN.
        let by = config.names.by;
        let by_frame =
            (matches!(by, HostBy::Mac | HostBy::Vlan) && self.names.is_empty()).then(|| {
                format!(
                    "no effect with --host-by {}, which reads the frame header",
                    host_by_word(by)
                )
            });
        let no_nat = only_reports.clone().or(by_frame);
        let in_fifo = (share.kind == QueueKind::Fifo).then(|| {
            format!(
                "no lower delay with {queue}: the rate follows the link, but packets wait in the FIFO \
                 instead of the modem"
            )
        });
        let by_rate = share.limit == Limit::ByRate
            || config.handling.memory_limit == Some(MemoryLimit::ByRate);
        let no_aqm = (share.aqm == AqmKind::None && !by_rate).then(|| {
            format!(
                "no effect with {queue} --aqm none: it only sets the AQM and limits by the rate"
            )
        });
        let is_free = [config.up, config.down].map(|rate| rate == Rate::UNLIMITED);
        let no_rate =
            (is_free == [true; 2]).then(|| "no effect: --up and --down are unlimited".to_owned());
        // Rates and ceilings of hosts count bytes on the link.
        let of_hosts = !config.rates.is_empty() || !config.ceils.is_empty();
        let no_framing = no_rate.clone().filter(|_| !of_hosts);
        let no_ingress = is_free[1].then(|| "no effect: --down is unlimited".to_owned());
        let tap = (config.io == Io::Tap).then(|| {
            "no effect with --io tap: the kernel has already segmented such frames".to_owned()
        });
        let no_stats = config.stats.is_none().then(|| "no effect without --stats".to_owned());
        let is_on = |word: &Option<Word>| word.clone().filter(|word| word.text() != "off");
        let options: [(&str, Option<Word>, &Option<String>); 14] = [
            ("--nat", is_on(&self.nat), &no_nat),
            ("--host-by", self.host_by.clone(), &only_reports),
            ("--autorate", is_on(&self.autorate), &in_fifo),
            ("--autorate-ingress", is_on(&self.autorate_ingress), &in_fifo),
            ("--rtt", self.rtt.clone(), &no_aqm),
            ("--framing", self.framing.clone(), &no_framing),
            ("--overhead", self.overhead.clone(), &no_framing),
            ("--mpu", self.mpu.clone(), &no_framing),
            ("--encoding", self.encoding.clone(), &no_framing),
            ("--catch-up", self.catch_up.clone(), &no_rate),
            ("--burst", self.burst.clone(), &no_rate),
            ("--ingress", is_on(&self.ingress), &no_ingress),
            ("--split-gso", self.split_gso.clone(), &tap),
            ("--stats-interval", self.stats_interval.clone(), &no_stats),
        ];
        let said = options.into_iter().filter_map(|(option, word, why)| {
            let (word, why) = (word?, why.as_ref()?);
            Some(format!("{}{option} {:?}: {why}", self.place(Some(&word)), word.text()))
        });
        let lists = only_reports.as_ref().filter(|_| !self.names.is_empty());
        said.chain(lists.map(|why| format!("names: {why}"))).collect()
    }
}
