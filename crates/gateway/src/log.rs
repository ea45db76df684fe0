//! Messages on standard error and reports on standard output, without delaying any frame.
//!
//! A write blocks on a pipe that is not read, a stopped terminal or a slow disk. Polling first does
//! not help: a pipe with one free page accepts part of a longer line and blocks on the rest. So
//! each output has a thread that writes, and a bounded buffer in front of it. A line that does not
//! fit into the buffer is dropped whole.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

/// Capacity of the buffer of an output in bytes.
const ROOM: usize = 256 << 10;
/// Stack of a writing thread in bytes.
const STACK: usize = 128 << 10;
/// Maximum wait for a reader at the end of the program.
const PATIENCE: Duration = Duration::from_secs(1);

static STANDARD_ERROR: OnceLock<Outlet> = OnceLock::new();
static STANDARD_OUTPUT: OnceLock<Outlet> = OnceLock::new();
/// Lines dropped on standard error since the last one that was accepted.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Writes a line to standard error.
///
/// The first line starts the writing thread with the caller's current privileges. There are none:
/// before its first line the gateway has dropped its privileges, or is about to exit.
pub(crate) fn say(text: &str) {
    let outlet = STANDARD_ERROR.get_or_init(|| Outlet::new(io::stderr()));
    let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
    let mut text = line(text);
    if left_out > 0 {
        text = line(&format!(
            "{left_out} messages were dropped because standard error is not being read"
        )) + &text;
    }
    if !outlet.put(&text) {
        LEFT_OUT.fetch_add(left_out + 1, Ordering::Relaxed);
    }
}

/// Prints a report on standard output.
pub(crate) fn print(report: &str) {
    if !STANDARD_OUTPUT.get_or_init(|| Outlet::new(io::stdout())).put(report) {
        say("a report was dropped because standard output is not being read");
    }
}

/// Waits until everything is written, at most one second per output.
pub(crate) fn finish() {
    for outlet in [&STANDARD_OUTPUT, &STANDARD_ERROR].into_iter().filter_map(OnceLock::get) {
        outlet.wait(PATIENCE);
    }
}

/// Formats one line; control characters, for example in names of devices and files, are escaped.
fn line(text: &str) -> String {
    let mut line = String::from("freeboard-gateway: ");
    for letter in text.chars() {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line.push('\n');
    line
}

/// An output with its writing thread.
#[derive(Debug)]
struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes waiting to be written.
    waiting: Vec<u8>,
    /// True while other bytes are being written.
    is_writing: bool,
    /// True if the thread could not be started.
    is_dead: bool,
}

impl Shared {
    /// Locks the state. It is held only while bytes are copied, never during a write.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_for_ever(&self, to: &impl AsFd) {
        let mut state = self.lock();
        loop {
            state.is_writing = !state.waiting.is_empty();
            if state.is_writing {
                let bytes = core::mem::take(&mut state.waiting);
                drop(state);
                write_all(to, &bytes);
                state = self.lock();
            } else {
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Outlet {
    fn new(to: impl AsFd + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let writing = Arc::clone(&shared);
        let thread = thread::Builder::new().name("writer".to_owned()).stack_size(STACK);
        if thread.spawn(move || writing.write_for_ever(&to)).is_err() {
            shared.lock().is_dead = true;
        }
        Self { shared }
    }

    /// Queues `text` for writing; returns false if it does not fit.
    fn put(&self, text: &str) -> bool {
        let mut state = self.shared.lock();
        let has_room = !state.is_dead && state.waiting.len() + text.len() <= ROOM;
        if has_room {
            state.waiting.extend(text.as_bytes());
            self.shared.changed.notify_all();
        }
        has_room
    }

    /// Waits at most `patience` until everything is written.
    fn wait(&self, patience: Duration) {
        let is_busy =
            |state: &mut State| !state.is_dead && (state.is_writing || !state.waiting.is_empty());
        let state = self.shared.lock();
        drop(self.shared.changed.wait_timeout_while(state, patience, is_busy));
    }
}

/// Writes all bytes, however long it takes; drops the rest if the reader is gone.
fn write_all(to: &impl AsFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or(&[]),
            Err(Errno::EINTR) => {}
            // The parent process may have set the output to non-blocking.
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(to.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, pipe};
    use std::time::Instant;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(
            line("--lan a\nb\u{1b}[2J: größe"),
            "freeboard-gateway: --lan a\\nb\\u{1b}[2J: größe\n"
        );
    }

    /// Goal: a reader that stops reading blocks only the writing thread. Later it reads whole texts
    /// in order, and only texts that did not fit are missing.
    #[test]
    fn a_pipe_that_is_not_read_keeps_one_thread_waiting() {
        let (mut reader, writer) = pipe().unwrap();
        let outlet = Outlet::new(writer);
        let text = |number: usize| format!("{number:0>9999}\n");
        let begin = Instant::now();
        let taken: Vec<usize> = (0..100).filter(|&number| outlet.put(&text(number))).collect();
        // A buffer, at most another one that the thread has taken, and the capacity of the pipe.
        assert!((26..=59).contains(&taken.len()), "{}", taken.len());
        outlet.wait(Duration::from_millis(50));
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        let mut read = vec![0; taken.len() * 10_000];
        reader.read_exact(&mut read).unwrap();
        let expected: String = taken.iter().map(|&number| text(number)).collect();
        assert!(read == expected.as_bytes());
        outlet.wait(Duration::from_secs(20));
        assert!(outlet.put(&text(100)));
        let mut read = [0; 10_000];
        reader.read_exact(&mut read).unwrap();
        assert!(read == text(100).as_bytes());
        drop(reader);
        assert!(outlet.put("it goes on"));
        outlet.wait(Duration::from_secs(20));
        assert!(outlet.shared.lock().waiting.is_empty());
    }
}
