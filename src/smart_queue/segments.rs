//! Super-packets (GSO): charged by segment in queues with descriptors, segmented on arrival in
//! queues with frames.

use flowhash::{HostIdentity, Nat};
use sched_core::{DropSink, Nanos, Packet, Rejected};
use shaper::Segmentation;

use super::host_rules::HostRules;
use super::{Descriptors, Frames, PushError, SmartQueue};
use crate::labels::Labelled;
use crate::segmenter::Segmenter;
use crate::storage::Storage;

impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Enqueues a packet that may be a super-packet according to `of`. This matters if dropped
    /// packets are charged to the link ([`is_ingress`](Self::is_ingress)): a dropped super-packet
    /// is then charged segment by segment. Otherwise like [`enqueue`](Self::enqueue).
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

    /// Dequeues a packet that may be a super-packet according to `of`. The link is charged the sum
    /// over its segments, each with its own overhead, minimum and cells. Flows, limits, and rates
    /// and ceilings of single hosts count the length that the super-packet was enqueued with, once;
    /// [`Segments::bytes`](shaper::Segments::bytes) includes the headers of each segment. Otherwise
    /// like [`dequeue`](Self::dequeue).
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::flowhash::Labels;
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::{Rate, Segments};
    ///
    /// let rate = Rate::megabits_per_second(1_000)?;
    /// let builder = SmartQueue::upload(rate).framing("ethernet")?.max_len(65_536);
    /// let mut queue = builder.descriptors()?;
    /// // The device reported 45 segments for the frame in buffer 0.
    /// let segments = Segments::of_offload(65_226, 66, 1_448)?;
    /// let of = |packet: Packet| (packet.handle == 0).then_some(segments);
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

impl<S: Storage, N: Nat, R: HostRules, I: HostIdentity> SmartQueue<S, Frames<S, N, R, I>> {
    /// Segments a GSO super-packet and enqueues each segment `segmenter` has not yet written, as a
    /// packet of its own: with its own buffer, length (in limits, shares and rates), overhead on
    /// the wire and counts. Returns the number of segments queued.
    ///
    /// All segments are queued, or none. As for frames pushed one by one, later segments may
    /// displace earlier ones if a limit is too small for all of them; displaced ones are counted as
    /// dropped.
    ///
    /// Cost: that of [`push`](Self::push) for each segment, and a checksum over its bytes.
    ///
    /// # Errors
    /// [`PushError`] if the first segment, which is the longest, cannot be queued: it is counted as
    /// rejected, the others are not tried, and nothing is queued. A frame that cannot be segmented
    /// has no [`Segmenter`]; push it as a whole.
    ///
    /// ```
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    /// use freeboard::{Segmenter, SmartQueue};
    ///
    /// // UDP from 10.0.0.1 to 10.0.0.2 with 3,000 bytes: the size of a segment is 1,200.
    /// let mut packet = vec![0x45, 0, 0x0b, 0xd4, 0, 9, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    /// packet.extend([0x13, 0x8c, 0x13, 0x8e, 0x0b, 0xc0, 0, 0]);
    /// packet.resize(3_028, 7);
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).raw_ip();
    /// let mut queue = builder.frames([42; 16])?; // 16 random bytes
    /// assert_eq!(queue.push_segments(Nanos(0), Segmenter::ip(&packet, 1_200)?)?, 3);
    /// assert_eq!(queue.backlog().packets, 3);
    /// assert_eq!(queue.pop(Nanos(0)).as_deref().map(<[u8]>::len), Some(1_228));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_segments(
        &mut self,
        now: Nanos,
        segmenter: Segmenter<'_>,
    ) -> Result<u32, PushError> {
        self.push_marked_segments(now, 0, segmenter)
    }

    /// Segments and enqueues a super-packet with a mark: [`push_segments`](Self::push_segments) and
    /// [`push_marked`](Self::push_marked) combined.
    ///
    /// # Errors
    /// See [`push_segments`](Self::push_segments).
    pub fn push_marked_segments(
        &mut self,
        now: Nanos,
        mark: u32,
        mut segmenter: Segmenter<'_>,
    ) -> Result<u32, PushError> {
        let mut queued = 0_u32;
        while let Some(len) = segmenter.next_len() {
            // Only the first segment can be rejected: no later one is longer, and its flow then
            // holds an older packet to drop.
            self.push_marked_with(now, mark, len, |place| {
                segmenter.write_next(place);
            })?;
            queued = queued.saturating_add(1);
        }
        Ok(queued)
    }
}
