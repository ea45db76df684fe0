//! Pinned run of the assembled queue with everything enabled: a rate, tins, hosts, an AQM and the
//! ACK filter.

use conformance::catalog::Parts;
use freeboard::flowhash::{Ack, FlowKey, Labels, SackBlocks, Transport};
use freeboard::shaper::{Overhead, Rate};
use freeboard::{
    AckFilter, AqmKind, Descriptors, InTin, IsolatedMemory, Isolation, Rtt, SmartQueue, TinMode,
    TinPlan,
};
use sched_core::{DropSink, FlowId, Nanos, Packet, Rejected, Scheduler};

use crate::disciplines::OPERATIONS;
use crate::{Hash, MAX_LEN, run};

/// Handles: eight queues and a spare one for each of eight hosts hold sixteen packets.
pub const PACKETS: usize = 16;
/// Largest table: eight hosts in eight tins.
const MOST: usize = 64;
/// Length of acknowledgements, in bytes: three packets in eight.
pub const ACK_LEN: u32 = 64;

type Queue = SmartQueue<Parts<MOST>, Descriptors>;

/// The assembled queue under the run: a [`SmartQueue`], or another way to call one.
pub trait Assembled: Scheduler {
    /// Enqueues a packet with these labels. Its content, and that of queued packets, is [`ack`].
    ///
    /// # Errors
    /// [`Rejected`], with the packet.
    fn enqueue_with_labels(
        &mut self,
        now: Nanos,
        labels: InTin<Labels>,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected>;

    /// Changes one setting; `labels_of` returns the labels of the queued packet with a handle.
    /// Returns false, without a change, if the queue refuses it.
    fn change(
        &mut self,
        now: Nanos,
        change: Change,
        labels_of: impl Fn(u32) -> InTin<Labels>,
    ) -> bool;
}

/// A change of one setting.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The rate of the link.
    Rate(Rate),
    /// The tins.
    Tins(TinMode),
    /// The isolation.
    Isolation(Isolation),
    /// The filter of acknowledgements.
    Filter(AckFilter),
    /// The AQM.
    Aqm(AqmKind),
    /// The round-trip time.
    Rtt(Rtt),
    /// The framing of the link.
    Link(Overhead),
    /// True if dropped packets are charged to the link.
    Ingress(bool),
    /// True if packets with ECT(1) have a marking threshold of their own.
    L4s(bool),
}

/// A queue whose flows are numbered: flow `f` has the source `f / 2` and the destination `f mod 3`,
/// and is in tin `f mod n` of `n`.
struct ByNumber<Q> {
    queue: Q,
    tins: TinPlan,
    /// Time of the last call.
    now: Nanos,
    /// Flow and tin of the packet with each handle.
    came: [(u32, u8); PACKETS],
}

/// Returns the labels of a packet of flow `number` in this tin.
const fn labels(number: u32, tin: u8) -> InTin<Labels> {
    InTin { labels: Labels { flow: number, src_host: number >> 1, dst_host: number % 3 }, tin }
}

/// Returns the content of a packet of [`ACK_LEN`] bytes. All acknowledgements belong to one
/// connection, so that the filter acts on each queue. The number and an occasional block are
/// derived from the handle.
#[must_use]
pub fn ack(packet: Packet) -> Option<Ack> {
    if packet.len != ACK_LEN {
        return None;
    }
    let transport = Transport { protocol: 6, src_port: 1, dst_port: 2 };
    let connection = FlowKey::V4 { src: [10, 0, 0, 1], dst: [10, 0, 0, 2], transport };
    let number = (u32::MAX - 60_000).wrapping_add(packet.handle.wrapping_mul(1_000));
    let mut ack = Ack::new(connection, packet.handle >> 6, number);
    if packet.handle & 3 == 3 {
        ack.sack = SackBlocks::new([(number.wrapping_add(500), number.wrapping_add(2_500))]);
    }
    Some(ack)
}

/// Starts with `diffserv4` and `dual-srchost`. Each setting changes occasionally while packets are
/// queued.
pub(crate) fn with_rate_and_tins() -> u64 {
    queue().map_or(0, run_assembled)
}

/// Performs the run on a queue with its settings: `diffserv4`, `dual-srchost`, 2 Mbit/s, framing
/// `pppoe-llcsnap`, round-trip time `metro`, and the conservative filter of acknowledgements; eight
/// queues, hosts and tins, [`PACKETS`] packets of up to [`MAX_LEN`] bytes, and 16 rounds.
pub fn run_assembled(queue: impl Assembled) -> u64 {
    let (tins, came) = (TinMode::Diffserv4.plan(), [(0, 0); PACKETS]);
    let mut queue = ByNumber { queue, tins, now: Nanos(0), came };
    run(&mut queue, OPERATIONS, 41, |queue, _, random, hash| queue.change(random, hash))
}

fn queue() -> Option<Queue> {
    let memory = IsolatedMemory::<Parts<MOST>>::allocate(8, 8, 8, PACKETS).with_triple(16);
    let aqm = memory.aqm();
    let builder = SmartQueue::upload(rate(0)?).max_len(MAX_LEN).overhead(Overhead::PPPOE_LLCSNAP);
    let builder = builder.isolation(Isolation::DualSrcHost).tins(TinMode::Diffserv4);
    // A clock step is half a millisecond on average, so queues stay backlogged for many intervals.
    let builder = builder.rtt(Rtt::METRO).ack_filter(AckFilter::Conservative);
    builder.descriptors_in(memory, aqm).ok()
}

/// A rate below the offered 3.6 Mbit/s, above it, or unlimited. A stopped link stays stopped until
/// the next change.
fn rate(random: u32) -> Option<Rate> {
    match random & 7 {
        0..4 => Rate::megabits_per_second(2).ok(),
        4 => Rate::kilobits_per_second(300).ok(),
        5 => Rate::megabits_per_second(20).ok(),
        6 => Some(Rate::UNLIMITED),
        _ => Some(Rate::STOPPED),
    }
}

/// Chooses one element.
fn choose<T: Copy>(all: &[T], random: u32) -> Option<T> {
    let count = u32::try_from(all.len()).ok()?;
    all.get(random.checked_rem(count)? as usize).copied()
}

const TINS: [TinMode; 5] = [
    TinMode::BestEffort,
    TinMode::Precedence,
    TinMode::Diffserv3,
    TinMode::Diffserv4,
    TinMode::Diffserv8,
];
const ISOLATIONS: [Isolation; 4] =
    [Isolation::DualSrcHost, Isolation::DualDstHost, Isolation::Flows, Isolation::TripleIsolate];
const RTTS: [Rtt; 3] = [Rtt::LAN, Rtt::METRO, Rtt::INTERNET];
const LINKS: [Overhead; 2] = [Overhead::RAW, Overhead::PPPOE_LLCSNAP];

impl<Q: Assembled> ByNumber<Q> {
    /// Changes one setting and hashes whether the change was accepted.
    fn change(&mut self, random: u32, hash: &mut Hash) {
        let change = chosen(random & 15, random >> 4);
        hash.word(change.is_some_and(|change| self.set(change)).into());
    }

    fn set(&mut self, change: Change) -> bool {
        let Self { queue, tins, now, came } = self;
        if let Change::Tins(mode) = change {
            // A removed tin is replaced by the default tin.
            let plan = mode.plan();
            let to = |tin| tins.tin(tin).and_then(|tin| plan.number_of(tin.name()));
            for (_, tin) in came.iter_mut() {
                *tin = to(*tin).unwrap_or(plan.default_tin());
            }
        }
        let is_done = queue.change(*now, change, |handle| {
            let (number, tin) = came.get(handle as usize).copied().unwrap_or((0, 0));
            labels(number, tin)
        });
        if let (Change::Tins(mode), true) = (change, is_done) {
            *tins = mode.plan();
        }
        is_done
    }
}

/// Returns a change of the setting with this number.
fn chosen(setting: u32, random: u32) -> Option<Change> {
    Some(match setting {
        0..6 => Change::Rate(rate(random)?),
        6..8 => Change::Tins(choose(&TINS, random)?),
        8 => Change::Isolation(choose(&ISOLATIONS, random)?),
        9..11 => Change::Filter(choose(AckFilter::ALL, random)?),
        11 => Change::Aqm(choose(AqmKind::WORDS, random)?.1),
        12 => Change::Rtt(choose(&RTTS, random)?),
        13 => Change::Link(choose(&LINKS, random)?),
        14 => Change::Ingress(random & 1 == 0),
        _ => Change::L4s(random & 1 == 0),
    })
}

impl Assembled for Queue {
    fn enqueue_with_labels(
        &mut self,
        now: Nanos,
        labels: InTin<Labels>,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_with_acks(now, &labels, packet, &ack, drops)
    }

    fn change(
        &mut self,
        now: Nanos,
        change: Change,
        labels_of: impl Fn(u32) -> InTin<Labels>,
    ) -> bool {
        let labels_of = |packet: Packet| labels_of(packet.handle);
        match change {
            Change::Rate(rate) => self.set_rate(now, rate),
            Change::Tins(mode) => return self.set_tins(mode, labels_of).is_ok(),
            Change::Isolation(mode) => return self.set_isolation(mode, labels_of).is_ok(),
            Change::Filter(filter) => self.set_ack_filter(filter),
            Change::Aqm(kind) => self.set_aqm(kind),
            Change::Rtt(rtt) => self.set_rtt(rtt),
            Change::Link(link) => self.set_overhead(link),
            Change::Ingress(on) => self.set_ingress(on),
            Change::L4s(on) => self.set_l4s(on),
        }
        true
    }
}

impl<Q: Assembled> Scheduler for ByNumber<Q> {
    fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.now = now;
        let number = flow.0;
        let tins = u32::from(self.tins.count()).max(1);
        let tin = u8::try_from(number.checked_rem(tins).unwrap_or(0)).unwrap_or(0);
        self.queue.enqueue_with_labels(now, labels(number, tin), packet, drops)?;
        if let Some(came) = self.came.get_mut(packet.handle as usize) {
            *came = (number, tin);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        self.now = now;
        self.queue.dequeue(now, drops)
    }

    conformance::forward_all_but_packets!(queue);
}
