//! Web pages: a browser that loads them, and the server it loads them from.
//!
//! The model is HTTP/1.1 with persistent connections: a document over one connection, then the
//! objects it names over several, each connection asking for the next object when it has read the
//! one before. A page is loaded when the last byte of the last object is read; before the first
//! byte there is a handshake, and after it each object costs a round trip. Name look-up, TLS and
//! the server's and the browser's own time are left out: what remains is what the line causes.

use core::net::SocketAddrV4;

use freeboard::sched_core::Nanos;

use crate::host::{Buffers, Host, Tcp};
use crate::network::Application;
use conformance::rng::Stream;

/// Bytes of a request: a URL, cookies and what the browser says of itself.
const REQUEST: usize = 400;
/// Connections a browser opens to one server.
const CONNECTIONS: usize = 6;
/// A window that the downlink cannot exhaust: 12 Mbit/s · 40 ms are 60,000 bytes.
const WINDOW: usize = 1 << 17;

/// What a page consists of, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The document, which names the rest.
    pub document: u32,
    /// Each object it names.
    pub objects: Vec<u32>,
}

impl Page {
    /// A document and `count` objects of one size.
    #[must_use]
    pub fn uniform(document: u32, count: usize, object: u32) -> Self {
        Self { document, objects: vec![object; count] }
    }

    /// The document first.
    fn parts(&self) -> impl Iterator<Item = u32> {
        // A part without a byte would never be seen to arrive.
        core::iter::once(self.document).chain(self.objects.iter().copied()).map(|part| part.max(1))
    }
}

/// One load of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Which of the browser's pages.
    pub page: usize,
    /// When the user asked for it.
    pub start: Nanos,
    /// When it was complete; `None` if it was not by the end of the run.
    pub end: Option<Nanos>,
}

/// Loads its pages in turn, for ever, with a pause after each.
#[derive(Clone, Debug)]
pub struct Browser {
    server: SocketAddrV4,
    pages: Vec<Page>,
    pause: Nanos,
    /// Draws the pauses: exponential, so that loads do not fall into step with anything.
    stream: Stream,
    next_load: Nanos,
    current: Option<Current>,
    /// Finished by this side, waiting for the other.
    closing: Vec<Tcp>,
    loads: Vec<Load>,
}

/// A page that is being loaded.
#[derive(Clone, Debug)]
struct Current {
    /// Sizes of what was not yet asked for, the next one last. The document comes first.
    to_ask: Vec<u32>,
    /// Parts not yet read completely.
    missing: usize,
    connections: Vec<Connection>,
    /// How many of those there should be: one until the document is read.
    wanted: usize,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    socket: Tcp,
    /// Bytes still to come of the part that was asked for; 0 if none was.
    to_read: usize,
}

impl Browser {
    /// A browser that begins its first page at `start`; `pause` is the mean of its pauses.
    #[must_use]
    pub fn new(
        server: SocketAddrV4,
        pages: Vec<Page>,
        start: Nanos,
        pause: Nanos,
        stream: Stream,
    ) -> Self {
        let (current, closing, loads) = (None, Vec::new(), Vec::new());
        Self { server, pages, pause, stream, next_load: start, current, closing, loads }
    }

    /// Every load so far, in order; the last may not have ended.
    #[must_use]
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    fn begin(&mut self, now: Nanos) {
        let page = self.loads.len() % self.pages.len().max(1);
        let Some(parts) = self.pages.get(page).map(Page::parts) else { return };
        let mut to_ask: Vec<u32> = parts.collect();
        to_ask.reverse();
        let missing = to_ask.len();
        self.current = Some(Current { to_ask, missing, connections: Vec::new(), wanted: 1 });
        self.loads.push(Load { page, start: now, end: None });
    }
}

impl Application for Browser {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        self.closing.retain(|&socket| {
            let over = host.is_over(socket);
            if over {
                host.remove(socket);
            }
            !over
        });
        if self.current.is_none() {
            if now < self.next_load {
                return Some(self.next_load);
            }
            self.begin(now);
        }
        let complete = self.current.as_mut()?.go_on(self.server, host);
        if !complete {
            return None;
        }
        for Connection { socket, .. } in self.current.take()?.connections {
            host.finish(socket);
            self.closing.push(socket);
        }
        self.loads.last_mut()?.end = Some(now);
        self.next_load = now.plus(self.stream.exponential(self.pause));
        Some(self.next_load)
    }
}

impl Current {
    /// Reads what has come and asks for what is missing; returns whether the page is complete.
    fn go_on(&mut self, server: SocketAddrV4, host: &mut Host) -> bool {
        for connection in &mut self.connections {
            let read = host.discard(connection.socket);
            if read > 0 {
                connection.to_read = connection.to_read.saturating_sub(read);
                self.missing -= usize::from(connection.to_read == 0);
                if connection.to_read == 0 && self.wanted == 1 {
                    // What ended was the document.
                    self.wanted = self.missing.clamp(1, CONNECTIONS);
                }
            }
        }
        while self.connections.len() < self.wanted {
            let socket = host.connect(server, Buffers { send: REQUEST * 2, receive: WINDOW });
            self.connections.push(Connection { socket, to_read: 0 });
        }
        for connection in &mut self.connections {
            if connection.to_read == 0
                && host.may_write(connection.socket)
                && let Some(part) = self.to_ask.pop()
            {
                host.write(connection.socket, &request(part));
                connection.to_read = part as usize;
            }
        }
        self.missing == 0
    }
}

/// A request for `len` bytes.
fn request(len: u32) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    if let Some(first) = request.first_chunk_mut() {
        *first = len.to_be_bytes();
    }
    request
}

/// Answers each request with as many bytes as it asks for.
#[derive(Clone, Debug)]
pub struct WebServer {
    port: u16,
    listening: bool,
    open: Vec<Serving>,
}

#[derive(Clone, Debug)]
struct Serving {
    socket: Tcp,
    /// The part of a request that has arrived.
    request: Vec<u8>,
    /// Bytes of the answers that are not yet written.
    to_write: usize,
    finished: bool,
}

impl WebServer {
    /// A server on `port`.
    #[must_use]
    pub const fn new(port: u16) -> Self {
        Self { port, listening: false, open: Vec::new() }
    }
}

impl Application for WebServer {
    fn act(&mut self, _now: Nanos, host: &mut Host) -> Option<Nanos> {
        if !core::mem::replace(&mut self.listening, true) {
            host.listen(self.port, Buffers { send: WINDOW, receive: REQUEST * 4 });
        }
        self.open.extend(core::iter::from_fn(|| host.accept(self.port)).map(Serving::new));
        self.open.retain_mut(|serving| {
            serving.go_on(host);
            let over = host.is_over(serving.socket);
            if over {
                host.remove(serving.socket);
            }
            !over
        });
        None
    }
}

impl Serving {
    const fn new(socket: Tcp) -> Self {
        Self { socket, request: Vec::new(), to_write: 0, finished: false }
    }

    fn go_on(&mut self, host: &mut Host) {
        host.read(self.socket, &mut self.request);
        while let Some((request, rest)) = self.request.split_first_chunk::<REQUEST>() {
            let [a, b, c, d, ..] = *request;
            self.to_write += u32::from_be_bytes([a, b, c, d]) as usize;
            self.request = rest.to_vec();
        }
        self.to_write -= host.write_filler(self.socket, self.to_write);
        if host.is_read_to_the_end(self.socket) && !self.finished {
            self.finished = true;
            host.finish(self.socket);
        }
    }
}
