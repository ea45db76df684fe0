//! Which packet is whose, and which virtual queues are free.

use super::SqfFlow;
use crate::flow_scheduler::Table;
use crate::queues::counters::FlowRecord;
use crate::queues::queue::NONE;
use crate::scheduler::{DropReason, DropSink};
use crate::{FlowId, Packet};

/// Whose packet is where.
#[derive(Clone, Debug)]
pub(super) struct Labels<F, L, V, R> {
    pub(super) flows: F,
    /// `of[handle]`: stale unless the handle is queued.
    pub(super) of: L,
    /// Its first `free_len` elements are the virtual queues that are empty, the one taken next last.
    pub(super) free: V,
    pub(super) free_len: u32,
    pub(super) records: R,
    /// The queue behind the virtual queues.
    pub(super) default: u32,
}

impl<F: Table<SqfFlow>, L: Table<u32>, V: Table<u32>, R: Table<FlowRecord>> Labels<F, L, V, R> {
    pub(super) fn flow(&self, flow: FlowId) -> Option<&SqfFlow> {
        self.flows.as_ref().get(flow.index()).filter(|entry| entry.is_added())
    }

    pub(super) fn is_label(&self, handle: u32, flow: FlowId) -> bool {
        self.of.as_ref().get(handle as usize) == Some(&flow.0)
    }

    /// Books `len` bytes more for `flow` and says into which queue; `None` if it was not added.
    pub(super) fn admit(&mut self, flow: FlowId, len: u32) -> Option<FlowId> {
        let entry = self.flows.as_mut().get_mut(flow.index()).filter(|entry| entry.is_added())?;
        if entry.held.packets == 0 {
            entry.queue = self.default;
            if let Some(top) = self.free_len.checked_sub(1)
                && let Some(&queue) = self.free.as_ref().get(top as usize)
            {
                entry.queue = queue;
                self.free_len = top;
            }
        }
        // A length that will be rejected can wrap the bytes; `release` wraps them back.
        entry.held.add(len);
        Some(FlowId(entry.queue))
    }

    /// Books `len` bytes less for `flow`; an emptied virtual queue is free.
    pub(super) fn release(&mut self, flow: FlowId, len: u32) {
        let Some(entry) = self.flows.as_mut().get_mut(flow.index()) else { return };
        entry.held.sub(len);
        if entry.held.packets == 0 && entry.queue != self.default {
            let queue = entry.queue;
            self.give_back(queue);
        }
    }

    /// The virtual queue is empty.
    pub(super) fn give_back(&mut self, queue: u32) {
        if let Some(place) = self.free.as_mut().get_mut(self.free_len as usize) {
            *place = queue;
        }
        self.free_len = self.free_len.wrapping_add(1);
    }

    /// Whether `flow` is about to take a queue and finds no virtual one.
    pub(super) fn finds_none(&self, flow: FlowId) -> bool {
        self.free_len == 0 && self.flow(flow).is_some_and(|entry| entry.held.packets == 0)
    }

    /// The packets of the flow to which the one with this handle belongs are in the default queue now.
    pub(super) fn moved(&mut self, handle: u32) {
        if let Some(&label) = self.of.as_ref().get(handle as usize)
            && let Some(entry) = self.flows.as_mut().get_mut(label as usize)
        {
            entry.queue = self.default;
        }
    }

    /// A packet has left the engine.
    pub(super) fn left(&mut self, packet: Packet) -> FlowId {
        let flow =
            self.of.as_ref().get(packet.handle as usize).copied().map_or(FlowId(NONE), FlowId);
        self.release(flow, packet.len);
        flow
    }
}

/// Sees every packet that the engine drops before the caller does.
pub(super) struct Departures<'a, F, L, V, R> {
    pub(super) labels: &'a mut Labels<F, L, V, R>,
    pub(super) drops: &'a mut dyn DropSink,
}

impl<F: Table<SqfFlow>, L: Table<u32>, V: Table<u32>, R: Table<FlowRecord>> DropSink
    for Departures<'_, F, L, V, R>
{
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        let flow = self.labels.left(packet);
        if let Some(record) = self.labels.records.as_mut().get_mut(flow.index()) {
            record.drop(packet.len, reason);
        }
        self.drops.dropped(packet, reason);
    }
}
