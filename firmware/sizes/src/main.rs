//! One part of the library in a bare-metal program: 64 flows and 128 packets in static memory,
//! unless variables of the environment say otherwise. A feature selects the part. `cargo xtask
//! sizes` builds each program to measure its size; none is run.
//!
//! The compiler does not know the inputs ([`any`]) and cannot remove the outputs ([`seen`]).
#![no_std]
#![no_main]

use core::hint::black_box;

use freeboard::flowhash::{FlowTable, Labels, SipHash13, TagLine, parse};
use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Cobalt, CobaltParams, CobaltState, Descriptor, DropPolicy,
    DropReason, DropSink, Drr, DrrFlow, Fifo, FlowId, FlowQueues, FlowScheduler, LengthFlow,
    Limits, LongestFlow, LongestQueueDrop, Nanos, NoAqm, OwnVictim, Packet, Qfq, QfqConfig,
    QfqFlow, Queue, Rejected, Scheduler, ShortestQueue, Wf2q, Wf2qConfig, Wf2qFlow,
};
use freeboard::shaper::{Autorate, AutorateParams, Overhead, Rate, Shaped, Shaper};
use freeboard::{
    Hashed, Isolated, IsolatedConfig, LabelledScheduler, QueueSettings, SmartQueue,
    SmartQueueBuilder, StaticDescriptors, StaticFrameQueue, StaticFrames, StaticTables,
};

/// Groups of 32 queues and 8 hosts, and their queues including a spare one per host.
const GROUPS: usize = number(option_env!("SIZES_GROUPS"), 2);
const QUEUES: usize = GROUPS * (32 + 8);
const FLOWS: usize = GROUPS * 32;
const PACKETS: usize = number(option_env!("SIZES_PACKETS"), 128);
/// Longest packet in bytes.
const MAX_LEN: u32 = number(option_env!("SIZES_FRAME_LEN"), 1_514) as u32;
const TINS: usize = if cfg!(feature = "tins") { number(option_env!("SIZES_TINS"), 4) } else { 1 };

/// Returns the number in `text`, or `default` without a text.
const fn number(text: Option<&str>, default: usize) -> usize {
    let Some(text) = text else { return default };
    match usize::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a variable SIZES_… is not a number"),
    }
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    stop()
}

fn stop() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Returns a value that the compiler does not know.
fn any<T: Default>() -> T {
    black_box(T::default())
}

/// Makes the compiler compute `value`.
fn seen<T>(value: T) {
    black_box(value);
}

/// Returns the value. `unwrap` would format the error.
fn built<T, E>(result: Result<T, E>) -> T {
    let Ok(value) = result else { stop() };
    value
}

/// Returns a reference to a `static` with this value.
macro_rules! memory {
    ($type:ty = $value:expr) => {{
        static mut MEMORY: $type = $value;
        // SAFETY: each use of this macro has its own `static` and is executed once: `_start` runs
        // one row, whose loop comes after all uses.
        unsafe { &mut *&raw mut MEMORY }
    }};
}

macro_rules! table {
    ($entry:ty; $len:expr) => {
        memory!([$entry; $len] = [<$entry>::EMPTY; $len])
    };
}

type Table<T, const LEN: usize> = &'static mut [T; LEN];

/// Defines the entry point: runs the row whose feature is enabled.
macro_rules! rows {
    ($($feature:literal => $row:expr,)*) => {
        #[unsafe(no_mangle)]
        extern "C" fn _start() -> ! {
            $(if cfg!(feature = $feature) { $row })*
            stop()
        }
    };
}

rows! {
    "fifo" => by_number(fifo()),
    "fifo-shaped" => by_number(shaped(fifo())),
    "drr" => by_number(drr(OwnVictim)),
    "drr-longest" => by_number(drr(longest())),
    "sqf" => by_number(sqf()),
    "qfq" => by_number(qfq()),
    "wf2q" => by_number(wf2q()),
    "labels" => labels_alone(),
    "fq-codel" => by_hash(fq_codel(OwnVictim)),
    "fq-codel-shaped" => by_hash(shaped(fq_codel(OwnVictim))),
    "fq-codel-shaped-longest" => by_hash(shaped(fq_codel(longest()))),
    "isolated" => by_labels(isolated(NoAqm)),
    "isolated-cobalt" => by_labels(isolated(cobalt())),
    "descriptors" => by_labels(descriptors()),
    "frames" => frames(builder(), |_, _| ()),
    "keywords" => frames(keywords(), |_, _| ()),
    "autorate" => autorate(),
}

/// Enqueues and dequeues forever.
fn serve<S: Scheduler>(
    mut queue: S,
    enqueue: impl Fn(&mut S, Nanos, Packet, &mut dyn DropSink) -> Result<(), Rejected>,
) -> ! {
    let drops = &mut |packet: Packet, why: DropReason| seen((packet, why));
    loop {
        let now = Nanos(any());
        seen(enqueue(&mut queue, now, Packet::new(any(), any()), drops));
        seen(queue.dequeue(now, drops));
        seen(queue.poll_at(now));
    }
}

fn by_number(queue: impl Scheduler) -> ! {
    serve(queue, |queue, now, packet, drops| queue.enqueue(now, FlowId(any()), packet, drops))
}

fn by_hash(queue: impl Scheduler) -> ! {
    let hasher = SipHash13::new(any());
    serve(queue, |queue, now, packet, drops| {
        queue.enqueue(now, FlowId(labels(&hasher).flow), packet, drops)
    })
}

fn by_labels(queue: impl LabelledScheduler) -> ! {
    let hasher = SipHash13::new(any());
    serve(queue, |queue, now, packet, drops| {
        queue.enqueue_labelled(now, &labels(&hasher), packet, drops)
    })
}

fn frame() -> &'static [u8] {
    black_box(&[])
}

/// Returns the labels of a received frame.
fn labels(hasher: &SipHash13) -> Labels {
    Labels::new(&parse::ethernet(frame()).key, hasher)
}

fn labels_alone() -> ! {
    let hasher = SipHash13::new(any());
    loop {
        seen(labels(&hasher));
    }
}

fn rate() -> Rate {
    built(Rate::bits_per_second(any()))
}

fn shaped<S: Scheduler>(queue: S) -> Shaped<S> {
    Shaped::new(queue, Shaper::new(rate()), black_box(Overhead::PPPOE_LLCSNAP))
}

fn fifo() -> impl Scheduler {
    Fifo::tail_drop(table!(Descriptor; PACKETS), Limits::bytes(any()))
}

fn queues<O: FlowScheduler>(
    scheduler: O,
) -> FlowQueues<O, (Table<Queue, FLOWS>, Table<Descriptor, PACKETS>)> {
    let descriptors = table!(Descriptor; PACKETS);
    FlowQueues::with_own_victim(scheduler, table!(Queue; FLOWS), descriptors, Limits::bytes(any()))
}

type Fair = Drr<Table<DrrFlow, FLOWS>>;

fn fair() -> Fair {
    let mut drr = built(Drr::new(table!(DrrFlow; FLOWS), MAX_LEN));
    built(drr.add_all(MAX_LEN));
    drr
}

fn longest() -> LongestQueueDrop<Table<LongestFlow, FLOWS>> {
    LongestQueueDrop::new(table!(LongestFlow; FLOWS))
}

fn drr(policy: impl DropPolicy<Fair>) -> impl Scheduler {
    queues(fair()).with_drop_policy(policy)
}

fn sqf() -> impl Scheduler {
    queues(ShortestQueue::new(table!(LengthFlow; FLOWS)))
}

fn qfq() -> impl Scheduler {
    let mut queues = queues(built(Qfq::new(table!(QfqFlow; FLOWS), MAX_LEN)));
    let config = QfqConfig { weight: any(), max_len: MAX_LEN };
    built(queues.configure(FlowId(any()), config));
    queues
}

fn wf2q() -> impl Scheduler {
    let mut queues = queues(built(Wf2q::new(table!(Wf2qFlow; FLOWS), MAX_LEN)));
    let config = Wf2qConfig { weight: any(), max_len: MAX_LEN };
    built(queues.configure(FlowId(any()), config));
    queues
}

fn fq_codel(policy: impl DropPolicy<Fair>) -> impl Scheduler {
    let codel = built(CoDel::new(table!(CoDelState; FLOWS), black_box(CoDelParams::INTERNET)));
    let (queues, descriptors) = (table!(Queue; FLOWS), table!(Descriptor; PACKETS));
    let drr = fair().sparse_first();
    let queues = FlowQueues::with_parts(drr, codel, queues, descriptors, [], Limits::bytes(any()));
    let lines = built(FlowTable::new(table!(TagLine; FLOWS / 8), FLOWS as u32, 8));
    Hashed::over(queues.with_drop_policy(policy), lines)
}

type Tables = StaticTables<PACKETS, GROUPS>;

fn cobalt() -> impl Aqm {
    built(Cobalt::new(table!(CobaltState; QUEUES), black_box(CobaltParams::INTERNET), any()))
}

fn isolated(aqm: impl Aqm) -> impl LabelledScheduler {
    let config = black_box(IsolatedConfig::new(MAX_LEN, Limits::bytes(any())));
    built(Isolated::with_aqm(memory!(Tables = Tables::new()).memory(), aqm, config))
}

/// Returns settings that use each enabled part of `freeboard`.
fn builder() -> SmartQueueBuilder {
    let builder = SmartQueue::upload(rate());
    #[cfg(feature = "ack-filter")]
    let builder = builder.ack_filter(freeboard::AckFilter::Conservative);
    #[cfg(feature = "aqms")]
    let builder = builder.aqm(freeboard::AqmKind::Pie);
    #[cfg(feature = "tins")]
    let builder = builder.tins(match TINS {
        8 => freeboard::TinMode::Diffserv8,
        _ => freeboard::TinMode::Diffserv4,
    });
    black_box(builder)
}

fn keywords() -> SmartQueueBuilder {
    builder().settings(&built(QueueSettings::from_words(black_box(""))))
}

type DescriptorMemory = StaticDescriptors<PACKETS, GROUPS>;

fn descriptors() -> impl LabelledScheduler {
    let (tables, aqm) = memory!(DescriptorMemory = DescriptorMemory::new()).memory();
    built(builder().descriptors_in(tables, aqm))
}

type Frames = StaticFrameQueue<'static>;
type FrameMemory = StaticFrames<PACKETS, { MAX_LEN as usize }, GROUPS, TINS>;

/// Sends and receives frames forever, and calls `also` after each.
fn frames(builder: SmartQueueBuilder, mut also: impl FnMut(&mut Frames, Nanos)) -> ! {
    let mut queue = built(builder.frames_in(memory!(FrameMemory = FrameMemory::new()), any()));
    loop {
        let now = Nanos(any());
        seen(queue.push(now, frame()));
        seen(queue.pop(now));
        seen(queue.poll_at(now));
        also(&mut queue, now);
    }
}

/// Runs a queue with keywords, autorate and statistics.
fn autorate() -> ! {
    let mut autorate = Autorate::new(built(AutorateParams::new(rate(), rate(), rate())));
    frames(keywords(), |queue, now| {
        autorate.delay_sample(Nanos(any()));
        queue.set_rate(now, autorate.update(now, any()));
        seen(queue.statistics());
    })
}
