//! `freeboard-gateway`: forwards Ethernet frames between two devices, each direction through a
//! freeboard queue. `docs/guide/gateway.md` explains how to install it in front of an Internet
//! link.

#[cfg(target_os = "linux")]
mod config;
#[cfg(all(test, target_os = "linux"))]
mod documents;
#[cfg(target_os = "linux")]
mod forward;
#[cfg(target_os = "linux")]
mod io;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
mod stats;
#[cfg(target_os = "linux")]
mod top;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::io::{Write as _, stdout};

    use config::options::Request;
    use forward::run::Failure;

    let print = |text: String| {
        // Ignored: the reader may close the pipe early, as in `… --help | head`.
        let _ = stdout().write_all(text.as_bytes());
    };
    let done = match config::options::parse(std::env::args_os().skip(1)) {
        Ok(Request::Run(source)) => forward::run::run(&source),
        Ok(Request::Check(source)) => source.approve().map(print).map_err(Failure::Refused),
        Ok(Request::SetUp(place)) => setup::set_up(&place),
        Ok(Request::TakeBack(place)) => setup::take_back(&place),
        Ok(Request::Top(socket)) => top::run(&socket),
        Ok(Request::Say(text)) => {
            print(text);
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
    log::finish();
    code
}

#[cfg(target_os = "linux")]
fn fail(why: &str, code: u8) -> ExitCode {
    log::say(why);
    ExitCode::from(code)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("freeboard-gateway: requires Linux (TAP devices and packet sockets)");
    ExitCode::from(2)
}
