//! `freeboard-gateway top` on a terminal: keys, signals, and a terminal that disappears.

use core::time::Duration;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Instant;

use nix::pty::{Winsize, openpty};

use crate::topology::alone;

/// The program on a terminal whose other end is the test.
struct Top {
    child: Child,
    terminal: File,
    folder: PathBuf,
}

impl Top {
    /// Shows the reports of a socket that sends one every 50 ms.
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freeboard-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"{\"seconds\":1.0,\"directions\":[]}\n").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).unwrap();
        // Copies, which the program does not inherit: its terminal disappears when the test closes
        // this end.
        let terminal = File::from(pair.master.try_clone().unwrap());
        let slave = pair.slave.try_clone().unwrap();
        drop(pair);
        let end = || slave.try_clone().unwrap();
        // A session of its own with this controlling terminal, like that of a shell.
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_freeboard-gateway"))
            .args(["top", "--stats"])
            .arg(socket)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let mut top = Self { child, terminal, folder };
        top.reads("q: quit");
        top
    }

    /// Reads the output until it contains `text`.
    fn reads(&mut self, text: &str) {
        let (mut seen, mut part) = (Vec::new(), [0; 4_096]);
        while !String::from_utf8_lossy(&seen).contains(text) {
            let count = self.terminal.read(&mut part).unwrap();
            seen.extend_from_slice(&part[..count]);
        }
    }

    fn ends(mut child: Child, folder: PathBuf) -> ExitStatus {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
                panic!("it goes on");
            }
            thread::sleep(Duration::from_millis(20));
        };
        std::fs::remove_dir_all(folder).unwrap();
        status
    }
}

#[test]
fn the_key_q_ends_it() {
    let _alone = alone();
    let mut top = Top::start("key");
    top.terminal.write_all(b"q").unwrap();
    // The output has to be read, or the terminal blocks.
    let mut terminal = top.terminal;
    thread::spawn(move || while terminal.read(&mut [0; 4_096]).is_ok_and(|count| count > 0) {});
    assert_eq!(Top::ends(top.child, top.folder).code(), Some(0));
}

/// Goal: a terminal that disappears leaves no program behind that reads its end forever. Method:
/// the test closes its end while the program waits for keys, as a terminal emulator does; the
/// kernel then sends a signal to the session.
#[test]
fn it_ends_when_the_terminal_is_gone() {
    let _alone = alone();
    let top = Top::start("hangup");
    // By then the program draws nothing, since nothing changes, and waits.
    thread::sleep(Duration::from_millis(300));
    drop(top.terminal);
    Top::ends(top.child, top.folder);
}
