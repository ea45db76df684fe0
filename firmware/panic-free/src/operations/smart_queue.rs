//! The assembled queue, with frames and by descriptor.

use core::hint::black_box;

use conformance::catalog::Parts;
use freeboard::flowhash::{
    Ack, ByAddress, HostBy, HostIdentity, HostKey, HostMap, HostMember, Labels, Nat, NoNat,
    PrefixLengths, parse,
};
use freeboard::sched_core::{
    AqmChoice, AqmSetting, ChosenAqmState, DropReason, DropSink, Packet, Scheduler, TokenBucket,
};
use freeboard::shaper::{Overhead, Rate, Shaper};
use freeboard::{
    AckFilter, Acks, Allocate, AqmKind, AqmMemory, BufferState, CookieSlot, Cookies, DeviceRoom,
    Frames, Fwmark, HostRules, HostTerms, InTin, IsolatedMemory, Isolation, MemoryLimit,
    QueueSettings, Rtt, Segmenter, SmartQueue, SmartQueueBuilder, StaticDescriptors, StaticFrames,
    Storage, TinBy, TinMode, TinPlan, clear_dscp, mark_congestion,
};

use super::schedulers::{limits, now, scheduler, segments, sink};
use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static SMART_QUEUES: &[fn()] = sizes![frames descriptors with_cookies];

/// Tables on the stack have this length, so that no stack frame exceeds the limits of the compilers
/// of all targets.
#[unsafe(no_mangle)]
static SMART_QUEUES_WITH_ALL: &[fn()] =
    &[frames_over::<1>, frames_over::<64>, descriptors_in::<1>, descriptors_in::<64>];

/// Returns a builder with settings unknown to the compiler.
fn builder() -> SmartQueueBuilder {
    let rate = Rate::bits_per_second(any().into()).unwrap_or(Rate::UNLIMITED);
    let builder = if any() > 0 { SmartQueue::upload(rate) } else { SmartQueue::download(rate) };
    let builder = builder.isolation(*black_box(&Isolation::Flows)).limits(limits());
    let builder = builder.rtt(*black_box(&Rtt::LAN)).overhead(*black_box(&Overhead::DOCSIS));
    let builder = builder.max_len(any()).catch_up(now()).memory_limit(MemoryLimit::ByRate);
    let builder = builder.aqm(*black_box(&AqmKind::CoDel)).l4s(any() > 0);
    let builder = builder.ack_filter(*black_box(&AckFilter::Conservative));
    let builder = builder.tins(*black_box(&TinMode::Diffserv4));
    if any() > 0 { builder.raw_ip() } else { builder }
}

fn frames<const N: usize>() {
    let mut memory = StaticFrames::<N, 64, 2, 4>::new();
    if let Ok(mut queue) = builder().frames_in(black_box(&mut memory), black_box([0; 16])) {
        with_frames(&mut queue);
        common(&mut queue);
    }
}

fn frames_over<const N: usize>() {
    let memory = IsolatedMemory::<Parts<N>>::allocate(any() as usize, 8, 4, any() as usize);
    let memory = memory.with_rates();
    let mut maker = Parts::<N>::default();
    let Ok(states) = maker.table(ChosenAqmState::EMPTY, any() as usize);
    let Ok(settings) = maker.tins(AqmSetting::EMPTY, any() as usize);
    let Ok(plan) = maker.one(TinPlan::EMPTY);
    let aqm = AqmMemory { states, settings, plan };
    let Ok(bytes) = maker.table(0, any() as usize);
    let Ok(states) = maker.table(BufferState::EMPTY, any() as usize);
    let built = builder().frames_over(memory, aqm, bytes, states, [0; 16]);
    if let Ok(queue) = built {
        let ceiling = TokenBucket::new(any().into(), any()).ok();
        let rules = move |_| HostTerms { ceiling, ..HostTerms::default() };
        let queue = queue.with_nat(NoNat).with_host_rules(rules);
        let by = *black_box(&HostBy::Prefix(PrefixLengths::SUBNETS));
        let members = black_box([HostMember::v4([0; 4], 0), HostMember::mac([1; 6], 1)]);
        let Ok(map) = HostMap::new(by, members) else { return };
        let mut queue = queue.with_host_identity(map);
        with_frames(&mut queue);
        common(&mut queue);
    }
}

fn with_frames<S: Storage, N: Nat, R: HostRules, I: HostIdentity>(
    queue: &mut SmartQueue<S, Frames<S, N, R, I>>,
) {
    let bytes = black_box(&[0; 80][..]);
    let mut other = [0; 80];
    one_of!(queue;
        queue.push(now(), bytes);
        queue.push_with(now(), any() as usize, |place| place.fill(7));
        queue.update_host(now(), HostKey::V4(black_box([0; 4])));
        queue.rotate(black_box([1; 16]));
        queue.set_isolation(*black_box(&Isolation::DualDstHost));
        queue.set_tins(*black_box(&TinMode::Precedence));
        queue.set_limits(limits());
        queue.set_memory_limit(black_box(Some(MemoryLimit::ByRate)));
        queue.set_wash(any() > 0);
        (queue.settings(), queue.waited(now()));
        queue.push_marked(now(), any(), bytes);
        Segmenter::ethernet(bytes, any() as u16).map(|cut| queue.push_segments(now(), cut));
        Segmenter::ip(bytes, any() as u16).map(|cut| queue.push_marked_segments(now(), any(), cut));
        Segmenter::ethernet(bytes, any() as u16).map(|cut| written(cut, black_box(&mut other)));
        Segmenter::offloaded(bytes, any() as u16, any() as usize)
            .map(|cut| written(cut, black_box(&mut other)));
        seen(queue.pop(now()).as_deref().map(<[u8]>::len));
        queue.clear();
        queue.recount();
        queue.buffers();
        parse::ethernet(bytes).ip.map(|ip| mark_congestion(black_box(&mut other), &ip));
        parse::ethernet(bytes).ip.map(|ip| clear_dscp(black_box(&mut other), &ip));
    );
}

/// Writes all segments, each over the previous one.
fn written(segmenter: Segmenter<'_>, place: &mut [u8]) -> (u32, (usize, usize), Option<usize>) {
    let mut segmenter = if any() > 0 { segmenter.with_accurate_ecn() } else { segmenter };
    let said = (segmenter.segments().count(), segmenter.open_checksum());
    while segmenter.write_next(place).is_some() {}
    (said.0, said.1, segmenter.next_len())
}

fn descriptors<const N: usize>() {
    let mut memory = StaticDescriptors::<N, 8, 4>::new();
    let (tables, aqm) = memory.memory();
    if let Ok(mut queue) = builder().descriptors_in(tables, aqm) {
        by_descriptor(&mut queue);
        common(&mut queue);
    }
}

fn descriptors_in<const N: usize>() {
    let memory = IsolatedMemory::<Parts<N>>::allocate(any() as usize, 8, 4, any() as usize);
    let memory = memory.with_rates().with_triple(any() as usize);
    let aqm = memory.aqm();
    if let Ok(mut queue) = builder().descriptors_in(memory, aqm) {
        by_descriptor(&mut queue);
        common(&mut queue);
    }
}

fn by_descriptor<S: Storage>(queue: &mut SmartQueue<S>) {
    scheduler(queue);
    let labels = Labels { flow: any(), src_host: any(), dst_host: any() };
    let packet = Packet::new(any(), any());
    let acks = |_: Packet| Ack::read(black_box(&[0; 80][..]), &parse::ip(black_box(&[0; 80][..])));
    let mut reader = builder().reader(black_box([1; 16])).with_identity(ByAddress);
    let frame = black_box(&[0; 80][..]);
    let parsed = reader.parse(frame);
    let read = reader.read(frame, &parsed, any(), queue.tins());
    (reader.set_tin_by(TinBy::Priority), reader.set_fwmark(Fwmark::new(any())));
    let packet = Packet { ecn: read.ecn(), ..packet };
    let of_frame = InTin { labels: reader.labels(&read, reader.labeller()), tin: read.tin };
    one_of!(queue;
        queue.enqueue(now(), &labels, packet, sink!());
        queue.enqueue(now(), &of_frame, packet, sink!());
        queue.enqueue(now(), &InTin { labels, tin: any() as u8 }, packet, sink!());
        queue.enqueue_with_acks(now(), &labels, packet, &acks, sink!());
        queue.dequeue(now(), sink!());
        queue.settings();
        queue.enqueue_segmented(now(), &labels, packet, &|_| segments(), sink!());
        queue.dequeue_segmented(now(), &|_| segments(), sink!());
        queue.set_limits(limits(), sink!());
        queue.set_memory_limit(black_box(Some(MemoryLimit::Bytes(any()))), sink!());
        queue.enqueue_from(now(), &labels, packet, &mut Read);
        queue.update_host(now(), &labels);
        queue.relabel(|_| black_box(labels));
        queue.apply(now(), black_box(&QueueSettings::NONE), |_| black_box(labels), sink!());
        queue.set_isolation(*black_box(&Isolation::DualDstHost), |_| black_box(labels));
        queue.set_tins(*black_box(&TinMode::Precedence), |_| black_box(labels));
    );
}

/// Buffers with acknowledgements.
struct Read;

impl DropSink for Read {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        seen((packet, reason));
    }
}

impl Acks for Read {
    fn ack(&self, _: Packet) -> Option<Ack> {
        Ack::read(black_box(&[0; 80][..]), &parse::ip(black_box(&[0; 80][..])))
    }
}

/// Operations of `Cookies`, around a queue with as many handles as there are slots.
fn with_cookies<const N: usize>() {
    let mut memory = StaticDescriptors::<N, 8, 4>::new();
    let (tables, aqm) = memory.memory();
    let Ok(mut queue) = builder().descriptors_in(tables, aqm) else { return };
    let mut cookies = Cookies::new([CookieSlot::<u32>::EMPTY; N]);
    let (cookies, drops) = (&mut cookies, &mut |cookie: u32, why| seen((cookie, why)));
    let labels = Labels { flow: any(), src_host: any(), dst_host: any() };
    one_of!(cookies;
        cookies.enqueue(&mut queue, any(), drops, |queue, handle, sink| {
            queue.enqueue(now(), &labels, Packet::new(handle, any()), sink)
        });
        cookies.dequeue(&mut queue, now(), drops);
        queue.drain(&mut cookies.sink(drops));
        cookies.sink(drops).get(any()).copied();
        (cookies.len(), cookies.is_empty(), cookies.take(any()));
        (cookies.get(any()).copied(), cookies.get_mut(any()).copied());
    );
}

/// Operations of both levels.
fn common<S: Storage, P>(queue: &mut SmartQueue<S, P>) {
    one_of!(queue;
        queue.poll_at(now());
        queue.set_rate(now(), *black_box(&Rate::STOPPED));
        queue.set_rtt(*black_box(&Rtt::METRO));
        queue.set_overhead(*black_box(&Overhead::RAW));
        queue.set_device(black_box(DeviceRoom::Takes(any())));
        (queue.add_room(any()), queue.device());
        (queue.backlog(), queue.counters(), queue.limits(), queue.handles());
        queue.reset_line();
        queue.set_line(Shaper::new(*black_box(&Rate::STOPPED)));
        queue.set_aqm_params(*black_box(&AqmChoice::None));
        queue.set_aqm(*black_box(&AqmKind::Cobalt));
        queue.set_l4s(any() > 0);
        queue.set_ingress(any() > 0);
        (queue.is_ingress(), queue.memory_limit(), queue.memory_held());
        (queue.aqm(), queue.is_l4s());
        (queue.set_ack_filter(AckFilter::Off), queue.ack_filter());
        queue.isolated().isolation();
        (queue.line().due(), queue.overhead(), queue.rtt(), queue.isolation());
        queue.backlogged_hosts();
        (queue.statistics(), queue.tin_statistics(any() as u8));
        queue.tins().count();
        queue.tin_counters(any() as u8);
    );
}
