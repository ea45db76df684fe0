//! Queueing disciplines by name, with boxed memory and behind a shaper: the subjects of
//! experiments.
//!
//! All but the FIFO keep a queue for each flow, selected by hash, and drop from the head of the
//! longest queue when the limit is reached. So they differ only in the flow scheduler, except for
//! the [`SmartQueue`](freeboard::SmartQueue), which also isolates hosts and has an AQM.

mod flow_lists;
mod gateway;
mod isolated;
mod managed;
mod uplink;
mod users;
mod virtual_queues;
mod weighted;

use core::fmt;
use core::str::FromStr;

use freeboard::flowhash::{self, Ack, FlowKey, SipHash13, TagLine};
use freeboard::sched_core::{
    Aqm, Backlog, CoDel, CoDelParams, CoDelState, ConfigError, Descriptor, DropPolicy, DropSink,
    Drr, DrrFlow, DualPi2, Fifo, FloorShare, FlowId, FlowQueues, FlowRecord, FlowScheduler,
    LengthFlow, Limits, LongestFlow, LongestQueueDrop, Nanos, NoAqm, OwnVictim, Packet, Qfq,
    QfqConfig, QfqFlow, Queue, Rejected, Scheduler, ShortestQueue, Table, Tables, WaitingFlow,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{AqmKind, Dscp, HashDirectory, Hashed, Isolation};

pub use flow_lists::FlowLists;
pub use gateway::GatewayQueue;
pub use isolated::{Drops, isolated, isolated_smart, isolated_with};
pub use managed::{Managed, fair_queues, fq_codel, one_queue};
pub use uplink::UplinkQueue;
pub use users::{PerUser, UserFlows, users_sqf_with_codel};
pub use virtual_queues::{Placement, VirtualQueues};
pub use weighted::{Weighted, WeightedFlow};

/// A queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First in, first out, with tail drop, like the buffer of a modem.
    Fifo,
    /// Deficit round robin with a quantum of the longest packet.
    Drr,
    /// Shortest queue first without options, as in the paper.
    Sqf,
    /// Shortest queue first with a floor: one of eight bytes goes to the queue that has waited
    /// longest.
    SqfFloor,
    /// Shortest queue first with flushes: a drop victim not served for [`UNSERVED`] is dropped
    /// entirely.
    SqfFlush,
    /// Shortest queue first with floor and flushes.
    SqfFloorFlush,
    /// Quick fair queueing with equal weights.
    Qfq,
    /// A [`SmartQueue`](freeboard::SmartQueue) as the gateway assembles it for an uplink: isolation
    /// by source host, then by flow, sparse flows first, COBALT.
    Smart,
}

/// Time without service after which a drop victim's queue is flushed.
pub const UNSERVED: Nanos = Nanos::from_millis(500);

/// Queues in the flow table: as many as in CAKE and FQ-CoDel.
pub const QUEUES: u32 = 1_024;

/// A queue behind a shaper. Flows are identified by their hash, except in [`Weighted`].
pub trait Bottleneck: Scheduler {
    /// Returns the shaper.
    fn line(&self) -> &Shaper;

    /// Returns the framing of packets on the link.
    fn overhead(&self) -> Overhead;

    /// Changes the rate of the link.
    fn set_rate(&mut self, now: Nanos, rate: Rate);

    /// Returns the outcomes of flow lookups by hash; `None` if there are none or they are not
    /// counted.
    fn lookups(&self) -> Option<flowhash::Counts> {
        None
    }

    /// Returns the backlog of `flow`; `None` if all flows share one queue or flows are identified
    /// by hash.
    fn flow_backlog(&self, _flow: FlowId) -> Option<Backlog> {
        None
    }

    /// Returns the backlog of this tin; `None` if there are no tins or flows are numbered.
    fn tin_backlog(&self, _tin: u8) -> Option<Backlog> {
        None
    }

    /// Returns how many packets of a flow were in a queue of its own and in the default queue;
    /// `None` if there is no default queue.
    fn placement(&self, _key: &FlowKey) -> Option<Placement> {
        None
    }

    /// Enqueues a packet by its flow key: the hash of the key identifies the flow, unless the queue
    /// uses the key itself.
    ///
    /// # Errors
    /// See [`Scheduler::enqueue`].
    fn enqueue_key(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        hasher: &SipHash13,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue(now, FlowId(key.label(hasher)), packet, drops)
    }

    /// Variant of [`Self::enqueue_key`] for a packet with a code point. `acks` reads queued
    /// acknowledgements and this packet's own. Both are used by queues with tins or with an ACK
    /// filter.
    ///
    /// # Errors
    /// See [`Scheduler::enqueue`].
    fn enqueue_marked(
        &mut self,
        now: Nanos,
        (key, hasher, mark): (&FlowKey, &SipHash13, Dscp),
        packet: Packet,
        acks: &dyn Fn(Packet) -> Option<Ack>,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let _ = (mark, acks);
        self.enqueue_key(now, key, hasher, packet, drops)
    }
}

/// Implements both methods of [`Bottleneck`] by inherent methods with these names.
macro_rules! line_and_overhead {
    () => {
        fn line(&self) -> &Shaper {
            self.line()
        }

        fn overhead(&self) -> Overhead {
            self.overhead()
        }

        fn set_rate(&mut self, now: Nanos, rate: Rate) {
            self.set_rate(now, rate);
        }
    };
}

use line_and_overhead;

impl<S: Table<Descriptor>> Bottleneck for Shaped<Fifo<S>> {
    line_and_overhead!();
}

impl<S: Table<Descriptor>> Bottleneck for Shaped<DualPi2<S>> {
    line_and_overhead!();
}

impl<O, M, A, D> Bottleneck for Shaped<FlowQueues<O, M, A, D>>
where
    O: FlowScheduler,
    M: Tables<O>,
    A: Aqm,
    D: DropPolicy<O>,
{
    line_and_overhead!();

    fn flow_backlog(&self, flow: FlowId) -> Option<Backlog> {
        Some(self.inner().flow_backlog(flow))
    }
}

impl<O, M, A, D, L> Bottleneck for Shaped<Hashed<FlowQueues<O, M, A, D>>>
where
    O: FlowScheduler,
    M: Tables<O, Directory = HashDirectory<L>>,
    A: Aqm,
    D: DropPolicy<O>,
    L: Table<TagLine>,
{
    line_and_overhead!();

    fn lookups(&self) -> Option<flowhash::Counts> {
        Some(self.inner().queues().directory().table().counts())
    }
}

impl Discipline {
    /// The compared disciplines, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Smart, Self::Fifo, Self::Drr, Self::Sqf, Self::SqfFloor, Self::Qfq];

    /// All disciplines that have a name.
    pub const NAMED: [Self; 8] = [
        Self::Fifo,
        Self::Drr,
        Self::Sqf,
        Self::SqfFloor,
        Self::SqfFlush,
        Self::SqfFloorFlush,
        Self::Qfq,
        Self::Smart,
    ];

    /// Returns floor and flush time of shortest queue first; `None` for other disciplines.
    const fn options_of_sqf(self) -> Option<(FloorShare, Option<Nanos>)> {
        match self {
            Self::Fifo | Self::Drr | Self::Qfq | Self::Smart => None,
            Self::Sqf => Some((FloorShare::NONE, None)),
            Self::SqfFloor => Some((FloorShare::EIGHTH, None)),
            Self::SqfFlush => Some((FloorShare::NONE, Some(UNSERVED))),
            Self::SqfFloorFlush => Some((FloorShare::EIGHTH, Some(UNSERVED))),
        }
    }

    /// Returns true if the discipline flushes queues.
    #[must_use]
    pub const fn flushes(self) -> bool {
        matches!(self.options_of_sqf(), Some((_, Some(_))))
    }

    /// Returns the maximum packet length, in bytes.
    #[must_use]
    pub const fn longest(self) -> u32 {
        match self {
            Self::Qfq => Qfq::<Vec<QfqFlow>>::MAX_LEN,
            _ => Packet::MAX_LEN,
        }
    }

    /// Returns the name on command lines and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Drr => "drr",
            Self::Sqf => "sqf",
            Self::SqfFloor => "sqf+floor",
            Self::SqfFlush => "sqf+flush",
            Self::SqfFloorFlush => "sqf+floor+flush",
            Self::Qfq => "qfq",
            Self::Smart => "smart_queue",
        }
    }

    /// Creates an empty queue of this discipline in front of `line`, with equal weights.
    ///
    /// Handles are numbered up to `limits.packets`, inclusively: the arrival that exceeds the limit
    /// has one too. `max_len` is the longest packet in bytes, clamped to
    /// `1..=`[`Discipline::longest`]. Longer packets are rejected, except by a FIFO.
    #[must_use]
    pub fn behind(
        self,
        line: Shaper,
        link: Overhead,
        limits: Limits,
        max_len: u32,
    ) -> Box<dyn Bottleneck> {
        let max_len = max_len.clamp(1, self.longest());
        let within = "every flow is below QUEUES and the length was clamped";
        let room = descriptors(limits);
        match self {
            Self::Fifo => Box::new(Shaped::new(Fifo::tail_drop(room, limits), line, link)),
            Self::Drr => {
                let drr = drr(QUEUES, max_len).expect(within);
                Box::new(Shaped::new(
                    by_hash(drr, longest(QUEUES), NoAqm, room, limits),
                    line,
                    link,
                ))
            }
            Self::Sqf | Self::SqfFloor | Self::SqfFlush | Self::SqfFloorFlush => {
                let (share, flush) = self.options_of_sqf().expect("one of SQF");
                let mut sqf = sqf(QUEUES, share).expect(within);
                if let Some(after) = flush {
                    sqf = sqf.flush_unserved(after).expect(within);
                }
                Box::new(Shaped::new(by_hash(sqf, OwnVictim, NoAqm, room, limits), line, link))
            }
            Self::Qfq => {
                let qfq = qfq(QUEUES, max_len).expect(within);
                Box::new(Shaped::new(
                    by_hash(qfq, longest(QUEUES), NoAqm, room, limits),
                    line,
                    link,
                ))
            }
            Self::Smart => {
                let (isolation, aqm, l4s) = (Isolation::DualSrcHost, AqmKind::Cobalt, true);
                isolated_smart(isolation, aqm, l4s, line, link, limits, max_len)
            }
        }
    }
}

/// Returns a shaper for a link with this rate in Mbit/s.
///
/// # Panics
/// If the rate is out of the range of [`Rate`].
#[must_use]
pub fn line(megabits: u64) -> Shaper {
    Shaper::new(Rate::megabits_per_second(megabits).expect("a rate that lines have"))
}

/// Creates a queue with shortest queue first, this floor, and CoDel in each queue.
///
/// # Errors
/// Invalid parameters of [`CoDel`].
pub fn sqf_with_codel(
    floor: FloorShare,
    params: CoDelParams,
    line: Shaper,
    link: Overhead,
    limits: Limits,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let codel = CoDel::new(vec![CoDelState::EMPTY; QUEUES as usize], params)?;
    let queue = by_hash(sqf(QUEUES, floor)?, OwnVictim, codel, descriptors(limits), limits);
    Ok(Box::new(Shaped::new(queue, line, link)))
}

/// Creates a queue like [`Discipline::Drr`], with CoDel in each queue.
///
/// # Errors
/// Invalid parameters of [`CoDel`].
pub fn drr_with_codel(
    params: CoDelParams,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let drr = drr(QUEUES, max_len.clamp(1, Packet::MAX_LEN))?;
    let codel = CoDel::new(vec![CoDelState::EMPTY; QUEUES as usize], params)?;
    let queue = by_hash(drr, longest(QUEUES), codel, descriptors(limits), limits);
    Ok(Box::new(Shaped::new(queue, line, link)))
}

/// Creates descriptors for all packets within the limit and the arrival that exceeds it.
pub(crate) fn descriptors(limits: Limits) -> Vec<Descriptor> {
    vec![Descriptor::EMPTY; limits.packets as usize + 1]
}

pub(crate) fn longest(flows: u32) -> LongestQueueDrop<Vec<LongestFlow>> {
    LongestQueueDrop::new(vec![LongestFlow::EMPTY; flows as usize])
}

/// Creates a deficit round robin scheduler for `flows` flows with a quantum of the longest packet.
pub(crate) fn drr(flows: u32, max_len: u32) -> Result<Drr<Vec<DrrFlow>>, ConfigError> {
    let mut scheduler = Drr::new(vec![DrrFlow::EMPTY; flows as usize], max_len)?;
    scheduler.add_all(max_len)?;
    Ok(scheduler)
}

/// Creates a quick fair queueing scheduler for `flows` flows with equal weights.
fn qfq(flows: u32, max_len: u32) -> Result<Qfq<Vec<QfqFlow>>, ConfigError> {
    let mut scheduler = Qfq::new(vec![QfqFlow::EMPTY; flows as usize], max_len)?;
    for flow in (0..flows).map(FlowId) {
        scheduler.configure(flow, QfqConfig { weight: 1, max_len }, None)?;
    }
    Ok(scheduler)
}

/// Creates a shortest-queue-first scheduler for `flows` flows.
pub(crate) fn sqf(
    flows: u32,
    floor: FloorShare,
) -> Result<ShortestQueue<Vec<LengthFlow>, Vec<WaitingFlow>>, ConfigError> {
    let room = flows as usize;
    let mut scheduler = ShortestQueue::new(vec![LengthFlow::EMPTY; room])
        .service_floor(floor, vec![WaitingFlow::EMPTY; room])?;
    for flow in (0..flows).map(FlowId) {
        scheduler.configure(flow, (), None)?;
    }
    Ok(scheduler)
}

/// Queues of numbered flows, with this AQM in each queue and this drop policy.
pub(crate) type ByNumber<O, A, D> =
    FlowQueues<O, (Vec<Queue>, Vec<Descriptor>, [FlowRecord; 0]), A, D>;

/// Creates a queue for each flow of `scheduler`.
pub(crate) fn by_number<O: FlowScheduler, A: Aqm, D: DropPolicy<O>>(
    scheduler: O,
    policy: D,
    aqm: A,
    descriptors: Vec<Descriptor>,
    limits: Limits,
) -> ByNumber<O, A, D> {
    let queues = vec![Queue::EMPTY; scheduler.flows() as usize];
    let queues = FlowQueues::with_parts(scheduler, aqm, queues, descriptors, [], limits);
    queues.with_drop_policy(policy)
}

/// Queues of flows selected by hash, with this AQM in each queue and this drop policy.
pub(crate) type ByHash<O, A, D> = Hashed<FlowQueues<O, ByHashTables, A, D>>;
type ByHashTables = (Vec<Queue>, Vec<Descriptor>, [FlowRecord; 0], HashDirectory<Vec<TagLine>>);

/// Variant of [`by_number`] with [`QUEUES`] queues selected by hash.
pub(crate) fn by_hash<O: FlowScheduler, A: Aqm, D: DropPolicy<O>>(
    scheduler: O,
    policy: D,
    aqm: A,
    descriptors: Vec<Descriptor>,
    limits: Limits,
) -> ByHash<O, A, D> {
    let lines = vec![TagLine::EMPTY; QUEUES.div_ceil(8) as usize];
    let table = flowhash::FlowTable::new(lines, QUEUES, flowhash::DEFAULT_WAYS)
        .expect("a power of two, and eight queues a line");
    Hashed::over(by_number(scheduler, policy, aqm, descriptors, limits), table)
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error for an unknown name of a discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDiscipline {
    /// The unknown name.
    pub word: String,
}

impl fmt::Display for UnknownDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Discipline::NAMED.map(Discipline::name).join(", ");
        write!(f, "{:?} is not a scheduler (expected {names})", self.word)
    }
}

impl core::error::Error for UnknownDiscipline {}

impl FromStr for Discipline {
    type Err = UnknownDiscipline;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMED.into_iter().find(|discipline| discipline.name() == word);
        found.ok_or_else(|| UnknownDiscipline { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::sched_core::{DropReason, Nanos, Packet};

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for discipline in Discipline::NAMED {
            assert_eq!(discipline.to_string().parse(), Ok(discipline));
        }
        let error = "sfq".parse::<Discipline>().unwrap_err();
        assert!(error.to_string().starts_with("\"sfq\" is not a scheduler (expected fifo, drr"));
    }

    /// Goal: each name selects the right parts. Method: flow 0 sends four packets of 1,000 bytes,
    /// flow 1 two of 100, into a queue limited to five. A FIFO rejects the last arrival and keeps
    /// the order; the others drop the first packet of flow 0. DRR then gives flow 0 its turn of
    /// 1,500 bytes, two packets, and so does the smart queue, in which both flows belong to one
    /// host. SQF sends flow 1 first, also with a floor, which takes effect after more bytes. QFQ
    /// rounds starts down to 2,048 bytes, so that flow 0 sends its third packet (start 2,000)
    /// before flow 1.
    #[test]
    fn each_discipline_serves_and_drops_in_its_own_order() {
        for (discipline, gone, order) in [
            (Discipline::Fifo, (5, DropReason::Rejected), vec![0, 1, 2, 3, 4]),
            (Discipline::Drr, (0, DropReason::Overflow), vec![1, 2, 4, 5, 3]),
            (Discipline::Sqf, (0, DropReason::Overflow), vec![4, 5, 1, 2, 3]),
            (Discipline::SqfFloor, (0, DropReason::Overflow), vec![4, 5, 1, 2, 3]),
            (Discipline::SqfFlush, (0, DropReason::Overflow), vec![4, 5, 1, 2, 3]),
            (Discipline::SqfFloorFlush, (0, DropReason::Overflow), vec![4, 5, 1, 2, 3]),
            (Discipline::Qfq, (0, DropReason::Overflow), vec![1, 2, 3, 4, 5]),
            (Discipline::Smart, (0, DropReason::Overflow), vec![1, 2, 4, 5, 3]),
        ] {
            let line = Shaper::new(Rate::UNLIMITED);
            let mut queue = discipline.behind(line, Overhead::RAW, Limits::packets(5), 1_500);
            let mut lost = Vec::new();
            let sink = &mut |packet: Packet, why| lost.push((packet.handle, why));
            let burst = [(0, 1_000), (0, 1_000), (0, 1_000), (0, 1_000), (1, 100), (1, 100)];
            for ((flow, len), handle) in burst.into_iter().zip(0..) {
                queue.enqueue_burst(Nanos(0), &[(FlowId(flow), Packet::new(handle, len))], sink);
            }
            let sent = || queue.dequeue(Nanos(0), sink).map(|packet| packet.handle);
            assert_eq!(core::iter::from_fn(sent).collect::<Vec<_>>(), order, "{discipline}");
            assert_eq!(lost, [gone], "{discipline}");
            assert_eq!(queue.recount(), Ok(()));
        }
    }

    #[test]
    fn a_length_no_packet_can_have_counts_as_the_nearest() {
        for discipline in Discipline::ALL {
            for max_len in [0, u32::MAX] {
                let line = Shaper::new(Rate::UNLIMITED);
                let mut queue = discipline.behind(line, Overhead::RAW, Limits::packets(5), max_len);
                let sink = &mut |_, _| unreachable!("there is room");
                assert!(queue.enqueue(Nanos(0), FlowId(9), Packet::new(5, 1), sink).is_ok());
            }
        }
    }

    #[test]
    fn lookups_are_counted_where_flows_are_told_apart() {
        for discipline in Discipline::ALL {
            let line = Shaper::new(Rate::UNLIMITED);
            let mut queue = discipline.behind(line, Overhead::RAW, Limits::packets(5), 1_500);
            let flows = [7, 7, 8].map(FlowId).into_iter();
            let burst: Vec<_> = flows.zip((0..).map(|handle| Packet::new(handle, 9))).collect();
            queue.enqueue_burst(Nanos(0), &burst, &mut |_, _| unreachable!("there is room"));
            let expected = flowhash::Counts { hits: 1, claims: 2, collisions: 0 };
            let is_counted = ![Discipline::Fifo, Discipline::Smart].contains(&discipline);
            assert_eq!(queue.lookups(), is_counted.then_some(expected));
            assert_eq!(queue.line().rate(), Rate::UNLIMITED);
        }
    }
}
