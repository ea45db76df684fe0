//! Super-packets by descriptor.

use sched_core::{DropSink, Nanos, Packet, Rejected};
use shaper::Segmentation;

use super::{Descriptors, SmartQueue};
use crate::labels::Labelled;
use crate::storage::Storage;

impl<S: Storage, K: Storage, T: Storage> SmartQueue<S, Descriptors, K, T> {
    /// As [`enqueue`](Self::enqueue), where `of` says which packets are super-packets. It matters where the line is
    /// charged what is dropped ([`is_ingress`](Self::is_ingress)): a super-packet that is dropped is charged segment by
    /// segment.
    ///
    /// # Errors
    /// [`Rejected`] hands the packet back.
    pub fn enqueue_segmented(
        &mut self,
        now: Nanos,
        labels: &(impl Labelled + ?Sized),
        packet: Packet,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.outlet.line.arrive_segmented(now, of, drops, |inside, drops| {
            inside.enqueue_labelled(now, labels, packet, drops).map(|_| ())
        })
    }

    /// As [`dequeue`](Self::dequeue), where `of` says which packets are super-packets: the line is charged the sum over the
    /// segments, each with its own overhead, minimum and cells. Flows, limits and the rates and ceilings of single hosts
    /// count the length that the super-packet was enqueued with, once: [`Segments::bytes`](shaper::Segments::bytes) counts
    /// the headers of each segment. [`SplitPolicy`](shaper::SplitPolicy) says whether to cut it before.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::{Rate, Segments, SplitPolicy};
    ///
    /// let rate = Rate::megabits_per_second(1_000)?;
    /// let builder = SmartQueue::upload(rate).link("ethernet")?.max_len(65_536);
    /// let mut queue = builder.descriptors()?;
    /// // What the device said of the frame in buffer 0: 45 segments.
    /// let segments = Segments::of_offload(65_226, 66, 1_448)?;
    /// let of = |packet: Packet| (packet.handle == 0).then_some(segments);
    /// assert!(!SplitPolicy::Below(rate).splits(rate), "as a whole");
    ///
    /// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
    /// let (now, drops) = (Nanos(0), &mut |_: Packet, _| {});
    /// queue.enqueue_segmented(now, &labels, Packet::new(0, 65_226), &of, drops)?;
    /// assert!(queue.dequeue_segmented(now, &of, drops).is_some());
    /// // 45 frames of 1,538 bytes on the wire at 8 ns.
    /// assert_eq!(queue.line().due(), Nanos(45 * 1_538 * 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dequeue_segmented(
        &mut self,
        now: Nanos,
        of: &impl Segmentation,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        self.outlet.dequeue_segmented(now, of, drops)
    }
}
