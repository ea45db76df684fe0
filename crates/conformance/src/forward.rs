//! Macros that forward methods of a wrapper to the scheduler inside.

#[doc(hidden)]
pub use freeboard::sched_core;

/// Forwards `books`, `flow_counters` and `recount` of a
/// [`Scheduler`](freeboard::sched_core::Scheduler) to the scheduler in this field.
#[macro_export]
macro_rules! forward_books {
    ($field:tt) => {
        fn books(&self) -> $crate::forward::sched_core::Books {
            self.$field.books()
        }

        fn flow_counters(
            &self,
            flow: $crate::forward::sched_core::FlowId,
        ) -> Option<$crate::forward::sched_core::Counters> {
            self.$field.flow_counters(flow)
        }

        fn recount(&self) -> Result<(), $crate::forward::sched_core::Imbalance> {
            self.$field.recount()
        }
    };
}

/// Forwards all methods of a [`Scheduler`](freeboard::sched_core::Scheduler) except `enqueue`,
/// `dequeue` and bursts to the scheduler in this field.
#[macro_export]
macro_rules! forward_all_but_packets {
    ($field:tt) => {
        fn peek(
            &self,
            now: $crate::forward::sched_core::Nanos,
        ) -> Option<$crate::forward::sched_core::Packet> {
            self.$field.peek(now)
        }

        fn poll_at(
            &self,
            now: $crate::forward::sched_core::Nanos,
        ) -> Option<$crate::forward::sched_core::Nanos> {
            self.$field.poll_at(now)
        }

        fn waits(&self) -> bool {
            self.$field.waits()
        }

        fn set_limits(
            &mut self,
            limits: $crate::forward::sched_core::Limits,
            drops: &mut dyn $crate::forward::sched_core::DropSink,
        ) {
            self.$field.set_limits(limits, drops);
        }

        fn evict(&mut self, drops: &mut dyn $crate::forward::sched_core::DropSink) -> bool {
            self.$field.evict(drops)
        }

        fn drain(&mut self, drops: &mut dyn $crate::forward::sched_core::DropSink) {
            self.$field.drain(drops);
        }

        $crate::forward_books!($field);
    };
}
