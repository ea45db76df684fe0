//! One direction: from a received frame to a sent one, or to a counted reason why not.
//!
//! Invariant after every call: received = refused on arrival + rejected + dropped + undeliverable +
//! sent + held, where held frames are queued or wait for the device.

use std::collections::{BTreeSet, VecDeque};

use freeboard::flowhash::{Ack, HostBy, HostKey, HostMap, HostMember, Labels, parse};
use freeboard::sched_core::{
    AqmChoice, Counters, DropReason, Ecn, Limits, Nanos, Packet, Scheduler as _, Side,
};
use freeboard::shaper::{ArrivalRate, Overhead, Rate};
use freeboard::{
    AckFilter, Activations, FlowTotals, FrameRead, FrameReader, Isolation, Labelled as _, Tin,
    TinCounters, TinPlan, clear_dscp,
};

use crate::config::Config;
use crate::config::hosts::Names;
use crate::config::keywords::QueueKind;
use crate::config::per_host::{Terms, TermsByHost, by_host};
use crate::forward::nat::Translations;
use crate::forward::queue::{Heading, PacketView, Plan, Queue, isolation};
use crate::forward::routers::Routers;
use crate::io::device::{Device, SHORTEST};
use crate::io::frame::{Frame, Pool};
use crate::io::sys::{Arrival, BATCH};
use crate::io::uncut;
use crate::stats::flow_stats::{Place, Watch, Watched};

/// Minimum sleep after a frame left. Frames due meanwhile leave together, late by at most this
/// time. A frame that takes longer on the wire leaves when it is due.
const TOGETHER: Nanos = Nanos(500_000);
/// Minimum sleep if a frame arrived meanwhile, which may be the next one to leave.
const TOGETHER_WITH_ARRIVALS: Nanos = Nanos(100_000);

/// Data kept for a frame while it is held.
#[derive(Clone, Copy, Debug, Default)]
struct HeldFrame {
    arrived: Nanos,
    /// Sequence number of its arrival among all frames.
    serial: u64,
    place: Place,
    seen: Option<PacketView>,
    /// Host on the LAN side.
    host: Option<HostKey>,
}

/// Frames that never reached the queue, and frames lost after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnqueuedFrames {
    /// Frames delivered by the device.
    pub(crate) received: u64,
    /// Longer than the MTU of the devices allows.
    pub(crate) too_long: u64,
    /// Coalesced frames, and their bytes where the length is known.
    pub(crate) merged: u64,
    pub(crate) merged_bytes: u64,
    /// Frames that were segmented; each of their packets counts as received.
    pub(crate) cut: u64,
    /// Shorter than an Ethernet header.
    pub(crate) too_short: u64,
    /// Found no free frame in the pool.
    pub(crate) no_room: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    /// Refused by the other device, or the device has disappeared.
    pub(crate) undeliverable: u64,
    /// Rejected or dropped by queues that a change of the configuration has replaced.
    pub(crate) lost_before: LostBefore,
    pub(crate) marked_before: u64,
    /// Packets that arrived with a mark, counted by replaced queues. Packets that moved into the
    /// current queue are counted there, not here.
    pub(crate) came_marked_before: u64,
    /// Frames whose code point was cleared on arrival.
    pub(crate) washed: u64,
}

/// Packets rejected or dropped by replaced queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostBefore {
    pub(crate) rejected: u64,
    /// By reason, in the order of [`DropReason::ALL`]. Drained is always 0: drained packets moved
    /// on, or count as rejected.
    pub(crate) dropped: [u64; DropReason::ALL.len()],
}

impl LostBefore {
    /// Adds the counters of a replaced queue, `moved` of whose packets moved on.
    fn add(&mut self, counters: &Counters, moved: u64) {
        for (before, why) in self.dropped.iter_mut().zip(DropReason::ALL.iter().copied()) {
            let dropped = counters.dropped_for(why).packets;
            match why {
                DropReason::Drained => self.rejected += dropped - moved,
                _ => *before += dropped,
            }
        }
        self.rejected += counters.rejected.packets;
    }

    fn all(&self) -> u64 {
        self.rejected + self.dropped.iter().sum::<u64>()
    }
}

/// Configuration of the hosts on the LAN side.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) names: Names,
    pub(crate) identity: HostMap<Vec<HostMember>>,
    pub(crate) terms: TermsByHost,
}

impl Hosts {
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        let names = Names::default();
        let identity = names.map().unwrap();
        Self { names, identity, terms: TermsByHost::default() }
    }

    /// Builds it from the configuration, for frames of at most `max_len` bytes.
    pub(crate) fn new(config: &Config, max_len: u32) -> Result<Self, String> {
        let (names, terms) = (config.names.clone(), by_host(config, max_len));
        let identity = names.map().map_err(|error| error.to_string())?;
        Ok(Self { names, identity, terms })
    }
}

/// One direction of the gateway.
#[derive(Debug)]
pub(crate) struct Direction {
    heading: Heading,
    queue: Box<dyn Queue>,
    plan: Plan,
    /// Includes the identity of hosts on the LAN side.
    reader: FrameReader<HostMap<Vec<HostMember>>>,
    /// Network cards that several hosts share.
    routers: Routers,
    terms: TermsByHost,
    /// Tins of the plan.
    tins: TinPlan,
    link: Overhead,
    /// Bytes sent, as counted on the wire.
    wire_bytes: u64,
    /// Estimate of the link's rate from arrivals, if enabled.
    arrivals: Option<ArrivalRate>,
    held: Vec<HeldFrame>,
    /// Dropped frames not yet returned to the pool; empty between calls.
    gone: Vec<u32>,
    /// Dequeued packets that wait for the device.
    leaving: VecDeque<Packet>,
    /// True while the device accepts no frames.
    pub(crate) is_blocked: bool,
    /// Time at which frames last left.
    left_at: Nanos,
    /// Nothing leaves before this time.
    rests_until: Nanos,
    serials: u64,
    outside: UnqueuedFrames,
    /// Error of the last frame that the device refused.
    refused_with: Option<i32>,
    watch: Option<Watch>,
}

impl Direction {
    /// Size of the data kept per frame, in bytes.
    pub(crate) const BYTES_OF_DESCRIPTOR: usize = size_of::<HeldFrame>();

    pub(crate) fn new(
        plan: Plan,
        link: Overhead,
        hosts: Hosts,
        secret: [u8; 16],
        watched: Option<Watched>,
    ) -> Result<Self, String> {
        let mut queue = plan.build()?;
        queue.set_link(link);
        Ok(Self {
            heading: plan.heading,
            queue,
            plan,
            reader: plan.builder().reader(secret).with_identity(hosts.identity),
            routers: Routers::default(),
            terms: hosts.terms,
            held: vec![HeldFrame::default(); plan.descriptors as usize],
            gone: Vec::new(),
            tins: plan.treatment.tins(),
            link,
            wire_bytes: 0,
            arrivals: None,
            leaving: VecDeque::with_capacity(BATCH),
            is_blocked: false,
            left_at: Nanos::ZERO,
            rests_until: Nanos::ZERO,
            serials: 0,
            outside: UnqueuedFrames::default(),
            refused_with: None,
            watch: watched.map(|watched| Watch::new(watched, plan.share.max_hosts, hosts.names)),
        })
    }

    pub(crate) fn heading(&self) -> Heading {
        self.heading
    }

    /// Handles a frame received into `spare`, which holds a free buffer afterwards. The host is the
    /// one behind NAT where that is known. The flow is that of the packet as it arrived, so that a
    /// translation learned later does not reorder the flow.
    pub(crate) fn arrive(
        &mut self,
        now: Nanos,
        arrival: Arrival,
        spare: &mut Frame,
        pool: &mut Pool,
        translations: &Translations,
    ) {
        self.outside.received += 1;
        let turned_away = match arrival {
            Arrival::TooLong => Some(&mut self.outside.too_long),
            Arrival::Merged(bytes) => {
                self.outside.merged_bytes += u64::from(bytes);
                Some(&mut self.outside.merged)
            }
            // The packet is in another buffer: see `arrive_uncut`.
            Arrival::Uncut => Some(&mut self.outside.merged),
            Arrival::Whole if spare.len() < SHORTEST => Some(&mut self.outside.too_short),
            Arrival::Whole => None,
        };
        if let Some(count) = turned_away {
            *count += 1;
            return;
        }
        let soon = self.left_at.plus(TOGETHER_WITH_ARRIVALS);
        self.rests_until = self.rests_until.min(soon);
        let len = spare.len() as u32;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.arrived(now, self.link.wire_len(len));
        }
        let Some(handle) = pool.take_in(spare) else {
            self.outside.no_room += 1;
            return;
        };
        let frame = pool.frame(handle);
        let parsed = self.reader.parse(frame.bytes());
        let read = self.reader.read(frame.bytes(), &parsed, frame.mark(), &self.tins);
        self.watch_routers(&read);
        let (host, labels) = self.labels(&read, translations);
        let seen =
            PacketView { tin: read.tin, ..Self::seen(&self.plan, labels, self.terms_of(host)) };
        let watch = self.watch.as_mut();
        let flow = (parsed.key, parsed.inner.map(|inner| inner.outer));
        let place = watch.map_or(Place::default(), |watch| watch.arrived(now, flow, host, len));
        self.serials += 1;
        self.held[handle as usize] = HeldFrame {
            arrived: now,
            serial: self.serials,
            place,
            seen: Some(seen),
            host: Some(host),
        };
        if self.plan.treatment.is_washed
            && let Some(ip) = parsed.ip.filter(|ip| ip.dscp() != 0)
            && clear_dscp(pool.frame_mut(handle).bytes_mut(), &ip)
        {
            self.outside.washed += 1;
        }
        let packet = Packet { handle, len, ecn: read.ecn() };
        match self.plan.treatment.ack_filter {
            AckFilter::Off => self.offer(now, &seen, packet, pool),
            _ => self.offer_ack(now, &seen, packet, pool),
        }
    }

    /// Handles a frame of several packets received into `whole`: each of them arrives separately
    /// through `spare`. Returns their number, or 1 for a frame that cannot be segmented.
    pub(crate) fn arrive_uncut(
        &mut self,
        now: Nanos,
        whole: &Frame,
        spare: &mut Frame,
        pool: &mut Pool,
        translations: &Translations,
    ) -> usize {
        let Some(mut segmenter) = uncut::segmenter(whole) else {
            let merged = Arrival::Merged(whole.len() as u32);
            self.arrive(now, merged, spare, pool, translations);
            return 1;
        };
        if segmenter.segments().each() as usize > pool.longest() {
            self.arrive(now, Arrival::TooLong, spare, pool, translations);
            return 1;
        }
        self.outside.cut += 1;
        let count = segmenter.segments().count() as usize;
        while let Some(len) = segmenter.write_next(spare.room()) {
            spare.received(len);
            spare.set_mark(whole.mark());
            self.arrive(now, Arrival::Whole, spare, pool, translations);
        }
        count
    }

    /// Returns the queue's view of a packet with these labels and host terms.
    fn seen(plan: &Plan, labels: Labels, terms: Terms) -> PacketView {
        let Labels { flow, src_host: source, dst_host: destination } = labels;
        let Terms { weight, rate, ceiling } = terms;
        let quantum = weight * plan.max_len;
        PacketView { flow, source, destination, tin: 0, weight, quantum, rate, ceiling }
    }

    /// Records the source card of a packet, which may be a router's.
    fn watch_routers(&mut self, read: &FrameRead<'_>) {
        let identity = self.reader.identity();
        let card =
            read.link.filter(|_| read.parsed.ip.is_some()).and_then(|link| link.source().mac);
        if let (Heading::Up, HostBy::Auto, true, Some(card)) =
            (self.heading, identity.by(), identity.has_several_cards(), card)
            && let HostKey::V4(address) = read.parsed.outer_key().src_host()
        {
            self.routers.saw(card, address);
        }
    }

    /// Returns the card of a router found since the last call.
    pub(crate) fn router(&mut self) -> Option<[u8; 6]> {
        self.routers.found.take()
    }

    fn terms_of(&self, host: HostKey) -> Terms {
        match self.terms.is_empty() {
            true => Terms::DEFAULT,
            false => self.terms.get(host).copied().unwrap_or(Terms::DEFAULT),
        }
    }

    /// Passes the current terms of all hosts that may have queued packets to the queue, so that
    /// they take effect at once for backlogged hosts.
    fn update_hosts(&mut self, now: Nanos) {
        let hosts: BTreeSet<HostKey> = self.held.iter().filter_map(|held| held.host).collect();
        for host in hosts {
            let label = host.label(self.reader.labeller().hasher());
            let labels = Labels { flow: 0, src_host: label, dst_host: label };
            let seen = Self::seen(&self.plan, labels, self.terms_of(host));
            self.queue.update_host(now, &seen);
        }
    }

    /// Returns the host on the LAN side and the labels of flow and hosts.
    fn labels(&self, read: &FrameRead<'_>, translations: &Translations) -> (HostKey, Labels) {
        let labeller = self.reader.labeller();
        let translated = labeller.with_nat(translations.of(self.heading));
        let (as_it_came, inside) =
            (self.reader.labels(read, labeller), self.reader.labels(read, &translated));
        let flow = as_it_came.flow();
        match self.heading {
            Heading::Up => {
                let host = inside.host(Side::Source);
                let src_host = host.label(labeller.hasher());
                (host, Labels { flow, src_host, dst_host: as_it_came.destination() })
            }
            Heading::Down => {
                let host = inside.host(Side::Destination);
                let dst_host = host.label(labeller.hasher());
                (host, Labels { flow, src_host: as_it_came.source(), dst_host })
            }
        }
    }

    /// Enqueues a packet; frames of dropped or rejected packets return to the pool.
    fn offer(&mut self, now: Nanos, seen: &PacketView, packet: Packet, pool: &mut Pool) {
        let Self { queue, held, watch, .. } = self;
        let gone = &mut |packet: Packet, why| {
            if let Some(watch) = watch.as_mut() {
                watch.dropped(held[packet.handle as usize].place, packet.len, why);
            }
            pool.give_back(packet.handle);
        };
        if let Err(rejected) = queue.offer(now, seen, packet, gone) {
            gone(rejected.packet, DropReason::Rejected);
        }
    }

    /// Like [`Self::offer`], for a queue with an ACK filter: the filter reads frames of the pool,
    /// so frames return to it only afterwards.
    fn offer_ack(&mut self, now: Nanos, seen: &PacketView, packet: Packet, pool: &mut Pool) {
        let Self { queue, held, watch, gone, .. } = self;
        let acks = |packet: Packet| {
            let bytes = pool.frame(packet.handle).bytes();
            Ack::read(bytes, &parse::ethernet(bytes))
        };
        let drops = &mut |packet: Packet, why| {
            if let Some(watch) = watch.as_mut() {
                watch.dropped(held[packet.handle as usize].place, packet.len, why);
            }
            gone.push(packet.handle);
        };
        if let Err(rejected) = queue.offer_ack(now, seen, packet, &acks, drops) {
            drops(rejected.packet, DropReason::Rejected);
        }
        gone.drain(..).for_each(|handle| pool.give_back(handle));
    }

    /// Sends what may leave at `now`.
    pub(crate) fn forward(&mut self, now: Nanos, to: &mut Device, pool: &mut Pool) {
        if now < self.rests_until {
            return;
        }
        let mut left = 0;
        while !self.is_blocked {
            self.fill(now, pool);
            if self.leaving.is_empty() {
                if left > 0 {
                    self.rest(now);
                }
                break;
            }
            let sent = to.send(self.leaving.iter().map(|packet| pool.frame(packet.handle)));
            for _ in 0..sent.taken {
                let Some(packet) = self.leaving.pop_front() else { break };
                let held = self.held[packet.handle as usize];
                if let Some(watch) = &mut self.watch {
                    let tin = held.seen.map_or(0, |seen| seen.tin);
                    watch.sent(now, held.place, tin, packet.len, now.since(held.arrived));
                }
                self.outside.sent += 1;
                self.wire_bytes += u64::from(self.link.wire_len(packet.len));
                self.outside.sent_bytes += u64::from(packet.len);
                pool.give_back(packet.handle);
                left += 1;
            }
            if sent.refused.is_some() {
                self.refused_with = sent.refused;
                self.cannot_leave(pool);
            }
            self.is_blocked = sent.is_full;
            if left >= 4 * BATCH {
                break; // the other direction has a turn
            }
        }
    }

    /// Delays the next frames after some have left and no other is due. Uses only time that the
    /// shaper catches up.
    fn rest(&mut self, now: Nanos) {
        let spare = Nanos(self.queue.line().catch_up().0 / 2);
        (self.left_at, self.rests_until) = (now, now.plus(TOGETHER.min(spare)));
    }

    /// Dequeues what may leave, up to a batch.
    fn fill(&mut self, now: Nanos, pool: &mut Pool) {
        let Self { queue, held, watch, leaving, .. } = self;
        while leaving.len() < BATCH {
            let packet = queue.dequeue(now, &mut |packet: Packet, why| {
                if let Some(watch) = watch.as_mut() {
                    watch.dropped(held[packet.handle as usize].place, packet.len, why);
                }
                pool.give_back(packet.handle);
            });
            let Some(packet) = packet else { break };
            if packet.ecn == Ecn::Ce {
                crate::forward::mark::congestion_experienced(
                    pool.frame_mut(packet.handle).bytes_mut(),
                );
            }
            leaving.push_back(packet);
        }
    }

    /// Counts the next frame as refused by the device.
    fn cannot_leave(&mut self, pool: &mut Pool) {
        let Some(packet) = self.leaving.pop_front() else { return };
        if let Some(watch) = &mut self.watch {
            watch.refused(self.held[packet.handle as usize].place, packet.len);
        }
        self.outside.undeliverable += 1;
        pool.give_back(packet.handle);
    }

    /// Returns the time of the next action if nothing arrives.
    pub(crate) fn poll_at(&self, now: Nanos) -> Option<Nanos> {
        match (self.is_blocked, self.leaving.is_empty()) {
            (true, _) => None,
            (false, false) => Some(now),
            (false, true) => self.queue.poll_at(now).map(|due| due.max(self.rests_until)),
        }
    }

    /// Builds the queue for `plan` if the current one cannot be used.
    pub(crate) fn build_another(&self, plan: &Plan) -> Result<Option<Box<dyn Queue>>, String> {
        let (old, new) = (self.plan.share, plan.share);
        // The DRR queue can change its isolation in place.
        let is_same = new.kind == old.kind
            && plan.descriptors == self.plan.descriptors
            && new.max_hosts == old.max_hosts
            && (new.hosts == old.hosts || new.kind == QueueKind::Drr);
        if is_same { Ok(None) } else { plan.build().map(Some) }
    }

    /// Sets the limits; excess packets are dropped.
    pub(crate) fn set_limits(&mut self, limits: Limits, pool: &mut Pool) {
        let Self { queue, held, watch, .. } = self;
        queue.set_limits(limits, &mut |packet: Packet, why| {
            if let Some(watch) = watch.as_mut() {
                watch.dropped(held[packet.handle as usize].place, packet.len, why);
            }
            pool.give_back(packet.handle);
        });
    }

    /// Applies another configuration to everything that is queued. `another` is the result of
    /// [`Self::build_another`] for the plan; both directions have its limit, and `pool` the frames
    /// for it.
    ///
    /// If the queue is replaced, its packets move to the new one in order of arrival and keep their
    /// age.
    pub(crate) fn change(
        &mut self,
        now: Nanos,
        (plan, another): (Plan, Option<Box<dyn Queue>>),
        link: Overhead,
        hosts: Hosts,
        pool: &mut Pool,
    ) {
        self.renumber_tins(&plan.treatment.tins());
        if let Some(queue) = another {
            self.move_into(queue, plan, pool);
        } else {
            // Several tins work with every isolation except one; a single tin works with all.
            let (tins, isolation) =
                (plan.treatment.tins(), isolation(plan.share.hosts, plan.heading));
            let held = &self.held;
            let seen = |packet: Packet| {
                held[packet.handle as usize].seen.expect("what is queued was seen")
            };
            if tins.count() == 1 {
                self.queue.set_tins(tins, &seen);
            }
            self.queue.set_isolation(isolation, &seen);
            self.queue.set_tins(tins, &seen);
        }
        let line = plan.treatment.late.of(self.queue.line().clone());
        self.queue.set_line(line);
        self.queue.treat(&plan.treatment);
        self.queue.set_rate_and_aqm(now, &plan);
        if let Some(watch) = &mut self.watch {
            watch.set_hosts(plan.share.max_hosts);
            watch.set_names(hosts.names);
        }
        self.queue.set_link(link);
        self.link = link;
        self.plan = plan;
        let identity = self.reader.identity_mut();
        *identity = hosts.identity.with_cards_of(identity);
        self.reader.set_tin_by(plan.treatment.tin_by);
        self.reader.set_fwmark(plan.treatment.fwmark);
        self.tins = plan.treatment.tins();
        self.terms = hosts.terms;
        self.update_hosts(now);
    }

    /// Renumbers the tins of held packets by name, with the default tin for unknown names, as the
    /// queue does.
    fn renumber_tins(&mut self, to: &TinPlan) {
        let from = self.plan.treatment.tins();
        if from == *to {
            return;
        }
        self.watch.iter_mut().for_each(Watch::forget_tins);
        for seen in self.held.iter_mut().filter_map(|held| held.seen.as_mut()) {
            let number = from.tin(seen.tin).and_then(|tin| to.number_of(tin.name()));
            seen.tin = number.unwrap_or(to.default_tin());
        }
    }

    /// Returns the identity of hosts that are in no list.
    pub(crate) fn host_by(&self) -> HostBy {
        self.reader.identity().by()
    }

    /// Returns the tins, if there are several, with their numbers in mark order and their counters.
    /// Cost: O(queues) each.
    pub(crate) fn tins(&self) -> impl Iterator<Item = (u8, &Tin, TinCounters)> {
        let plan = self.plan.treatment.tins.as_ref();
        let shown =
            plan.into_iter().flat_map(|plan| plan.shown().iter().map(move |of| (plan, *of)));
        shown.filter_map(|(plan, number)| {
            Some((number, plan.tin(number)?, self.queue.tin_counters(number)?))
        })
    }

    /// Returns the rate up to which tin `number` is served before those below it, and the target of
    /// its AQM, if any.
    pub(crate) fn tin_terms(&self, number: u8) -> (Rate, Option<Nanos>) {
        let Plan { rate, share, max_len, .. } = self.plan;
        let rate = self.plan.treatment.tins().rate(number, rate);
        let target = match share.rtt.aqm(share.aqm, rate, max_len) {
            AqmChoice::CoDel(params) => Some(params.target),
            AqmChoice::Cobalt(params) => Some(params.target_on_line()),
            AqmChoice::Pie(params) => Some(params.target),
            AqmChoice::Pi2(params) => Some(params.target),
            _ => None,
        };
        (rate, target)
    }

    /// Returns the number of flows and of [hosts](Self::side) with queued packets, if the queue
    /// knows both. Cost: O(queues).
    pub(crate) fn totals(&self) -> Option<(FlowTotals, u32)> {
        let (flows, (sources, destinations)) = self.queue.totals()?;
        Some(match self.side() {
            Side::Source => (flows, sources),
            Side::Destination => (flows, destinations),
        })
    }

    /// Returns the side whose hosts are counted: the LAN side, or the isolated one if that is the
    /// other.
    const fn side(&self) -> Side {
        match (isolation(self.plan.share.hosts, self.heading), self.heading) {
            (Isolation::DualSrcHost, _) => Side::Source,
            (Isolation::DualDstHost, _) => Side::Destination,
            (_, Heading::Up) => Side::Source,
            (_, Heading::Down) => Side::Destination,
        }
    }

    /// Returns, if the queue knows, how often flows and [hosts](Self::side) of the current queue
    /// became backlogged and how often new ones did, a pair each, and the number of backlogged
    /// flows that do not react to drops. Cost: O(queues).
    pub(crate) fn activity(&self) -> Option<([[u64; 2]; 2], u32)> {
        let (all, unresponsive) = self.queue.activity()?;
        let Activations { flows, new_flows, .. } = all;
        let hosts = match self.side() {
            Side::Source => [all.source_hosts, all.new_source_hosts],
            Side::Destination => [all.destination_hosts, all.new_destination_hosts],
        };
        Some(([[flows, new_flows], hosts], unresponsive))
    }

    /// Moves queued packets into `queue`, which is empty.
    fn move_into(&mut self, queue: Box<dyn Queue>, plan: Plan, pool: &mut Pool) {
        let mut moving = Vec::new();
        self.queue.drain(&mut |packet: Packet, _| moving.push(packet));
        self.renumber(&mut moving, plan.descriptors, pool);
        let before = self.queue.counters();
        // Packets that move on were not lost.
        self.outside.lost_before.add(&before, moving.len() as u64);
        self.outside.marked_before += before.marked;
        moving.sort_by_key(|packet| self.held[packet.handle as usize].serial);
        let line = self.queue.line().clone();
        self.queue = queue;
        self.queue.set_line(line);
        // Packets keep their arrival times, and the link counts as busy since the oldest of them
        // arrived.
        for packet in moving {
            let held = self.held[packet.handle as usize];
            if let Some(seen) = held.seen {
                self.offer(held.arrived, &seen, packet, pool);
            }
        }
        // The new queue counts packets that moved on.
        let counted_again = self.queue.counters().came_marked;
        self.outside.came_marked_before += before.came_marked.saturating_sub(counted_again);
    }

    /// Gives the frames of `moving` packets, and of those that are leaving, handles below
    /// `descriptors`. The limits of both directions ensure that all fit; packets that do not are
    /// dropped.
    fn renumber(&mut self, moving: &mut Vec<Packet>, descriptors: u32, pool: &mut Pool) {
        let Self { held, watch, leaving, outside, .. } = self;
        held.resize(held.len().max(descriptors as usize), HeldFrame::default());
        let mut stays = |packet: &mut Packet| {
            let from = packet.handle as usize;
            let Some(handle) = pool.renumber(packet.handle) else {
                if let Some(watch) = watch.as_mut() {
                    watch.dropped(held[from].place, packet.len, DropReason::Rejected);
                }
                pool.give_back(packet.handle);
                return false;
            };
            held[handle as usize] = held[from];
            packet.handle = handle;
            true
        };
        let before = leaving.len();
        leaving.retain_mut(&mut stays);
        outside.undeliverable += (before - leaving.len()) as u64;
        moving.retain_mut(stays);
        held.truncate(descriptors as usize);
        held.shrink_to_fit();
    }

    /// Counts all frames waiting for a device that has disappeared as undeliverable.
    pub(crate) fn give_up(&mut self, pool: &mut Pool) {
        while !self.leaving.is_empty() {
            self.cannot_leave(pool);
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.queue.counters()
    }

    pub(crate) fn outside(&self) -> UnqueuedFrames {
        self.outside
    }

    /// Returns the error of the last frame that the device refused.
    pub(crate) fn refused_with(&self) -> Option<i32> {
        self.refused_with
    }

    /// Returns the number of frames queued or waiting for the device.
    pub(crate) fn held(&self) -> u64 {
        u64::from(self.queue.backlog().packets) + self.leaving.len() as u64
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queue.backlog().bytes.into()
    }

    pub(crate) fn limits(&self) -> Limits {
        self.queue.limits()
    }

    /// Returns the framing of the link.
    pub(crate) fn link(&self) -> Overhead {
        self.link
    }

    /// Returns the bytes sent, as counted on the wire.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// Sets the rate from `now` on.
    pub(crate) fn set_rate(&mut self, now: Nanos, rate: Rate) {
        if rate != self.plan.rate {
            self.plan.rate = rate;
            self.queue.set_rate_and_aqm(now, &self.plan);
        }
    }

    /// Enables or disables the estimate of the link's rate from arrivals.
    pub(crate) fn watch_arrivals(&mut self, is_on: bool) {
        let arrivals = self.arrivals.take().filter(|_| is_on);
        self.arrivals = arrivals.or_else(|| is_on.then(ArrivalRate::new));
    }

    /// Returns the estimate in bits per second, if there is one.
    pub(crate) fn arrivals(&self) -> Option<u64> {
        self.arrivals.as_ref()?.estimate()
    }

    /// Returns the rate suggested by arrivals.
    pub(crate) fn arrivals_rate(&self) -> Option<Rate> {
        self.arrivals.as_ref()?.rate()
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    pub(crate) fn watch_mut(&mut self) -> Option<&mut Watch> {
        self.watch.as_mut()
    }

    /// Returns the number of packets rejected or dropped by queues.
    pub(crate) fn lost(&self) -> u64 {
        lost(&self.queue.counters()) + self.outside.lost_before.all()
    }

    /// Returns received frames minus all that are accounted for: zero.
    pub(crate) fn unaccounted(&self) -> i64 {
        let UnqueuedFrames {
            received,
            too_long,
            merged,
            too_short,
            no_room,
            sent,
            undeliverable,
            ..
        } = self.outside;
        let known = too_long
            + merged
            + too_short
            + no_room
            + self.lost()
            + sent
            + undeliverable
            + self.held();
        received.cast_signed() - known.cast_signed()
    }
}

/// Returns the number of packets that a queue did not deliver.
fn lost(counters: &Counters) -> u64 {
    counters.rejected.packets + counters.dropped_total().packets
}

#[cfg(test)]
mod tests;
