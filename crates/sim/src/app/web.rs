//! Web pages: a browser that loads them, and a web server.
//!
//! The model is HTTP/1.1 with persistent connections: a document over one connection, then its
//! objects over several; each connection requests the next object when it has read the previous
//! one. A page is complete when the last byte of the last object is read. Before the first byte
//! there is a handshake, and after it each object costs a round trip. DNS, TLS and the processing
//! times of server and browser are not modelled; only delays caused by the link remain.

use core::net::SocketAddrV4;

use freeboard::sched_core::Nanos;

use crate::host::{Buffers, Host, Tcp};
use crate::network::Application;
use conformance::rng::Stream;

/// Bytes of a request: a URL, cookies and other headers.
const REQUEST: usize = 400;
/// Connections that a browser opens to one server.
const CONNECTIONS: usize = 6;
/// Window larger than the bandwidth-delay product of the downlink: 12 Mbit/s · 40 ms are 60,000
/// bytes.
const WINDOW: usize = 1 << 17;

/// Contents of a page, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Size of the document, which names the objects.
    pub document: u32,
    /// Size of each object.
    pub objects: Vec<u32>,
}

impl Page {
    /// Creates a page of a document and `count` objects of one size.
    #[must_use]
    pub fn uniform(document: u32, count: usize, object: u32) -> Self {
        Self { document, objects: vec![object; count] }
    }

    /// Returns the sizes of all parts, the document first.
    fn parts(&self) -> impl Iterator<Item = u32> {
        // An empty part would never be seen to arrive.
        core::iter::once(self.document).chain(self.objects.iter().copied()).map(|part| part.max(1))
    }
}

/// A page of a document and objects of one size, with a name for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKind {
    /// Its name.
    pub name: &'static str,
    /// Size of the document in bytes.
    pub document: u32,
    /// Number of objects.
    pub objects: usize,
    /// Size of each object in bytes.
    pub object: u32,
}

impl PageKind {
    /// Returns the page.
    #[must_use]
    pub fn page(self) -> Page {
        Page::uniform(self.document, self.objects, self.object)
    }
}

/// One load of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Index of the page among the browser's pages.
    pub page: usize,
    /// Time of the first request.
    pub start: Nanos,
    /// Time of completion; `None` if the page was incomplete at the end of the run.
    pub end: Option<Nanos>,
}

/// Browser that loads its pages in turn, forever, with a pause after each.
#[derive(Clone, Debug)]
pub struct Browser {
    server: SocketAddrV4,
    pages: Vec<Page>,
    pause: Nanos,
    /// Random pauses: exponential, so that loads do not synchronize with anything.
    stream: Stream,
    next_load: Nanos,
    current: Option<Current>,
    /// Connections closed by this side and not yet by the peer.
    closing: Vec<Tcp>,
    loads: Vec<Load>,
}

/// A page that is being loaded.
#[derive(Clone, Debug)]
struct Current {
    /// Sizes of the parts not yet requested, the next one last. The document comes first.
    to_ask: Vec<u32>,
    /// Number of parts not yet read completely.
    missing: usize,
    connections: Vec<Connection>,
    /// Target number of connections: one until the document is read.
    wanted: usize,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    socket: Tcp,
    /// Bytes outstanding of the requested part; 0 if none was requested.
    to_read: usize,
}

impl Browser {
    /// Creates a browser that begins its first page at `start`; `pause` is the mean of its pauses.
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

    /// Returns all loads so far, in order; the last may be incomplete.
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
    /// Reads what has arrived and requests missing parts; returns true if the page is complete.
    fn go_on(&mut self, server: SocketAddrV4, host: &mut Host) -> bool {
        for connection in &mut self.connections {
            let read = host.discard(connection.socket);
            if read > 0 {
                connection.to_read = connection.to_read.saturating_sub(read);
                self.missing -= usize::from(connection.to_read == 0);
                if connection.to_read == 0 && self.wanted == 1 {
                    // The part just completed was the document.
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

/// Builds a request for `len` bytes.
fn request(len: u32) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    if let Some(first) = request.first_chunk_mut() {
        *first = len.to_be_bytes();
    }
    request
}

/// Web server that answers each request with the requested number of bytes.
#[derive(Clone, Debug)]
pub struct WebServer {
    port: u16,
    listening: bool,
    open: Vec<Serving>,
}

#[derive(Clone, Debug)]
struct Serving {
    socket: Tcp,
    /// Bytes of an incomplete request.
    request: Vec<u8>,
    /// Bytes of the answers not yet written.
    to_write: usize,
    finished: bool,
}

impl WebServer {
    /// Creates a server on `port`.
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
