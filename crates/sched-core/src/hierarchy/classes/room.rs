//! Limits of a node: an arriving packet is offered to its class or rejected, or the longest class
//! is dropped from.

use super::open_classes::{Opening, Status};
use super::tally::Tally;
use super::{ClassTables, Classes, Classify, Member};
use crate::disciplines::tournament::{Ranked, Tournament};
use crate::flow_scheduler::FlowScheduler;
use crate::scheduler::{DropReason, DropSink, Limits, RejectReason, Rejected, Scheduler};
use crate::{FlowId, Nanos, Packet};

/// Finds the class with the longest backlog in bytes, open or closed.
pub(super) type Longest = Tournament<true>;

impl<O, S, R, M> Classes<O, S, R, M>
where
    O: FlowScheduler,
    S: Scheduler,
    R: Classify,
    M: ClassTables<S>,
{
    #[inline]
    pub(super) fn max_len(&self, class: FlowId) -> Option<u32> {
        self.states.as_ref().get(class.index())?;
        Some(self.scheduler.max_len(class)?.min(Packet::MAX_LEN))
    }

    /// Records that `class` holds `bytes`.
    #[inline]
    pub(super) fn rank(&mut self, class: FlowId, bytes: u32) {
        let ranks = self.ranks.as_mut();
        let Some(rank) = ranks.get_mut(class.index()) else { return };
        let before = rank.bytes();
        rank.set_bytes(bytes);
        if bytes > before {
            Longest::gained(ranks, class);
        } else {
            Longest::lost(ranks, class);
        }
    }

    /// Makes `class` drop one packet of its choice by lowering its limit temporarily.
    pub(super) fn shed(
        &mut self,
        class: FlowId,
        reason: DropReason,
        drops: &mut dyn DropSink,
    ) -> bool {
        let before = self.ledger.backlog().packets;
        self.touch(class, drops, Some(reason), |scheduler, drops| {
            let limits = scheduler.limits();
            let packets = scheduler.backlog().packets.saturating_sub(1);
            scheduler.set_limits(Limits { packets, ..limits }, drops);
            scheduler.set_limits(limits, drops);
        });
        self.ledger.backlog().packets < before
    }

    /// Makes the victim class drop a packet of its choice; returns false if none does. A class that
    /// does not drop when its limit is lowered is faulty, which `recount` reports.
    pub(super) fn give_way(&mut self, reason: DropReason, drops: &mut dyn DropSink) -> bool {
        let longest = Longest::first(self.ranks.as_ref());
        let next = || self.scheduler.select().or_else(|| Opening::first(self.states.as_ref()));
        longest.or_else(next).is_some_and(|victim| self.shed(victim, reason, drops))
    }

    #[cold]
    pub(super) fn reject(&mut self, packet: Packet, reason: RejectReason) -> Rejected {
        self.ledger.count(|all| all.rejected.add(packet.len));
        Rejected { packet, reason }
    }

    /// Offers `packet`, which fits the node's limits, to `class`, as flow `flow` of that class.
    #[inline]
    pub(super) fn offer(
        &mut self,
        now: Nanos,
        Member { class, flow }: Member,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Some(scheduler) = self.classes.as_mut().get_mut(class.index()) else {
            return Err(self.unknown(class, packet));
        };
        let mut tally = Tally::new(&mut self.ledger, drops, None);
        let outcome = scheduler.enqueue(now, flow, packet, &mut tally);
        let lost = tally.lost;
        if let Err(rejected) = outcome {
            if lost != 0 {
                self.settle(class, 0, lost);
            }
            return Err(self.reject(rejected.packet, rejected.reason));
        }
        self.ledger.accept(packet.len);
        self.ledger.note_peak();
        if lost == 0 && self.status(class) == Status::Open {
            self.scheduler.grew(class, packet.len);
            let held = self.class(class).map(Scheduler::backlog).unwrap_or_default();
            self.rank(class, held.bytes);
        } else {
            self.settle(class, packet.len, lost);
        }
        Ok(())
    }

    /// Rejects a packet of an unknown class, with the numbers of the class; [`Scheduler::enqueue`]
    /// replaces them by the caller's.
    pub(super) fn unknown(&mut self, class: FlowId, packet: Packet) -> Rejected {
        let reason = RejectReason::UnknownFlow { flow: class, flows: self.count() };
        self.reject(packet, reason)
    }

    /// Slow path of [`Scheduler::enqueue`], if the packet does not fit at once.
    #[cold]
    pub(super) fn offer_crowded(
        &mut self,
        now: Nanos,
        member: Member,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let Some(max) = self.max_len(member.class).filter(|_| member.class.0 < self.count()) else {
            return Err(self.unknown(member.class, packet));
        };
        let len = packet.len;
        if len == 0 || len > max {
            return Err(self.reject(packet, RejectReason::Length { len, max }));
        }
        if self.ledger.could_fit(len) {
            // Every packet has at least one byte, so at most `len` iterations, unless a class is
            // faulty.
            while !self.ledger.has_room(len) {
                crate::steps::step();
                let Some(victim) = Longest::first(self.ranks.as_ref()) else { break };
                if victim == member.class {
                    return self.offer_within(now, member, packet, drops);
                }
                if !self.shed(victim, DropReason::Overflow, drops) {
                    break;
                }
            }
        }
        if self.ledger.has_room(len) {
            return self.offer(now, member, packet, drops);
        }
        Err(self.reject(packet, RejectReason::Full { limits: self.ledger.limits() }))
    }

    /// Offers `packet`, which exceeds the node's limits, to its class with temporary limits: what
    /// the class holds plus the rest of the node's capacity.
    pub(super) fn offer_within(
        &mut self,
        now: Nanos,
        member: Member,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        let (limits, held) = (self.ledger.limits(), self.ledger.backlog());
        let Some(scheduler) = self.classes.as_mut().get_mut(member.class.index()) else {
            return Err(self.unknown(member.class, packet));
        };
        let (own, holds) = (scheduler.limits(), scheduler.backlog());
        // What the class holds is part of what the node holds, which is within the limits: no
        // overflow.
        let packets = holds.packets.wrapping_add(limits.packets.saturating_sub(held.packets));
        let bytes = holds.bytes.wrapping_add(limits.bytes.saturating_sub(held.bytes));
        let within = Limits { packets: own.packets.min(packets), bytes: own.bytes.min(bytes) };
        // This drops nothing: the class holds no more than the limits allow.
        scheduler.set_limits(within, drops);
        let outcome = self.offer(now, member, packet, drops);
        if let Some(scheduler) = self.classes.as_mut().get_mut(member.class.index()) {
            scheduler.set_limits(own, drops);
        }
        outcome.map_err(|Rejected { packet, reason }| match reason {
            RejectReason::Full { .. } => Rejected { packet, reason: RejectReason::Full { limits } },
            _ => Rejected { packet, reason },
        })
    }
}
