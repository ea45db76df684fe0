//! What is said to people: lines on standard error, and reports on standard output. No frame waits
//! for a reader.
//!
//! A pipe that is not read, a stopped terminal and a slow disk make a write wait. A poll before the
//! write does not help: a pipe with room for one page takes a part of a longer line, and waits with
//! the rest. So each output has a thread that writes, and a bounded buffer in front of the thread.
//! A line that finds no room in the buffer is left out as a whole.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

/// What may wait for the reader of an output, in bytes.
const ROOM: usize = 256 << 10;
/// The stack of a thread that writes, in bytes.
const STACK: usize = 128 << 10;
/// How long the end of the program waits for a reader.
const PATIENCE: Duration = Duration::from_secs(1);

static STANDARD_ERROR: OnceLock<Outlet> = OnceLock::new();
static STANDARD_OUTPUT: OnceLock<Outlet> = OnceLock::new();
/// Lines that found no room on standard error since the last that did.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Says a line on standard error.
///
/// The first line starts the thread that writes, with the caller's privileges of that moment. These
/// are none: before its first line the gateway has given up its privileges, or is about to end.
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

/// Waits until all is written, for each output a second at most.
pub(crate) fn finish() {
    for outlet in [&STANDARD_OUTPUT, &STANDARD_ERROR].into_iter().filter_map(OnceLock::get) {
        outlet.wait(PATIENCE);
    }
}

/// One line, whatever the names of devices and files in it are: control characters are written out.
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

/// An output with a thread that writes to it.
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
    /// Bytes that wait to be written.
    waiting: Vec<u8>,
    /// Other bytes are being written.
    is_writing: bool,
    /// The thread could not be started.
    is_dead: bool,
}

impl Shared {
    /// The state. It is locked for as long as some bytes take to be copied, never during a write.
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

    /// Has `text` written, or leaves it out: false.
    fn put(&self, text: &str) -> bool {
        let mut state = self.shared.lock();
        let has_room = !state.is_dead && state.waiting.len() + text.len() <= ROOM;
        if has_room {
            state.waiting.extend(text.as_bytes());
            self.shared.changed.notify_all();
        }
        has_room
    }

    /// Waits until all is written, for `patience` at most.
    fn wait(&self, patience: Duration) {
        let is_busy =
            |state: &mut State| !state.is_dead && (state.is_writing || !state.waiting.is_empty());
        let state = self.shared.lock();
        drop(self.shared.changed.wait_timeout_while(state, patience, is_busy));
    }
}

/// Writes all bytes, however long that takes. Where the reader is gone the rest is dropped.
fn write_all(to: &impl AsFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or(&[]),
            Err(Errno::EINTR) => {}
            // The parent process may have set the output to non-blocking: wait until there is room.
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

    /// Goal: a reader that does not read keeps the writer's thread waiting, and no other. Later it
    /// reads whole texts in their order; only texts that found no room are missing.
    #[test]
    fn a_pipe_that_is_not_read_keeps_one_thread_waiting() {
        let (mut reader, writer) = pipe().unwrap();
        let outlet = Outlet::new(writer);
        let text = |number: usize| format!("{number:0>9999}\n");
        let begin = Instant::now();
        let taken: Vec<usize> = (0..100).filter(|&number| outlet.put(&text(number))).collect();
        // A buffer, at most another that the thread has taken, and what the pipe holds.
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
