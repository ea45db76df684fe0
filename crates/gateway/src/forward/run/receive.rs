//! Receives frames, a bounded number per turn, so that a busy device leaves time for sending and
//! for the other device.

use core::mem::take;
use std::io;

use super::{Gateway, clock};
use crate::io::frame::Frame;
use crate::io::sys::{Arrival, BATCH};

/// Maximum number of packets that a device delivers in one turn: four batches.
const A_TURN: usize = 4 * BATCH;

impl Gateway {
    /// Receives what device `at` has.
    pub(super) fn receive(&mut self, at: usize) -> io::Result<()> {
        let (mut spares, mut uncut) = (take(&mut self.spares), take(&mut self.uncut));
        let received = self.receive_into(at, &mut spares, &mut uncut);
        (self.spares, self.uncut) = (spares, uncut);
        received
    }

    /// Receives into these buffers. A frame of several packets may expand to thousands of packets,
    /// so packets ready to send are sent after each batch of those, and the batch width adapts to
    /// keep the turn within [`A_TURN`].
    fn receive_into(
        &mut self,
        at: usize,
        spares: &mut [Frame],
        uncut: &mut [Frame],
    ) -> io::Result<()> {
        let mut arrivals = [Arrival::Whole; BATCH];
        let (mut packets, mut unsent) = (0, 0);
        while packets < A_TURN {
            let width = self.widths[at];
            let spares = spares.get_mut(..width).unwrap_or_default();
            let received = self.devices[at].receive(spares, uncut, &mut arrivals)?;
            let mut now = clock();
            // The kernel reports a connection before it delivers its frames.
            self.nat.hear(now);

            let before = packets;
            for (number, arrival) in arrivals.into_iter().enumerate().take(received) {
                let Self { directions, pool, nat, .. } = self;
                let (direction, translations) = (&mut directions[at], nat.translations());
                let spare = &mut spares[number];
                let (Arrival::Uncut, Some(whole)) = (arrival, uncut.get(number)) else {
                    direction.arrive(now, arrival, spare, pool, translations);
                    packets += 1;
                    continue;
                };
                let cut = direction.arrive_uncut(now, whole, spare, pool, translations);
                (packets, unsent) = (packets + cut, unsent + cut);
                if unsent >= BATCH {
                    now = clock();
                    self.send_due(now)?;
                    unsent = 0;
                }
            }
            self.widths[at] = next_width(width, received, packets - before);
            if received < width {
                return Ok(());
            }
        }
        self.overruns[at] += u64::from(self.devices[at].overruns());
        Ok(())
    }
}

/// Returns the number of frames to receive at once, after `received` of `width` frames expanded to
/// `packets` packets: at most one turn if the next ones are alike.
fn next_width(width: usize, received: usize, packets: usize) -> usize {
    match packets {
        0 => width,
        1..=BATCH => (2 * width).min(BATCH),
        _ if packets <= A_TURN => width,
        _ => (received * A_TURN / packets).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_a_turn_at_most_and_grow_again() {
        assert_eq!(next_width(BATCH, BATCH, BATCH), BATCH);
        // Frames of 45 packets, of 1,365 packets, a single one of those, and then none.
        assert_eq!(next_width(BATCH, BATCH, 45 * BATCH), 2);
        assert_eq!(next_width(2, 2, 90), 2);
        assert_eq!(next_width(BATCH, BATCH, 1_365 * BATCH), 1);
        assert_eq!(next_width(BATCH, 1, 1_365), 1);
        assert_eq!(next_width(1, 0, 0), 1);
        let grown = [1, 2, 4, 8, 16, 32].map(|width| next_width(width, width, width));
        assert_eq!(grown, [2, 4, 8, 16, 32, 32]);
    }
}
