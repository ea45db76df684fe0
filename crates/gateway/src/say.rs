//! What is said to people: a line on standard error each time, whether anybody reads it or not.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Says a line. That nobody reads any more is no reason to end, and that there is no room for it, none to
/// wait: it is not said then.
pub(crate) fn say(text: &str) {
    let mut stderr = io::stderr();
    let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut room, PollTimeout::ZERO) == Ok(1) {
        let _ = stderr.write_all(line(text).as_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(
            line("--lan a\nb\u{1b}[2J: größe"),
            "freeboard-gateway: --lan a\\nb\\u{1b}[2J: größe\n"
        );
    }
}
