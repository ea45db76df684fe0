//! The two devices: TAPs, or interfaces with packet sockets. Frames come in batches and go in
//! batches.

use core::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::config::keywords::Io;
use crate::io::frame::{ETHERNET_HEADER, Frame};
use crate::io::offloads::{harmful, stop_merging};
use crate::io::privileges::Capability;
use crate::io::stack;
use crate::io::sys::{self, Arrival, BATCH, Tap};

/// Why a device was not opened: one line.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What became of frames that were to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Taken, from the front.
    pub(crate) taken: usize,
    /// The frame behind those was refused with this error, and will be whenever it is tried.
    pub(crate) refused: Option<i32>,
    /// The device takes no more for now.
    pub(crate) is_full: bool,
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    /// The number stays the same if the interface is renamed, and another interface of the same
    /// name has another.
    index: i32,
    mtu: usize,
    /// Whether the kernel says the marks of frames.
    tells_marks: bool,
    handle: Handle,
    /// The right to be the only gateway there.
    _claim: OwnedFd,
}

#[derive(Debug)]
enum Handle {
    Tap(Tap),
    Packet(OwnedFd),
}

impl Device {
    /// Opens the interface `name`, of which frames of several packets are cut if the gateway
    /// `splits` them. Every change that is made to the device ends with the process.
    pub(crate) fn open(name: &str, io: Io, splits: bool) -> Result<Self, Refused> {
        let refused = |why: &str| Refused(format!("{name}: {why}"));
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => refused(&match io {
                Io::Packet => Capability::NET_RAW.missing(),
                Io::Tap => Capability::NET_ADMIN.missing(),
            }),
            Some(libc::EBUSY) => refused("another program is attached to this TAP device"),
            _ => refused(&error.to_string()),
        };
        let Ok(index) = sys::index(name) else {
            return Err(refused(&format!("no such device ({})", there_are(io))));
        };
        let mtu = sys::mtu(name).map_err(failed)?;
        let claim = stack::claim(index, io).map_err(failed)?.map_err(|process| {
            refused(&format!(
                "another freeboard-gateway uses it; to stop that one run: kill {process}"
            ))
        })?;
        let handle = match io {
            Io::Tap if !sys::is_tap(name) => {
                return Err(refused(&format!("not a TAP device ({})", there_are(io))));
            }
            Io::Packet if !sys::is_ethernet(name).map_err(failed)? => {
                return Err(refused(&format!("not an Ethernet device ({})", there_are(io))));
            }
            Io::Tap => Handle::Tap(Tap::attach(name).map_err(failed)?),
            Io::Packet => {
                let merging = harmful(sys::merging(name), splits);
                if !merging.is_empty() {
                    let cut = if splits { "" } else { " with --split-gso=off" };
                    return Err(refused(&format!(
                        "coalesces received packets, which cannot be queued individually{cut}; run: {}",
                        stop_merging(name, &merging)
                    )));
                }
                Handle::Packet(sys::packet_socket(index).map_err(failed)?)
            }
        };
        Ok(Self { name: name.to_owned(), index, mtu, tells_marks: false, handle, _claim: claim })
    }

    /// Has the kernel say the marks of frames; one line says why it does not.
    pub(crate) fn tell_marks(&mut self) -> Result<(), String> {
        let told = match &self.handle {
            Handle::Packet(socket) => sys::tell_marks(socket.as_fd()),
            // Refused with the options.
            Handle::Tap(_) => Ok(()),
        };
        self.tells_marks = told.is_ok();
        told.map_err(|error| marks_refused(&error))
    }

    /// Whether the kernel says the marks of frames.
    pub(crate) fn tells_marks(&self) -> bool {
        self.tells_marks
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Another name than it had.
    pub(crate) fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Another MTU than it had when it was opened.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    /// Whether the interface is still there; `socket` is any, since there may be no room for one
    /// more.
    pub(crate) fn exists(&self, socket: BorrowedFd<'_>) -> bool {
        sys::exists(socket, self.index)
    }

    /// Frames that the kernel has thrown away before they could be read, since the last call.
    pub(crate) fn overruns(&self) -> u32 {
        match &self.handle {
            Handle::Tap(_) => 0,
            Handle::Packet(socket) => sys::overruns(socket.as_fd()),
        }
    }

    /// Receives into `frames` from the front, and frames of several packets into `uncut`; says how
    /// many and what became of each. None if nothing is there, or the device is down.
    pub(crate) fn receive(
        &mut self,
        frames: &mut [Frame],
        uncut: &mut [Frame],
        arrivals: &mut [Arrival; BATCH],
    ) -> io::Result<usize> {
        match &mut self.handle {
            Handle::Packet(socket) => match sys::receive(socket.as_fd(), frames, uncut, arrivals) {
                // Packets merged in a way that the socket has no words for: one of them is gone.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    frames.iter_mut().take(1).for_each(|frame| frame.received(0));
                    arrivals[0] = Arrival::Merged(0);
                    Ok(1)
                }
                received => none_if_quiet(received),
            },
            Handle::Tap(tap) => {
                for (at, frame) in frames.iter_mut().take(BATCH).enumerate() {
                    let room = frame.room();
                    let longest = room.len() - 1;
                    match tap.file().read(room) {
                        Ok(len) => {
                            let is_whole = len <= longest;
                            arrivals[at] = if is_whole { Arrival::Whole } else { Arrival::TooLong };
                            frame.received(len.min(longest));
                        }
                        Err(error) if at == 0 => return none_if_quiet(Err(error)),
                        Err(_) => return Ok(at),
                    }
                }
                Ok(frames.len().min(BATCH))
            }
        }
    }

    /// Sends frames from the front.
    pub(crate) fn send<'a>(&mut self, frames: impl Iterator<Item = &'a Frame>) -> Sent {
        match &mut self.handle {
            Handle::Packet(socket) => match sys::send(socket.as_fd(), frames) {
                Ok(taken) => Sent { taken, ..Sent::default() },
                Err(error) => unsent(0, &error),
            },
            Handle::Tap(tap) => {
                let mut taken = 0;
                for frame in frames {
                    if let Err(error) = tap.file().write(frame.bytes()) {
                        return unsent(taken, &error);
                    }
                    taken += 1;
                }
                Sent { taken, ..Sent::default() }
            }
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.handle {
            Handle::Tap(tap) => tap.as_fd(),
            Handle::Packet(socket) => socket.as_fd(),
        }
    }
}

/// Whether both names are of one device, which may have several.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    matches!((sys::index(one), sys::index(other)), (Ok(one), Ok(other)) if one == other)
}

/// The devices that are accepted.
fn there_are(io: Io) -> String {
    let is_accepted = |name: &String| match io {
        Io::Tap => sys::is_tap(name),
        Io::Packet => sys::is_ethernet(name).unwrap_or(false),
    };
    let names: Vec<String> = sys::devices().into_iter().filter(is_accepted).collect();
    match (io, names.join(", ")) {
        (Io::Tap, names) if names.is_empty() => {
            "expected a TAP device, but there is none; create one: ip tuntap add NAME mode tap"
                .into()
        }
        (Io::Tap, names) => format!("expected a TAP device: {names}"),
        (Io::Packet, names) if names.is_empty() => {
            "expected an Ethernet device, but there is none".into()
        }
        (Io::Packet, names) => format!("expected {names}"),
    }
}

/// Why the kernel does not say the marks of frames.
fn marks_refused(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => {
            "this kernel cannot report the marks of frames (expected Linux 5.19 or later, with SO_RCVMARK)"
                .to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => Capability::NET_RAW.missing(),
        _ => error.to_string(),
    }
}

/// A device that has nothing or is down gives no frames; any other error is one.
fn none_if_quiet(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN | libc::EIO) => Ok(0),
            _ => Err(error),
        },
        received => received,
    }
}

/// What an error of a send says about the frame behind those `taken`.
fn unsent(taken: usize, error: &io::Error) -> Sent {
    let is_full = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
    let refused = (!is_full).then(|| error.raw_os_error().unwrap_or(0));
    Sent { taken, is_full, refused }
}

/// The shortest frame that can be forwarded.
pub(crate) const SHORTEST: usize = ETHERNET_HEADER;

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a kernel that does not know the option is named with the version that does. Method:
    /// the error that it gives, which a newer one gives for an option that there is not.
    #[test]
    fn a_kernel_without_marks_is_named() {
        let said = |code| marks_refused(&io::Error::from_raw_os_error(code));
        assert_eq!(
            said(libc::ENOPROTOOPT),
            "this kernel cannot report the marks of frames (expected Linux 5.19 or later, with SO_RCVMARK)"
        );
        assert!(said(libc::EPERM).contains("CAP_NET_RAW"));
        assert!(said(libc::EINVAL).starts_with("Invalid argument"));
    }
}
