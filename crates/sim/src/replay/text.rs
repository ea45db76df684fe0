//! Text form of a replay's report.

use core::fmt::{self, Display};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::num::NonZeroU64;

use freeboard::flowhash::{FlowKey, Transport};
use freeboard::sched_core::{DropReason, Volume};

use super::{Corrections, ReplayedFlow, Report};
use crate::measure::delay::Delays;
use crate::plot::{Column, TextTable, decimal, millis, percent};

const MILLISECOND: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

impl Report {
    /// Returns a table of the `shown` flows with the most bytes, all others as one row, and the
    /// total: packets, loss, share of the delivered bytes, and delay before the first bit left, in
    /// milliseconds.
    #[must_use]
    pub fn table(&self, shown: usize) -> TextTable<8> {
        let mut table = TextTable::new([
            Column::Left("flow"),
            Column::Right("packets"),
            Column::Right("loss %"),
            Column::Right("share %"),
            Column::Right("mean ms"),
            Column::Right("p50 ms"),
            Column::Right("p99 ms"),
            Column::Right("max ms"),
        ]);
        let mut flows: Vec<&ReplayedFlow> = self.flows.iter().collect();
        // Stable: of flows with equal bytes, the one that began first comes first.
        flows.sort_by_key(|flow| core::cmp::Reverse(flow.offered.bytes));
        let (named, others) = flows.split_at(shown.min(flows.len()));
        let total = sum(&flows);
        for flow in named {
            row(&mut table, &Name(flow.key), flow, &total);
        }
        if !others.is_empty() {
            row(&mut table, &format_args!("{} others", others.len()), &sum(others), &total);
        }
        row(&mut table, &"all", &total, &total);
        table
    }

    /// Describes the drops by reason, rejections included; `nothing` if there were none.
    #[must_use]
    pub fn losses(&self) -> String {
        let reasons = DropReason::ALL.iter().copied().chain([DropReason::Rejected]);
        let counted = reasons.map(|reason| (self.counters.dropped_for(reason).packets, reason));
        let words: Vec<String> = counted
            .filter(|&(packets, _)| packets > 0)
            .map(|(packets, reason)| format!("{packets} {}", reason.name()))
            .collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

impl fmt::Display for Corrections {
    /// Writes one line for each correction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.out_of_order > 0 {
            let back = decimal(self.farthest_back.0, MILLISECOND, 3);
            writeln!(
                f,
                "out of order in the file: {} packets, by up to {back} ms; replayed in the order of their times",
                self.out_of_order
            )?;
        }
        if self.too_short > 0 {
            writeln!(
                f,
                "original length below the captured length: {} packets, counted with the captured length",
                self.too_short
            )?;
        }
        for (number, packets) in &self.skipped {
            writeln!(
                f,
                "skipped: {packets} packets of link type {number}, which cannot be parsed"
            )?;
        }
        Ok(())
    }
}

fn sum(flows: &[&ReplayedFlow]) -> ReplayedFlow {
    let volume = |of: fn(&ReplayedFlow) -> Volume| {
        flows.iter().map(|flow| of(flow)).fold(Volume::ZERO, Volume::plus)
    };
    let delays: Delays = flows.iter().flat_map(|flow| flow.delays.samples()).copied().collect();
    let (offered, delivered) = (volume(|flow| flow.offered), volume(|flow| flow.delivered));
    ReplayedFlow { key: FlowKey::Unknown, offered, delivered, delays }
}

fn row(table: &mut TextTable<8>, name: &dyn Display, flow: &ReplayedFlow, total: &ReplayedFlow) {
    let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
    let loss = percent(ratio(flow.lost(), flow.offered.packets), 2);
    let share = percent(ratio(flow.delivered.bytes, total.delivered.bytes), 2);
    let delay = flow.delays.summary();
    let [mean, p50, p99, max] = [
        delay.map(|delay| delay.mean),
        delay.map(|delay| delay.p50),
        delay.map(|delay| delay.p99),
        delay.map(|delay| delay.max),
    ]
    .map(millis);
    table.row([name, &flow.offered.packets, &loss, &share, &mean, &p50, &p99, &max]);
}

/// Formats a flow: `tcp 192.0.2.1:5001 > 192.0.2.2:80`.
struct Name(FlowKey);

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FlowKey::V4 { src, dst, transport } => {
                ip(f, Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into(), transport)
            }
            FlowKey::V6 { src, dst, transport } => {
                ip(f, Ipv6Addr::from(src).into(), Ipv6Addr::from(dst).into(), transport)
            }
            FlowKey::Ethernet { src } => write!(f, "not ip {}", mac(src)),
            _ => f.write_str("unknown"),
        }
    }
}

fn ip(f: &mut fmt::Formatter<'_>, src: IpAddr, dst: IpAddr, transport: Transport) -> fmt::Result {
    let Transport { protocol, src_port, dst_port } = transport;
    match protocol {
        1 => f.write_str("icmp")?,
        6 => f.write_str("tcp")?,
        17 => f.write_str("udp")?,
        44 => f.write_str("fragments")?,
        50 => f.write_str("esp")?,
        58 => f.write_str("icmp6")?,
        132 => f.write_str("sctp")?,
        other => write!(f, "ip-{other}")?,
    }
    match protocol {
        // The upper half of the source port holds the ICMP type.
        1 | 58 => write!(f, " {src} > {dst} type {}", dst_port >> 8),
        _ if src_port == 0 && dst_port == 0 => write!(f, " {src} > {dst}"),
        _ => {
            write!(f, " {} > {}", SocketAddr::new(src, src_port), SocketAddr::new(dst, dst_port))
        }
    }
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}
