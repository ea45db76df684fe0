//! Open-loop flows over a chain of links.
//!
//! ```text
//! source ─▶ link ─▶ link ─▶ … ─▶ link ─▶ arrived
//! ```
//!
//! Each flow has a source, which receives no feedback, and a path: the links it crosses, in order.
//! Any number of paths may share a link, which is a [`Link`] with a scheduler, a rate and a
//! propagation delay. A packet reaches the next link with its last bit (store and forward). Packets
//! have a length and no content.

use core::fmt;

use freeboard::sched_core::{FlowId, Imbalance, Nanos};

use crate::link::Link;
use crate::links::{self, Links};
use crate::source::Sent;

pub use crate::links::LinkId;

/// A packet in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Flow number, equal at every link.
    pub flow: FlowId,
    /// Number of packets that the flow sent before it.
    pub number: u64,
    /// Length in bytes.
    pub len: u32,
    /// Time at which its source sent it.
    pub sent: Nanos,
    /// Number of links of its path already crossed.
    hop: usize,
}

/// Observer of packets.
pub trait Watch {
    /// Called when the queue of a link has accepted a packet.
    fn enters(&mut self, _now: Nanos, _link: LinkId, _parcel: &Parcel) {}
    /// Called when a packet leaves the queue of a link; its last bit is on the link at `last_bit`.
    fn leaves(&mut self, _now: Nanos, _link: LinkId, _last_bit: Nanos, _parcel: &Parcel) {}
    /// Called when the last bit of a packet has reached the end of its path.
    fn arrives(&mut self, _now: Nanos, _parcel: &Parcel) {}
}

/// Observes nothing.
impl Watch for () {}

struct PathFlow {
    source: Box<dyn Iterator<Item = Sent>>,
    path: Vec<LinkId>,
    sent: u64,
}

enum Event {
    /// A source sends a packet of this length in bytes.
    Send(FlowId, u32),
    /// A packet is at the far end of a link.
    Reach(Parcel),
}

/// Links, the flows that cross them, and the clock.
#[derive(Default)]
pub struct Paths {
    links: Links<Parcel, Event>,
    flows: Vec<PathFlow>,
    /// Packets in transit on a link.
    on_the_way: u64,
    /// Packets that have reached the end of their paths.
    arrived: u64,
}

impl Paths {
    /// Creates a network without links and flows, at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link.
    pub fn add_link(&mut self, link: Link<Parcel>) -> LinkId {
        self.links.add(link)
    }

    /// Adds a flow: the payloads of `source`, one packet for each, along `path`. Flows are numbered
    /// from 0 in the order of addition. A source that ends is silent from then on.
    ///
    /// # Panics
    /// If there are 2^32 flows, or at a link of `path` that belongs to another network.
    pub fn add_flow(
        &mut self,
        source: impl Iterator<Item = Sent> + 'static,
        path: &[LinkId],
    ) -> FlowId {
        assert!(
            path.iter().all(|link| link.0 < self.links.links().len()),
            "the links are this network's"
        );
        let id = FlowId(u32::try_from(self.flows.len()).expect("fewer flows than numbers"));
        let source = Box::new(source);
        self.flows.push(PathFlow { source, path: path.to_vec(), sent: 0 });
        self.schedule_next(id);
        id
    }

    /// Returns a link.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link<Parcel> {
        self.links.link(id)
    }

    /// Returns the number of packets that a flow has sent.
    #[must_use]
    pub fn sent(&self, flow: FlowId) -> u64 {
        self.flows[flow.index()].sent
    }

    /// Processes all events due at `end` or before.
    pub fn run_until(&mut self, end: Nanos, watch: &mut dyn Watch) {
        while let Some((now, event)) = self.links.next_until(end) {
            match event {
                links::Event::LinkFree(id) => self.serve(now, id, watch),
                links::Event::Own(Event::Send(id, len)) => {
                    let flow = &mut self.flows[id.index()];
                    let parcel = Parcel { flow: id, number: flow.sent, len, sent: now, hop: 0 };
                    flow.sent += 1;
                    self.schedule_next(id);
                    self.forward(now, parcel, watch);
                }
                links::Event::Own(Event::Reach(mut parcel)) => {
                    self.on_the_way -= 1;
                    parcel.hop += 1;
                    self.forward(now, parcel, watch);
                }
            }
        }
    }

    /// Recounts every queue, and checks that every packet that was sent has arrived, was lost, or
    /// is queued or in transit.
    ///
    /// # Errors
    /// The first [`Imbalance`] found.
    pub fn recount(&self) -> Result<(), Imbalance> {
        let mut elsewhere = self.on_the_way + self.arrived;
        for link in self.links.links() {
            link.recount()?;
            let queued = link.queue().backlog().packets;
            elsewhere += link.books().lost() + u64::from(queued);
        }
        let sent = self.flows.iter().map(|flow| flow.sent).sum();
        Imbalance::check("packets that were sent", 0, sent, elsewhere)
    }

    fn schedule_next(&mut self, id: FlowId) {
        if let Some(Sent { at, payload }) = self.flows[id.index()].source.next() {
            self.links.schedule(at, Event::Send(id, payload));
        }
    }

    /// Enqueues a packet at the next link of its path, if there is one.
    fn forward(&mut self, now: Nanos, parcel: Parcel, watch: &mut dyn Watch) {
        let Some(&id) = self.flows[parcel.flow.index()].path.get(parcel.hop) else {
            self.arrived += 1;
            watch.arrives(now, &parcel);
            return;
        };
        if self.links.link_mut(id).enter_as(now, parcel.flow, parcel.len, parcel) {
            watch.enters(now, id, &parcel);
        }
        self.serve(now, id, watch);
    }

    /// Sends the packets that may leave a queue at `now`.
    fn serve(&mut self, now: Nanos, id: LinkId, watch: &mut dyn Watch) {
        let Self { links, on_the_way, .. } = self;
        links.serve(now, id, |last_bit, _, parcel| {
            watch.leaves(now, id, last_bit, &parcel);
            *on_the_way += 1;
            Some(Event::Reach(parcel))
        });
    }
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paths")
            .field("links", &self.links.links().len())
            .field("flows", &self.flows.len())
            .field("now", &self.links.now())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;

    use crate::discipline::Discipline;
    use crate::source::Cbr;
    use freeboard::sched_core::Limits;
    use freeboard::shaper::{Overhead, Rate, Shaper};

    fn link(mbps: u64, delay_ms: u64, packets: u32) -> Link<Parcel> {
        let line = Shaper::new(Rate::megabits_per_second(mbps).unwrap());
        let limits = Limits::packets(packets);
        let queue = Discipline::Fifo.behind(line, Overhead::RAW, limits, 1_500);
        Link::new(queue, packets + 1, [0; 16], Nanos::from_millis(delay_ms))
    }

    /// A log of events as comparable text.
    #[derive(Default)]
    struct Diary(Vec<(u64, String)>);

    impl Watch for Diary {
        fn enters(&mut self, now: Nanos, link: LinkId, parcel: &Parcel) {
            self.0.push((now.0 / 1_000, format!("{} enters {}", parcel.flow.0, link.0)));
        }
        fn leaves(&mut self, _: Nanos, link: LinkId, last_bit: Nanos, parcel: &Parcel) {
            self.0.push((last_bit.0 / 1_000, format!("{} is sent by {}", parcel.flow.0, link.0)));
        }
        fn arrives(&mut self, now: Nanos, parcel: &Parcel) {
            self.0.push((now.0 / 1_000, format!("{} arrives", parcel.flow.0)));
        }
    }

    fn once(at: u64, payload: u32) -> impl Iterator<Item = Sent> + 'static {
        core::iter::once(Sent { at: Nanos::from_micros(at), payload })
    }

    /// 1,250 bytes take 10 ms at 1 Mbit/s and 1 ms at 10 Mbit/s. Flow 0 crosses both links, flow 1
    /// only the second, which is busy when flow 0 arrives there at 13 ms. Times are in
    /// microseconds.
    #[test]
    fn a_packet_is_stored_and_forwarded_link_by_link() {
        let mut paths = Paths::new();
        let (slow, fast) = (paths.add_link(link(1, 3, 9)), paths.add_link(link(10, 5, 9)));
        paths.add_flow(once(0, 1_250), &[slow, fast]);
        paths.add_flow(once(12_600, 1_250), &[fast]);
        let mut diary = Diary::default();
        paths.run_until(Nanos::from_secs(1), &mut diary);
        let mut seen = diary.0;
        seen.sort_by_key(|entry| entry.0);
        let expected = [
            (0, "0 enters 0"),
            (10_000, "0 is sent by 0"),
            (12_600, "1 enters 1"),
            (13_000, "0 enters 1"),
            (13_600, "1 is sent by 1"),
            (14_600, "0 is sent by 1"),
            (18_600, "1 arrives"),
            (19_600, "0 arrives"),
        ];
        assert_eq!(seen, expected.map(|(at, what)| (at, what.to_owned())));
        assert_eq!(paths.recount(), Ok(()));
    }

    /// Twice the rate of the link, into a queue for two packets: half is lost, and everything is
    /// accounted for, also while packets are queued and in transit.
    #[test]
    fn what_is_lost_on_the_way_is_accounted_for() {
        let mut paths = Paths::new();
        let bottleneck = paths.add_link(link(1, 20, 2));
        let rate = NonZeroU64::new(2_000_000).unwrap();
        let flow = paths.add_flow(Cbr::at_rate(Nanos::ZERO, rate, 1_250), &[bottleneck]);
        for ms in (0..=1_000).step_by(7) {
            paths.run_until(Nanos::from_millis(ms), &mut ());
            assert_eq!(paths.recount(), Ok(()), "{ms} ms");
        }
        let books = paths.link(bottleneck).books();
        assert_eq!((paths.sent(flow), books.entered), (199, 199));
        assert_eq!((books.left, books.rejected), (100, 97));
    }

    #[test]
    fn a_flow_without_links_arrives_when_it_is_sent() {
        let mut paths = Paths::new();
        paths.add_flow(once(7, 1), &[]);
        let mut diary = Diary::default();
        paths.run_until(Nanos::from_secs(1), &mut diary);
        assert_eq!(diary.0, [(7, "0 arrives".to_owned())]);
        assert_eq!(paths.recount(), Ok(()));
    }
}
