//! Two schedulers driven by one sequence of operations.

use freeboard::sched_core::{DropReason, Ecn, FlowId, Limits, Nanos, Packet, Rejected};

use super::ledger::Ledger;
use super::operation::{DESCRIPTORS, FLOWS, Operation};
use super::{ConfigurableScheduler, Order};

/// The flows of a sequence, and numbers that are not flows.
const EVERY_FLOW: [u32; FLOWS as usize + 3] =
    [0, 1, 2, 3, 4, 5, 6, 7, FLOWS, u32::MAX - 1, u32::MAX];

/// Two schedulers that receive the same operations and must behave alike.
#[derive(Clone, Debug)]
pub struct Match<S, T> {
    /// The scheduler under test.
    pub subject: S,
    /// The reference.
    pub twin: T,
    course: Course,
}

/// State of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Course {
    now: u64,
    /// True if the sides have received a timestamp since the clock last stepped back. Until then,
    /// a future time returned by `poll_at` is not reliable: a backward step is detected only when
    /// a timestamp is passed in.
    is_told: bool,
    ledger: Ledger,
    /// Flows checked by a thorough comparison.
    watched: &'static [u32],
    /// Packets dropped in the last operation by the subject and by the reference.
    dropped: [Vec<(Packet, DropReason)>; 2],
}

/// Returns an error with both values if they differ.
fn same<A: PartialEq + core::fmt::Debug>(what: &str, subject: A, twin: A) -> Result<(), String> {
    if subject == twin {
        return Ok(());
    }
    Err(format!("{what}: {subject:?}, but the twin says {twin:?}"))
}

impl Course {
    pub(super) fn new(descriptors: u32, order: Order) -> Self {
        let ledger = Ledger::new(descriptors, order);
        Self { now: 0, is_told: true, ledger, watched: &EVERY_FLOW, dropped: Default::default() }
    }
}

impl<S: ConfigurableScheduler, T: ConfigurableScheduler> Match<S, T> {
    /// Creates a comparison with [`DESCRIPTORS`] handles, at time 0.
    #[must_use]
    pub fn new(subject: S, twin: T) -> Self {
        Self::with_descriptors(subject, twin, DESCRIPTORS)
    }

    /// Creates a comparison with `descriptors` handles, at time 0.
    #[must_use]
    pub fn with_descriptors(subject: S, twin: T, descriptors: u32) -> Self {
        let course = Course::new(descriptors, subject.order());
        Self { subject, twin, course }
    }

    /// Restricts thorough comparisons to these flows.
    #[must_use]
    pub fn watching(mut self, flows: &'static [u32]) -> Self {
        self.course.watched = flows;
        self
    }

    /// Allows for an AQM that marks arrivals: a mark is visible only when its packet leaves; until
    /// then the counter may exceed the visible marks by the number of queued packets.
    #[must_use]
    pub fn marking_arrivals(mut self) -> Self {
        self.course.ledger.marks_arrivals = true;
        self
    }

    /// Applies `operation` to both and compares the observable results. With `thorough`, also
    /// compares every flow and recounts the counters of the subject.
    ///
    /// # Errors
    /// Returns a description of the difference or of the violation of the contract.
    pub fn step(&mut self, operation: Operation, thorough: bool) -> Result<(), String> {
        let Self { subject, twin, course } = self;
        Step { subject, twin, course }.step(operation, thorough)
    }
}

/// Both sides during an operation. The types are erased because this code, compiled for each pair
/// of types, would dominate the build time of a test of all disciplines.
pub(super) struct Step<'a> {
    pub(super) subject: &'a mut dyn ConfigurableScheduler,
    pub(super) twin: &'a mut dyn ConfigurableScheduler,
    pub(super) course: &'a mut Course,
}

impl Step<'_> {
    /// Applies `operation` and compares; see [`Match::step`].
    pub(super) fn step(mut self, operation: Operation, thorough: bool) -> Result<(), String> {
        self.course.dropped.iter_mut().for_each(Vec::clear);
        let touched = self.play(operation)?;
        self.compare_drops()?;
        self.compare_books()?;
        match touched {
            _ if thorough => {
                for &flow in self.course.watched {
                    self.compare_flow(FlowId(flow))?;
                }
                self.subject.recount().map_err(|imbalance| imbalance.to_string())?;
                self.twin.recount().map_err(|imbalance| format!("the twin: {imbalance}"))
            }
            Some(flow) => self.compare_flow(flow),
            None => Ok(()),
        }
    }

    /// Applies `operation` to both; returns the flow it concerns.
    fn play(&mut self, operation: Operation) -> Result<Option<FlowId>, String> {
        match operation {
            Operation::Enqueue { flow, len } => {
                self.enqueue(flow, len, self.course.ledger.free_handle())?;
                return Ok(Some(FlowId(flow)));
            }
            Operation::EnqueueAs { flow, len, handle } => {
                self.enqueue(flow, len, handle)?;
                return Ok(Some(FlowId(flow)));
            }
            Operation::EnqueueBurst { flow, len, packets } => {
                self.enqueue_burst(flow, len, packets)?;
                return Ok(Some(FlowId(flow)));
            }
            Operation::Dequeue => self.dequeue()?,
            Operation::DequeueBurst { packets } => self.dequeue_burst(packets)?,
            Operation::Configure { flow, setting } => {
                let flow = FlowId(flow);
                let kind = |error| core::mem::discriminant(&error);
                let before = self.subject.setting(flow);
                let outcome = self.subject.configure(flow, setting);
                let expected = self.twin.configure(flow, setting);
                same("configure", outcome.map_err(kind), expected.map_err(kind))
                    .map_err(|message| format!("{message} ({outcome:?}, {expected:?})"))?;
                if outcome.is_err() {
                    same("setting after an error", self.subject.setting(flow), before)?;
                }
                return Ok(Some(flow));
            }
            Operation::Remove { flow } => {
                let [subject, twin] = &mut self.course.dropped;
                let flow = FlowId(flow);
                self.subject
                    .remove_flow(flow, &mut |packet, reason| subject.push((packet, reason)));
                self.twin.remove_flow(flow, &mut |packet, reason| twin.push((packet, reason)));
                return Ok(Some(flow));
            }
            Operation::SetLimits { packets, bytes } => {
                let [subject, twin] = &mut self.course.dropped;
                let limits = Limits { packets, bytes };
                self.subject.set_limits(limits, &mut |packet, reason| {
                    subject.push((packet, reason));
                });
                self.twin.set_limits(limits, &mut |packet, reason| twin.push((packet, reason)));
            }
            Operation::Evict => self.evict()?,
            Operation::FilterOut { flow, younger } => {
                let [subject, twin] = &mut self.course.dropped;
                let flow = FlowId(flow);
                let found = self.subject.filter_out(flow, younger, &mut |packet, reason| {
                    subject.push((packet, reason));
                });
                let expected = self
                    .twin
                    .filter_out(flow, younger, &mut |packet, reason| twin.push((packet, reason)));
                same("filtered out", found, expected)?;
                let gone = usize::from(found == Some(true));
                same("packets filtered out", self.course.dropped[0].len(), gone)?;
                return Ok(Some(flow));
            }
            Operation::Drain => {
                let [subject, twin] = &mut self.course.dropped;
                self.subject.drain(&mut |packet, reason| subject.push((packet, reason)));
                self.twin.drain(&mut |packet, reason| twin.push((packet, reason)));
            }
            Operation::Forward { nanos } => self.course.now = self.course.now.saturating_add(nanos),
            Operation::Back { nanos } => {
                self.course.now = self.course.now.saturating_sub(nanos);
                self.course.is_told = false;
            }
        }
        Ok(None)
    }

    fn evict(&mut self) -> Result<(), String> {
        let before = self.subject.backlog().packets;
        let [subject, twin] = &mut self.course.dropped;
        let evicted = self.subject.evict(&mut |packet, reason| subject.push((packet, reason)));
        let expected = self.twin.evict(&mut |packet, reason| twin.push((packet, reason)));
        same("evicted", evicted, expected)?;
        same("evicted and something was queued", evicted, before > 0)?;
        same("packets evicted", self.course.dropped[0].len(), usize::from(evicted))?;
        let left = self.subject.backlog().packets;
        same("queued after an eviction", left, before - u32::from(evicted))
    }

    fn enqueue(&mut self, flow: u32, len: u32, handle: u32) -> Result<(), String> {
        if self.course.ledger.is_queued(handle) && !self.subject.notices_used_handles() {
            return Ok(());
        }
        self.course.is_told = true;
        let (now, flow, packet) = (Nanos(self.course.now), FlowId(flow), packet(handle, len));
        let [subject, twin] = &mut self.course.dropped;
        let outcome = self.subject.enqueue(now, flow, packet, &mut |packet, reason| {
            subject.push((packet, reason));
        });
        let expected =
            self.twin.enqueue(now, flow, packet, &mut |packet, reason| twin.push((packet, reason)));
        same("enqueue", outcome, expected)?;
        self.course.ledger.offered(flow, packet, outcome)
    }

    fn enqueue_burst(&mut self, flow: u32, len: u32, packets: u8) -> Result<(), String> {
        let handles = self.course.ledger.free_handles(packets);
        let flows = (0..).map(|turn| FlowId(flow.wrapping_add(turn & 1)));
        let burst: Vec<(FlowId, Packet)> =
            flows.zip(handles.into_iter().map(|handle| packet(handle, len))).collect();
        self.course.is_told |= !burst.is_empty();
        let now = Nanos(self.course.now);
        let [subject, twin] = &mut self.course.dropped;
        let accepted = self.subject.enqueue_burst(now, &burst, &mut |packet, reason| {
            subject.push((packet, reason));
        });
        let expected = self.twin.enqueue_burst(now, &burst, &mut |packet, reason| {
            twin.push((packet, reason));
        });
        same("accepted of a burst", accepted, expected)?;
        // A rejected packet was never queued: record it as rejected instead of dropped, along with
        // the arrivals.
        same("drops of a burst", &self.course.dropped[0], &self.course.dropped[1])?;
        for &(flow, packet) in &burst {
            let rejected = (packet, DropReason::Rejected);
            let outcome = if self.course.dropped[0].contains(&rejected) {
                let reason =
                    freeboard::sched_core::RejectReason::HandleInUse { handle: packet.handle };
                Err(Rejected { packet, reason })
            } else {
                Ok(())
            };
            self.course.ledger.offered(flow, packet, outcome)?;
        }
        let rejected =
            self.course.dropped[0].iter().filter(|drop| drop.1 == DropReason::Rejected).count();
        same("accepted and rejected of a burst", accepted + rejected, burst.len())?;
        for dropped in &mut self.course.dropped {
            dropped.retain(|drop| drop.1 != DropReason::Rejected);
        }
        Ok(())
    }

    fn dequeue(&mut self) -> Result<(), String> {
        let now = Nanos(self.course.now);
        let promised = self.subject.peek(now);
        self.course.is_told = true;
        let [subject, twin] = &mut self.course.dropped;
        let packet =
            self.subject.dequeue(now, &mut |packet, reason| subject.push((packet, reason)));
        let expected = self.twin.dequeue(now, &mut |packet, reason| twin.push((packet, reason)));
        same("dequeue", packet, expected)?;
        same("dequeue and the peek before it", packet, promised)?;
        packet.map_or(Ok(()), |packet| self.course.ledger.delivered(packet))
    }

    fn dequeue_burst(&mut self, packets: u8) -> Result<(), String> {
        let now = Nanos(self.course.now);
        let untouched = Packet::new(u32::MAX, u32::MAX);
        let (mut out, mut expected) = ([untouched; 8], [untouched; 8]);
        let places = usize::from(packets).min(out.len());
        self.course.is_told |= places > 0;
        let [subject, twin] = &mut self.course.dropped;
        let filled = self.subject.dequeue_burst(now, &mut out[..places], &mut |packet, reason| {
            subject.push((packet, reason));
        });
        self.twin.dequeue_burst(now, &mut expected[..places], &mut |packet, reason| {
            twin.push((packet, reason));
        });
        same("dequeued of a burst", out, expected)?;
        let delivered = out.iter().take_while(|&&packet| packet != untouched).count();
        same("count of a burst", filled, delivered)?;
        out[..delivered].iter().try_for_each(|&packet| self.course.ledger.delivered(packet))
    }

    fn compare_drops(&mut self) -> Result<(), String> {
        let [subject, twin] = &self.course.dropped;
        same("drops", subject, twin)?;
        subject.iter().try_for_each(|&(packet, reason)| self.course.ledger.dropped(packet, reason))
    }

    fn compare_books(&self) -> Result<(), String> {
        let now = Nanos(self.course.now);
        let (backlog, limits) = (self.subject.backlog(), self.subject.limits());
        same("backlog", backlog, self.twin.backlog())?;
        same("limits", limits, self.twin.limits())?;
        let counters = self.subject.counters();
        same("counters", counters, self.twin.counters())?;
        self.course.ledger.audit(&counters, backlog)?;
        let peeked = self.subject.peek(now);
        same("peek", peeked, self.twin.peek(now))?;
        let poll_at = self.subject.poll_at(now);
        same("poll_at", poll_at, self.twin.poll_at(now))?;
        if self.course.is_told || peeked.is_some() {
            same("poll_at and peek", poll_at == Some(now), peeked.is_some())?;
        }
        // The clock of a sequence stays far from the maximum time.
        same("poll_at and backlog", poll_at.is_some(), backlog.packets > 0)?;
        same("a poll in the past", poll_at.is_some_and(|at| at < now), false)?;
        if let Some(at) = poll_at.filter(|at| *at > now && self.course.is_told) {
            same("peek before poll_at", self.subject.peek(Nanos(at.0 - 1)), None)?;
            same("peek at poll_at", self.subject.peek(at), self.twin.peek(at))?;
            same("a packet at poll_at", self.subject.peek(at).is_some(), true)?;
        }
        same("packets above the limit", backlog.packets > limits.packets, false)?;
        same("bytes above the limit", backlog.bytes > limits.bytes, false)
    }

    fn compare_flow(&self, flow: FlowId) -> Result<(), String> {
        let (subject, twin) = (&*self.subject, &*self.twin);
        same("setting", subject.setting(flow), twin.setting(flow))?;
        same("counters of a flow", subject.flow_counters(flow), twin.flow_counters(flow))
            .map_err(|message| format!("{message} ({flow:?})"))
    }
}

/// Returns the packet of a handle; all ECN codepoints occur.
fn packet(handle: u32, len: u32) -> Packet {
    let [.., high] = handle.wrapping_mul(0x4000_0000).to_le_bytes();
    Packet { handle, len, ecn: Ecn::from_bits(high >> 6) }
}
