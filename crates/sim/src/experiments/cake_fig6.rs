//! CAKE Fig. 6: effect of the ACK filter on a link whose uplink is thirty times slower than its
//! downlink.
//!
//! The scenario is [`crate::experiments::cake_fig6::scenario`]. The assembled queue is compared
//! with [CAKE as published](crate::discipline::FlowLists), to separate effects of the queue from
//! effects of the model's TCP.

pub(crate) mod measured;
pub mod scenario;

use freeboard::{AckFilter, AqmKind};

use super::{Check, Experiment, Report};
use crate::plot::{self, Chart, Column, Mark, fixed};
use crate::progress::Progress;
use measured::{Measured, megabits};
use scenario::{MEASURED, Outcome, Probe, Queueing};

/// The experiment `sim reproduce cake-fig6`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cake-fig6",
    quick: 2,
    about: "CAKE Fig. 6: downloads and uploads on 30/1 Mbit/s with the ACK filter",
    runs: super::Runs::Whole(run),
};

/// Rate of the uplink, in kbit/s.
const KILOBITS_UP: u64 = 1_000;
/// Range of the paper's figure in Mbit/s, with a tenth on either side: downloads and uploads.
const RANGES: [(f64, f64); 2] = [(24.5 * 0.9, 27.5 * 1.1), (0.45 * 0.9, 0.7 * 1.1)];

/// Range of its added latency in milliseconds, with a tenth on either side.
const LATENCY: (f64, f64) = (2.6 * 0.9, 7.5 * 1.1);

/// Mbit/s of downloads and uploads in each mode behind Linux 6.1's CAKE, with its CUBIC and an
/// equal probe: means of three runs of 60 s, from 10 s on.
const LINUX: [[f64; 2]; 3] = [[22.474, 0.456], [27.410, 0.565], [26.929, 0.647]];
/// Maximum relative difference from those of downloads with the filter, and of uploads in every
/// mode.
const NEAR: [f64; 2] = [0.03, 0.15];
/// Maximum relative difference from those of uploads behind CAKE as published.
const NEARER: f64 = 0.08;
/// Queues and probes; the first is the default.
const QUEUES: [(Queueing, Probe); 6] = [
    (Queueing::Smart(AqmKind::Cobalt), Probe::Call),
    (Queueing::Smart(AqmKind::Cobalt), Probe::Ping),
    (Queueing::Smart(AqmKind::CoDel), Probe::Call),
    (Queueing::Marked(AqmKind::Cobalt), Probe::Call),
    (Queueing::Marked(AqmKind::CoDel), Probe::Call),
    (Queueing::Published, Probe::Call),
];
const SHORT: &str = "without the filter COBALT drops more than a quarter of the acknowledgements, and those that are left stand for more segments each";
const MOST: &str = "with tins the conservative mode filters two of three acknowledgements, which leaves the aggressive one less to gain";
const LOADED: &str = "the probe takes 7 % of the uplink; with a ping in its place it is so";
const UPLINK: &str = "all but 0.3 ms is waited at the uplink, where a segment takes 12 ms and uploads send half as much again with \
                      the filter";

fn run(seeds: u32, progress: &Progress) -> Report {
    let measured = Measured::all(&QUEUES, KILOBITS_UP, seeds, progress);
    let text = format!("{}\n{}", heading(seeds), table(&measured));
    let charts = picture(&measured);
    Report::new(text).picture("cake-fig6", charts).checks(checks(&measured))
}

fn heading(seeds: u32) -> String {
    format!(
        "\
CAKE Fig. 6: four uploads and four downloads of CUBIC on 30/1 Mbit/s, 50 ms there and back, with and without the filter
SmartQueue both ways, with COBALT or with CoDel, and CAKE as it is published with CUBIC of its time (RFC 8312)
with RRUL: CS0, CS1, CS5 and EF for the flows of a direction and their acknowledgements, in diffserv3; else CS0 and one tin
packets as Ethernet frames, one host at home
goodput in Mbit/s of payload; what a probe of 160 bytes every 20 ms waits up and down, mean; a ping is one of 84 bytes every 200 ms
an acknowledgement for each second segment; acknowledgements a second that left and that were filtered; AQM: packets of the
uplink that the AQM dropped, a second
{} s after a warm-up of 10 s, {seeds} seeds
",
        MEASURED.0 / 1_000_000_000,
    )
}

fn table(measured: &[Measured]) -> String {
    let mut table = plot::TextTable::new([
        Column::Left("queues"),
        Column::Left("filter"),
        Column::Right("down"),
        Column::Right("gain %"),
        Column::Right("up"),
        Column::Right("gain %"),
        Column::Right("up ms"),
        Column::Right("down ms"),
        Column::Right("acks/s"),
        Column::Right("filtered/s"),
        Column::Right("AQM/s"),
    ]);
    for of in measured {
        let [waits_up, waits_down] = of.waits().map(|wait| fixed(wait, 2));
        table.row([
            &name(of.queue),
            &of.filter.name(),
            &fixed(of.down(), 2),
            &fixed(gain(measured, of, Measured::down), 1),
            &fixed(of.up(), 3),
            &fixed(gain(measured, of, Measured::up), 1),
            &waits_up,
            &waits_down,
            &fixed(of.per_second(|outcome| outcome.acks), 0),
            &fixed(of.per_second(|outcome| outcome.filtered), 0),
            &fixed(of.per_second(|outcome| outcome.judged), 0),
        ]);
    }
    for (filter, linux) in AckFilter::ALL.iter().copied().zip(LINUX) {
        let gains = [0, 1].map(|way| fixed((linux[way] / LINUX[0][way] - 1.0) * 100.0, 1));
        let [down, up] = [fixed(linux[0], 2), fixed(linux[1], 3)];
        let [of_down, of_up] = &gains;
        table.row([
            &"Linux 6.1 CAKE",
            &filter.name(),
            &down,
            of_down,
            &up,
            of_up,
            &"",
            &"",
            &"",
            &"",
            &"",
        ]);
    }
    table.to_string()
}

const fn name(queue: (Queueing, Probe)) -> &'static str {
    match queue {
        (Queueing::Smart(AqmKind::Cobalt), Probe::Ping) => "COBALT, ping",
        (Queueing::Smart(AqmKind::Cobalt), Probe::Call) => "COBALT",
        (Queueing::Smart(_), _) => "CoDel",
        (Queueing::Marked(AqmKind::Cobalt), _) => "COBALT, RRUL",
        (Queueing::Marked(_), _) => "CoDel, RRUL",
        (Queueing::Published, _) => "CAKE, published",
    }
}

/// Returns the gain of this mode over no filter in percent, with an equal queue.
fn gain(measured: &[Measured], of: &Measured, value: impl Fn(&Measured) -> f64) -> f64 {
    let off = measured.iter().find(|off| off.queue == of.queue && off.filter == AckFilter::Off);
    (value(of) / off.map_or(f64::NAN, &value) - 1.0) * 100.0
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let (by_queue, []) = measured.as_chunks::<3>() else { unreachable!("three modes") };
    let [cobalt, ping, codel, marked, marked_codel, published] = by_queue else {
        unreachable!("six queues")
    };
    let [_, conservative, aggressive] = cobalt;
    let gains = |modes: [&Measured; 2], value: fn(&Measured) -> f64| {
        modes.map(|of| gain(measured, of, value))
    };
    let down = gains([conservative, aggressive], Measured::down);
    let up = gains([conservative, aggressive], Measured::up);
    let marked_up = gains([&marked[1], &marked[2]], Measured::up);
    let ping_up = gains([&ping[1], &ping[2]], Measured::up);
    let of_down = |queue: &[Measured; 3]| gains([&queue[1], &queue[2]], Measured::down);
    let [ping_down, codel, marked_down, marked_codel, of_paper] =
        [ping, codel, marked, marked_codel, published].map(of_down);
    let both = |gains: [f64; 2]| gains.map(|gain| fixed(gain, 1)).join(" % and ") + " %";
    let all_above = |gains: [f64; 2], least: f64| gains.into_iter().all(|gain| gain >= least);
    let mut checks = vec![
        Check::differs(
            "both modes raise the downloads by 8 % or more",
            SHORT,
            both(down),
            all_above(down, 8.0),
        ),
        Check::differs(
            "with a ping for the probe both modes raise the downloads by 8 % or more",
            SHORT,
            both(ping_down),
            all_above(ping_down, 8.0),
        ),
        Check {
            claim: "both modes raise the downloads by 3 % or more, with a ping too".to_owned(),
            measured: format!("{}; {}", both(down), both(ping_down)),
            holds: all_above(down, 3.0) && all_above(ping_down, 3.0),
        },
        Check {
            claim: "with CoDel for COBALT both modes raise the downloads by 8 % or more".to_owned(),
            measured: both(codel),
            holds: all_above(codel, 8.0),
        },
        Check {
            claim: "with the marks of RRUL both modes raise the downloads by 8 % or more, with COBALT and with CoDel".to_owned(),
            measured: format!("{}; {}", both(marked_down), both(marked_codel)),
            holds: all_above(marked_down, 8.0) && all_above(marked_codel, 8.0),
        },
        Check {
            claim: "behind CAKE as it is published both modes raise the downloads by 3 % or more".to_owned(),
            measured: both(of_paper),
            holds: all_above(of_paper, 3.0),
        },
        Check {
            claim: "the conservative mode raises the uploads by 4 % or more, the aggressive one by half as much again"
                .to_owned(),
            measured: both(up),
            holds: up[0] >= 4.0 && up[1] >= 1.5 * up[0],
        },
        Check::differs(
            "the aggressive mode raises the uploads by twice as much as the conservative one",
            LOADED,
            both(up),
            up[1] >= 2.0 * up[0],
        ),
        Check {
            claim: "with a ping for the probe the conservative mode raises the uploads by 4 % or more, the aggressive one by \
                    twice as much"
                .to_owned(),
            measured: both(ping_up),
            holds: ping_up[0] >= 4.0 && ping_up[1] >= 2.0 * ping_up[0],
        },
        Check {
            claim: "with the marks of RRUL the conservative mode raises the uploads by 4 % or more, the aggressive one by more".to_owned(),
            measured: both(marked_up),
            holds: marked_up[0] >= 4.0 && marked_up[1] > marked_up[0],
        },
        Check::differs(
            "with the marks of RRUL the aggressive mode raises the uploads by twice as much as the conservative one",
            MOST,
            both(marked_up),
            marked_up[1] >= 2.0 * marked_up[0],
        ),
    ];
    let values = [("downloads", Measured::down as fn(&Measured) -> f64), ("uploads", Measured::up)];
    for ((name, value), (from, to)) in values.into_iter().zip(RANGES) {
        let goodputs = [cobalt, ping, marked].map(|queue| queue.each_ref().map(value));
        let shown = goodputs.map(|of| of.map(|goodput| fixed(goodput, 3)).join(" "));
        checks.push(Check {
            claim: format!(
                "{name} are within {} to {} Mbit/s, with the probe, with a ping and with the marks of RRUL",
                fixed(from, 3),
                fixed(to, 3)
            ),
            measured: shown.join("; "),
            holds: goodputs.as_flattened().iter().all(|goodput| (from..to).contains(goodput)),
        });
    }
    let beside = |way: usize, value: fn(&Measured) -> f64| {
        let each = cobalt.iter().zip(LINUX);
        each.map(move |(of, linux)| value(of) / linux[way] - 1.0).collect::<Vec<f64>>()
    };
    let (downs, ups) = (beside(0, Measured::down), beside(1, Measured::up));
    let off_by = |parts: &[f64]| {
        parts.iter().map(|part| fixed(part * 100.0, 1) + " %").collect::<Vec<_>>().join(" ")
    };
    checks.push(Check {
        claim: format!(
            "downloads with the filter are within {} % of those behind Linux 6.1's CAKE, uploads in all modes within {} %",
            fixed(NEAR[0] * 100.0, 0),
            fixed(NEAR[1] * 100.0, 0)
        ),
        measured: format!("{}; {}", off_by(&downs[1..]), off_by(&ups)),
        holds: downs[1..].iter().all(|part| part.abs() <= NEAR[0])
            && ups.iter().all(|part| part.abs() <= NEAR[1]),
    });
    let of_published = published.iter().zip(LINUX);
    let ups: Vec<f64> = of_published.map(|(of, linux)| of.up() / linux[1] - 1.0).collect();
    checks.push(Check {
        claim: format!(
            "behind CAKE as it is published uploads are within {} % of those behind Linux 6.1's CAKE in all modes",
            fixed(NEARER * 100.0, 0)
        ),
        measured: off_by(&ups),
        holds: ups.iter().all(|part| part.abs() <= NEARER),
    });
    let within = |queue: &[Measured; 3]| {
        queue.iter().all(|of| (LATENCY.0..=LATENCY.1).contains(&of.latency()))
    };
    let shown =
        |queue: &[Measured; 3]| queue.each_ref().map(|of| fixed(of.latency(), 2)).join(" ") + " ms";
    let range = format!("{} to {} ms", fixed(LATENCY.0, 2), fixed(LATENCY.1, 2));
    checks.push(Check {
        claim: format!("what a probe waits is within {range} in all modes, and what a ping waits"),
        measured: [cobalt, ping].map(shown).join("; "),
        holds: [cobalt, ping].into_iter().all(within),
    });
    checks.push(Check::differs(
        &format!("with the marks of RRUL what a probe waits, within {range},"),
        UPLINK,
        shown(marked),
        within(marked),
    ));
    let rises = [cobalt, ping, marked].map(|[off, conservative, aggressive]| {
        [conservative, aggressive].map(|of| of.latency() - off.latency())
    });
    let shown = rises.map(|of| of.map(|rise| fixed(rise, 2)).join(" and "));
    checks.push(Check {
        claim: "the filter raises what a probe waits by 8 ms at most, what a ping waits, and what a probe waits with the marks of RRUL".to_owned(),
        measured: shown.join("; ") + " ms",
        holds: rises.as_flattened().iter().all(|&rise| rise <= 8.0),
    });
    let outcomes = measured.iter().flat_map(|measured| &measured.outcomes);
    checks.push(Check::accounted_for("runs", outcomes.map(|outcome| outcome.recount.is_ok())));
    checks
}

fn picture(measured: &[Measured]) -> Vec<Chart> {
    let panel = |title: &str, value: fn(&Outcome) -> f64| {
        let chart = Chart::new(title).y("Mbit/s").height(220);
        let smart = measured.iter().filter(|of| of.queue == QUEUES[0]);
        let chart = smart.zip(1..).fold(chart, |chart, (of, place)| {
            let points = of.outcomes.iter().map(|outcome| (f64::from(place), value(outcome)));
            chart.series(of.filter.name(), Mark::Dots, points)
        });
        chart.x("1 off, 2 conservative, 3 aggressive; a dot a run")
    };
    Vec::from([
        panel("Downloads", |outcome| megabits(outcome.bytes[1])),
        panel("Uploads", |outcome| megabits(outcome.bytes[0])),
    ])
}
