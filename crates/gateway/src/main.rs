//! `freeboard-gateway`: Ethernet frames between two devices, each direction through a queue of freeboard.
//! `docs/gateway.md` says how to put it in front of a line.

#[cfg(target_os = "linux")]
mod accounts;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod direction;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
mod histogram;
#[cfg(target_os = "linux")]
mod mark;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod offloads;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod queue;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod say;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod sys;
#[cfg(target_os = "linux")]
mod terms;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod words;
#[cfg(all(test, target_os = "linux"))]
mod written;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::io::{Write as _, stdout};

    use options::{Request, USAGE};
    use run::Failure;

    let done = match options::parse(std::env::args_os().skip(1)) {
        Ok(Request::Run(source)) => run::run(&source),
        Ok(Request::Top(socket)) => top::run(&socket),
        Ok(Request::Help) => {
            // The reader has seen enough: `… --help | head`.
            let _ = stdout().write_all(USAGE.as_bytes());
            Ok(())
        }
        Ok(Request::Version) => {
            let version = concat!("freeboard-gateway ", env!("CARGO_PKG_VERSION"), "\n");
            let _ = stdout().write_all(version.as_bytes());
            Ok(())
        }
        Err(why) => Err(Failure::Refused(why)),
    };
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Broken(why)) => fail(&why, 1),
        Err(Failure::Refused(why)) => fail(&why, 2),
        Err(Failure::Missing(why)) => fail(&why, 3),
    };
    say::finish();
    code
}

#[cfg(target_os = "linux")]
fn fail(why: &str, code: u8) -> ExitCode {
    say::say(why);
    ExitCode::from(code)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!(
        "freeboard-gateway: TAP devices and packet sockets are those of Linux: there is nothing to run here"
    );
    ExitCode::from(2)
}
