//! Schedulers that select the queue of a flow themselves, by label and by hash; and the buffers
//! behind the handles.

use core::hint::black_box;

use conformance::catalog::{Arrays, ByHash, Dial, Drr, Parts, Recipe, ShortestQueue};
use freeboard::flowhash::{Ack, ByAddress, FlowKey, Labeller, Labels, SipHash13, TagLine, parse};
use freeboard::sched_core::{
    Aqm, DropFrom, DropPolicy, DropReason, DropSink, FlowQueues, FlowScheduler, Packet, Side,
    Table as Memory, Tables, TinConfig, TokenBucket,
};
use freeboard::shaper::Overhead;
use freeboard::{
    AckFilter, Buffers, HashDirectory, Hashed, HostStatistics, HostTerms, Identified, InTin,
    Isolated, IsolatedConfig, IsolatedMemory, Isolation, Labelled, LabelledScheduler, OnDemand,
    StaticTables, Storage,
};

use super::catalog::{config, room};
use super::schedulers::{limits, now, scheduler, sink};
use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static LABELLED: &[fn()] = sizes![hashed isolated buffers];

/// Tables on the stack have this length, so that no stack frame exceeds the limits of the compilers
/// of all targets.
#[unsafe(no_mangle)]
static ISOLATED_WITH_ALL: &[fn()] = &[
    isolated_with_rates::<1>,
    isolated_with_rates::<64>,
    isolated_with_rounds::<1>,
    isolated_with_rounds::<64>,
    isolated_with_both::<1>,
    isolated_with_both::<64>,
];

fn hashed<const N: usize>() {
    let lines = Arrays::<N>;
    let drr = ByHash { of: Drr { sparse_first: false }, lines, ways: any() };
    if let Some(mut hashed) = drr.scheduler(room(lines), lines, limits()) {
        by_hash(&mut hashed);
    }
    let shortest = ByHash { of: ShortestQueue { end: DropFrom::Head }, lines, ways: 16 };
    if let Some(mut hashed) = shortest.scheduler(room(lines), lines, limits()) {
        by_hash(&mut hashed);
    }
}

/// Operations of `Hashed`.
fn by_hash<O, M, A, D, L>(hashed: &mut Hashed<FlowQueues<O, M, A, D>>)
where
    O: FlowScheduler<Config: Dial>,
    M: Tables<O, Directory = HashDirectory<L>>,
    A: Aqm,
    D: DropPolicy<O>,
    L: Memory<TagLine>,
{
    scheduler(hashed);
    let packet = Packet::new(any(), any());
    one_of!(hashed;
        hashed.enqueue_hashed(now(), any(), packet, sink!());
        hashed.configure_queue(any(), config());
        hashed.queues().directory().table().occupied();
        hashed.queues().scheduler().select();
    );
}

fn isolated<const N: usize>() {
    by_config(StaticTables::<N, 8, 4>::new().memory());
}

/// Allocates tables of lengths unknown to the compiler, for an unknown number of tins.
fn allocated<const N: usize>() -> IsolatedMemory<Parts<N>> {
    IsolatedMemory::allocate(any() as usize, any() as usize, any() as usize, any() as usize)
}

fn isolated_with_rates<const N: usize>() {
    by_config(allocated::<N>().with_rates());
}

fn isolated_with_rounds<const N: usize>() {
    by_config(allocated::<N>().with_triple(any() as usize));
}

fn isolated_with_both<const N: usize>() {
    by_config(allocated::<N>().with_rates().with_triple(any() as usize));
}

fn by_config<S: Storage>(memory: IsolatedMemory<S>) {
    let isolation = *black_box(&Isolation::TripleIsolate);
    let mut config = IsolatedConfig::new(any(), limits())
        .isolated_by(isolation)
        .with_local_side(*black_box(&Side::Destination));
    config.quantum = any();
    config.host_quantum = any();
    config.ways = any();
    if let Ok(mut isolated) = Isolated::new(black_box(memory), config) {
        by_labels(&mut isolated);
    }
}

/// Labels of a host with a quantum, a committed rate and a ceiling.
struct Limited(InTin<Labels>);

impl Labelled for Limited {
    fn flow(&self) -> u32 {
        self.0.flow()
    }

    fn source(&self) -> u32 {
        self.0.source()
    }

    fn destination(&self) -> u32 {
        self.0.destination()
    }

    fn tin(&self) -> u8 {
        self.0.tin()
    }

    fn host_terms(&self) -> HostTerms {
        let bucket = || {
            let bucket = TokenBucket::new(any().into(), any()).ok()?;
            let bucket = if any() == 0 { bucket } else { bucket.with_free_borrowing() };
            seen((bucket.bits_per_second(), bucket.burst(), bucket.borrows_free()));
            Some(bucket.with_burst_of_at_least(any()))
        };
        let quantum = black_box(Some(any()));
        HostTerms { quantum, committed_rate: bucket(), ceiling: bucket() }
    }
}

/// Operations of `Isolated`.
fn by_labels<S: Storage>(isolated: &mut Isolated<S>) {
    scheduler(isolated);
    let packet = Packet::new(any(), any());
    let hasher = SipHash13::new([black_box(0); 16]);
    let on_demand = OnDemand { key: black_box(&FlowKey::Unknown), hasher: &hasher };
    let labels = Labels { flow: any(), src_host: any(), dst_host: any() };
    let ack = Ack::new(*black_box(&FlowKey::Unknown), any(), any());
    let (filter, acks) = (*black_box(&AckFilter::Aggressive), |_| *black_box(&Some(ack)));
    let in_tin = InTin { labels, tin: any() as u8 };
    let limited = Limited(in_tin);
    let (parsed, labeller) = (parse::ip(black_box(&[0; 4][..])), Labeller::new(&hasher));
    let identified = Identified {
        parsed: &parsed,
        link: None,
        labeller: &labeller,
        identity: &ByAddress,
        local_side: Side::Source,
    };
    one_of!(isolated;
        isolated.enqueue_labelled(now(), &labels, packet, sink!());
        isolated.enqueue_labelled(now(), &on_demand, packet, sink!());
        isolated.enqueue_labelled(now(), &identified, packet, sink!());
        LabelledScheduler::enqueue_labelled(isolated, now(), &labels, packet, sink!());
        isolated.enqueue_labelled(now(), &InTin { labels: identified, tin: any() as u8 }, packet, sink!());
        isolated.enqueue_labelled(now(), &limited, packet, sink!());
        isolated.update_host(now(), &limited);
        isolated.enqueue_ack(now(), &limited, (packet, &ack), (filter, &acks), sink!());
        isolated.set_tins(black_box(&[TinConfig::by_weight(1); 4][..]));
        (isolated.set_hosts_across_tins(any() == 0), isolated.hosts_across_tins());
        isolated.set_overhead(*black_box(&Overhead::RAW));
        (isolated.tins(), isolated.tin(any() as u8), isolated.tin_counters(any() as u8));
        isolated.relabel(|_| black_box(labels));
        isolated.rebuild(*black_box(&Isolation::Flows), black_box(None), |_| Limited(black_box(in_tin)));
        isolated.rebuild_and_move(
            *black_box(&Isolation::Flows),
            (Some(black_box(&[TinConfig::by_weight(1); 4][..])), |tin| black_box(tin)),
            |_| Limited(black_box(in_tin)),
        );
        (isolated.isolation(), isolated.queue_backlog(any()));
        (isolated.backlogged_hosts(), isolated.flow_totals(), isolated.activations());
        (isolated.host_quantum(any()), isolated.queue_of(&labels));
        (isolated.waited(packet, now()), isolated.host_entries(), isolated.entries_of(&labels));
        seen(isolated.flow_statistics(now()).last());
        isolated.host_statistics(*black_box(&Side::Source), now(), black_box(&mut [HostStatistics::EMPTY; 4]));
        black_box("hosts").parse::<Isolation>();
    );
}

fn buffers<const N: usize>() {
    of_length(&mut Buffers::<N, 64>::new());
    of_length(&mut Buffers::<4, N>::default());
}

/// Operations of `Buffers`.
fn of_length<const COUNT: usize, const LEN: usize>(buffers: &mut Buffers<COUNT, LEN>) {
    let bytes = black_box(&[0; 4][..]);
    one_of!(buffers;
        buffers.free();
        buffers.store(bytes);
        buffers.fill(bytes.len(), |frame| seen(frame.len()));
        buffers.frame(any());
        buffers.frame_mut(any());
        buffers.give_back(any());
        buffers.dropped(Packet::new(any(), any()), black_box(DropReason::Aqm));
    );
}
