//! System calls that no maintained crate offers: packet sockets with offsets and tags, TAP devices,
//! and offloads of network cards. The only module with `unsafe` code.

mod ethtool;
mod links;
mod netlink;
mod tap;

use core::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

// Type of ioctl requests: their constants and the call do not have the same type in every C
// library.
use libc::Ioctl;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt,
    socket, sockopt,
};

use crate::io::frame::{Frame, Offload};
pub(crate) use ethtool::{is_tap, merging};
pub(crate) use links::{Interface, about, link, links};
pub(crate) use netlink::{Request, attributes, message_of, nested, number};
pub(crate) use tap::Tap;

/// Maximum number of frames received or sent with one call.
pub(crate) const BATCH: usize = 32;
/// Receive buffer of a packet socket in bytes.
const BURST: usize = 1 << 20;

/// Returns the size of an option for the kernel.
const fn size_of<T>() -> libc::socklen_t {
    core::mem::size_of::<T>() as libc::socklen_t
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Creates a request about the interface `name`, zero otherwise.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an `ifreq` consists of integers, pointers and arrays of them, for which all zeros is
    // valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= request.ifr_name.len() || bytes.contains(&0) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (place, &byte) in request.ifr_name.iter_mut().zip(bytes) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

/// Opens a socket for requests about interfaces.
fn question() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Returns the index of the interface.
pub(crate) fn index(name: &str) -> io::Result<c_int> {
    let mut request = request(name)?;
    let socket = question()?;
    // SAFETY: the request outlives the call, which writes an integer into it.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX as Ioctl, &mut request) })?;
    // SAFETY: the call has set the index in the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// Returns the names of all interfaces, ordered by index.
pub(crate) fn devices() -> Vec<String> {
    let Ok(all) = nix::net::if_::if_nameindex() else { return Vec::new() };
    all.iter().map(|interface| interface.name().to_string_lossy().into_owned()).collect()
}

/// Returns true for an Ethernet interface. The loopback has Ethernet headers too, but leads
/// nowhere.
pub(crate) fn is_ethernet(name: &str) -> io::Result<bool> {
    let mut request = request(name)?;
    let socket = question()?;
    // SAFETY: as in `index`.
    checked(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as Ioctl, &mut request)
    })?;
    // SAFETY: the call has set the address in the union, which begins with its kind.
    let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(kind == libc::ARPHRD_ETHER)
}

/// Returns true if an interface with this index exists. `socket` is any socket.
pub(crate) fn exists(socket: BorrowedFd<'_>, index: c_int) -> bool {
    // SAFETY: as in `request`.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index;
    // SAFETY: the request outlives the call, which writes a name into it.
    let named = checked(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as Ioctl, &mut request)
    });
    // Any other error says nothing about the interface.
    !named.is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
}

/// Opens a socket on which the kernel reports changes of interfaces and addresses.
pub(crate) fn link_news() -> io::Result<OwnedFd> {
    const GROUPS: c_int = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS.cast_unsigned()))?;
    Ok(socket)
}

/// Reads the reports on `news`: the interfaces as they were at the time of each, in order, and true
/// if no report was lost.
pub(crate) fn changed_links(news: BorrowedFd<'_>) -> (Vec<Interface>, bool) {
    /// More messages than the socket holds: later ones arrived meanwhile.
    const AT_ONCE: usize = 4_096;
    let mut room = [0; 16 << 10];
    let (mut changed, mut is_all) = (Vec::new(), true);
    for _ in 0..AT_ONCE {
        let len = match recv(news.as_raw_fd(), &mut room, MsgFlags::MSG_DONTWAIT) {
            Ok(len) => len,
            // The socket's buffer overflowed.
            Err(Errno::ENOBUFS) => {
                is_all = false;
                continue;
            }
            Err(Errno::EINTR) => continue,
            Err(_) => break,
        };
        let mut rest = room.get(..len).unwrap_or(&[]);
        while let Some((kind, body, behind)) = message_of(rest) {
            changed.extend((kind == libc::RTM_NEWLINK).then(|| links::read(body)).flatten());
            rest = behind;
        }
    }
    (changed, is_all)
}

/// Returns free memory to the system, where the C library does not do so by itself.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the argument is a number, and memory in use is not affected.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the MTU of the interface in bytes.
pub(crate) fn mtu(name: &str) -> io::Result<usize> {
    let mut request = request(name)?;
    let socket = question()?;
    // SAFETY: as in `index`.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as Ioctl, &mut request) })?;
    // SAFETY: the call has set the MTU in the union.
    Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// Sets an option of a packet socket.
fn set_packet_option<T>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> io::Result<()> {
    let (value, len) = (core::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: `value` is `len` bytes and outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, len) };
    checked(result).map(|_| ())
}

/// Filters a raw ICMP or ICMPv6 socket to messages of these kinds. Where the kernel does not
/// support it, the reader ignores other messages.
pub(crate) fn hear_only(socket: BorrowedFd<'_>, is_v4: bool, kinds: [u8; 2]) {
    /// `ICMP_FILTER` and `ICMPV6_FILTER`.
    const FILTER: c_int = 1;
    // One bit for each kind that is filtered out.
    let mut held_back = [u32::MAX; 8];
    for kind in kinds {
        held_back[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    }
    let (level, words) = if is_v4 { (libc::SOL_RAW, 1) } else { (libc::IPPROTO_ICMPV6, 8) };
    let (value, len) = (held_back.as_ptr().cast(), words * size_of::<u32>() as u32);
    // SAFETY: `held_back` is at least `len` bytes and outlives the call.
    let _ = unsafe { libc::setsockopt(socket.as_raw_fd(), level, FILTER, value, len) };
}

/// Opens a packet socket on the interface with this index, in promiscuous mode, which ends with the
/// socket.
///
/// The socket is bound after all options are set: before that, frames of every interface would
/// arrive.
pub(crate) fn packet_socket(index: c_int) -> io::Result<OwnedFd> {
    const IGNORE_OUTGOING: c_int = 23;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
    let fd = socket.as_fd();
    set_packet_option(fd, IGNORE_OUTGOING, &1_i32)?;
    set_packet_option(fd, libc::PACKET_AUXDATA, &1_i32)?;
    set_packet_option(fd, libc::PACKET_VNET_HDR, &1_i32)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_packet_option(fd, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    // The gateway keeps the queue itself; the kernel's buffer is for a burst, more than systems
    // allow every user.
    if setsockopt(&socket, sockopt::RcvBufForce, &BURST).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BURST);
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let (at, len) = (core::ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_ll>());
    // SAFETY: the address is `len` bytes and outlives the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), at, len) })?;
    Ok(socket)
}

/// Enables the report of each frame's mark, which requires Linux 5.19 and CAP_NET_RAW or
/// CAP_NET_ADMIN.
pub(crate) fn tell_marks(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (on, len) = (1_i32, size_of::<i32>());
    let at = core::ptr::from_ref(&on).cast();
    // SAFETY: the value is `len` bytes and outlives the call.
    checked(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVMARK, at, len)
    })
    .map(|_| ())
}

/// Returns the number of frames dropped by the kernel because the socket was full, since the last
/// call.
pub(crate) fn overruns(socket: BorrowedFd<'_>) -> u32 {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>();
    let at = core::ptr::from_mut(&mut stats).cast();
    // SAFETY: `stats` is `len` bytes and outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            at,
            &mut len,
        )
    };
    if result == 0 { stats.tp_drops } else { 0 }
}

/// Kind of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The packet is in its frame.
    Whole,
    /// The packet was longer than any frame.
    TooLong,
    /// Several packets in one, coalesced or unsegmented: its bytes, 0 if unknown.
    Merged(u32),
    /// Several packets in one, to be segmented: it is in the buffer for those with the same number.
    Uncut,
}

/// Buffer for the control messages of a frame: its tag and its mark.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Receives frames into `frames` from the front; `arrivals` gets the kind of each. Frames of
/// several packets are received into `uncut`, if given.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    frames: &mut [Frame],
    uncut: &mut [Frame],
    arrivals: &mut [Arrival; BATCH],
) -> io::Result<usize> {
    let count = frames.len().min(BATCH);
    let mut offloads = [Offload::default(); BATCH];
    let mut controls = [Control([0; 64]); BATCH];
    // SAFETY: `iovec` and `mmsghdr` consist of integers and pointers, for which all zeros is valid.
    let mut vectors: [[libc::iovec; 3]; BATCH] = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { core::mem::zeroed() };
    for (at, frame) in frames.iter_mut().take(count).enumerate() {
        let room = frame.room();
        // A long frame continues in the buffer in which it will be assembled.
        let rest = uncut.get_mut(at).and_then(|whole| whole.room().get_mut(room.len()..));
        let rest = rest.unwrap_or_default();
        let offload = &mut offloads[at];
        vectors[at] = [
            libc::iovec { iov_base: offload.as_mut_ptr().cast(), iov_len: offload.len() },
            libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() },
            libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
        ];
        let message = &mut messages[at].msg_hdr;
        message.msg_iov = vectors[at].as_mut_ptr();
        message.msg_iovlen = 3;
        message.msg_control = core::ptr::from_mut(&mut controls[at]).cast();
        message.msg_controllen = core::mem::size_of::<Control>() as _;
    }
    // SAFETY: every message points to the vectors and the control buffer with its own number, and
    // these to arrays and frames that outlive the call and are not accessed while it runs.
    let received = checked(unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            count as libc::c_uint,
            // Returns the length of the whole frame even if it is truncated.
            (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
            core::ptr::null_mut(),
        )
    })? as usize;
    for (at, frame) in frames.iter_mut().take(received).enumerate() {
        let message = &messages[at];
        let offload = offloads[at];
        let len = (message.msg_len as usize).saturating_sub(offload.len());
        let longest = frame.room().len() - 1;
        frame.received(len.min(longest));
        // SAFETY: filled by the call above.
        let Ancillary { tag, mark } = unsafe { Ancillary::of(&message.msg_hdr) };
        frame.set_mark(mark);
        arrivals[at] = if offload[1] != 0 {
            match uncut.get_mut(at) {
                Some(whole) if whole.takes(len) => {
                    let first = len.min(longest + 1);
                    whole.room()[..first].copy_from_slice(&frame.room()[..first]);
                    whole.received(len);
                    whole.set_offload(offload);
                    whole.set_mark(mark);
                    if let Some((protocol, control)) = tag {
                        whole.insert_tag(protocol, control);
                    }
                    Arrival::Uncut
                }
                _ => Arrival::Merged(len as u32),
            }
        } else if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || len > longest {
            Arrival::TooLong
        } else {
            frame.set_offload(offload);
            if let Some((protocol, control)) = tag {
                frame.insert_tag(protocol, control);
            }
            Arrival::Whole
        };
    }
    Ok(received)
}

/// Contents of a frame's control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ancillary {
    /// VLAN tag removed by the kernel: protocol and tag control information.
    tag: Option<(u16, u16)>,
    /// Firewall mark.
    mark: u32,
}

impl Ancillary {
    /// # Safety
    ///
    /// The kernel has filled the control buffer of `message`, and it is unchanged since.
    unsafe fn of(message: &libc::msghdr) -> Self {
        const VLAN_VALID: u32 = 1 << 4;
        const PROTOCOL_VALID: u32 = 1 << 6;
        let mut said = Self::default();
        // SAFETY: the control buffer contains complete messages and states its length. Data are
        // read unaligned, and only if they are long enough.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(message);
            while let Some(header) = next.as_ref() {
                let data = libc::CMSG_DATA(next);
                let has =
                    |bytes: usize| header.cmsg_len >= libc::CMSG_LEN(bytes as libc::c_uint) as _;
                match (header.cmsg_level, header.cmsg_type) {
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                        if has(core::mem::size_of::<libc::tpacket_auxdata>()) =>
                    {
                        let of: libc::tpacket_auxdata =
                            data.cast::<libc::tpacket_auxdata>().read_unaligned();
                        if of.tp_status & VLAN_VALID != 0 {
                            let is_told = of.tp_status & PROTOCOL_VALID != 0;
                            let protocol = if is_told { of.tp_vlan_tpid } else { 0x8100 };
                            said.tag = Some((protocol, of.tp_vlan_tci));
                        }
                    }
                    (libc::SOL_SOCKET, libc::SO_MARK) if has(core::mem::size_of::<u32>()) => {
                        said.mark = data.cast::<u32>().read_unaligned();
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(message, next);
            }
        }
        said
    }
}

/// Sends frames from the front; returns the number accepted by the kernel.
pub(crate) fn send<'a>(
    socket: BorrowedFd<'_>,
    frames: impl Iterator<Item = &'a Frame>,
) -> io::Result<usize> {
    // SAFETY: `iovec` and `mmsghdr` consist of integers and pointers, for which all zeros is valid.
    let mut vectors: [[libc::iovec; 2]; BATCH] = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { core::mem::zeroed() };
    let mut count = 0;
    for (at, frame) in frames.take(BATCH).enumerate() {
        let (offload, bytes) = (frame.offload(), frame.bytes());
        vectors[at] = [
            libc::iovec { iov_base: offload.as_ptr().cast_mut().cast(), iov_len: offload.len() },
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
        ];
        messages[at].msg_hdr.msg_iov = vectors[at].as_mut_ptr();
        messages[at].msg_hdr.msg_iovlen = 2;
        count = at + 1;
    }
    // SAFETY: every message points to the vectors with its own number, and these to frames that are
    // borrowed until the call returns; sending does not write to them.
    let sent = checked(unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
        )
    })?;
    Ok(sent as usize)
}
