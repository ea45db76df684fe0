//! A link that flows with rates and ceilings share, in the time it takes.

use std::vec;
use std::vec::Vec;

use conformance::Xorshift;

use crate::test_link::Link;
use crate::{Drr, DrrFlow, FlowId, FlowScheduler, Nanos};

/// The longest packet.
pub(super) const L: u32 = 1_500;
/// Nanoseconds that a link of 100 Mbit/s takes for a byte.
pub(super) const BYTE: u64 = 80;

/// DRR with these quanta, no flow of which is backlogged.
pub(super) fn drr(quanta: &[u32]) -> Drr<Vec<DrrFlow>> {
    let mut drr = Drr::new(vec![DrrFlow::EMPTY; quanta.len()], L).unwrap();
    for (flow, &quantum) in (0..).zip(quanta) {
        drr.configure(FlowId(flow), quantum, None).unwrap();
    }
    drr
}

/// A link of 100 Mbit/s that sends whenever the flow scheduler lets it.
pub(super) struct Line<O> {
    pub(super) link: Link<O>,
    pub(super) now: u64,
    /// What was sent: when it began, by which flow, how long it was.
    pub(super) sent: Vec<(u64, u32, u32)>,
}

impl<O: FlowScheduler> Line<O> {
    pub(super) fn of(scheduler: O, flows: usize) -> Self {
        Self { link: Link::over(scheduler, flows), now: 0, sent: Vec::new() }
    }

    pub(super) fn put(&mut self, flow: u32, len: u32) {
        self.link.scheduler.advance(Nanos(self.now));
        self.link.enqueue(flow, len);
    }

    /// Sends for `millis` milliseconds; each of `greedy` always holds a few packets of random lengths.
    pub(super) fn run(&mut self, millis: u64, greedy: &[u32], random: &mut Xorshift) {
        let end = self.now + millis * 1_000_000;
        while self.now < end {
            for &flow in greedy {
                while self.link.queues[flow as usize].len() < 4 {
                    self.put(flow, 1_000 + random.below(501));
                }
            }
            self.step(end);
            self.link.recount().unwrap();
        }
    }

    /// Sends a packet, or waits until one may be sent, at most until `end`.
    pub(super) fn step(&mut self, end: u64) {
        let now = Nanos(self.now);
        self.link.scheduler.advance(now);
        if self.link.scheduler.select().is_none() {
            let held = self.link.queues.iter().any(|queue| !queue.is_empty());
            assert_eq!(self.link.scheduler.waiting().is_some(), held);
            let opens = self.link.scheduler.opens_at(now);
            let first = self.link.scheduler.waiting();
            self.link.scheduler.open();
            if opens != Some(now) {
                assert_eq!(self.link.scheduler.select(), None, "not before its time");
                self.now = opens.map_or(end, |at| at.0.min(end));
                return;
            }
            assert_eq!(self.link.scheduler.select(), first, "what was foreseen");
        }
        let (flow, len) = self.link.dequeue().unwrap();
        self.sent.push((self.now, flow, len));
        self.now += u64::from(len) * BYTE;
    }

    /// `flow` loses what it holds.
    pub(super) fn stop(&mut self, flow: u32) {
        self.link.queues[flow as usize].clear();
        self.link.scheduler.lost(FlowId(flow), 0, None);
        self.link.recount().unwrap();
    }

    /// Bits a second of `flow`, from what began after `from` milliseconds, in thousands.
    pub(super) fn kbit(&self, flow: u32, from: u64) -> u64 {
        let from = from * 1_000_000;
        let since = self.sent.iter().filter(|&&(at, of, _)| at >= from && of == flow);
        let bytes: u64 = since.map(|&(.., len)| u64::from(len)).sum();
        bytes * 8_000_000 / (self.now - from)
    }

    /// Every interval has at most `rate·t + burst` of `flow`, in Mbit/s and bytes.
    pub(super) fn holds(&self, flow: u32, rate: u64, burst: u32) {
        self.holds_together(&[flow], rate, burst);
    }

    /// As [`Self::holds`], of all these flows together.
    pub(super) fn holds_together(&self, flows: &[u32], rate: u64, burst: u32) {
        let own: Vec<_> = self.sent.iter().filter(|(_, of, _)| flows.contains(of)).collect();
        for (first, &&(from, ..)) in own.iter().enumerate() {
            let mut bytes = 0;
            for &&(until, _, len) in &own[first..] {
                bytes += u64::from(len);
                // 10^6 bit/s are 1/8,000 bytes a nanosecond.
                let most = (until - from) * rate + u64::from(burst) * 8_000;
                assert!(bytes * 8_000 <= most, "{bytes} of {flows:?} in {from}..{until}");
            }
        }
    }
}

/// `kbit` is within `percent` of `mbit`.
#[track_caller]
pub(super) fn near(kbit: u64, mbit: u64, percent: u64) {
    let (low, high) = (mbit * 10 * (100 - percent), mbit * 10 * (100 + percent));
    assert!((low..=high).contains(&kbit), "{kbit} kbit/s where {mbit} Mbit/s were expected");
}
