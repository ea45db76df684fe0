//! Serves statistics on a Unix socket and metrics over HTTP. No packet waits for a slow client.

use core::net::SocketAddr;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

/// Maximum number of clients of each kind.
const MOST: usize = 16;
/// Maximum number of unread bytes; a client with more is disconnected.
const UNREAD: usize = 1 << 20;
/// Maximum length of a request.
const REQUEST: usize = 8_192;

/// Unix socket on which every client receives each report.
#[derive(Debug)]
pub(crate) struct Stats {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client<UnixStream>>,
}

#[derive(Debug)]
struct Client<S> {
    stream: S,
    unsent: Vec<u8>,
    request: Vec<u8>,
    /// True if the client has closed its sending side; it may still read.
    has_said_all: bool,
    /// True if the client has been sent a report.
    is_told: bool,
}

impl<S: Read + Write> Client<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            unsent: Vec::new(),
            request: Vec::new(),
            has_said_all: false,
            is_told: false,
        }
    }

    /// Sends what the client accepts; returns false if it has disconnected.
    fn send(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return false,
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.unsent.len() <= UNREAD
    }

    /// Reads what the client sends; returns false if it has disconnected or sends too much.
    fn receive(&mut self) -> bool {
        let mut room = [0; 1_024];
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => {
                    self.has_said_all = true;
                    break;
                }
                Ok(read) => self.request.extend(&room[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.request.len() > REQUEST {
                return false;
            }
        }
        true
    }
}

/// The system has no descriptor or memory for a waiting client. The client keeps waiting and the
/// listening socket stays readable, so no client should be accepted for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Passes waiting clients to `take`, at most [`MOST`], so that frames do not wait long.
fn accept_from<T>(
    mut accept: impl FnMut() -> io::Result<T>,
    mut take: impl FnMut(T),
) -> Result<(), Exhausted> {
    for _ in 0..MOST {
        match accept() {
            Ok(come) => take(come),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(()),
                // The client has disconnected already.
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                _ => return Err(Exhausted),
            },
        }
    }
    Ok(())
}

/// Returns true if the other end has closed both directions.
fn has_gone(stream: &UnixStream) -> bool {
    let mut end = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut end, PollTimeout::ZERO) == Ok(1)
}

/// Connects to `path` without waiting, to find out if a program listens there.
fn knock(path: &Path) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)
}

impl Stats {
    /// Listens at `path`; a socket without a listening program is replaced.
    pub(crate) fn listen(path: &Path) -> Result<Self, String> {
        let named = |why: &str| format!("--stats {}: {why}", path.display());
        if let Ok(there) = std::fs::symlink_metadata(path) {
            if !there.file_type().is_socket() {
                return Err(named("the file exists and is not a socket"));
            }
            match knock(path) {
                Err(Errno::ECONNREFUSED) => {}
                // The backlog is full, or the socket has another type.
                Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => {
                    return Err(named("another program listens there"));
                }
                Err(error) => return Err(named(error.desc())),
            }
            std::fs::remove_file(path).map_err(|error| named(&error.to_string()))?;
        }
        let listener = UnixListener::bind(path).map_err(|error| named(&error.to_string()))?;
        let open = std::fs::Permissions::from_mode(0o660);
        std::fs::set_permissions(path, open).map_err(|error| named(&error.to_string()))?;
        listener.set_nonblocking(true).map_err(|error| named(&error.to_string()))?;
        Ok(Self { listener, path: path.to_owned(), clients: Vec::new() })
    }

    /// Accepts waiting clients.
    pub(crate) fn accept(&mut self) -> Result<(), Exhausted> {
        let Self { listener, clients, .. } = self;
        accept_from(
            || listener.accept(),
            |(stream, _)| {
                // Disconnected clients would be noticed at the next report only.
                if clients.len() == MOST {
                    clients.retain(|client| !has_gone(&client.stream));
                }
                if clients.len() < MOST && stream.set_nonblocking(true).is_ok() {
                    clients.push(Client::new(stream));
                }
            },
        )
    }

    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Sends a line to all clients.
    pub(crate) fn tell(&mut self, line: &str) {
        self.tell_those(line, |_| true);
    }

    /// Returns true if a client has not been sent a report yet.
    pub(crate) fn has_newcomers(&self) -> bool {
        self.clients.iter().any(|client| !client.is_told)
    }

    /// Sends a line to the clients that have not been sent one yet.
    pub(crate) fn greet(&mut self, line: &str) {
        self.tell_those(line, |client| !client.is_told);
    }

    fn tell_those(&mut self, line: &str, is_meant: impl Fn(&Client<UnixStream>) -> bool) {
        self.clients.retain_mut(|client| {
            if !is_meant(client) {
                return true;
            }
            client.is_told = true;
            client.unsent.extend(line.as_bytes());
            client.receive() && client.send()
        });
    }
}

impl AsFd for Stats {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        // Fails if the gateway's user may not remove it; the next start replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listening socket that answers HTTP requests for `/metrics`.
#[derive(Debug)]
pub(crate) struct Metrics {
    listener: TcpListener,
    clients: Vec<Client<TcpStream>>,
}

impl Metrics {
    pub(crate) fn listen(address: SocketAddr) -> Result<Self, String> {
        let named = |error: io::Error| format!("--metrics {address}: {error}");
        let listener = TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true).map_err(named)?;
        Ok(Self { listener, clients: Vec::new() })
    }

    /// Accepts waiting clients; `watch` gets the descriptor of each.
    pub(crate) fn accept(&mut self, watch: impl Fn(BorrowedFd<'_>)) -> Result<(), Exhausted> {
        let Self { listener, clients } = self;
        accept_from(
            || listener.accept(),
            |(stream, _)| {
                if stream.set_nonblocking(true).is_err() {
                    return;
                }
                // Replaces the client that has been connected longest.
                if clients.len() == MOST {
                    clients.remove(0);
                }
                watch(stream.as_fd());
                clients.push(Client::new(stream));
            },
        )
    }

    /// Answers the clients that have sent a request.
    pub(crate) fn answer(&mut self, text: impl Fn() -> String) {
        self.clients.retain_mut(|client| {
            let is_answered = !client.unsent.is_empty();
            if !is_answered {
                if !client.receive() {
                    return false;
                }
                if !client.request.windows(4).any(|end| end == b"\r\n\r\n") {
                    return !client.has_said_all;
                }
                client.unsent = response(&client.request, &text);
            }
            client.send() && !client.unsent.is_empty()
        });
    }
}

impl AsFd for Metrics {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Returns the response to an HTTP request.
fn response(request: &[u8], text: &impl Fn() -> String) -> Vec<u8> {
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    // The query string is ignored.
    let (method, path) = (words.next(), words.next().and_then(|path| path.split('?').next()));
    let (status, body) = match (method, path) {
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", text()),
        (Some("GET" | "HEAD"), Some("/")) => ("200 OK", "metrics are at /metrics\n".to_owned()),
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "expected GET or HEAD\n".to_owned()),
    };
    // Required with this status.
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\n{allow}Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if method != Some("HEAD") {
        answer += &body;
    }
    answer.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind, listen};
    use std::io::{BufRead as _, BufReader};
    use std::net::Shutdown;
    use std::os::unix::net::UnixDatagram;

    fn get(path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        String::from_utf8(response(request.as_bytes(), &|| "sent 1\n".to_owned())).unwrap()
    }

    #[test]
    fn metrics_are_at_their_path_only() {
        assert!(
            get("/metrics").starts_with("HTTP/1.1 200 OK")
                && get("/metrics").ends_with("\r\n\r\nsent 1\n")
        );
        assert!(get("/metrics?name=sent").ends_with("\r\n\r\nsent 1\n"));
        assert!(get("/other?/metrics").starts_with("HTTP/1.1 404"));
        let post = response(b"POST /metrics HTTP/1.1\r\n\r\n", &String::new);
        assert!(post.starts_with(b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"));
        // Same header as for GET, and no body.
        for path in ["/metrics", "/", "/other"] {
            let request = format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            let head = response(request.as_bytes(), &|| "sent 1\n".to_owned());
            let (expected, _) =
                get(path).split_once("\r\n\r\n").map(|(a, b)| (a.to_owned(), b.len())).unwrap();
            assert_eq!(String::from_utf8(head).unwrap(), expected + "\r\n\r\n");
        }
    }

    #[test]
    fn a_request_in_two_parts_is_answered_once_and_one_without_end_is_not() {
        let mut metrics = Metrics::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.listener.local_addr().unwrap();
        let mut asking = TcpStream::connect(address).unwrap();
        asking.write_all(b"GET /metrics HT").unwrap();
        metrics.accept(|_| ()).unwrap();
        assert_eq!(metrics.clients.len(), 1);
        metrics.answer(|| unreachable!("the request is not complete"));
        asking.write_all(b"TP/1.1\r\n\r\n").unwrap();
        while !metrics.clients.is_empty() {
            metrics.answer(|| "sent 1\n".to_owned());
        }
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("sent 1\n"), "{answer}");

        // A client that closes its sending side may still read; one that does so too early has
        // disconnected.
        let mut asking = TcpStream::connect(address).unwrap();
        asking.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        asking.shutdown(Shutdown::Write).unwrap();
        let early = TcpStream::connect(address).unwrap();
        early.shutdown(Shutdown::Write).unwrap();
        metrics.accept(|_| ()).unwrap();
        while !metrics.clients.is_empty() {
            metrics.answer(|| "sent 2\n".to_owned());
        }
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("sent 2\n"), "{answer}");

        let mut endless = TcpStream::connect(address).unwrap();
        metrics.accept(|_| ()).unwrap();
        while !metrics.clients.is_empty() {
            let _ = endless.write_all(&[b'x'; 1_000]);
            metrics.answer(|| unreachable!("the request has no end"));
        }
    }

    #[test]
    fn a_client_that_has_gone_again_is_passed_over_and_a_lack_of_descriptors_is_said() {
        let errors = |errors: &[i32]| {
            let mut errors = errors.iter();
            let mut taken = 0;
            let accept = || match errors.next() {
                Some(0) => Ok(()),
                Some(&error) => Err(io::Error::from_raw_os_error(error)),
                None => unreachable!("asked once too often"),
            };
            let outcome = accept_from(accept, |()| taken += 1);
            (outcome, taken, errors.count())
        };
        assert_eq!(errors(&[0, libc::ECONNABORTED, 0, libc::EAGAIN]), (Ok(()), 2, 0));
        for lack in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert_eq!(errors(&[0, lack]), (Err(Exhausted), 1, 0));
        }
        // Further clients wait for the next turn.
        assert_eq!(errors(&[0; MOST + 3]), (Ok(()), MOST, 3));
    }

    /// Returns what a client has been sent so far.
    fn heard(client: &UnixStream) -> String {
        client.set_nonblocking(true).unwrap();
        let mut text = Vec::new();
        assert!(BufReader::new(client).read_to_end(&mut text).is_err(), "it is still open");
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_client_between_two_reports_is_greeted_alone() {
        let name = format!("freeboard-greeted-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut stats = Stats::listen(&path).unwrap();
        let first = UnixStream::connect(&path).unwrap();
        stats.accept().unwrap();
        assert!(stats.has_newcomers());
        stats.tell("1\n");
        assert!(!stats.has_newcomers());
        let second = UnixStream::connect(&path).unwrap();
        stats.accept().unwrap();
        stats.greet("2\n");
        stats.greet("3\n");
        stats.tell("4\n");
        assert_eq!([heard(&first), heard(&second)], ["1\n4\n", "2\n4\n"]);
    }

    /// Goal: until the next report, which may be a day away, disconnected clients do not keep
    /// others out.
    #[test]
    fn a_client_that_has_gone_makes_room_and_a_silent_one_keeps_its_place() {
        let path = std::env::temp_dir().join(format!("freeboard-left-{}", std::process::id()));
        let mut stats = Stats::listen(&path).unwrap();
        let silent = UnixStream::connect(&path).unwrap();
        silent.shutdown(Shutdown::Write).unwrap();
        for _ in 0..3 * MOST {
            let passing = UnixStream::connect(&path).unwrap();
            stats.accept().unwrap();
            stats.greet("1\n");
            assert_eq!(heard(&passing), "1\n");
        }
        let staying: Vec<UnixStream> =
            (1..MOST).map(|_| UnixStream::connect(&path).unwrap()).collect();
        stats.accept().unwrap();
        let _one_too_many = UnixStream::connect(&path).unwrap();
        stats.accept().unwrap();
        assert_eq!(stats.clients.len(), MOST);
        stats.tell("2\n");
        assert_eq!(heard(&silent), "1\n2\n");
        assert!(staying.iter().all(|client| heard(client) == "2\n"));
    }

    #[test]
    fn every_client_is_told_and_one_that_has_gone_is_forgotten() {
        let path = std::env::temp_dir().join(format!("freeboard-stats-{}", std::process::id()));
        let mut stats = Stats::listen(&path).unwrap();
        assert!(Stats::listen(&path).unwrap_err().contains("another program listens there"));
        let (one, two) = (UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap());
        // The second client reads, and sends nothing.
        two.shutdown(Shutdown::Write).unwrap();
        stats.accept().unwrap();
        stats.tell("{}\n");
        for client in [&one, &two] {
            let mut line = String::new();
            BufReader::new(client).read_line(&mut line).unwrap();
            assert_eq!(line, "{}\n");
        }
        drop(one);
        stats.tell("{}\n");
        stats.tell("{}\n");
        assert_eq!(stats.clients.len(), 1);
        // A client that does not read is disconnected.
        let long = "x".repeat(UNREAD);
        for _ in 0..4 {
            stats.tell(&long);
        }
        assert!(!stats.has_clients());
        drop(stats);
        assert!(!path.exists());
        // The socket of another program is kept, whatever its type; one without a program is
        // replaced.
        let other = UnixDatagram::bind(&path).unwrap();
        assert!(Stats::listen(&path).unwrap_err().contains("another program listens there"));
        other.send_to(b"still there", &path).unwrap();
        drop(other);
        drop(Stats::listen(&path).unwrap());
        let busy = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
        bind(busy.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&busy, Backlog::new(0).unwrap()).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(Stats::listen(&path).unwrap_err().contains("another program listens there"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(Stats::listen(&path).unwrap_err().contains("not a socket"));
        std::fs::remove_file(&path).unwrap();
    }
}
