//! A queue that receives more information about a packet than the number of its flow.

use freeboard::flowhash::{ByAddress, Labels};
use freeboard::sched_core::{
    Backlog, Counters, DropSink, FlowId, Imbalance, Limits, Nanos, Packet, Rejected, Scheduler,
};
use freeboard::shaper::Rate;
use freeboard::{FrameReader, InTin, Isolated, Labelled, LabelledScheduler, SmartQueue, Storage};

use super::mix::Mix;

/// The queue `S`, into which `W` enqueues.
#[derive(Debug)]
pub(crate) struct EnqueuedBy<S, W> {
    pub(crate) queue: S,
    pub(crate) way: W,
}

/// A source of labels for packets.
pub(crate) trait Way<S> {
    /// Enqueues `packet`, whose flow has the hash `flow`.
    fn enqueue(
        &mut self,
        queue: &mut S,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;
}

/// Derives hosts from the low bits of a flow's hash; the mask is a power of two minus one.
#[derive(Debug)]
pub(crate) struct HostsByHash(pub(crate) u32);

impl<S: LabelledScheduler> Way<S> for HostsByHash {
    #[inline(always)]
    fn enqueue(
        &mut self,
        queue: &mut S,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        // Spread over all bits, as required for labels.
        let host = (flow.0 & self.0).wrapping_mul(0x9e37_79b9);
        let labels = Labels { flow: flow.0, src_host: host, dst_host: host };
        queue.enqueue_labelled(now, &labels as &dyn Labelled, packet, drops)
    }
}

/// A mapping of flows to labels and tins.
pub(crate) trait Labelling {
    /// Returns the labels of a packet whose flow has the hash `flow`.
    fn labels(&self, flow: FlowId) -> InTin<Labels>;
}

/// Makes each flow the only one of its hosts, and derives one of four tins from bits of its hash.
#[derive(Debug)]
pub(crate) struct TinsByHash;

impl Labelling for TinsByHash {
    #[inline(always)]
    fn labels(&self, flow: FlowId) -> InTin<Labels> {
        let labels = Labels { flow: flow.0, src_host: flow.0, dst_host: flow.0 };
        // These bits do not select the set.
        InTin { labels, tin: (flow.0 >> 28 & 3) as u8 }
    }
}

impl Labelling for Mix {
    #[inline(always)]
    fn labels(&self, flow: FlowId) -> InTin<Labels> {
        let (host, tin) = self.host_and_tin(flow);
        // Spread over all bits, as required for labels.
        let host = host.wrapping_mul(0x9e37_79b9);
        InTin { labels: Labels { flow: flow.0, src_host: host, dst_host: host }, tin }
    }
}

impl<S: Storage, L: Labelling> Way<Isolated<S>> for L {
    #[inline(always)]
    fn enqueue(
        &mut self,
        queue: &mut Isolated<S>,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        queue.enqueue_labelled(now, &self.labels(flow), packet, drops).map(|_| ())
    }
}

impl<S: Storage, L: Labelling> Way<SmartQueue<S>> for L {
    #[inline(always)]
    fn enqueue(
        &mut self,
        queue: &mut SmartQueue<S>,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        SmartQueue::enqueue(queue, now, &self.labels(flow), packet, drops)
    }
}

/// Assigns every packet to flow 0.
#[derive(Debug)]
pub(crate) struct OneFlow;

impl<S: Scheduler> Way<S> for OneFlow {
    #[inline(always)]
    fn enqueue(
        &mut self,
        queue: &mut S,
        now: Nanos,
        _flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        queue.enqueue(now, FlowId(0), packet, drops)
    }
}

/// The part of a frame that a parser reads, in its own cache line.
type Frame = [u8; 64];

/// Parses and hashes the headers of each packet's frame. The code point selects the tin if the
/// queue has several.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Frames by handle.
    frames: Vec<Frame>,
    reader: FrameReader<ByAddress>,
}

/// Header fields of a frame: UDP over IPv4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) source: u32,
    pub(crate) port: u16,
    /// Class selector of the code point, CS0 to CS7.
    pub(crate) class: u8,
}

impl Frames {
    /// Creates frames for `packets` packets, with the headers that `header` returns for each
    /// handle.
    pub(crate) fn new(packets: usize, header: impl Fn(usize) -> Header) -> Self {
        let frame = |handle: usize| {
            let Header { source, port, class } = header(handle);
            let mut frame = [0; 64];
            let class = class << 5;
            frame[12..24].copy_from_slice(&[0x08, 0, 0x45, class, 0, 46, 0, 0, 0, 0, 64, 17]);
            frame[26..30].copy_from_slice(&(0x0a00_0000 + source).to_be_bytes());
            frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            frame[36..38].copy_from_slice(&443_u16.to_be_bytes());
            frame
        };
        let reader = SmartQueue::upload(Rate::UNLIMITED).reader([42; 16]).with_identity(ByAddress);
        Self { frames: (0..packets).map(frame).collect(), reader }
    }

    /// Creates frames whose flows alternate like those of the loop. Each flow has its own source
    /// and one of the code points CS0 to CS3.
    pub(crate) fn in_turn(packets: usize, flows: usize) -> Self {
        Self::new(packets, |handle| {
            let flow = handle % flows;
            Header { source: flow as u32, port: 5_000, class: (flow % 4) as u8 }
        })
    }
}

impl<S: Storage> Way<SmartQueue<S>> for Frames {
    #[inline(always)]
    fn enqueue(
        &mut self,
        queue: &mut SmartQueue<S>,
        now: Nanos,
        _flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Self { frames, reader } = self;
        let frame = &frames[packet.handle as usize];
        let parsed = reader.parse(frame);
        let read = reader.read(frame, &parsed, 0, queue.tins());
        let labels = InTin { labels: reader.labels(&read, reader.labeller()), tin: read.tin };
        queue.enqueue(now, &labels, packet, drops)
    }
}

impl<S: Scheduler, W: Way<S>> Scheduler for EnqueuedBy<S, W> {
    #[inline(always)]
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.way.enqueue(&mut self.queue, now, flow, packet, drops)
    }

    #[inline(always)]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.queue.dequeue(now, drops)
    }

    conformance::forward_all_but_packets!(queue);
}
