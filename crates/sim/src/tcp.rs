//! Model TCP: senders and receivers of segments without bytes, for questions that a complete stack
//! answers too slowly or not at all.
//!
//! ```text
//! Sender ─ Data ─▶ link ─▶ Receiver          up or down
//!        ◀─ link ◀─ Ack ──                   the other way
//! ```
//!
//! - [`traffic`]: pages, peer-to-peer, RRUL, arriving flows, the profiles of RFC 7928
//! - [`network`]: connections and open-loop flows over both directions of a link
//! - [`Sender`]: transmission and loss recovery
//! - [`Receiver`]: order, delayed acknowledgements, SACK blocks, echoes of marks
//! - [`congestion`]: congestion control: NewReno, CUBIC, Prague-like, BBR-like
//! - [`rto`]: the retransmission timeout
//!
//! **Modelled mechanisms and their sources.**
//!
//! | part | source |
//! |---|---|
//! | initial window of ten segments | RFC 6928 |
//! | loss detection by SACK, `pipe`, choice of the next segment | RFC 6675, rules 1 and 2 of `NextSeg` |
//! | window during loss recovery | RFC 6937, proportional rate reduction; RFC 6675 as an option |
//! | lost retransmissions; few segments in flight; tail loss | RFC 8985 (RACK-TLP), see [`Sender`] |
//! | retransmission timeout | RFC 6298, at least 200 ms, see [`rto`] |
//! | timestamps | RFC 7323, to the nanosecond |
//! | delayed acknowledgements | RFC 5681 §4.2: each second segment, after 40 ms at the latest |
//! | SACK blocks | RFC 2018: three, the latest first |
//! | ECN | RFC 3168 §6.1; a count of marks in each acknowledgement for scalable senders |
//!
//! **Simplifications.** Connections are established from the start: there is no handshake, and ECN
//! is negotiated; [`traffic::Pages`] sends handshakes as transfers of their own. All segments of a
//! connection have one size, including the last one, and are numbered; a segment number replaces a
//! range of sequence numbers. There is no reverse data. The receiver's window is
//! unlimited unless [`Config::window`] is set: Linux lets its buffers grow to 6 MB, more than any
//! link here holds. Segments are not coalesced. A link never reorders segments, so nothing undoes a
//! window reduction made in error.

use freeboard::sched_core::Nanos;

pub mod congestion;
pub mod network;
mod receiver;
pub mod rto;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod transfers;
mod wire;

pub use receiver::Receiver;
pub use sender::{Config, Events, Recovery, Sender};

/// Payload of a segment in bytes: an MTU of 1,500 without the headers of IPv4 and TCP and the
/// timestamps.
pub const PAYLOAD: u32 = 1_448;
/// Headers of IPv4 and TCP with timestamps, in bytes.
pub const HEADERS: u32 = 52;
/// Maximum number of SACK blocks of an acknowledgement beside timestamps (RFC 2018 §3).
pub const BLOCKS: usize = 3;

/// A data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Number of the segment in its connection, from 0.
    pub number: u32,
    /// True if the sender has reduced its window (CWR, RFC 3168 §6.1.2).
    pub reduced: bool,
    /// Sending time: the timestamp (TSval, RFC 7323 §3).
    pub at: Nanos,
}

impl Data {
    /// Length of its packet in bytes.
    pub const LEN: u32 = PAYLOAD + HEADERS;
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Next expected segment: all segments below this number have arrived.
    pub next: u32,
    /// Further segments that have arrived, from the first number to below the second; empty blocks
    /// come last.
    pub blocks: [(u32, u32); BLOCKS],
    /// True if a mark was seen and the sender has not confirmed a window reduction (ECE, RFC 3168
    /// §6.1.3).
    pub echo: bool,
    /// Echoed timestamp (TSecr, RFC 7323 §4.3).
    pub at: Nanos,
    /// Number of segments received with a mark so far. Accurate ECN transmits the last bits of
    /// this count.
    pub marks: u32,
}

impl Ack {
    /// Returns the non-empty SACK blocks.
    pub fn blocks(&self) -> impl Iterator<Item = core::ops::Range<u32>> {
        self.blocks.into_iter().filter(|block| block.0 < block.1).map(|(start, end)| start..end)
    }

    /// Returns the length of its packet in bytes: two bytes of padding, two of option header, eight
    /// per block.
    #[must_use]
    pub fn packet_len(&self) -> u32 {
        match u32::try_from(self.blocks().count()).unwrap_or(0) {
            0 => HEADERS,
            blocks => HEADERS + 4 + 8 * blocks,
        }
    }
}
