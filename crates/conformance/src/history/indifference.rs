//! Wrappers that change a scheduler in ways that must not be observable.

use freeboard::sched_core::{
    ConfigError, DropSink, FlowId, Limits, Nanos, Packet, Rejected, Scheduler,
};

use super::{ConfigurableScheduler, Order, Setting};

/// A scheduler whose timestamps are shifted by a constant.
#[derive(Clone, Debug)]
pub struct Shifted<S> {
    inner: S,
    by: u64,
}

impl<S> Shifted<S> {
    /// Creates a wrapper that passes every timestamp to `inner` increased by `by`, modulo 2^64.
    #[must_use]
    pub const fn new(inner: S, by: u64) -> Self {
        Self { inner, by }
    }

    const fn at(&self, now: Nanos) -> Nanos {
        Nanos(now.0.wrapping_add(self.by))
    }
}

/// A scheduler with additional calls of `peek` and `poll_at` before and after every operation, at
/// other times too.
#[derive(Clone, Debug)]
pub struct Peeked<S> {
    inner: S,
}

impl<S: Scheduler> Peeked<S> {
    /// Creates a wrapper around `inner`.
    #[must_use]
    pub const fn new(inner: S) -> Self {
        Self { inner }
    }

    fn look(&self, now: Nanos) {
        for now in [now, Nanos(0), now.plus(Nanos::from_secs(1)), Nanos::MAX, now] {
            let (packet, poll_at) = (self.inner.peek(now), self.inner.poll_at(now));
            assert_eq!(packet, self.inner.peek(now), "two peeks at {now:?} differ");
            assert_eq!(poll_at, self.inner.poll_at(now), "two polls at {now:?} differ");
            let ready = (self.inner.backlog().packets > 0).then_some(now);
            assert!(
                self.inner.waits() || poll_at == ready,
                "it never waits: {poll_at:?} at {now:?}"
            );
        }
    }
}

impl<S: Scheduler> Scheduler for Shifted<S> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.inner.enqueue(self.at(now), flow, packet, drops)
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.inner.dequeue(self.at(now), drops)
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.inner.peek(self.at(now))
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        let poll_at = self.inner.poll_at(self.at(now))?;
        Some(Nanos(poll_at.0.wrapping_sub(self.by)))
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.inner.set_limits(limits, drops);
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        self.inner.evict(drops)
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.inner.drain(drops);
    }

    crate::forward_books!(inner);
}

impl<S: ConfigurableScheduler> ConfigurableScheduler for Shifted<S> {
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        self.inner.configure(flow, setting)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.inner.remove_flow(flow, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.inner.setting(flow)
    }

    fn notices_used_handles(&self) -> bool {
        self.inner.notices_used_handles()
    }

    fn order(&self) -> Order {
        self.inner.order()
    }
}

impl<S: Scheduler> Scheduler for Peeked<S> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.look(now);
        let outcome = self.inner.enqueue(now, flow, packet, drops);
        self.look(now);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.look(now);
        let packet = self.inner.dequeue(now, drops);
        self.look(now);
        packet
    }

    fn peek(&self, now: Nanos) -> Option<Packet> {
        self.inner.peek(now)
    }

    fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        self.inner.poll_at(now)
    }

    fn set_limits(&mut self, limits: Limits, drops: &mut dyn DropSink) {
        self.inner.set_limits(limits, drops);
        self.look(Nanos(0));
    }

    fn evict(&mut self, drops: &mut dyn DropSink) -> bool {
        let evicted = self.inner.evict(drops);
        self.look(Nanos(0));
        evicted
    }

    fn drain(&mut self, drops: &mut dyn DropSink) {
        self.inner.drain(drops);
        self.look(Nanos(0));
    }

    crate::forward_books!(inner);
}

impl<S: ConfigurableScheduler> ConfigurableScheduler for Peeked<S> {
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        let outcome = self.inner.configure(flow, setting);
        self.look(Nanos(0));
        outcome
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.inner.remove_flow(flow, drops);
        self.look(Nanos(0));
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.inner.setting(flow)
    }

    fn notices_used_handles(&self) -> bool {
        self.inner.notices_used_handles()
    }

    fn order(&self) -> Order {
        self.inner.order()
    }
}
