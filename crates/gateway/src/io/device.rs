//! The two devices: TAP devices, or interfaces with packet sockets. Frames are received and sent in
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

/// Reason why a device was not opened, in one line.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Outcome of sending a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Number of frames sent, from the front.
    pub(crate) taken: usize,
    /// Error of the next frame, which fails whenever it is tried.
    pub(crate) refused: Option<i32>,
    /// True if the device accepts no more frames for now.
    pub(crate) is_full: bool,
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    /// Stays the same if the interface is renamed; another interface with the same name has a
    /// different one.
    index: i32,
    mtu: usize,
    /// True if the kernel reports the marks of frames.
    tells_marks: bool,
    handle: Handle,
    /// Claim to be the only gateway on this device.
    _claim: OwnedFd,
}

#[derive(Debug)]
enum Handle {
    Tap(Tap),
    Packet(OwnedFd),
}

impl Device {
    /// Opens the interface `name`. The gateway `splits` frames of several packets, or not. All
    /// changes to the device end with the process.
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

    /// Enables the report of firewall marks.
    pub(crate) fn tell_marks(&mut self) -> Result<(), String> {
        let told = match &self.handle {
            Handle::Packet(socket) => sys::tell_marks(socket.as_fd()),
            // The options rule this out.
            Handle::Tap(_) => Ok(()),
        };
        self.tells_marks = told.is_ok();
        told.map_err(|error| marks_refused(&error))
    }

    /// Returns true if the kernel reports the marks of frames.
    pub(crate) fn tells_marks(&self) -> bool {
        self.tells_marks
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the name after a rename.
    pub(crate) fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Sets the MTU after a change.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    /// Returns true if the interface still exists. `socket` is any socket, since no descriptor may
    /// be left for another.
    pub(crate) fn exists(&self, socket: BorrowedFd<'_>) -> bool {
        sys::exists(socket, self.index)
    }

    /// Returns the number of frames dropped by the kernel before they were read, since the last
    /// call.
    pub(crate) fn overruns(&self) -> u32 {
        match &self.handle {
            Handle::Tap(_) => 0,
            Handle::Packet(socket) => sys::overruns(socket.as_fd()),
        }
    }

    /// Receives into `frames` from the front, and frames of several packets into `uncut`. Returns
    /// their number, and in `arrivals` what each is; 0 if there is nothing or the device is down.
    pub(crate) fn receive(
        &mut self,
        frames: &mut [Frame],
        uncut: &mut [Frame],
        arrivals: &mut [Arrival; BATCH],
    ) -> io::Result<usize> {
        match &mut self.handle {
            Handle::Packet(socket) => match sys::receive(socket.as_fd(), frames, uncut, arrivals) {
                // A coalesced frame of a kind that the socket cannot describe: one frame is lost.
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

/// Returns true if both names belong to one device, which may have several names.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    matches!((sys::index(one), sys::index(other)), (Ok(one), Ok(other)) if one == other)
}

/// Lists the devices that could be used.
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

/// Explains why the kernel does not report marks.
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

/// A device without frames or a device that is down returns 0 frames; other errors are errors.
fn none_if_quiet(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN | libc::EIO) => Ok(0),
            _ => Err(error),
        },
        received => received,
    }
}

/// Interprets the error of the frame after those `taken`.
fn unsent(taken: usize, error: &io::Error) -> Sent {
    let is_full = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
    let refused = (!is_full).then(|| error.raw_os_error().unwrap_or(0));
    Sent { taken, is_full, refused }
}

/// Minimum length of a frame that can be forwarded.
pub(crate) const SHORTEST: usize = ETHERNET_HEADER;

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the error for a kernel without the option names the version that has it. Method: the
    /// error of such a kernel, which a newer one returns for an unknown option.
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
