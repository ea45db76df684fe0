//! The measured schedulers, by name.

use conformance::catalog::{
    Arrays, Boxes, Dial, Drr, FlowRecipe, LongestQueue, Memory, Qfq, QfqPlus, QueuesRecipe, Room,
    SchedulerOf, Setting, ShortestQueue, Wf2q, queues,
};
use freeboard::flowhash::{FlowTable, TagLine};
use freeboard::sched_core::{
    Aqm, Blue, BlueParams, BlueState, CeThreshold, ClassState, Classes, CoDel, CoDelParams,
    CoDelState, Cobalt, CobaltParams, CobaltState, Descriptor, DropFrom, DrrFlow, DualPi2,
    DualPi2Params, Fifo, FlowId, FlowQueues, FlowRecord, FlowScheduler, Limits, LongestFlow,
    LongestQueueDrop, LowBits, Nanos, NoAqm, Pi2, Pi2Params, Pi2State, Pie, PieParams, PieState,
    Queue, Red, RedParams, RedState, Scheduler, TinConfig,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{
    Dscp, Hashed, Isolated, IsolatedConfig, IsolatedMemory, Isolation, Rtt, SmartQueue,
    SmartQueueBuilder, Tin, TinMode, TinName, TinPlan, TinShare,
};

use super::enqueued_by::{EnqueuedBy, Frames, Header, HostsByHash, OneFlow, TinsByHash};
use super::mix::{BULK_LEN, Mix, Mixed, Wait};
use super::null::{LIMITED, LOOKUP, NOTHING, Null, STRANGER, STRANGER_RELEASED};
use super::{Loop, Pattern};

/// A workload around a scheduler.
pub(crate) trait Subject {
    /// Runs at least `pairs` pairs, checks that they match the workload, and returns the number
    /// run.
    fn run(&mut self, pairs: usize) -> usize;

    /// Returns the queueing delay of sparse flows, in workloads that have them.
    fn wait(&self) -> Option<Wait> {
        None
    }
}

/// The recorded rows; [`subject`] also accepts every flow scheduler of the catalogue by its name
/// there. `hashed_` names flows by hash, the others by number; `_burst` passes whole bursts in FULL
/// and SMALL, and has no effect in OVERLOAD; `_16_ways` has sets of sixteen, all others of eight.
pub(crate) const NAMES: [&str; 61] = [
    "null",
    "lookup",
    "lookup_claim",
    "lookup_collision",
    "lookup_16_ways",
    "lookup_claim_16_ways",
    "lookup_collision_16_ways",
    "fifo",
    "drr",
    "drr_sparse",
    "drr_lqd",
    "age",
    "sqf_lqd",
    "qfq",
    "qfq_mixed",
    "qfq_distinct",
    "qfq_lqd",
    "qfq_plus",
    "qfq_plus_mixed",
    "qfq_plus_distinct",
    "qfq_over_drr",
    "isolated_dual",
    "isolated_dual_1_host",
    "isolated_dual_32_hosts",
    "isolated_flows",
    "isolated_triple",
    "isolated_triple_32_hosts",
    "isolated_rates_unset",
    "smart_queue",
    "smart_queue_shaped",
    "isolated_tins4",
    "isolated_tins4_within",
    "isolated_triple_tins4",
    "smart_queue_tins4",
    "smart_queue_tins4_within",
    "smart_queue_parsed",
    "smart_queue_tins4_parsed",
    "wf2q",
    "hashed_drr",
    "fq_codel",
    "fq_codel_lqd",
    "fq_red",
    "fq_blue",
    "fq_cobalt",
    "fq_cobalt_ce",
    "fq_pie",
    "fq_pi2",
    "dual_pi2",
    "one_queue",
    "one_codel",
    "one_blue",
    "one_cobalt",
    "one_cobalt_ce",
    "one_red",
    "one_pie",
    "one_pi2",
    "drr_shaped",
    "null_burst",
    "drr_burst",
    "qfq_burst",
    "qfq_mixed_burst",
];

/// The rows measured in mixes.
pub(crate) const MIXED: [&str; 8] = [
    "null",
    "isolated_dual",
    "smart_queue_shaped",
    "smart_queue_parsed",
    "smart_queue_tins4",
    "smart_queue_tins4_parsed",
    "fq_codel",
    "fq_codel_lqd",
];

/// Longest packet of the workloads.
const MTU: u32 = 1_500;

type Tables = (Box<[Queue]>, Box<[Descriptor]>, [FlowRecord; 0]);
type FairQueues<A> = FlowQueues<<Drr as FlowRecipe>::Output<Boxes>, Tables, A>;

const DRR: Drr = Drr { sparse_first: false };
const PLUS: QfqPlus = QfqPlus { members: 8 };

/// Creates the scheduler called `name` with `flows` flows in the closed loop `pattern`, warmed up.
/// A mix has its own flows.
pub(crate) fn subject(name: &str, pattern: Pattern, flows: usize) -> Option<Box<dyn Subject>> {
    if let Pattern::Mix(mix) = pattern {
        return in_mix(name, mix);
    }
    let (name, whole) = name.strip_suffix("_burst").map_or((name, false), |single| (single, true));
    let (name, ways) = name.strip_suffix("_16_ways").map_or((name, 8), |of_eight| (of_eight, 16));
    let lookup_table = || hash_table(queues_for(flows).max(ways as usize), ways);
    let call = (pattern, flows, whole);
    Some(match name {
        "null" if pattern == Pattern::Overload => {
            closed(Null::<LIMITED>::new(descriptors_for(flows), hash_table(8, 8)), call, false)
        }
        "null" => {
            closed(Null::<NOTHING>::new(descriptors_for(flows), hash_table(8, 8)), call, false)
        }
        // Every flow has claimed its queue: only hits.
        "lookup" => {
            let table = lookup_table();
            closed(Null::<LOOKUP>::new(descriptors_for(flows), table), call, true)
        }
        // Half of the queues are claimed. Each packet belongs to a flow never seen before, which
        // claims one of the others (of 100,000 a few collide) and releases it.
        "lookup_claim" => {
            let mut table = lookup_table();
            for queue in (0..table.queues()).step_by(2) {
                table.lookup(queue);
            }
            closed(Null::<STRANGER_RELEASED>::new(descriptors_for(flows), table), call, true)
        }
        // All queues are claimed, and each packet belongs to a flow never seen before: only
        // collisions.
        "lookup_collision" => {
            let mut table = lookup_table();
            for queue in 0..table.queues() {
                table.lookup(queue);
            }
            closed(Null::<STRANGER>::new(descriptors_for(flows), table), call, true)
        }
        "fifo" => {
            let descriptors = Boxes(descriptors_for(flows)).of(Descriptor::EMPTY);
            closed(Fifo::tail_drop(descriptors, Limits::NONE), call, false)
        }
        "drr" => alone(DRR, turn, call),
        "drr_sparse" => alone(Drr { sparse_first: true }, turn, call),
        "drr_lqd" => alone(LongestQueue { of: DRR, end: DropFrom::Head }, turn, call),
        "sqf_lqd" => alone(ShortestQueue { end: DropFrom::Head }, turn, call),
        "qfq" => alone(Qfq, |_| 1, call),
        "qfq_mixed" => alone(Qfq, mixed, call),
        "qfq_distinct" => alone(Qfq, |flow| distinct(flow, flows), call),
        "qfq_lqd" => alone(LongestQueue { of: Qfq, end: DropFrom::Head }, |_| 1, call),
        // Aggregates of up to eight flows.
        "qfq_plus" => alone(PLUS, |_| 1, call),
        "qfq_plus_mixed" => alone(PLUS, mixed, call),
        "qfq_plus_distinct" => alone(PLUS, |flow| distinct(flow, flows), call),
        // The whole isolated queue by hash, each flow the only one of its hosts.
        "isolated_dual" => closed(isolated(flows, 1, Isolation::DualSrcHost), call, true),
        "isolated_triple" => closed(isolated(flows, 1, Isolation::TripleIsolate), call, true),
        // Isolated queue in a mode without hosts.
        "isolated_flows" => closed(isolated(flows, 1, Isolation::Flows), call, true),
        // Isolated queue with few hosts, to which flows are assigned by their hash.
        "isolated_dual_1_host" => {
            closed(of_hosts(isolated(flows, 1, Isolation::DualSrcHost), 0), call, true)
        }
        "isolated_dual_32_hosts" => {
            closed(of_hosts(isolated(flows, 1, Isolation::DualSrcHost), 31), call, true)
        }
        "isolated_triple_32_hosts" => {
            closed(of_hosts(isolated(flows, 1, Isolation::TripleIsolate), 31), call, true)
        }
        // Behind a shaper that is faster than the loop.
        "drr_shaped" => {
            let queues = queued(scheduler(DRR, flows, turn), flows);
            closed(Shaped::new(queues, Shaper::new(fastest()), Overhead::RAW), call, false)
        }
        // `isolated_dual` with tables for committed rates, none of which is set.
        "isolated_rates_unset" => {
            let config = IsolatedConfig::new(MTU, Limits::NONE);
            let (queues, hosts) = isolated_tables(flows);
            let packets = descriptors_for(flows);
            let memory = IsolatedMemory::<Boxes>::allocate(queues, hosts, 1, packets);
            let queue = Isolated::new(memory.with_rates(), config);
            closed(queue.expect("powers of two"), call, true)
        }
        // `isolated_dual` with CoDel and a device that is ready, on an unlimited link, and on one
        // that is faster than the loop.
        "smart_queue" => closed(smart_queue(flows, Rate::UNLIMITED, one_tin()), call, true),
        "smart_queue_shaped" => closed(smart_queue(flows, fastest(), one_tin()), call, true),
        // Both with four tins, selected by the hash of a flow. All tins exceed their shares, which
        // are equal: departures equal arrivals in each, and each keeps its backlog.
        "isolated_tins4" => {
            let mut queue = isolated(flows, 4, Isolation::DualSrcHost);
            let tin = TinConfig::by_weight(1).with_rate(1_000_000_000);
            queue.set_tins(&[tin; 4]).expect("room for four tins");
            standing(EnqueuedBy { queue, way: TinsByHash }, call, |by| {
                by.queue.backlogged_hosts().0
            })
        }
        "isolated_triple_tins4" => {
            let mut queue = isolated(flows, 4, Isolation::TripleIsolate);
            let tin = TinConfig::by_weight(1).with_rate(1_000_000_000);
            queue.set_tins(&[tin; 4]).expect("room for four tins");
            standing(EnqueuedBy { queue, way: TinsByHash }, call, |by| {
                by.queue.backlogged_hosts().0
            })
        }
        "smart_queue_tins4" => {
            let queue = smart_queue(flows, fastest(), four_tins());
            standing(EnqueuedBy { queue, way: TinsByHash }, call, |by| {
                by.queue.backlogged_hosts().0
            })
        }
        // Both with all tins within their shares: those above are empty at once, and most packets
        // find their flow idle.
        "isolated_tins4_within" => {
            let mut queue = isolated(flows, 4, Isolation::DualSrcHost);
            let share = |bits| TinConfig::by_weight(1).with_rate(bits);
            let tins = [400, 25, 200, 100].map(|gbit| share(gbit * 1_000_000_000));
            queue.set_tins(&tins).expect("room for four tins");
            closed(EnqueuedBy { queue, way: TinsByHash }, call, true)
        }
        "smart_queue_tins4_within" => {
            let queue = smart_queue(flows, fastest(), TinMode::Diffserv4.plan());
            closed(EnqueuedBy { queue, way: TinsByHash }, call, true)
        }
        // Without tins, with the headers of frames parsed and hashed.
        "smart_queue_parsed" => {
            let way = Frames::in_turn(descriptors_for(flows), flows);
            closed(EnqueuedBy { queue: smart_queue(flows, fastest(), one_tin()), way }, call, true)
        }
        // Four tins, selected by the code points of the frames.
        "smart_queue_tins4_parsed" => {
            let queue = smart_queue(flows, fastest(), four_tins());
            let way = Frames::in_turn(descriptors_for(flows), flows);
            standing(EnqueuedBy { queue, way }, call, |by| by.queue.backlogged_hosts().0)
        }
        "wf2q" => alone(Wf2q, |_| 1, call),
        // Up to 32 classes of at least 32 flows.
        "qfq_over_drr" => {
            let classes = (flows / 32).clamp(1, 32);
            let each = flows.div_ceil(classes).next_power_of_two();
            let class = |_| {
                let room = (Boxes(each), Boxes(descriptors_for(flows)), Arrays::<0>);
                queues(scheduler(DRR, each, turn), NoAqm, room, Limits::NONE)
            };
            let leaves: Box<[_]> = (0..classes).map(class).collect();
            let split = LowBits::new(each.ilog2()).expect("fewer than 2^31 flows");
            let states = Boxes(classes).of(ClassState::EMPTY);
            let scheduler = scheduler(Qfq, classes, |_| 1);
            closed(Classes::new(scheduler, leaves, states, split, Limits::NONE), call, false)
        }
        "hashed_drr" => {
            let count = queues_for(flows);
            let (scheduler, table) = (scheduler(DRR, count, turn), hash_table(count, 8));
            let (queues, descriptors) = (
                Boxes(count).of(Queue::EMPTY),
                Boxes(descriptors_for(flows)).of(Descriptor::EMPTY),
            );
            closed(
                Hashed::with_own_victim(scheduler, table, queues, descriptors, Limits::NONE),
                call,
                true,
            )
        }
        // Hash, sparse flows first, CoDel: the parts of FQ-CoDel. Then with drops from the longest
        // queue.
        "fq_codel" => closed(Hashed::over(fq_codel(flows), queue_table(flows)), call, true),
        "fq_codel_lqd" => {
            let longest = vec![LongestFlow::EMPTY; queues_for(flows)];
            let queues = fq_codel(flows).with_drop_policy(LongestQueueDrop::new(longest));
            closed(Hashed::over(queues, queue_table(flows)), call, true)
        }
        // With other AQMs.
        "fq_blue" => by_hash(blue(queues_for(flows)), call),
        "fq_cobalt" => by_hash(cobalt(queues_for(flows)), call),
        "fq_cobalt_ce" => by_hash(with_threshold(cobalt(queues_for(flows))), call),
        "fq_red" => by_hash(red(queues_for(flows)), call),
        "fq_pie" => by_hash(pie(queues_for(flows)), call),
        "fq_pi2" => by_hash(pi2(queues_for(flows)), call),
        // The AQMs alone: one queue for the packets of all flows.
        "one_queue" => in_one_queue(NoAqm, call),
        "one_codel" => in_one_queue(codel(1), call),
        "one_blue" => in_one_queue(blue(1), call),
        "one_cobalt" => in_one_queue(cobalt(1), call),
        "one_cobalt_ce" => in_one_queue(with_threshold(cobalt(1)), call),
        "one_red" => in_one_queue(red(1), call),
        "one_pie" => in_one_queue(pie(1), call),
        "one_pi2" => in_one_queue(pi2(1), call),
        "dual_pi2" => {
            let params = DualPi2Params::new(Pi2Params::new(Nanos::from_secs(1)));
            let descriptors = Boxes(descriptors_for(flows)).of(Descriptor::EMPTY);
            let queues = DualPi2::new(descriptors, params, Limits::NONE);
            closed(queues.expect("in range"), call, false)
        }
        _ => return entry(name, call),
    })
}

/// Returns the numbers of queues and hosts for all flows, up to the maximum: with 65,536 flows some
/// share a queue.
fn isolated_tables(flows: usize) -> (usize, usize) {
    (queues_for(flows).min(1 << 15), queues_for(flows).min(1 << 14))
}

/// Creates an isolated queue with hosts and queues for all flows, and tables for `tins` tins.
fn isolated(flows: usize, tins: usize, isolation: Isolation) -> Isolated<Boxes> {
    let (queues, hosts) = isolated_tables(flows);
    let memory = IsolatedMemory::allocate(queues, hosts, tins, descriptors_for(flows));
    let memory = match isolation {
        Isolation::TripleIsolate => memory.with_triple(64 * tins),
        _ => memory,
    };
    let config = IsolatedConfig::new(MTU, Limits::NONE).isolated_by(isolation);
    Isolated::new(memory, config).expect("powers of two")
}

/// Wraps `queue` so that the low bits `mask` of a flow's hash select its hosts.
fn of_hosts<S>(queue: S, mask: u32) -> EnqueuedBy<S, HostsByHash> {
    EnqueuedBy { queue, way: HostsByHash(mask) }
}

/// Uses the longest round-trip time: with 65,536 flows the backlog of FULL lasts longer than the
/// target of others.
fn smart_queue(flows: usize, rate: Rate, tins: TinPlan) -> SmartQueue<Boxes> {
    let builder = SmartQueue::upload(rate).rtt(Rtt::SATELLITE).max_len(MTU);
    let (queues, hosts) = isolated_tables(flows);
    smart_queue_in((queues, hosts, descriptors_for(flows)), builder, tins)
}

/// Creates a smart queue with these numbers of queues, hosts and packets.
fn smart_queue_in(
    (queues, hosts, packets): (usize, usize, usize),
    builder: SmartQueueBuilder,
    tins: TinPlan,
) -> SmartQueue<Boxes> {
    let memory = IsolatedMemory::<Boxes>::allocate(queues, hosts, tins.count().into(), packets);
    let aqm = memory.aqm();
    builder.tins(tins).descriptors_in(memory, aqm).expect("powers of two")
}

fn one_tin() -> TinPlan {
    TinMode::BestEffort.plan()
}

/// Returns four tins with a hundredth of the link each, for CS0 to CS3.
fn four_tins() -> TinPlan {
    let share = TinShare::new(1, 100).expect("a hundredth");
    let tin = |name| Tin::new(TinName::new(name).expect("a name"), share);
    let plan = TinPlan::new(&["a", "b", "c", "d"].map(tin)).expect("four names");
    let dscp = |value| Dscp::new(value).expect("below 64");
    [(8, "b"), (16, "c"), (24, "d")]
        .into_iter()
        .fold(plan, |plan, (value, tin)| plan.with(dscp(value), tin).expect("each once"))
}

fn fastest() -> Rate {
    Rate::bits_per_second(Rate::MAX_BITS_PER_SECOND).expect("in range")
}

/// Creates queues under DRR with sparse flows first and CoDel.
fn fq_codel(flows: usize) -> FairQueues<CoDel<Box<[CoDelState]>>> {
    fair_queues(queues_for(flows), descriptors_for(flows), codel(queues_for(flows)))
}

/// Creates CoDel for `count` queues. Every packet is judged and none is dropped: with 65,536 flows
/// the backlog of FULL lasts 21 ms of the loop's time.
fn codel(count: usize) -> CoDel<Box<[CoDelState]>> {
    let params = CoDelParams::new(Nanos::from_secs(1), Nanos::from_secs(4));
    let codel = CoDel::new(Boxes(count).of(CoDelState::EMPTY), params);
    codel.expect("a target below the interval")
}

/// Creates COBALT with the times of [`codel`].
fn cobalt(count: usize) -> Cobalt<Box<[CobaltState]>> {
    let params = CobaltParams::new(Nanos::from_secs(1), Nanos::from_secs(4));
    let cobalt = Cobalt::new(Boxes(count).of(CobaltState::EMPTY), params, 1);
    cobalt.expect("a target below the interval")
}

/// Adds a threshold for ECT(1) to `aqm` that no packet of the loop approaches.
fn with_threshold<A>(aqm: A) -> CeThreshold<A> {
    CeThreshold::new(aqm, Nanos::from_secs(1)).expect("in range").for_ect1_only()
}

fn blue(count: usize) -> Blue<Box<[BlueState]>> {
    let states = Boxes(count).of(BlueState::EMPTY);
    Blue::new(states, BlueParams::DEFAULT, 1).expect("the defaults")
}

/// Creates RED with thresholds that no queue of the loop reaches.
fn red(count: usize) -> Red<Box<[RedState]>> {
    let states = Boxes(count).of(RedState::EMPTY);
    Red::new(states, RedParams::new(1 << 29, 1 << 30), 1).expect("in range")
}

/// Creates PIE with a target that no queue of the loop approaches: updates are performed, and there
/// are no signals.
fn pie(count: usize) -> Pie<Box<[PieState]>> {
    let states = Boxes(count).of(PieState::EMPTY);
    Pie::new(states, PieParams::new(Nanos::from_secs(1)), 1).expect("in range")
}

/// Creates PI2 with the target of [`pie`].
fn pi2(count: usize) -> Pi2<Box<[Pi2State]>> {
    let states = Boxes(count).of(Pi2State::EMPTY);
    Pi2::new(states, Pi2Params::new(Nanos::from_secs(1)), 1).expect("in range")
}

/// Creates `count` queues under DRR with sparse flows first and this AQM, for `packets` packets.
fn fair_queues<A: Aqm>(count: usize, packets: usize, aqm: A) -> FairQueues<A> {
    let scheduler = scheduler(Drr { sparse_first: true }, count, turn);
    let room = (Boxes(count), Boxes(packets), Arrays::<0>);
    queues(scheduler, aqm, room, Limits::NONE)
}

/// Creates the queues of FQ-CoDel with this AQM.
fn by_hash<A: Aqm + 'static>(aqm: A, call: Call) -> Box<dyn Subject> {
    let queues = fair_queues(queues_for(call.1), descriptors_for(call.1), aqm);
    closed(Hashed::over(queues, queue_table(call.1)), call, true)
}

/// Creates one queue with this AQM for all packets.
fn in_one_queue<A: Aqm + 'static>(aqm: A, call: Call) -> Box<dyn Subject> {
    closed(
        EnqueuedBy { queue: fair_queues(1, descriptors_for(call.1), aqm), way: OneFlow },
        call,
        false,
    )
}

/// Creates the hash table for the queues of `flows`.
fn queue_table(flows: usize) -> FlowTable<Box<[TagLine]>> {
    hash_table(queues_for(flows), 8)
}

/// Pattern, number of flows, and whether bursts are passed whole.
type Call = (Pattern, usize, bool);

/// Returns the catalogue's flow scheduler called `name`.
fn entry(name: &str, call: Call) -> Option<Box<dyn Subject>> {
    macro_rules! by_name {
        ([$wanted:ident] $($name:ident: $recipe:expr,)*) => {
            match $wanted {
                $(stringify!($name) => Some(alone($recipe, turn, call)),)*
                _ => None,
            }
        };
    }
    conformance::flow_schedulers!(by_name, [name])
}

/// Returns the maximum number of packets in the loop.
fn descriptors_for(flows: usize) -> usize {
    Pattern::Overload.queued(flows) + flows.max(64)
}

const fn setting(weight: u32) -> Setting {
    Setting { weight, max_len: MTU }
}

const fn room(flows: usize) -> Room<Boxes> {
    Room { flows: Boxes(flows), max_len: MTU, setting: setting(turn(0)) }
}

/// Creates the flow scheduler with all flows added.
fn scheduler<R: FlowRecipe>(
    recipe: R,
    flows: usize,
    weight: impl Fn(u32) -> u32,
) -> R::Output<Boxes> {
    let mut scheduler = recipe.flow_scheduler(room(flows)).expect("sizes in range");
    for flow in 0..flows as u32 {
        let config = Dial::of(setting(weight(flow)));
        scheduler.configure(FlowId(flow), config, None).expect("a valid configuration");
    }
    scheduler
}

fn queued<O: FlowScheduler>(scheduler: O, flows: usize) -> FlowQueues<O, Tables> {
    let room = (Boxes(flows), Boxes(descriptors_for(flows)), Arrays::<0>);
    queues(scheduler, NoAqm, room, Limits::NONE)
}

/// Builds a flow scheduler and its drop policy with queues of packets.
fn alone<R: QueuesRecipe>(recipe: R, weight: impl Fn(u32) -> u32, call: Call) -> Box<dyn Subject>
where
    SchedulerOf<R, Boxes>: 'static,
    R::Policy<Boxes>: 'static,
{
    let flows = call.1;
    let scheduler = scheduler(recipe.of(), flows, weight);
    let policy = recipe.policy(&scheduler, room(flows)).expect("sizes in range");
    closed(queued(scheduler, flows).with_drop_policy(policy), call, false)
}

/// A quantum of one MTU.
const fn turn(_flow: u32) -> u32 {
    3
}

/// Weights 1, 2, 4, 8, 16 in turn.
const fn mixed(flow: u32) -> u32 {
    1 << (flow % 5)
}

/// With up to 4,096 flows all weights are distinct, so that no flows share an aggregate.
fn distinct(flow: u32, flows: usize) -> u32 {
    1 + flow % if flows > 4_096 { 256 } else { 4_096 }
}

/// Twice as many queues as flows, so that nearly all flows have their own.
fn queues_for(flows: usize) -> usize {
    (2 * flows).next_power_of_two().max(8)
}

fn hash_table(queues: usize, ways: u32) -> FlowTable<Box<[TagLine]>> {
    let lines = Boxes(queues.div_ceil(8)).of(TagLine::EMPTY);
    FlowTable::new(lines, queues as u32, ways).expect("powers of two")
}

impl<S: Scheduler> Subject for Loop<S> {
    fn run(&mut self, pairs: usize) -> usize {
        let done = self.pairs(pairs);
        self.verify();
        done
    }
}

fn closed<S: Scheduler + 'static>(
    scheduler: S,
    (pattern, flows, whole): Call,
    hashed: bool,
) -> Box<dyn Subject> {
    Box::new(Loop::new(scheduler, pattern, flows, hashed, whole))
}

/// [`closed`] with flows by hash. In FULL nearly every packet finds its flow backlogged, which is
/// checked after the loop: `backlogged` returns the number of backlogged flows.
struct Standing<S, B> {
    subject: Loop<S>,
    is_full: bool,
    backlogged: B,
}

impl<S: Scheduler, B: Fn(&S) -> u32> Subject for Standing<S, B> {
    fn run(&mut self, pairs: usize) -> usize {
        let done = self.subject.run(pairs);
        if self.is_full {
            let claims = self.subject.claims(&self.backlogged);
            assert!(claims <= Loop::<S>::LOOKED_AT / 20, "{claims} packets found their flow idle");
        }
        done
    }
}

fn standing<S: Scheduler + 'static>(
    scheduler: S,
    (pattern, flows, whole): Call,
    backlogged: impl Fn(&S) -> u32 + 'static,
) -> Box<dyn Subject> {
    let mut subject = Loop::new(scheduler, pattern, flows, true, whole);
    let is_full = pattern == Pattern::Full;
    if is_full {
        // Every flow begins with four packets, so flows of short packets become empty together in
        // the first two rounds: up to 8 % of packets find their flow idle then, 2 to 3 %
        // afterwards. A round takes fewer than two packets of each flow.
        subject.run(4 * flows);
    }
    Box::new(Standing { subject, is_full, backlogged })
}

/// Puts a scheduler on the link of a mix.
fn at_link<S: Scheduler + 'static>(scheduler: S, mix: Mix) -> Box<dyn Subject> {
    Box::new(Mixed::new(scheduler, mix))
}

/// Creates the scheduler called `name` on the link of a mix.
fn in_mix(name: &str, mix: Mix) -> Option<Box<dyn Subject>> {
    let (queues, hosts, packets) = (mix.queues, mix.queues / 4, mix.packets());
    let rate = || Rate::bits_per_second(mix.bits_per_second()).expect("in range");
    let smart = |tins| {
        smart_queue_in((queues, hosts, packets), SmartQueue::upload(rate()).max_len(BULK_LEN), tins)
    };
    let frames = || {
        Frames::new(packets, |handle| {
            let flow = Mix::flow_of(handle);
            let (source, port) = (mix.host(flow) as u32, flow as u16);
            Header { source, port, class: mix.tin(flow) as u8 }
        })
    };
    let fq_codel = || {
        let states = Boxes(queues).of(CoDelState::EMPTY);
        let codel = CoDel::new(states, CoDelParams::INTERNET).expect("the defaults");
        let flows = Boxes(queues).of(DrrFlow::EMPTY);
        let mut scheduler =
            freeboard::sched_core::Drr::new(flows, BULK_LEN).expect("in range").sparse_first();
        scheduler.add_all(BULK_LEN).expect("in range");
        let room = (Boxes(queues), Boxes(packets), Arrays::<0>);
        self::queues(scheduler, codel, room, Limits::NONE)
    };
    Some(match name {
        "null" => at_link(Null::<NOTHING>::new(packets, hash_table(8, 8)), mix),
        "isolated_dual" => {
            let memory = IsolatedMemory::<Boxes>::allocate(queues, hosts, 1, packets);
            let config = IsolatedConfig::new(BULK_LEN, Limits::NONE);
            let queue = Isolated::new(memory, config).expect("powers of two");
            at_link(EnqueuedBy { queue, way: mix }, mix)
        }
        "smart_queue_shaped" => at_link(EnqueuedBy { queue: smart(one_tin()), way: mix }, mix),
        "smart_queue_tins4" => at_link(EnqueuedBy { queue: smart(four_tins()), way: mix }, mix),
        "smart_queue_parsed" => at_link(EnqueuedBy { queue: smart(one_tin()), way: frames() }, mix),
        "smart_queue_tins4_parsed" => {
            at_link(EnqueuedBy { queue: smart(four_tins()), way: frames() }, mix)
        }
        "fq_codel" => at_link(Hashed::over(fq_codel(), hash_table(queues, 8)), mix),
        "fq_codel_lqd" => {
            let longest = vec![LongestFlow::EMPTY; queues];
            let queues_of = fq_codel().with_drop_policy(LongestQueueDrop::new(longest));
            at_link(Hashed::over(queues_of, hash_table(queues, 8)), mix)
        }
        _ => return None,
    })
}
