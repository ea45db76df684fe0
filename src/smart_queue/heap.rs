//! Smart queues on the heap.

use super::pool::Pool;
use super::{BufferState, Descriptors, Frames, SmartQueue, SmartQueueBuilder, SmartQueueError};
use crate::isolation::{AqmMemory, IsolatedMemory, Isolation};
use crate::storage::{Allocate, Heap};

/// A [`SmartQueue`] on the heap that owns its buffers: frames go in with [`push`](SmartQueue::push)
/// and come out with [`pop`](SmartQueue::pop). Built by [`SmartQueueBuilder::frames`]. Use this
/// alias for a field of your own struct.
///
/// ```
/// use freeboard::sched_core::Nanos;
/// use freeboard::shaper::Rate;
/// use freeboard::{FrameQueue, SmartQueue};
///
/// struct Uplink {
///     queue: FrameQueue,
/// }
///
/// impl Uplink {
///     /// Enqueues a frame from the LAN.
///     fn received(&mut self, now: Nanos, frame: &[u8]) {
///         if let Err(error) = self.queue.push(now, frame) {
///             println!("not queued: {error}");
///         }
///     }
///
///     /// Sends packets that may leave at `now`; returns when to call next.
///     fn send(&mut self, now: Nanos) -> Option<Nanos> {
///         while let Some(frame) = self.queue.pop(now) {
///             println!("{} bytes leave", frame.len());
///         }
///         self.queue.poll_at(now)
///     }
/// }
///
/// let key = [42; 16]; // 16 random bytes
/// let rate = Rate::megabits_per_second(1)?;
/// let queue = SmartQueue::upload(rate).framing("pppoe-ptm")?.frames(key)?;
/// let mut uplink = Uplink { queue };
/// for _ in 0..3 {
///     uplink.received(Nanos(0), &[0; 1_514]);
/// }
/// assert!(uplink.send(Nanos(0)) > Some(Nanos(0)), "the link is busy with the first frame");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | topic | methods |
/// |---|---|
/// | frames in | [`push`](SmartQueue::push), [`push_with`](SmartQueue::push_with) without a copy, [`push_marked`](SmartQueue::push_marked) with a mark that selects the tin |
/// | frames out | [`pop`](SmartQueue::pop), [`pop_if`](SmartQueue::pop_if) for a device that may refuse, [`poll_at`](SmartQueue::poll_at) |
/// | link | [`set_rate`](SmartQueue::set_rate), [`set_overhead`](SmartQueue::set_overhead), [`set_line`](SmartQueue::set_line), [`set_device`](SmartQueue::set_device) |
/// | fairness | [`set_isolation`](SmartQueue::set_isolation), [`with_nat`](SmartQueue::with_nat), [`with_host_identity`](SmartQueue::with_host_identity), [`with_host_rules`](SmartQueue::with_host_rules), [`set_tins`](SmartQueue::set_tins) |
/// | delay | [`set_rtt`](SmartQueue::set_rtt), [`set_aqm`](SmartQueue::set_aqm), [`set_l4s`](SmartQueue::set_l4s), [`set_ack_filter`](SmartQueue::set_ack_filter) |
/// | memory | [`set_limits`](SmartQueue::set_limits), [`set_memory_limit`](SmartQueue::set_memory_limit), [`clear`](SmartQueue::clear) |
/// | statistics | [`counters`](SmartQueue::counters), [`backlog`](SmartQueue::backlog), [`statistics`](SmartQueue::statistics), [`tin_counters`](SmartQueue::tin_counters), [`find`](SmartQueue::find), [`flow_key`](SmartQueue::flow_key) |
/// | key | [`rotate`](SmartQueue::rotate) |
pub type FrameQueue = SmartQueue<Heap, Frames<Heap>>;

/// A [`SmartQueue`] on the heap for frames in your own buffers: buffer numbers go in with
/// [`enqueue`](SmartQueue::enqueue), together with the [labels](crate::Labelled) of the packet, and
/// come out with [`dequeue`](SmartQueue::dequeue). Built by [`SmartQueueBuilder::descriptors`]. Use
/// this alias for a field of your own struct.
///
/// ```
/// use freeboard::flowhash::{Labels, SipHash13, parse};
/// use freeboard::sched_core::{DropReason, Nanos, Packet};
/// use freeboard::shaper::Rate;
/// use freeboard::{DescriptorQueue, SmartQueue};
///
/// struct Uplink {
///     queue: DescriptorQueue,
///     hasher: SipHash13,
///     buffers: Vec<Vec<u8>>,
///     free: Vec<u32>,
/// }
///
/// impl Uplink {
///     /// Enqueues the frame in buffer `handle`.
///     fn received(&mut self, now: Nanos, handle: u32) {
///         let frame = &self.buffers[handle as usize];
///         let labels = Labels::new(&parse::ethernet(frame).key, &self.hasher);
///         let packet = Packet::new(handle, frame.len() as u32);
///         let free = &mut self.free;
///         let drops = &mut |packet: Packet, _why: DropReason| free.push(packet.handle);
///         if let Err(rejected) = self.queue.enqueue(now, &labels, packet, drops) {
///             self.free.push(rejected.packet.handle);
///         }
///     }
///
///     /// Returns the buffer of the next packet, if one may leave at `now`.
///     fn next(&mut self, now: Nanos) -> Option<u32> {
///         let free = &mut self.free;
///         let drops = &mut |packet: Packet, _why: DropReason| free.push(packet.handle);
///         self.queue.dequeue(now, drops).map(|packet| packet.handle)
///     }
/// }
///
/// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).buffers(64).descriptors()?;
/// let hasher = SipHash13::new([42; 16]); // 16 random bytes
/// let (buffers, free) = (vec![vec![0; 1_514]; 64], (1..64).collect());
/// let mut uplink = Uplink { queue, hasher, buffers, free };
/// uplink.received(Nanos(0), 0);
/// assert_eq!(uplink.next(Nanos(0)), Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | topic | methods |
/// |---|---|
/// | packets in | [`enqueue`](SmartQueue::enqueue), [`enqueue_with_acks`](SmartQueue::enqueue_with_acks) with the ACK filter |
/// | packets out | [`dequeue`](SmartQueue::dequeue), [`poll_at`](SmartQueue::poll_at), [`Scheduler::peek`](sched_core::Scheduler::peek), [`Scheduler::dequeue_burst`](sched_core::Scheduler::dequeue_burst) |
/// | buffers | [`Buffers`](crate::Buffers), or your own; [`Scheduler::evict`](sched_core::Scheduler::evict) makes space for a packet that found no free buffer |
/// | key | [`relabel`](SmartQueue::relabel) |
///
/// Link, fairness, delay, memory and statistics have the methods of [`FrameQueue`], except where
/// the bytes are needed: hosts have the weights and rates of their [labels](crate::Labelled), and
/// `set_isolation` and `set_tins` take a function that returns the labels of queued packets.
pub type DescriptorQueue = SmartQueue<Heap, Descriptors>;

/// Rounds of `triple-isolate`, divided among the tins: 64 for each of four, 32 for each of eight.
const ROUNDS: usize = 256;

impl SmartQueueBuilder {
    /// Builds a queue with frames on the heap. `key` is 16 random bytes, drawn at each start. Keep
    /// it secret: a sender who knows the key can force hash collisions with other flows.
    ///
    /// # Errors
    /// [`SmartQueueError`], with the given and the expected value.
    pub fn frames(self, key: [u8; 16]) -> Result<FrameQueue, SmartQueueError> {
        let (count, limits) = self.sized()?;
        let (count, len) = (count as usize, self.longest() as usize);
        let Ok(bytes) = Heap.table(0_u8, count.saturating_mul(len));
        let Ok(states) = Heap.table(BufferState::EMPTY, count);
        let pool = Pool::new(bytes, states, len);
        let (memory, aqm) = self.allocate(count);
        let frames = Frames::new(pool, self.wash, self.reader(key));
        self.build(memory, aqm, limits, self.limits.is_none(), self.longest(), frames)
    }

    /// Builds a queue with descriptors on the heap. Handles must be below
    /// [`buffers`](Self::buffers).
    ///
    /// # Errors
    /// [`SmartQueueError`], with the given and the expected value.
    pub fn descriptors(self) -> Result<DescriptorQueue, SmartQueueError> {
        let (count, limits) = self.sized()?;
        let (memory, aqm) = self.allocate(count as usize);
        self.build(memory, aqm, limits, self.limits.is_none(), self.longest(), Descriptors)
    }

    /// Allocates tables for `packets` descriptors; those of `triple-isolate` only if it is set.
    fn allocate(&self, packets: usize) -> (IsolatedMemory<Heap>, AqmMemory<Heap>) {
        let (queues, hosts, tins) = (self.queues, self.hosts, self.room_for_tins());
        let memory = IsolatedMemory::<Heap>::allocate(queues, hosts, tins, packets);
        let aqm = memory.aqm();
        let memory = match self.isolation {
            Isolation::TripleIsolate => memory.with_triple(ROUNDS),
            _ => memory,
        };
        (memory, aqm)
    }
}
