//! Calls and video: RTP packets sent at fixed times, and the fate of each.

use core::iter::Peekable;
use core::net::SocketAddrV4;

use freeboard::sched_core::Nanos;

use crate::host::{Host, Udp};
use crate::network::Application;
use crate::source::{Cbr, Sent};

/// The fixed header of RTP (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;
/// Bytes of the packet number and sending time at the start of the payload.
const STAMP: usize = 16;

/// A source of payloads with its RTP payload type.
#[derive(Clone, Debug)]
pub struct Packetised {
    /// Sending times and lengths of payloads. Payloads below 16 bytes are padded to 16.
    pub source: Cbr,
    /// RTP payload type: 0 for G.711 µ-law, 96 and above for dynamic types (RFC 3551 §6).
    pub payload_type: u8,
    /// Time of the end: no packet is sent at or after it.
    pub until: Nanos,
}

/// One end of a call or video stream: sends, receives, or both.
///
/// Each packet carries its number and the time at which it was passed to the stack, so the receiver
/// measures the delay over everything in between.
#[derive(Clone, Debug)]
pub struct Media {
    port: u16,
    peer: SocketAddrV4,
    sending: Option<Peekable<Sending>>,
    payload_type: u8,
    sent: Vec<Nanos>,
    /// Delay of each packet that has arrived, by number.
    delays: Vec<Option<Nanos>>,
    socket: Option<Udp>,
}

#[derive(Clone, Debug)]
struct Sending {
    source: Cbr,
    until: Nanos,
}

impl Iterator for Sending {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        self.source.next().filter(|packet| packet.at < self.until)
    }
}

impl Media {
    /// Creates an end on UDP port `port` that sends `media`, if any, to `peer`.
    #[must_use]
    pub fn new(port: u16, peer: SocketAddrV4, media: Option<Packetised>) -> Self {
        let payload_type = media.as_ref().map_or(0, |media| media.payload_type);
        let sending = media.map(|media| {
            let Packetised { source, until, .. } = media;
            Sending { source, until }.peekable()
        });
        let (sent, delays) = (Vec::new(), Vec::new());
        Self { port, peer, sending, payload_type, sent, delays, socket: None }
    }

    /// Returns the sending time of each packet, by number.
    #[must_use]
    pub fn sent(&self) -> &[Nanos] {
        &self.sent
    }

    /// Returns the delays of the peer's packets, by number. Packets that have not arrived are
    /// `None` or beyond the end of the slice.
    #[must_use]
    pub fn delays(&self) -> &[Option<Nanos>] {
        &self.delays
    }

    fn packet(&self, now: Nanos, payload: u32) -> Vec<u8> {
        let number = self.sent.len() as u64;
        let mut packet = vec![0; RTP_HEADER + (payload as usize).max(STAMP)];
        // Version 2, no padding, no extension; sequence number modulo 2^16; 8 kHz clock.
        packet[0] = 0x80;
        packet[1] = self.payload_type & 0x7f;
        packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        packet[4..8].copy_from_slice(&((now.0 / 125_000) as u32).to_be_bytes());
        packet[RTP_HEADER..][..8].copy_from_slice(&number.to_be_bytes());
        packet[RTP_HEADER + 8..][..8].copy_from_slice(&now.0.to_be_bytes());
        packet
    }

    fn receive(&mut self, now: Nanos, packet: &[u8]) {
        let stamp = |at: usize| {
            let bytes = packet.get(RTP_HEADER + at..)?.first_chunk::<8>()?;
            Some(u64::from_be_bytes(*bytes))
        };
        let (Some(number), Some(sent)) = (stamp(0), stamp(8)) else { return };
        let number = number as usize;
        if self.delays.len() <= number {
            self.delays.resize(number + 1, None);
        }
        self.delays[number].get_or_insert(now.since(Nanos(sent)));
    }
}

impl Application for Media {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        let port = self.port;
        let socket = *self.socket.get_or_insert_with(|| host.bind(port));
        host.receive_from(socket, |packet| self.receive(now, packet));
        while let Some(due) = self.sending.as_mut()?.next_if(|packet| packet.at <= now) {
            host.send_to(socket, self.peer, &self.packet(now, due.payload));
            self.sent.push(now);
        }
        self.sending.as_mut()?.peek().map(|packet| packet.at)
    }
}
