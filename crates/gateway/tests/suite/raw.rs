//! Raw frames, by packet sockets and TAP devices. The tests' only module with `unsafe` code: two
//! options, an address and a request for which no crate has safe calls.
#![allow(unsafe_code)]

use core::time::Duration;
use std::fs::File;
use std::io::{IoSliceMut, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, send, setsockopt,
    socket, sockopt,
};

use crate::topology::Namespace;

/// Flag of a VLAN tag that the kernel has removed from a frame, in `linux/if_packet.h`.
const VLAN_VALID: u32 = 1 << 4;

/// A packet socket on a device.
#[derive(Debug)]
pub(crate) struct Raw {
    socket: OwnedFd,
    control: Vec<u8>,
}

impl Raw {
    /// Opens a socket for frames that the device receives, and for sending through it.
    pub(crate) fn open(inside: &Namespace, device: &str) -> Self {
        let socket = inside.within(|| Self::bound(device));
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
        let timeout = nix::sys::time::TimeVal::new(1, 0);
        setsockopt(&socket, sockopt::ReceiveTimeout, &timeout).unwrap();
        Self { socket, control: vec![0; 256] }
    }

    fn bound(device: &str) -> OwnedFd {
        let (family, flags) = (AddressFamily::Packet, SockFlag::SOCK_CLOEXEC);
        let socket = socket(family, SockType::Raw, flags, None).unwrap();
        let one = 1_i32;
        let on = core::ptr::from_ref(&one).cast();
        const IGNORE_OUTGOING: i32 = 23;
        for option in [libc::PACKET_AUXDATA, IGNORE_OUTGOING] {
            // SAFETY: the value is 4 bytes and outlives the call.
            let set =
                unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, on, 4) };
            assert_eq!(set, 0);
        }
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: nix::net::if_::if_nametoindex(device).unwrap().cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let at = core::ptr::from_ref(&address).cast();
        // SAFETY: the address is `len` bytes and outlives the call.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), at, len) };
        assert_eq!(bound, 0);
        socket
    }

    /// Makes frames sent from now on begin with a `virtio_net_hdr`: see [`Self::send_open`].
    pub(crate) fn with_offloads(self) -> Self {
        let one = 1_i32;
        let on = core::ptr::from_ref(&one).cast();
        let (fd, option) = (self.socket.as_raw_fd(), libc::PACKET_VNET_HDR);
        // SAFETY: the value is 4 bytes and outlives the call.
        assert_eq!(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, on, 4) }, 0);
        self
    }

    /// Sends a frame with an open checksum, which covers all bytes from `from` on and is stored
    /// `at` bytes after `from`.
    pub(crate) fn send_open(&self, frame: &[u8], from: u16, at: u16) -> bool {
        let numbers = [0, 0, from, at].map(u16::to_ne_bytes);
        self.send(&[&[1, 0], numbers.as_flattened(), frame].concat())
    }

    /// Sends a frame; returns false if the kernel refuses it.
    pub(crate) fn send(&self, frame: &[u8]) -> bool {
        send(self.socket.as_raw_fd(), frame, MsgFlags::empty()).is_ok()
    }

    /// Returns the next frame with its tag restored; `None` if none arrives for a while.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut room = [0; 10_000];
        let mut vectors = [IoSliceMut::new(&mut room)];
        let (fd, control) = (self.socket.as_raw_fd(), &mut self.control);
        let message = recvmsg::<()>(fd, &mut vectors, Some(control), MsgFlags::empty()).ok()?;
        let (len, mut tag) = (message.bytes, None);
        for control in message.cmsgs().unwrap() {
            // `struct tpacket_auxdata`: status, three numbers, two offsets, the tag and its
            // protocol.
            if let ControlMessageOwned::Unknown(unknown) = control {
                let data = unknown.data_bytes;
                let status = u32::from_ne_bytes(data[..4].try_into().unwrap());
                let number = |at: usize| u16::from_ne_bytes([data[at], data[at + 1]]);
                if status & VLAN_VALID != 0 {
                    tag = Some((number(18), number(16)));
                }
            }
        }
        let mut frame = room[..len].to_vec();
        if let Some((protocol, control)) = tag {
            let bytes = [protocol.to_be_bytes(), control.to_be_bytes()].concat();
            frame.splice(12..12, bytes);
        }
        Some(frame)
    }
}

/// A program's end of a TAP device.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
    has_headers: bool,
}

impl Tap {
    /// Attaches to the TAP device, with offload headers before frames or without.
    pub(crate) fn open(inside: &Namespace, name: &str, has_headers: bool) -> Self {
        let open = || File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        let file = inside.within(open);
        // SAFETY: an `ifreq` consists of integers, pointers and arrays of them, for which all zeros
        // is valid.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        let headers = if has_headers { libc::IFF_VNET_HDR } else { 0 };
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | headers) as libc::c_short;
        // SAFETY: the request outlives the call.
        let attached = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) };
        assert_eq!(attached, 0, "{name}: {}", std::io::Error::last_os_error());
        Self { file, has_headers }
    }

    /// Enables the offloads that the program accepts, by the bits of `linux/if_tun.h`.
    pub(crate) fn set_offloads(&self, bits: u32) {
        let bits = libc::c_ulong::from(bits);
        // SAFETY: the argument is a number.
        let set = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD, bits) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }

    pub(crate) fn write(&mut self, frame: &[u8]) {
        let header = [0; 10];
        let header = if self.has_headers { &header[..] } else { &[] };
        self.file.write_all(&[header, frame].concat()).unwrap();
    }

    /// Writes a frame of UDP over IPv4 that the kernel is to fragment into 1,480 bytes each.
    pub(crate) fn write_unfragmented(&mut self, frame: &[u8]) {
        // A `virtio_net_hdr`: the checksum is open; UDP; lengths and offsets of headers.
        let numbers = [42_u16, 1_480, 34, 6].map(u16::to_ne_bytes).concat();
        let header = [&[1, 3][..], &numbers].concat();
        self.file.write_all(&[&header[..], frame].concat()).unwrap();
    }
}

/// Returns a duration in milliseconds.
pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
