//! Reference models of shortest queue first and longest-queue drop, by sorting.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use freeboard::sched_core::{ConfigError, DropFrom, FlowId, Nanos, Packet};

use super::flow_scheduler::{NaiveFlowScheduler, QueuesView, queued_bytes, unknown};
use crate::history::Setting;

/// Returns the lower limit of the class of `bytes`, with `parts` length classes per power of two.
fn class_of(bytes: u64, parts: u64) -> u64 {
    let mut width = 1;
    while width * 2 * parts <= bytes {
        width *= 2;
    }
    bytes / width * width
}

fn backlogged(queues: QueuesView<'_>) -> impl Iterator<Item = FlowId> {
    (0..).map(FlowId).zip(queues).filter(|(_, queue)| !queue.is_empty()).map(|(flow, _)| flow)
}

/// Unit of flush times in nanoseconds.
const TICK: u64 = 1 << 20;

/// Shortest queue first, with drops from the longest queue.
#[derive(Clone, Debug)]
pub struct NaiveShortestQueue {
    flows: Vec<bool>,
    end: DropFrom,
    /// Length classes per power of two.
    parts: u64,
    /// `(k, d)`: one of `k` bytes goes to the flow that has waited longest, if `d` bytes have been
    /// sent since it became backlogged or was served as the shortest.
    floor: Option<(i64, u64)>,
    sent: u64,
    /// Bytes that the floor may still use of its share. What it cannot use because no such flow
    /// exists lapses, except for the share of the last packet.
    owed: i64,
    /// Per flow: total bytes sent, and time, when it became backlogged or was last served as the
    /// shortest.
    from: BTreeMap<FlowId, (u64, u64)>,
    /// True if the next packet belongs to the floor.
    is_for_floor: bool,
    /// Per flow: event at which it began to wait, which is its last service or the time it became
    /// backlogged.
    waits_since: BTreeMap<FlowId, u64>,
    events: u64,
    /// Time without service, other than by the floor, after which a victim loses its whole queue.
    patience: Option<Nanos>,
    /// Per flow: length class, and the event at which it entered the class or was served in it.
    listed: BTreeMap<FlowId, (u64, u64)>,
    /// Latest timestamp, if any; the next field is the sum of the steps forward.
    reading: Option<Nanos>,
    time: u64,
}

impl NaiveShortestQueue {
    /// Creates the model without flows, for at most `flows` flows, that drops at `end` of the
    /// longest queue.
    #[must_use]
    pub fn new(flows: u32, end: DropFrom) -> Self {
        Self {
            flows: vec![false; flows as usize],
            end,
            parts: 32,
            floor: None,
            sent: 0,
            owed: 0,
            from: BTreeMap::new(),
            is_for_floor: false,
            waits_since: BTreeMap::new(),
            events: 0,
            patience: None,
            listed: BTreeMap::new(),
            reading: None,
            time: 0,
        }
    }

    /// Sets the number of length classes per power of two (default 32).
    #[must_use]
    pub fn with_classes(self, parts: u64) -> Self {
        Self { parts, ..self }
    }

    /// Adds a service floor: one of `part` bytes goes to the flow that has waited longest, once
    /// `after` bytes have been sent since it became backlogged or was served as the shortest.
    #[must_use]
    pub fn with_service_floor(self, part: i64, after: u64) -> Self {
        Self { floor: Some((part, after)), ..self }
    }

    /// Flushes a drop victim that was not served for `after`.
    #[must_use]
    pub fn flushing(self, after: Nanos) -> Self {
        Self { patience: Some(after), ..self }
    }

    fn waits_anew(&mut self, flow: FlowId) {
        self.events += 1;
        self.waits_since.insert(flow, self.events);
    }

    /// Returns the flow that has waited longest, if the next packet belongs to the floor.
    fn owed_to(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let (_, after) = self.floor.filter(|_| self.owed > 0)?;
        let first = backlogged(queues).min_by_key(|flow| self.waits_since[flow])?;
        (self.sent - self.from[&first].0 >= after).then_some(first)
    }

    /// Returns the flow in the lowest or highest length class that entered the class or was served
    /// in it least recently.
    fn first(&self, queues: QueuesView<'_>, of_highest: bool) -> Option<FlowId> {
        let class = |flow: FlowId| class_of(queued_bytes(queues, flow), self.parts);
        let classes = backlogged(queues).map(class);
        let wanted = if of_highest { classes.max() } else { classes.min() }?;
        let there = backlogged(queues).filter(|&flow| class(flow) == wanted);
        there.min_by_key(|flow| self.listed[flow].1)
    }
}

impl NaiveFlowScheduler for NaiveShortestQueue {
    fn configure(
        &mut self,
        flow: FlowId,
        _setting: Setting,
        _head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        *self.flows.get_mut(flow.index()).ok_or_else(|| unknown(flow, flows))? = true;
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        if let Some(added) = self.flows.get_mut(flow.index()) {
            *added = false;
        }
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.max_len(flow).map(|_| [0; 2])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.index())?.then_some(Packet::MAX_LEN)
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.from.insert(flow, (self.sent, self.time));
        self.waits_anew(flow);
    }

    fn advance(&mut self, now: Nanos) {
        let before = self.reading.replace(now).unwrap_or(now);
        self.time = self.time.wrapping_add(now.0.saturating_sub(before.0));
    }

    fn served(&mut self, flow: FlowId, len: u32, _next_head: Option<u32>) {
        self.sent += u64::from(len);
        let (part, _) = self.floor.unwrap_or_default();
        let len = i64::from(len);
        if core::mem::take(&mut self.is_for_floor) {
            self.owed += len - part * len;
        } else {
            self.owed = len.min(self.owed + len);
            self.from.insert(flow, (self.sent, self.time));
        }
        self.waits_anew(flow);
        if let Some((_, since)) = self.listed.get_mut(&flow) {
            *since = self.events;
        }
    }

    fn lost(&mut self, _flow: FlowId, _head: Option<u32>) {}

    fn settle(&mut self, queues: QueuesView<'_>) {
        for flow in (0..).map(FlowId).take(queues.len()) {
            let class = class_of(queued_bytes(queues, flow), self.parts);
            if self.listed.get(&flow).is_none_or(|&(before, _)| before != class) {
                self.events += 1;
                self.listed.insert(flow, (class, self.events));
            }
        }
        self.is_for_floor = self.owed_to(queues).is_some();
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.owed_to(queues).or_else(|| self.first(queues, false))
    }

    fn victim(&self, queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        Some((self.first(queues, true)?, self.end))
    }

    fn gives_up(&self, flow: FlowId) -> bool {
        self.patience.is_some_and(|after| {
            let (_, since) = self.from[&flow];
            let waited = (self.time / TICK).wrapping_sub(since / TICK);
            waited as u32 as u64 >= after.0.div_ceil(TICK)
        })
    }
}

/// Any flow scheduler, with drops from about the longest queue.
#[derive(Clone, Debug)]
pub struct NaiveLongestQueueDrop<O> {
    scheduler: O,
    end: DropFrom,
    /// Centres of all classes in ascending order.
    centres: Vec<u64>,
    /// Per backlogged flow: centre of its class, `None` for a single one, and the event at which
    /// it came there.
    places: BTreeMap<FlowId, (Option<u64>, u64)>,
    events: u64,
    /// Flow that has lost a packet since the queues were last examined.
    has_lost: Option<FlowId>,
}

/// Below this, centres are the powers of two; above, their distance is this or 1/32 of the power of
/// two below, whichever is larger.
const UNIT: u64 = 2_048;

/// Returns the distance from `centre` to the next one.
fn width(centre: u64) -> u64 {
    if centre < UNIT { centre } else { UNIT.max((1 << centre.ilog2()) / 32) }
}

impl<O> NaiveLongestQueueDrop<O> {
    /// Creates the model, which drops at `end` of the longest queue.
    #[must_use]
    pub fn new(scheduler: O, end: DropFrom) -> Self {
        let centres = core::iter::successors(Some(1), |&centre| Some(centre + width(centre)));
        let centres = centres.take_while(|&centre| centre <= u32::MAX.into()).collect();
        Self { scheduler, end, centres, places: BTreeMap::new(), events: 0, has_lost: None }
    }

    /// Returns the centre of the class for `bytes` bytes: up to `UNIT` the highest that is at most
    /// 1.5 times `bytes`, above it the nearest one, the higher of two at equal distance.
    fn centre_of(&self, bytes: u64) -> u64 {
        let is_reached = |&(below, centre): &(u64, u64)| {
            if centre <= UNIT { centre <= bytes + bytes / 2 } else { below + centre <= 2 * bytes }
        };
        let pairs = self.centres.iter().copied().zip(self.centres.iter().copied().skip(1));
        pairs.take_while(is_reached).last().map_or(1, |(_, centre)| centre)
    }

    /// Returns true if a flow with `bytes` bytes in `packets` packets changes its class; `has_lost`
    /// is true if it lost a packet.
    fn moves(place: Option<u64>, bytes: u64, packets: usize, has_lost: bool) -> bool {
        match place {
            None => packets > 1,
            Some(centre) => {
                let low = (centre - width(centre)).max(centre / 2);
                has_lost || bytes < low || bytes >= centre + width(centre)
            }
        }
    }

    /// Returns the single flows, the newest first.
    fn singles(&self) -> Vec<FlowId> {
        let single = self.places.iter().filter(|(_, (class, _))| class.is_none());
        let mut single: Vec<_> = single.map(|(&flow, &(_, since))| (since, flow)).collect();
        single.sort_unstable();
        single.into_iter().rev().map(|(_, flow)| flow).collect()
    }
}

impl<O: NaiveFlowScheduler> NaiveFlowScheduler for NaiveLongestQueueDrop<O> {
    fn advance(&mut self, now: Nanos) {
        self.scheduler.advance(now);
    }

    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        self.scheduler.configure(flow, setting, head_len)
    }

    fn remove(&mut self, flow: FlowId) {
        self.scheduler.remove(flow);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.scheduler.setting(flow)
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.scheduler.max_len(flow)
    }

    fn backlogged(&mut self, flow: FlowId, head_len: u32) {
        self.scheduler.backlogged(flow, head_len);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        self.scheduler.served(flow, len, next_head);
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        self.has_lost = Some(flow);
        self.scheduler.lost(flow, head);
    }

    fn settle(&mut self, queues: QueuesView<'_>) {
        let has_lost = self.has_lost.take();
        for (flow, queue) in (0..).map(FlowId).zip(queues) {
            let bytes = queued_bytes(queues, flow);
            let place = match self.places.get(&flow) {
                _ if queue.is_empty() => {
                    self.places.remove(&flow);
                    continue;
                }
                None => None,
                Some(&(place, _))
                    if Self::moves(place, bytes, queue.len(), has_lost == Some(flow)) =>
                {
                    Some(self.centre_of(bytes))
                }
                Some(_) => continue,
            };
            self.events += 1;
            self.places.insert(flow, (place, self.events));
        }
        self.scheduler.settle(queues);
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        self.scheduler.select(queues)
    }

    fn victim(&self, queues: QueuesView<'_>) -> Option<(FlowId, DropFrom)> {
        let in_class =
            self.places.iter().filter_map(|(&flow, &(class, since))| Some((class?, since, flow)));
        let highest = in_class.max_by_key(|&(class, since, _)| (class, Reverse(since)));
        let looked_at =
            highest.map(|(.., flow)| flow).into_iter().chain(self.singles().into_iter().take(8));
        let bytes = |flow: &FlowId| queued_bytes(queues, *flow);
        // The first of equals.
        let victim =
            looked_at.reduce(|best, flow| if bytes(&flow) > bytes(&best) { flow } else { best });
        Some((victim?, self.end))
    }
}
