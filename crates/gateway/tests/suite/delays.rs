//! Delay of a sparse flow beside eight TCP flows in each direction.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use freeboard::sched_core::{FlowId, FlowScheduler as _, Qfq, QfqConfig, QfqFlow};

use crate::gateway::Gateway;
use crate::topology::{HOSTS, Row};
use crate::traffic::{BOTH, Bulk, Heading, Paced, percentile};
use conformance::measurement::attempts;

const RATE: u64 = 10_000_000;
const BULK_FLOWS: usize = 8;
/// Length of a probe's IP packet in bytes: 50 per second are 40 kbit/s.
const PROBE: usize = 100;
/// Maximum frame length with Ethernet header and two tags.
const LONGEST: u32 = 1_500 + 14 + 8;

/// Delay of the probe in milliseconds, minus its delay without load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Measures the delay that TCP flows add to a probe in the same direction, for upload and download
/// one after the other: with both at once a FIFO delays the acknowledgements until the flows hardly
/// send.
pub(crate) fn measure(row: &Row, words: &str) -> [Added; 2] {
    BOTH.map(|heading| {
        let gateway = Gateway::start_with(&row.gw, &format!("--up 10mbit --down 10mbit {words}"));
        row.wait_for_carriers();
        let probe = Paced::start(row, heading, Duration::from_millis(20), &[PROBE]);
        let begin = Instant::now();
        thread::sleep(Duration::from_millis(400));
        let loaded = Instant::now();
        let bulk = Bulk::start(row, HOSTS[0], heading, BULK_FLOWS);
        // Slow start is over.
        thread::sleep(Duration::from_millis(900));
        let from = Instant::now();
        thread::sleep(Duration::from_millis(2_400));
        let to = Instant::now();
        // The backlog of the FIFO is delivered.
        thread::sleep(Duration::from_millis(100));
        let outcome = probe.stop();
        // Ends in the middle of the load.
        gateway.end();
        drop(bulk);
        let (idle, busy) = (outcome.delays(begin, loaded), outcome.delays(from, to));
        let millis = |delay: Duration| delay.as_secs_f64() * 1e3;
        let base = millis(percentile(&idle, 50));
        let added = |percent| millis(percentile(&busy, percent)) - base;
        Added { p50: added(50), p99: added(99) }
    })
}

/// Maximum delay of a probe's packet under QFQ, in milliseconds.
///
/// A packet that finds its flow idle is completely sent at most `T-WFI + l/(φR)` after its arrival:
/// its own `l` bytes at its own rate, plus the bound on QFQ's lag behind that
/// (`docs/guarantees.md`). With weight 1 for each of `n` flows, `φ = 1/n`. `T-WFI = latency − (n −
/// 1)·l` bytes of the link. The latency is `n·max(3s + φ'L + (1 − φ)L, 2s + (φ + φ')L)`, with `s` =
/// 2,048 for `L` = 1,522. The flows are eight TCP flows and the probe.
fn qfq_bound() -> f64 {
    let flows = BULK_FLOWS + 1;
    let mut qfq = Qfq::new(vec![QfqFlow::EMPTY; flows], LONGEST).unwrap();
    for flow in (0..).map(FlowId).take(flows) {
        qfq.configure(flow, QfqConfig { weight: 1, max_len: LONGEST }, None).unwrap();
    }
    let guarantee = qfq.guarantee(FlowId(0)).unwrap();
    let len = PROBE as u32 + 14;
    let bytes = guarantee.t_wfi(len) + guarantee.share.link_of(len.into());
    bytes as f64 * 8e3 / RATE as f64
}

#[test]
#[ignore = "long: `cargo xtask check` runs it"]
fn isolation_spares_the_probe_what_a_fifo_adds() {
    let Some(row) = Row::alone("delays") else { return };
    let measure = |queue| measure(&row, &format!("--lan lan --wan wan --queue {queue}"));
    let bound = qfq_bound();
    attempts("delays", || {
        let fifo = measure("fifo");
        println!("ms added to the probe, up and down: fifo {fifo:.2?}");
        for queue in ["sqf", "drr", "qfq"] {
            let added = measure(queue);
            println!("  {queue} {added:.2?}, bound of qfq {bound:.1}");
            for ((heading, fifo), isolated) in
                [Heading::Up, Heading::Down].iter().zip(fifo).zip(added)
            {
                let failed = |what: &str| {
                    Err(format!("{queue} {heading:?}: {what}, {isolated:.2?} and fifo {fifo:.2?}"))
                };
                if fifo.p50 < 10.0 * isolated.p50 {
                    return failed("the median is not a tenth of the FIFO's");
                }
                if queue == "qfq" {
                    if isolated.p50 > bound {
                        return failed("the median is above the bound");
                    }
                } else if isolated.p50 > 5.0 {
                    return failed("the median is above 5 ms");
                } else if isolated.p99 > fifo.p99 / 10.0 {
                    return failed("the 99th percentile is above a tenth of the FIFO's");
                }
            }
        }
        Ok(())
    });
}
