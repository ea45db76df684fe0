//! TAP devices.

use core::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use super::{checked, ethtool, request};

/// An attached TAP device. Reads and writes of the file are frames.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
    /// Offloads that were enabled before, if any; they are restored on detach.
    offloads: Option<libc::c_ulong>,
}

/// Offloads that a program can accept: the bits of `linux/if_tun.h` and the feature that each
/// enables. The first one, partial checksums, is required for the others.
const OFFLOADS: [(libc::c_ulong, &str); 5] = [
    (0x01, "tx-checksum-ip-generic"),
    (0x02, "tx-tcp-segmentation"),
    (0x04, "tx-tcp6-segmentation"),
    (0x08, "tx-tcp-ecn-segmentation"),
    // For IPv4 and IPv6.
    (0x20 | 0x40, "tx-udp-segmentation"),
];

/// Returns the bits of the offloads that are active on the TAP device `name`; `None` if unknown.
fn offloads(name: &str) -> Option<libc::c_ulong> {
    let active = ethtool::active(name)?;
    let is_active = |feature: &str| active.iter().any(|name| name == feature);
    let bits = OFFLOADS.iter().filter(|(_, feature)| is_active(feature)).map(|(bit, _)| bit);
    Some(bits.fold(0, |all, bit| all | bit))
}

impl Tap {
    /// Attaches to the TAP device `name`, which exists.
    pub(crate) fn attach(name: &str) -> io::Result<Self> {
        let mut request = request(name)?;
        let file = File::options().read(true).write(true).open("/dev/net/tun")?;
        for flags in [0, libc::IFF_MULTI_QUEUE] {
            request.ifr_ifru.ifru_flags =
                (libc::IFF_TAP | libc::IFF_NO_PI | flags) as libc::c_short;
            // SAFETY: the request outlives the call.
            match checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) }) {
                Ok(_) => break,
                // A multi-queue device must be requested as such.
                Err(error) if flags == 0 && error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        nonblocking(file.as_fd())?;
        // The program attached before may have enabled unsegmented packets.
        let before = offloads(name);
        let tap = Self { file, offloads: before.filter(|&bits| bits != 0) };
        if before != Some(0) {
            tap.set_offloads(0)?;
        }
        Ok(tap)
    }

    fn set_offloads(&self, bits: libc::c_ulong) -> io::Result<c_int> {
        // SAFETY: the argument is a number.
        checked(unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD, bits) })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if let Some(bits) = self.offloads {
            // Fails if the device has disappeared, which needs no restoring.
            let _ = self.set_offloads(bits);
        }
    }
}

fn nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}
