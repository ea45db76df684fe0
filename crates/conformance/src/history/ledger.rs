//! A ledger of all handles, maintained from the results of both sides, and the invariants it must
//! satisfy.

use super::Order;
use freeboard::sched_core::{Backlog, Counters, DropReason, Ecn, FlowId, Packet, Rejected, Volume};

#[derive(Clone, Copy, Debug)]
struct Queued {
    flow: FlowId,
    packet: Packet,
    /// Sequence number of the arrival.
    arrival: u64,
}

/// Checks that every handle is returned exactly once, in the order of its flow, and that the
/// counters agree.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    queued: Vec<Option<Queued>>,
    free: Vec<u32>,
    arrivals: u64,
    /// Number of the last arrival delivered, per flow and, where they are separate, per kind of
    /// packet.
    delivered_last: Vec<((FlowId, bool), u64)>,
    offered: Volume,
    counted: Counters,
    held: Backlog,
    /// True if packets may be marked on arrival; the mark becomes visible when the packet leaves.
    pub(super) marks_arrivals: bool,
    order: Order,
}

impl Ledger {
    pub(super) fn new(descriptors: u32, order: Order) -> Self {
        Self {
            queued: vec![None; descriptors as usize],
            free: (0..descriptors).rev().collect(),
            arrivals: 0,
            delivered_last: Vec::new(),
            offered: Volume::ZERO,
            counted: Counters::default(),
            held: Backlog::default(),
            marks_arrivals: false,
            order,
        }
    }

    pub(super) fn free_handle(&self) -> u32 {
        self.free.last().copied().unwrap_or(0)
    }

    pub(super) fn is_queued(&self, handle: u32) -> bool {
        self.queued.get(handle as usize).is_some_and(Option::is_some)
    }

    pub(super) fn free_handles(&self, count: u8) -> Vec<u32> {
        self.free.iter().rev().take(count.into()).copied().collect()
    }

    /// Records a packet that was accepted or rejected.
    pub(super) fn offered(
        &mut self,
        flow: FlowId,
        packet: Packet,
        outcome: Result<(), Rejected>,
    ) -> Result<(), String> {
        self.offered.add(packet.len);
        self.arrivals += 1;
        if let Err(rejected) = outcome {
            self.counted.rejected.add(packet.len);
            return if rejected.packet == packet {
                Ok(())
            } else {
                Err(format!("{packet:?} was offered, {:?} handed back", rejected.packet))
            };
        }
        let place = self.queued.get_mut(packet.handle as usize);
        let place = place.ok_or_else(|| format!("{packet:?} accepted without a descriptor"))?;
        if place.is_some() {
            return Err(format!("{packet:?} accepted while its handle is queued"));
        }
        *place = Some(Queued { flow, packet, arrival: self.arrivals });
        self.free.retain(|&handle| handle != packet.handle);
        self.counted.accepted.add(packet.len);
        self.counted.came_marked += u64::from(packet.ecn == Ecn::Ce);
        self.held.packets += 1;
        self.held.bytes += packet.len;
        Ok(())
    }

    pub(super) fn dropped(&mut self, packet: Packet, reason: DropReason) -> Result<(), String> {
        if reason == DropReason::Rejected {
            return Err(format!("{packet:?} dropped as rejected"));
        }
        self.counted.count_dropped(reason, packet.len);
        let before = self.home(packet, packet.ecn)?.packet;
        let marked = packet.ecn == Ecn::Ce && before.ecn != Ecn::Ce;
        if marked && !self.marks_arrivals {
            return Err(format!("{packet:?} was marked and dropped"));
        }
        self.counted.marked += u64::from(marked);
        Ok(())
    }

    pub(super) fn delivered(&mut self, packet: Packet) -> Result<(), String> {
        self.counted.delivered.add(packet.len);
        let marked = packet.ecn == Ecn::Ce;
        let Queued { flow, arrival, packet: before } = self.home(packet, packet.ecn)?;
        self.counted.marked += u64::from(marked && before.ecn != Ecn::Ce);
        let is_scalable = matches!(before.ecn, Ecn::Ect1 | Ecn::Ce);
        let flow = (flow, self.order == Order::OfFlowAndKind && is_scalable);
        let last = match self.delivered_last.iter_mut().find(|(other, _)| *other == flow) {
            Some((_, last)) => core::mem::replace(last, arrival),
            None => {
                self.delivered_last.push((flow, arrival));
                0
            }
        };
        if last < arrival || self.order == Order::Free {
            Ok(())
        } else {
            Err(format!("{packet:?} of {:?} was overtaken", flow.0))
        }
    }

    fn home(&mut self, packet: Packet, ecn: Ecn) -> Result<Queued, String> {
        let place = self.queued.get_mut(packet.handle as usize).and_then(Option::take);
        let queued = place.ok_or_else(|| format!("{packet:?} came home but was not out"))?;
        let mark = ecn == Ecn::Ce && queued.packet.ecn.is_capable();
        if (Packet { ecn: queued.packet.ecn, ..packet }) != queued.packet
            || (ecn != queued.packet.ecn && !mark)
        {
            return Err(format!("{:?} came home as {packet:?}", queued.packet));
        }
        self.free.push(packet.handle);
        self.held.packets -= 1;
        self.held.bytes -= packet.len;
        Ok(queued)
    }

    /// Compares the counters with the packets recorded.
    pub(super) fn audit(&self, counters: &Counters, backlog: Backlog) -> Result<(), String> {
        let held = Volume { packets: backlog.packets.into(), bytes: backlog.bytes.into() };
        let gone = counters.rejected.plus(counters.delivered).plus(counters.dropped_total());
        let mut booked = *counters;
        booked.peak = Backlog::default();
        let counted = self.counted;
        let to_be_seen = booked.marked.wrapping_sub(counted.marked);
        if self.marks_arrivals && to_be_seen <= backlog.packets.into() {
            booked.marked = counted.marked;
        }
        if gone.plus(held) != self.offered {
            Err(format!("offered {:?}, but the books say {counters:?}", self.offered))
        } else if backlog != self.held {
            Err(format!("{:?} is out, but the backlog says {backlog:?}", self.held))
        } else if booked != counted {
            Err(format!("counted {counted:?}, booked {booked:?}"))
        } else {
            Ok(())
        }
    }
}
