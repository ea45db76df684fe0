//! Software segmentation (GSO): splits a super-packet into the packets that the link carries, with
//! headers, sequence numbers, flags and checksums of each.

use core::fmt;

use flowhash::{Ending, parse};
use shaper::{Segments, SegmentsError};

/// Protocol numbers (IANA).
const IPV4: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const FRAGMENT: u8 = 44;
/// Extension headers of IPv6 that may precede the upper layer (IANA): hop-by-hop, routing, ESP,
/// authentication, destination options, mobility, host identity, Shim6, and two for experiments.
const EXTENSION_HEADERS: [u8; 10] = [0, 43, 50, 51, 60, 135, 139, 140, 253, 254];

/// Flags of TCP (RFC 9293 §3.1, RFC 3168 §6.1).
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// EtherTypes (IANA), and the PPP protocol numbers for the two.
const ETHER_IPV4: [u8; 2] = [0x08, 0x00];
const ETHER_IPV6: [u8; 2] = [0x86, 0xdd];
const ETHER_PPPOE: [u8; 2] = [0x88, 0x64];
const PPP_IPV4: [u8; 2] = [0x00, 0x21];
const PPP_IPV6: [u8; 2] = [0x00, 0x57];
/// Length of the PPPoE and PPP headers, and the offset of PPPoE's length field.
const PPPOE_HEADER: usize = 8;
const PPPOE_LENGTH: usize = 4;

/// Segments a super-packet (GSO, TSO, GRO) of TCP or UDP over IPv4 or IPv6, with or without VLAN
/// tags: writes one segment after the other into your own buffer, each as a complete frame.
///
/// Fields of a segment:
///
/// | field | value |
/// |---|---|
/// | link header, VLAN tags, addresses, ports, class, options, acknowledgement, window | copied from the frame |
/// | payload | the next bytes; all segments but the last have the given size |
/// | lengths of IPv4, IPv6, UDP | those of the segment |
/// | identification of IPv4 | counts up from that of the frame (RFC 6864 §4: unique where fragments are allowed) |
/// | sequence number of TCP | that of its payload, modulo 2³² |
/// | FIN, PSH | in the last segment only |
/// | CWR | in the first segment only (RFC 3168 §6.1.2), or [in all](Self::with_accurate_ecn) |
/// | checksums of IPv4, TCP, UDP | recomputed, whatever the frame has there |
///
/// The frame should have correct checksums or open ones, as devices provide: an error in the
/// payload is not detected here, and the new checksums hide it. Bytes after the IP packet, which
/// pad a frame, are left out.
///
/// A frame that cannot be segmented is refused with [`CutError`]; the frame is only read. For
/// tunnels and PPPoE the packets inside are segmented, but only if the device says that it means
/// these: [`offloaded`](Self::offloaded).
///
/// Cost: two passes over the bytes of a segment, one to copy and one to sum; a division for each
/// frame. Memory: none.
///
/// ```
/// use freeboard::Segmenter;
/// use freeboard::flowhash::parse;
///
/// // TCP from 10.0.0.1 port 80 to 10.0.0.2 port 8080: sequence number 7, PSH and ACK, five bytes.
/// let mut packet = vec![0x45, 0, 0, 45, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// packet.extend([0, 80, 0x1f, 0x90, 0, 0, 0, 7, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
/// packet.extend(*b"hello");
///
/// let mut segmenter = Segmenter::ip(&packet, 3)?;
/// assert_eq!((segmenter.segments().count(), segmenter.next_len()), (2, Some(43)));
/// let mut segment = [0; 60];
/// assert_eq!(segmenter.write_next(&mut segment), Some(43));
/// // ACK alone, and the first three bytes.
/// assert_eq!((segment[33], &segment[40..43]), (0x10, &b"hel"[..]));
/// assert_eq!(segmenter.write_next(&mut segment), Some(42));
/// // Identification 10, sequence number 10, PSH and ACK, the rest.
/// assert_eq!(
///     (segment[5], segment[27], segment[33], &segment[40..42]),
///     (10, 10, 0x18, &b"lo"[..])
/// );
/// assert_eq!(segmenter.write_next(&mut segment), None);
/// # Ok::<(), freeboard::CutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segmenter<'a> {
    /// From the link header to the end of the IP packet.
    packet: &'a [u8],
    /// Bytes before the IP header.
    ip: usize,
    /// Bytes before the TCP or UDP header.
    upper: usize,
    /// Bytes before the payload: `ip <= upper <= headers <= packet.len()`.
    headers: usize,
    is_v4: bool,
    is_tcp: bool,
    is_accurate_ecn: bool,
    /// The headers of a tunnel around the IP packet.
    tunnel: Option<Tunnel>,
    /// The offset of the PPPoE header, if there is one.
    pppoe: Option<usize>,
    segments: Segments,
    /// Bytes of payload in each segment but the last; not 0.
    size: usize,
    /// Bytes of payload written so far.
    done: usize,
    /// Segments written so far.
    written: u16,
}

/// The headers around the inner packet: an outer IP header, and the header between the two, if
/// there is one.
#[derive(Clone, Copy, Debug)]
struct Tunnel {
    /// Offset of the outer IP header.
    ip: usize,
    is_v4: bool,
    /// Offset of the outer IP header's payload.
    upper: usize,
    between: Between,
}

/// The header after the outer IP header.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// IP in IP.
    Nothing,
    Udp {
        has_checksum: bool,
    },
    Gre {
        has_checksum: bool,
    },
}

impl<'a> Segmenter<'a> {
    /// Parses the headers of an Ethernet II frame, to segment its payload into `size` bytes each:
    /// the segment size stated by the device (`gso_size` of a virtio header). A frame with no more
    /// payload than that is one segment.
    ///
    /// # Errors
    /// [`CutError`] if the frame cannot be segmented.
    pub fn ethernet(frame: &'a [u8], size: u16) -> Result<Self, CutError> {
        let parsed = parse::ethernet(frame);
        match (parsed.ip, parsed.ending) {
            (Some(ip), _) if is_announced(frame, ip.offset) => Self::behind(frame, ip.offset, size),
            (None, Ending::Truncated) => Err(CutError::Truncated),
            (None, Ending::Malformed) => Err(CutError::Malformed),
            (Some(_) | None, _) => Err(CutError::NotIp),
        }
    }

    /// Parses the headers of an Ethernet II frame whose open checksum begins at byte `start`:
    /// `csum_start` of a virtio header. The TCP or UDP header whose payload is segmented begins
    /// there, also inside a tunnel or PPPoE. For `size` see [`ethernet`](Self::ethernet).
    ///
    /// Supported tunnels: IPv4 or IPv6 in either, in GRE without sequence numbers, or in UDP, with
    /// an optional Ethernet frame after any header, as in VXLAN and Geneve. Each segment has all
    /// headers before `start`, with lengths, identifications and checksums of its own; a UDP
    /// checksum of 0 stays 0.
    ///
    /// # Errors
    /// [`CutError`] if the frame cannot be segmented; [`CutError::Tunnel`] if no supported headers
    /// lead to `start`.
    ///
    /// ```
    /// use freeboard::Segmenter;
    ///
    /// // IPv4 in IPv4: a datagram of six bytes.
    /// let mut frame = vec![2; 12];
    /// frame.extend([8, 0]);
    /// frame.extend([0x45, 0, 0, 54, 0, 1, 0x40, 0, 64, 4, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    /// frame.extend([0x45, 0, 0, 34, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    /// frame.extend([0, 9, 0, 9, 0, 14, 0, 0, 1, 2, 3, 4, 5, 6]);
    ///
    /// let mut segmenter = Segmenter::offloaded(&frame, 4, 54)?;
    /// let mut segment = [0; 80];
    /// assert_eq!(segmenter.write_next(&mut segment), Some(66));
    /// // Both lengths, and the payload.
    /// assert_eq!((segment[17], segment[37], &segment[62..66]), (52, 32, &[1, 2, 3, 4][..]));
    /// assert_eq!(segmenter.write_next(&mut segment), Some(64));
    /// # Ok::<(), freeboard::CutError>(())
    /// ```
    pub fn offloaded(frame: &'a [u8], size: u16, start: usize) -> Result<Self, CutError> {
        let parsed = parse::ethernet(frame);
        let ip = match (parsed.ip, parsed.ending) {
            (Some(ip), _) => ip.offset,
            (None, Ending::Truncated) => return Err(CutError::Truncated),
            (None, Ending::Malformed) => return Err(CutError::Malformed),
            (None, _) => return Err(CutError::NotIp),
        };
        let pppoe = match is_announced(frame, ip) {
            true => None,
            false => Some(pppoe(frame, ip)?),
        };
        let outer = Layer::read(frame, ip)?;
        let (inner, tunnel) = match outer.upper == start {
            true => (outer, None),
            false => {
                let (inner, tunnel) = outer.inside(frame, start)?;
                (inner, Some(tunnel))
            }
        };
        // Bytes after the inner packet would be left out of the outer one.
        if inner.end != outer.end || inner.upper != start {
            return Err(CutError::Tunnel);
        }
        let whole = Self::behind(frame, inner.ip, size)?;
        Ok(Self { tunnel, pppoe, ..whole })
    }

    /// Parses the headers of a raw IP packet, as TUN devices deliver, to segment its payload. For
    /// `size` see [`ethernet`](Self::ethernet).
    ///
    /// # Errors
    /// [`CutError`] if the packet cannot be segmented.
    pub fn ip(packet: &'a [u8], size: u16) -> Result<Self, CutError> {
        Self::behind(packet, 0, size)
    }

    /// Parses the headers after `ip` bytes.
    fn behind(frame: &'a [u8], ip: usize, size: u16) -> Result<Self, CutError> {
        let there = frame.get(ip..).unwrap_or_default();
        let (header, length, protocol) = match *there {
            [] => return Err(CutError::Truncated),
            [first, ..] if first >> 4 == 4 => v4(there)?,
            [first, ..] if first >> 4 == 6 => v6(there)?,
            _ => return Err(CutError::NotIp),
        };
        let packet = there.get(..length).ok_or(CutError::Truncated)?;
        let upper = packet.get(header..).ok_or(CutError::Malformed)?;
        let is_tcp = match protocol {
            TCP => true,
            UDP => false,
            FRAGMENT => return Err(CutError::Fragment),
            other if header == IPV6_HEADER && EXTENSION_HEADERS.contains(&other) => {
                return Err(CutError::ExtensionHeader(other));
            }
            other => return Err(CutError::Protocol(other)),
        };
        let upper_header = if is_tcp { tcp(upper)? } else { udp(upper)? };
        let packet = frame.get(..ip.saturating_add(length)).ok_or(CutError::Truncated)?;
        let upper = ip.saturating_add(header);
        let headers = upper.saturating_add(upper_header);
        let segments = Segments::of_offload(count(packet.len()), count(headers), size.into());
        Ok(Self {
            packet,
            ip,
            upper,
            headers,
            is_v4: there.first().is_some_and(|first| first >> 4 == 4),
            is_tcp,
            is_accurate_ecn: false,
            tunnel: None,
            pppoe: None,
            segments: segments.map_err(CutError::Segments)?,
            size: size.into(),
            done: 0,
            written: 0,
        })
    }

    /// Keeps CWR in all segments: with accurate ECN (RFC 9768) it is a bit of a counter, which each
    /// segment repeats. In a virtio header, a frame whose CWR belongs to the first segment only has
    /// the bit `VIRTIO_NET_HDR_GSO_ECN`.
    #[must_use]
    pub const fn with_accurate_ecn(mut self) -> Self {
        self.is_accurate_ecn = true;
        self
    }

    /// Returns number and lengths of all segments, including those already written.
    #[must_use]
    pub const fn segments(&self) -> Segments {
        self.segments
    }

    /// Returns the position from which a device that completes checksums sums, and the distance
    /// from there to the checksum, in bytes: `csum_start` and `csum_offset` of a virtio header. If
    /// the device states other numbers, the frame is a tunnel whose inner packets are to be
    /// segmented: [`offloaded`](Self::offloaded).
    #[must_use]
    pub const fn open_checksum(&self) -> (usize, usize) {
        (self.upper, if self.is_tcp { 16 } else { 6 })
    }

    /// Returns the length in bytes of the next segment; `None` after the last.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        let rest = self.packet.len().saturating_sub(self.headers).saturating_sub(self.done);
        let is_over = rest == 0 && self.written > 0;
        (!is_over).then(|| self.headers.saturating_add(rest.min(self.size)))
    }

    /// Writes the next segment to the beginning of `place` and returns its length. Returns `None`
    /// after the last segment, or, without writing, if `place` is shorter than
    /// [`next_len`](Self::next_len).
    pub fn write_next(&mut self, place: &mut [u8]) -> Option<usize> {
        let len = self.next_len()?;
        let segment = place.get_mut(..len)?;
        let payload = len.saturating_sub(self.headers);
        let from = self.headers.saturating_add(self.done);
        copy(segment, self.packet.get(..self.headers)?);
        copy(
            segment.get_mut(self.headers..)?,
            self.packet.get(from..from.saturating_add(payload))?,
        );
        let addresses = match self.is_v4 {
            true => self.write_v4(segment.get_mut(self.ip..self.upper)?, self.ip),
            false => self.write_v6(segment.get_mut(self.ip..)?, self.ip),
        };
        let is_last = from.saturating_add(payload) >= self.packet.len();
        let upper = segment.get_mut(self.upper..)?;
        match self.is_tcp {
            true => self.write_tcp(upper, addresses, is_last),
            false => write_udp(upper, addresses),
        }
        if let Some(tunnel) = self.tunnel {
            self.write_tunnel(segment, tunnel)?;
        }
        if let Some(at) = self.pppoe {
            // The PPP protocol field counts as payload (RFC 2516 §4).
            let length = self.len_behind(at.saturating_add(PPPOE_HEADER - 2));
            copy(segment.get_mut(at.saturating_add(PPPOE_LENGTH)..)?, &length.to_be_bytes());
        }
        self.done = self.done.saturating_add(payload);
        self.written = self.written.saturating_add(1);
        Some(len)
    }

    /// Returns the length of the next segment, less the `before` bytes before a header.
    fn len_behind(&self, before: usize) -> u16 {
        let len = self.next_len().unwrap_or_default().saturating_sub(before);
        u16::try_from(len).unwrap_or(u16::MAX)
    }

    /// Completes the headers of a tunnel, after everything inside is written. `None` only if they
    /// are missing, which cannot happen.
    fn write_tunnel(&self, segment: &mut [u8], tunnel: Tunnel) -> Option<()> {
        let Tunnel { ip, is_v4, upper, between } = tunnel;
        let addresses = match is_v4 {
            true => self.write_v4(segment.get_mut(ip..upper)?, ip),
            false => self.write_v6(segment.get_mut(ip..)?, ip),
        };
        let carried = segment.get_mut(upper..)?;
        match between {
            Between::Nothing | Between::Gre { has_checksum: false } => {}
            Between::Udp { has_checksum: true } => write_udp(carried, addresses),
            Between::Udp { has_checksum: false } => {
                let length = self.len_behind(upper);
                copy(carried.get_mut(4..)?, &length.to_be_bytes());
            }
            Between::Gre { has_checksum: true } => {
                carried.get_mut(4..6)?.fill(0);
                let checksum = !folded(sum(carried));
                copy(carried.get_mut(4..)?, &checksum.to_be_bytes());
            }
        }
        Some(())
    }

    /// Writes length, identification and checksum of an IPv4 header after `ip` bytes; returns the
    /// sum of the addresses.
    fn write_v4(&self, header: &mut [u8], ip: usize) -> u64 {
        let length = self.len_behind(ip);
        if let [_, _, l0, l1, i0, i1, _, _, _, _, c0, c1, ..] = header {
            [*l0, *l1] = length.to_be_bytes();
            let id = u16::from_be_bytes([*i0, *i1]).wrapping_add(self.written);
            [*i0, *i1] = id.to_be_bytes();
            [*c0, *c1] = [0; 2];
        }
        let checksum = !folded(sum(header));
        if let [_, _, _, _, _, _, _, _, _, _, c0, c1, ..] = header {
            [*c0, *c1] = checksum.to_be_bytes();
        }
        header.get(12..20).map_or(0, sum)
    }

    /// Writes the length of an IPv6 header after `ip` bytes; returns the sum of the addresses.
    fn write_v6(&self, header: &mut [u8], ip: usize) -> u64 {
        let length = self.len_behind(ip.saturating_add(IPV6_HEADER));
        if let [_, _, _, _, l0, l1, ..] = header {
            [*l0, *l1] = length.to_be_bytes();
        }
        header.get(8..IPV6_HEADER).map_or(0, sum)
    }

    /// Writes sequence number, flags and checksum of a TCP segment.
    fn write_tcp(&self, upper: &mut [u8], addresses: u64, is_last: bool) {
        if let [_, _, _, _, s0, s1, s2, s3, _, _, _, _, _, flags, _, _, c0, c1, ..] = upper {
            let before = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
            let seq = before.wrapping_add(count(self.done));
            [*s0, *s1, *s2, *s3] = seq.to_be_bytes();
            if !is_last {
                *flags &= !(FIN | PSH);
            }
            if self.written > 0 && !self.is_accurate_ecn {
                *flags &= !CWR;
            }
            [*c0, *c1] = [0; 2];
        }
        let checksum = checksum(upper, addresses, TCP);
        if let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, c0, c1, ..] = upper {
            [*c0, *c1] = checksum.to_be_bytes();
        }
    }
}

/// Returns true if an EtherType precedes the IP header; after PPPoE it is a PPP protocol number.
fn is_announced(frame: &[u8], ip: usize) -> bool {
    let before = frame.get(..ip).unwrap_or_default();
    let is_ip = matches!(before.last_chunk(), Some(&ETHER_IPV4 | &ETHER_IPV6));
    // After SNAP the frame has a length field of its own.
    let is_snap = matches!(*before, [.., l0, _, 0xaa, 0xaa, 3, 0, 0, 0, _, _] if l0 < 6);
    is_ip && !(is_snap && ip >= 22)
}

/// Returns the offset of the PPPoE header before the IP header, with the PPP protocol in two bytes.
fn pppoe(frame: &[u8], ip: usize) -> Result<usize, CutError> {
    let at = ip.checked_sub(PPPOE_HEADER).ok_or(CutError::NotIp)?;
    let before = |end: usize| frame.get(..end).and_then(<[u8]>::last_chunk);
    let is_pppoe = before(at) == Some(&ETHER_PPPOE);
    match before(ip) {
        Some(&PPP_IPV4 | &PPP_IPV6) if is_pppoe => Ok(at),
        _ => Err(CutError::NotIp),
    }
}

/// An IP header and the extent of its packet.
#[derive(Clone, Copy, Debug)]
struct Layer {
    ip: usize,
    is_v4: bool,
    upper: usize,
    end: usize,
    protocol: u8,
}

impl Layer {
    /// Parses the header at `ip`.
    fn read(frame: &[u8], ip: usize) -> Result<Self, CutError> {
        let there = frame.get(ip..).unwrap_or_default();
        let is_v4 = match there.first().map(|first| first >> 4) {
            Some(4) => true,
            Some(6) => false,
            Some(_) => return Err(CutError::NotIp),
            None => return Err(CutError::Truncated),
        };
        let (header, length, protocol) = if is_v4 { v4(there)? } else { v6(there)? };
        let (upper, end) = (ip.saturating_add(header), ip.saturating_add(length));
        if frame.len() < end {
            return Err(CutError::Truncated);
        }
        Ok(Self { ip, is_v4, upper, end, protocol })
    }

    /// Returns the inner packet, whose upper-layer header begins at `start`, and the headers around
    /// it.
    fn inside(self, frame: &[u8], start: usize) -> Result<(Self, Tunnel), CutError> {
        let carried = frame.get(self.upper..self.end).unwrap_or_default();
        let (between, behind) = match (self.protocol, carried) {
            (IPV4 | IPV6, _) => (Between::Nothing, Some(self.upper)),
            (UDP, [_, _, _, _, _, _, c0, c1, ..]) => {
                let has_checksum = [*c0, *c1] != [0; 2];
                let header = self.upper.saturating_add(UDP_HEADER);
                (Between::Udp { has_checksum }, inside_ethernet(frame, header, start))
            }
            (GRE, [flags, version, p0, p1, ..]) => {
                let (has_checksum, length) = gre(*flags, *version).ok_or(CutError::Tunnel)?;
                let header = self.upper.saturating_add(length);
                let behind = match [*p0, *p1] {
                    ETHER_IPV4 | ETHER_IPV6 => Some(header),
                    _ => inside_ethernet(frame, header, start),
                };
                (Between::Gre { has_checksum }, behind)
            }
            _ => return Err(CutError::Tunnel),
        };
        let inner = Self::read(frame, behind.ok_or(CutError::Tunnel)?)?;
        let Self { ip, is_v4, upper, .. } = self;
        Ok((inner, Tunnel { ip, is_v4, upper, between }))
    }
}

/// Returns the offset of the IP header that ends at `start`, after an EtherType or directly at
/// `from`.
fn inside_ethernet(frame: &[u8], from: usize, start: usize) -> Option<usize> {
    [20, IPV6_HEADER].into_iter().find_map(|header| {
        let ip = start.checked_sub(header)?;
        let first = frame.get(ip)? >> 4;
        let is_there = match (header, first) {
            (20, 4) => ip == from || frame.get(from..ip)?.ends_with(&ETHER_IPV4),
            (IPV6_HEADER, 6) => ip == from || frame.get(from..ip)?.ends_with(&ETHER_IPV6),
            _ => false,
        };
        is_there.then_some(ip)
    })
}

/// Returns whether a GRE header has a checksum, and its length (RFC 2784 §2, RFC 2890 §2). `None`
/// for one with sequence numbers, which differ per packet, or with unknown fields.
fn gre(flags: u8, version: u8) -> Option<(bool, usize)> {
    const CHECKSUM: u8 = 0x80;
    const KEY: u8 = 0x20;
    if flags & !(CHECKSUM | KEY) != 0 || version != 0 {
        return None;
    }
    let has_checksum = flags & CHECKSUM != 0;
    let fields = usize::from(has_checksum).saturating_add(usize::from(flags & KEY != 0));
    Some((has_checksum, fields.saturating_mul(4).saturating_add(4)))
}

/// Writes length and checksum of a UDP datagram.
fn write_udp(upper: &mut [u8], addresses: u64) {
    let length = u16::try_from(upper.len()).unwrap_or(u16::MAX);
    if let [_, _, _, _, l0, l1, c0, c1, ..] = upper {
        [*l0, *l1] = length.to_be_bytes();
        [*c0, *c1] = [0; 2];
    }
    // A checksum of 0 means that there is none (RFC 768).
    let checksum = match checksum(upper, addresses, UDP) {
        0 => u16::MAX,
        other => other,
    };
    if let [_, _, _, _, _, _, c0, c1, ..] = upper {
        [*c0, *c1] = checksum.to_be_bytes();
    }
}

/// Returns header length, packet length and protocol of an IPv4 packet.
fn v4(there: &[u8]) -> Result<(usize, usize, u8), CutError> {
    let [first, _, l0, l1, _, _, f0, f1, _, protocol, ..] = *there else {
        return Err(CutError::Truncated);
    };
    let header = usize::from(first & 0xf) << 2;
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    if header < 20 || length < header {
        return Err(CutError::Malformed);
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([f0, f1]) & 0x3fff != 0 {
        return Err(CutError::Fragment);
    }
    Ok((header, length, protocol))
}

/// Returns header length, packet length and protocol of an IPv6 packet.
fn v6(there: &[u8]) -> Result<(usize, usize, u8), CutError> {
    let [_, _, _, _, l0, l1, next, ..] = *there else { return Err(CutError::Truncated) };
    let payload = usize::from(u16::from_be_bytes([l0, l1]));
    Ok((IPV6_HEADER, payload.saturating_add(IPV6_HEADER), next))
}

/// Returns the length of the TCP header.
fn tcp(upper: &[u8]) -> Result<usize, CutError> {
    const REFUSED: u8 = SYN | RST | URG;
    let [_, _, _, _, _, _, _, _, _, _, _, _, offset, flags, ..] = *upper else {
        return Err(CutError::Truncated);
    };
    let header = usize::from(offset >> 4) << 2;
    if header < 20 {
        return Err(CutError::Malformed);
    }
    if header > upper.len() {
        return Err(CutError::Truncated);
    }
    if flags & REFUSED != 0 {
        return Err(CutError::Flags(flags & REFUSED));
    }
    Ok(header)
}

/// Returns the length of the UDP header.
fn udp(upper: &[u8]) -> Result<usize, CutError> {
    let [_, _, _, _, l0, l1, _, _, ..] = *upper else { return Err(CutError::Truncated) };
    let is_whole = usize::from(u16::from_be_bytes([l0, l1])) == upper.len();
    if is_whole { Ok(UDP_HEADER) } else { Err(CutError::Malformed) }
}

fn copy(to: &mut [u8], from: &[u8]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from;
    }
}

/// Converts a number of bytes of one packet.
fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Returns the checksum of TCP or UDP (RFC 9293 §3.1, RFC 8200 §8.1), with the checksum field 0.
fn checksum(upper: &[u8], addresses: u64, protocol: u8) -> u16 {
    let pseudo = addresses.wrapping_add(protocol.into()).wrapping_add(upper.len() as u64);
    !folded(pseudo.wrapping_add(sum(upper)))
}

/// Returns the sum of the 16-bit words of `bytes`, padded with a zero if odd (RFC 1071). Adds 32
/// bits at a time: a carry from the lower word counts the same in the upper one, modulo 0xffff.
fn sum(bytes: &[u8]) -> u64 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let sum = fours
        .iter()
        .fold(0_u64, |sum, four| sum.wrapping_add(u64::from(u32::from_be_bytes(*four))));
    let mut last = [0; 4];
    copy(&mut last, rest);
    sum.wrapping_add(u64::from(u32::from_be_bytes(last)))
}

/// Folds a sum below 2⁴⁸ to 16 bits in ones' complement arithmetic.
fn folded(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff).wrapping_add(sum >> 32);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    u16::try_from(sum & 0xffff).unwrap_or(u16::MAX)
}

/// Error of a frame that cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CutError {
    /// The segment size is 0, or the frame is too long.
    Segments(SegmentsError),
    /// The frame ends inside a header, or before the end of its IP packet.
    Truncated,
    /// A header contradicts itself: an IPv4 or TCP header shorter than 20 bytes, an IPv4 packet
    /// shorter than its header, a datagram whose length differs from its packet's.
    Malformed,
    /// The frame is no IP packet after at most four VLAN tags. PPPoE is supported by
    /// [`Segmenter::offloaded`] only.
    NotIp,
    /// No supported headers lead to the position where the device says that the checksum begins.
    Tunnel,
    /// The frame is a fragment.
    Fragment,
    /// An unsupported IPv6 extension header: its protocol number. Packets above 64 kB have one.
    ExtensionHeader(u8),
    /// A protocol other than TCP and UDP: its number.
    Protocol(u8),
    /// TCP flags that cannot be assigned to a segment: SYN 0x02, RST 0x04, URG 0x20.
    Flags(u8),
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segments(why) => why.fmt(f),
            Self::Truncated => {
                f.write_str("frame is truncated (expected complete headers and packet)")
            }
            Self::Malformed => f.write_str("inconsistent header"),
            Self::NotIp => f.write_str("no IP packet (expected IPv4 or IPv6)"),
            Self::Tunnel => f.write_str(
                "no TCP or UDP where the checksum begins (expected one packet in IP, GRE or UDP)",
            ),
            Self::Fragment => f.write_str("fragment (expected a whole packet)"),
            Self::ExtensionHeader(number) => {
                write!(f, "extension header {number} (expected TCP or UDP after IPv6)")
            }
            Self::Protocol(number) => {
                write!(f, "protocol {number} (expected {TCP}, TCP, or {UDP}, UDP)")
            }
            Self::Flags(flags) => {
                write!(f, "TCP flags {flags:#04x} (expected none of SYN, RST and URG)")
            }
        }
    }
}

/// Has no source: the text is complete.
impl core::error::Error for CutError {}

#[cfg(test)]
mod tests;
