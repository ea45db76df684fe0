//! Model TCP: senders and receivers of segments without bytes, for questions that a whole stack
//! answers too slowly or not at all.
//!
//! ```text
//! Sender ─ Data ─▶ link ─▶ Receiver          up or down
//!        ◀─ link ◀─ Ack ──                   the other way
//! ```
//!
//! - [`network`]: connections and open-loop flows over the two directions of a line, on the one
//!   loop
//! - [`Sender`]: what may be sent and when; recovery of losses
//! - [`Receiver`]: order, delayed acknowledgements, SACK blocks, echoes of marks
//! - [`congestion`]: how large the window is: NewReno, CUBIC, Prague-like, BBR-like
//! - [`rto`]: the retransmission timeout
//!
//! **What is modelled, and whose rule it is.**
//!
//! | part | source |
//! |---|---|
//! | window of ten segments at the start | RFC 6928 |
//! | loss found by SACK, `pipe`, what is sent next | RFC 6675, rules 1 and 2 of `NextSeg` |
//! | window while losses are repaired | RFC 6937, proportional rate reduction; RFC 6675 as an option |
//! | a lost retransmission; few segments in flight; the tail | RFC 8985 (RACK-TLP), see [`Sender`] |
//! | retransmission timeout | RFC 6298, at least 200 ms, as [`rto`] says |
//! | timestamps | RFC 7323, to the nanosecond |
//! | delayed acknowledgements | RFC 5681 §4.2: each second segment, after 40 ms at the latest |
//! | SACK blocks | RFC 2018: three, the latest first |
//! | ECN | RFC 3168 §6.1; a count of marks in each acknowledgement for scalable senders |
//!
//! **Simplifications.** Connections stand from the start: there is no handshake, and ECN is
//! negotiated. All segments are full, the last one too, and numbered; a number is what a range of
//! sequence numbers is in TCP. There is no reverse data. The receiver's window is no limit unless
//! [`Config::window`] is set: Linux lets its buffers grow to 6 MB, more than any line here holds.
//! Frames are not merged. Segments are never reordered by a link, so nothing undoes a window that
//! was reduced in error.

use freeboard::sched_core::Nanos;

pub mod congestion;
pub mod network;
mod receiver;
pub mod rto;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::Receiver;
pub use sender::{Config, Events, Recovery, Sender};

/// Payload of a segment in bytes: an MTU of 1,500 without the headers of IPv4 and TCP and the
/// timestamps.
pub const PAYLOAD: u32 = 1_448;
/// Headers of IPv4 and TCP with timestamps, in bytes.
pub const HEADERS: u32 = 52;
/// SACK blocks of an acknowledgement: as many as fit beside timestamps (RFC 2018 §3).
pub const BLOCKS: usize = 3;

/// A segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Which segment of the connection it is, from 0.
    pub number: u32,
    /// The sender has reduced its window (CWR, RFC 3168 §6.1.2).
    pub reduced: bool,
    /// When it was sent: the timestamp (TSval, RFC 7323 §3).
    pub at: Nanos,
}

impl Data {
    /// Length of its packet in bytes.
    pub const LEN: u32 = PAYLOAD + HEADERS;
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// All segments below this number have arrived.
    pub next: u32,
    /// Segments from the first number to below the second have arrived too; empty blocks are the
    /// last.
    pub blocks: [(u32, u32); BLOCKS],
    /// A mark was seen and the sender has not said that it reduced its window (ECE, RFC 3168
    /// §6.1.3).
    pub echo: bool,
    /// The timestamp of the segment that is answered (TSecr, RFC 7323 §4.3).
    pub at: Nanos,
    /// Segments that came with a mark so far. Accurate ECN has the last bits of this count in the
    /// header.
    pub marks: u32,
}

impl Ack {
    /// The blocks that are not empty.
    pub fn blocks(&self) -> impl Iterator<Item = core::ops::Range<u32>> {
        self.blocks.into_iter().filter(|block| block.0 < block.1).map(|(start, end)| start..end)
    }

    /// Length of its packet in bytes: two bytes of padding, two of the option's head, eight a
    /// block.
    #[must_use]
    pub fn packet_len(&self) -> u32 {
        match u32::try_from(self.blocks().count()).unwrap_or(0) {
            0 => HEADERS,
            blocks => HEADERS + 4 + 8 * blocks,
        }
    }
}
