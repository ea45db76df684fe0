//! A transfer without end: an upload of a large file, and its receiver.

use core::net::SocketAddrV4;

use freeboard::sched_core::Nanos;

use crate::host::{Buffers, Host, Tcp};
use crate::measure::goodput::Goodput;
use crate::network::Application;

/// Sender that connects at a given time and from then on writes as much as its connection accepts.
#[derive(Clone, Debug)]
pub struct BulkSender {
    to: SocketAddrV4,
    start: Nanos,
    buffers: Buffers,
    socket: Option<Tcp>,
}

impl BulkSender {
    /// Creates a sender to `to` that starts at `start`. `buffers.send` bounds the bytes in flight.
    #[must_use]
    pub const fn new(to: SocketAddrV4, start: Nanos, buffers: Buffers) -> Self {
        Self { to, start, buffers, socket: None }
    }
}

impl Application for BulkSender {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        if now < self.start {
            return Some(self.start);
        }
        let (to, buffers) = (self.to, self.buffers);
        let socket = *self.socket.get_or_insert_with(|| {
            let socket = host.connect(to, buffers);
            host.send_full_segments(socket);
            socket
        });
        host.write_filler(socket, usize::MAX);
        None
    }
}

/// Receiver that accepts one connection, reads it and counts the bytes.
#[derive(Clone, Debug)]
pub struct BulkReceiver {
    port: u16,
    buffers: Buffers,
    listening: bool,
    socket: Option<Tcp>,
    goodput: Goodput,
}

impl BulkReceiver {
    /// Creates a receiver on `port` that counts the bytes arriving in the window of `goodput`.
    #[must_use]
    pub const fn new(port: u16, buffers: Buffers, goodput: Goodput) -> Self {
        Self { port, buffers, listening: false, socket: None, goodput }
    }

    /// Returns the bytes received in order and without gaps.
    #[must_use]
    pub const fn goodput(&self) -> &Goodput {
        &self.goodput
    }
}

impl Application for BulkReceiver {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        if !core::mem::replace(&mut self.listening, true) {
            host.listen(self.port, self.buffers);
        }
        self.socket = self.socket.or_else(|| host.accept(self.port));
        self.goodput.record(now, host.discard(self.socket?) as u64);
        None
    }
}
