//! A transfer that never ends: an upload of a large file, and its receiver.

use core::net::SocketAddrV4;

use freeboard::sched_core::Nanos;

use crate::host::{Buffers, Host, Tcp};
use crate::measure::goodput::Goodput;
use crate::network::Application;

/// Connects at an instant and from then on writes as much as its connection takes.
#[derive(Clone, Debug)]
pub struct BulkSender {
    to: SocketAddrV4,
    start: Nanos,
    buffers: Buffers,
    socket: Option<Tcp>,
}

impl BulkSender {
    /// A sender to `to` from `start` on. `buffers.send` bounds what it has in flight.
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

/// Accepts one connection and reads it, counting.
#[derive(Clone, Debug)]
pub struct BulkReceiver {
    port: u16,
    buffers: Buffers,
    listening: bool,
    socket: Option<Tcp>,
    goodput: Goodput,
}

impl BulkReceiver {
    /// A receiver on `port` that counts what arrives in the window of `goodput`.
    #[must_use]
    pub const fn new(port: u16, buffers: Buffers, goodput: Goodput) -> Self {
        Self { port, buffers, listening: false, socket: None, goodput }
    }

    /// What has arrived, in order and without gaps.
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
