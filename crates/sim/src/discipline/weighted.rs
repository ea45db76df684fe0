//! Disciplines in which each flow has its own share of the link.

use freeboard::sched_core::{
    ConfigError, Drr, DrrFlow, Fifo, FlowId, FlowScheduler, Limits, NoAqm, Qfq, QfqConfig, QfqFlow,
    Wf2q, Wf2qConfig, Wf2qFlow,
};
use freeboard::shaper::{Overhead, Shaped, Shaper};

use super::{Bottleneck, by_number, descriptors};

/// A discipline with weights. Flows are identified by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weighted {
    /// First in, first out, with tail drop; weights have no effect.
    Fifo,
    /// Deficit round robin.
    Drr {
        /// Quantum of the flow with the lowest weight, in bytes; the others are proportional,
        /// rounded down.
        smallest_quantum: u32,
    },
    /// Quick fair queueing.
    Qfq,
    /// Worst-case fair weighted fair queueing, which QFQ approximates.
    Wf2q,
}

/// Configuration of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedFlow {
    /// Weight of the flow: its share of the link is `weight` over the sum of all weights.
    pub weight: u32,
    /// Longest packet of the flow, in bytes.
    pub max_len: u32,
}

impl Weighted {
    /// Creates an empty queue of this discipline in front of `line`, for the flows 0, 1, … of
    /// `flows`. On overflow the longest queue drops from its head, except in the FIFO.
    ///
    /// Handles are numbered up to `limits.packets`, inclusively.
    ///
    /// # Errors
    /// [`ConfigError`] if the discipline does not accept a weight, a length or a quantum.
    pub fn behind(
        self,
        line: Shaper,
        link: Overhead,
        limits: Limits,
        flows: &[WeightedFlow],
    ) -> Result<Box<dyn Bottleneck>, ConfigError> {
        match self {
            Self::Fifo => {
                Ok(Box::new(Shaped::new(Fifo::tail_drop(descriptors(limits), limits), line, link)))
            }
            Self::Drr { smallest_quantum } => {
                Ok(queues(drr(smallest_quantum, flows)?, line, link, limits))
            }
            Self::Qfq => Ok(queues(qfq(flows)?, line, link, limits)),
            Self::Wf2q => Ok(queues(wf2q(flows)?, line, link, limits)),
        }
    }

    /// Returns the T-WFI of `flow` among `flows`, for packets of `len` bytes, in bytes of link
    /// time: the most that a packet of `flow` may leave later than on a link of the flow's own,
    /// after all that the flow had queued (`docs/guarantees.md`). `None` for a FIFO, which promises
    /// nothing, and if [`Weighted::behind`] would fail.
    #[must_use]
    pub fn t_wfi(self, flows: &[WeightedFlow], flow: FlowId, len: u32) -> Option<u64> {
        match self {
            Self::Fifo => None,
            Self::Drr { smallest_quantum } => {
                Some(drr(smallest_quantum, flows).ok()?.guarantee(flow)?.t_wfi(len))
            }
            Self::Qfq => Some(qfq(flows).ok()?.guarantee(flow)?.t_wfi(len)),
            Self::Wf2q => Some(wf2q(flows).ok()?.guarantee(flow)?.t_wfi(len)),
        }
    }
}

fn longest(flows: &[WeightedFlow]) -> u32 {
    flows.iter().map(|flow| flow.max_len).max().unwrap_or(1)
}

/// Adds every flow of `flows` to `scheduler`, with the configuration that `config` returns.
fn configured<O: FlowScheduler>(
    mut scheduler: O,
    flows: &[WeightedFlow],
    config: impl Fn(WeightedFlow) -> O::Config,
) -> Result<O, ConfigError> {
    for (&flow, number) in flows.iter().zip(0..) {
        scheduler.configure(FlowId(number), config(flow), None)?;
    }
    Ok(scheduler)
}

fn drr(smallest_quantum: u32, flows: &[WeightedFlow]) -> Result<Drr<Vec<DrrFlow>>, ConfigError> {
    let least = flows.iter().map(|flow| flow.weight).min().unwrap_or(1).max(1);
    configured(Drr::new(vec![DrrFlow::EMPTY; flows.len()], longest(flows))?, flows, |flow| {
        let quantum = u64::from(smallest_quantum) * u64::from(flow.weight) / u64::from(least);
        u32::try_from(quantum).unwrap_or(u32::MAX)
    })
}

fn qfq(flows: &[WeightedFlow]) -> Result<Qfq<Vec<QfqFlow>>, ConfigError> {
    let scheduler = Qfq::new(vec![QfqFlow::EMPTY; flows.len()], longest(flows))?;
    configured(scheduler, flows, |WeightedFlow { weight, max_len }| QfqConfig { weight, max_len })
}

fn wf2q(flows: &[WeightedFlow]) -> Result<Wf2q<Vec<Wf2qFlow>>, ConfigError> {
    let scheduler = Wf2q::new(vec![Wf2qFlow::EMPTY; flows.len()], longest(flows))?;
    configured(scheduler, flows, |WeightedFlow { weight, max_len }| Wf2qConfig { weight, max_len })
}

/// Creates queues under `scheduler`.
fn queues<O: FlowScheduler + 'static>(
    scheduler: O,
    line: Shaper,
    link: Overhead,
    limits: Limits,
) -> Box<dyn Bottleneck> {
    let policy = super::longest(scheduler.flows());
    let queues = by_number(scheduler, policy, NoAqm, descriptors(limits), limits);
    Box::new(Shaped::new(queues, line, link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::sched_core::{Nanos, Packet};
    use freeboard::shaper::Rate;

    const SHARES: [WeightedFlow; 2] =
        [WeightedFlow { weight: 1, max_len: 1_000 }, WeightedFlow { weight: 3, max_len: 1_000 }];

    fn queue(discipline: Weighted) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let line = Shaper::new(Rate::UNLIMITED);
        discipline.behind(line, Overhead::RAW, Limits::packets(400), &SHARES)
    }

    /// The first 100 departures from 200 packets of each of two flows, with even and odd handles.
    #[test]
    fn backlogged_flows_share_by_weight() {
        for (discipline, expected) in [
            (Weighted::Fifo, 50),
            (Weighted::Drr { smallest_quantum: 1_000 }, 25),
            (Weighted::Qfq, 25),
            (Weighted::Wf2q, 25),
        ] {
            let mut queue = queue(discipline).unwrap();
            let drops = &mut |_: Packet, _| unreachable!("there is room");
            for handle in 0..400 {
                let packet = Packet::new(handle, 1_000);
                queue.enqueue(Nanos(0), FlowId(handle % 2), packet, drops).unwrap();
            }
            let sent = (0..100).filter_map(|_| queue.dequeue(Nanos(0), drops));
            let first = sent.filter(|packet| packet.handle % 2 == 0).count();
            assert_eq!(first, expected, "{discipline:?}");
            assert_eq!(queue.recount(), Ok(()));
        }
    }

    #[test]
    fn a_quantum_below_the_longest_packet_is_refused_with_the_range() {
        let why = queue(Weighted::Drr { smallest_quantum: 999 }).err().unwrap();
        assert!(why.to_string().contains("999 is out of range (expected 1000 to"), "{why}");
    }

    /// Calculated manually for a flow with 32 of 10,000 and packets of 200 bytes, so `L/φ` = 62,500
    /// bytes:
    ///
    /// - WF2Q+ `L/φ + L`, rounded up;
    /// - QFQ `3σ + (φ'/φ)·L`: σ is `L/weight` rounded up to 8, times 10,000, and φ' is of 512
    ///   instead of 10,000, the heaviest weight rounded up. All within a thousandth, as its inverse
    ///   sum is rounded;
    /// - DRR with quanta from 1,500 up, F = 468,750: `(F − Q)(1 + (L − 1)/Q) + (n − 1)(L − 1) + L −
    ///   (L/φ − L)`.
    #[test]
    fn promises_are_those_of_the_papers() {
        let flows: Vec<WeightedFlow> = [32, 512, 512, 472, 472]
            .into_iter()
            .chain([160; 50])
            .map(|weight| WeightedFlow { weight, max_len: 200 })
            .collect();
        let t_wfi = |discipline: Weighted| discipline.t_wfi(&flows, FlowId(0), 200);
        assert_eq!(t_wfi(Weighted::Fifo), None);
        assert!(matches!(t_wfi(Weighted::Wf2q), Some(62_700 | 62_701)));
        let qfq = t_wfi(Weighted::Qfq).unwrap();
        assert!(qfq.abs_diff(3 * 80_000 + 200 * 10_000 / 512) <= 244, "{qfq}");
        let drr = t_wfi(Weighted::Drr { smallest_quantum: 1_500 }).unwrap();
        let latency = 467_250.0 * (1.0 + 199.0 / 1_500.0) + 54.0 * 199.0 + 200.0;
        assert!((drr as f64 - (latency - (62_500.0 - 200.0))).abs() <= 2.0, "{drr} {latency}");
    }
}
