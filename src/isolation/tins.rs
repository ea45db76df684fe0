//! Tins, and one share of a host in all of them.

use sched_core::{ConfigError, TinConfig};
use shaper::Overhead;

use super::serve::Serving;
use crate::labels::Labelled;
use crate::storage::Storage;

/// Constant that, times the tin's number, is XORed into the labels of flows in a tin: 2^32 divided
/// by the golden ratio. Tin 0 leaves labels unchanged.
const SPREAD: u32 = 0x9e37_79b9;

/// Returns the label of a flow in a tin: it has a queue in each. A host has one entry for all of
/// them.
#[inline(always)]
const fn label_in(tin: u8, label: u32) -> u32 {
    label ^ (tin as u32).wrapping_mul(SPREAD)
}

impl<S: Storage> Serving<S> {
    /// Returns the tin of a packet with these labels. A number out of range counts as tin 0.
    #[inline(always)]
    pub(super) fn tin_of(&self, labels: &(impl Labelled + ?Sized)) -> u8 {
        if self.choice.is_one() {
            return 0;
        }
        let tin = labels.tin();
        if u32::from(tin) < self.choice.tins() { tin } else { 0 }
    }

    /// Returns the label by which a packet's queue is found: a flow has one in each tin.
    #[inline(always)]
    pub(super) fn queue_label(&self, labels: &(impl Labelled + ?Sized)) -> u32 {
        let tin = labels.tin();
        let tin = if u32::from(tin) < self.choice.tins() { tin } else { 0 };
        label_in(tin, self.isolation.queue_label(labels))
    }

    /// Sets the framing of the link from now on.
    pub(super) fn set_link(&mut self, link: Overhead) {
        self.choice.set_link(link, self.backlogged_tins());
        self.follow_link();
        self.note_selected();
        self.note_front();
    }

    /// Sets the shares of the tins, whose number stays.
    pub(super) fn set_shares(&mut self, tins: &[TinConfig]) -> Result<(), ConfigError> {
        self.choice.set_tins(tins, self.backlogged_tins())?;
        self.note_selected();
        self.note_front();
        Ok(())
    }

    /// Gives a host one share in all tins together, or one in each, from now on. Cost: O(turns).
    pub(super) fn set_across(&mut self, on: bool) {
        let before = self.quanta_of_a_turn();
        self.is_across = on;
        self.was_across |= on && !self.choice.is_one();
        if self.was_across {
            self.serve_no_more_early();
            self.note_charged();
            self.note_selected();
        }
        self.renew_quanta(before);
    }

    /// Adjusts turns of `before` quanta to the number of quanta that a turn should have now.
    pub(super) fn renew_quanta(&mut self, before: u32) {
        if before == self.quanta_of_a_turn() {
            return;
        }
        for at in 0..u32::try_from(self.turns.as_ref().len()).unwrap_or(u32::MAX) {
            let Some(quantum) = self.turn(at).map(|turn| turn.place.quantum()) else { break };
            self.set_quantum(at, quantum.checked_div(before).unwrap_or(quantum));
        }
    }
}
