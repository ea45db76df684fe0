//! Recorded traffic as a source.

use core::iter::FusedIterator;

use freeboard::flowhash::{FlowKey, parse};
use freeboard::sched_core::Nanos;

use super::Sent;
use crate::capture::{CaptureError, Frame, Packet, Reader};

/// Headers that a network adds to a payload: IPv4 and UDP, in bytes.
const HEADERS: u32 = 28;

/// The IP packets of a capture as an open-loop source, which ends after the last.
///
/// A payload is 28 bytes shorter than the recorded IP packet: with the headers of IPv4 and UDP,
/// which a network adds, packets have their recorded lengths. Packets below 28 bytes become empty
/// payloads. Times are relative to the first packet of the selection; packets out of order are
/// sorted by time. Frames without an IP header are skipped.
///
/// A replay does not react to the network; see [`crate::replay`] for one with all flow keys.
///
/// ```
/// # use freeboard::sched_core::Nanos;
/// # use sim::capture::{LinkType, Resolution, Writer};
/// # use sim::source::{Sent, Trace};
/// # let mut packet = [0; 28];
/// # (packet[0], packet[3], packet[9]) = (0x45, 128, 17);
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file, LinkType::RawIp, Resolution::Nanos)?;
/// writer.write(Nanos::from_secs(1_000), &packet, 128)?;
/// let mut trace = Trace::read(&file, Nanos::from_secs(2))?;
/// assert_eq!(trace.next(), Some(Sent { at: Nanos::from_secs(2), payload: 100 }));
/// assert_eq!(trace.next(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    packets: std::vec::IntoIter<Sent>,
}

impl Trace {
    /// Reads all packets of a pcap or pcapng file; the first is sent at `start`.
    ///
    /// # Errors
    /// [`CaptureError`] if the file, or the rest of it, cannot be read.
    pub fn read(file: &[u8], start: Nanos) -> Result<Self, CaptureError> {
        Self::select(file, start, |_| true)
    }

    /// Reads the packets of one flow, in one direction; the first of them is sent at `start`.
    ///
    /// # Errors
    /// [`CaptureError`] if the file, or the rest of it, cannot be read.
    pub fn read_flow(file: &[u8], start: Nanos, flow: &FlowKey) -> Result<Self, CaptureError> {
        Self::select(file, start, |key| key == flow)
    }

    fn select(
        file: &[u8],
        start: Nanos,
        select: impl Fn(&FlowKey) -> bool,
    ) -> Result<Self, CaptureError> {
        let mut packets = Vec::new();
        for packet in Reader::new(file)? {
            let packet = packet?;
            if let Some((key, len)) = key_and_len(&packet)
                && select(&key)
            {
                packets.push(Sent { at: packet.at, payload: len.saturating_sub(HEADERS) });
            }
        }
        packets.sort_by_key(|packet| packet.at);
        let begin = packets.first().map_or(Nanos::ZERO, |packet| packet.at);
        for packet in &mut packets {
            packet.at = start.plus(packet.at.since(begin));
        }
        Ok(Self { packets: packets.into_iter() })
    }
}

/// Returns the flow and the length of the IP packet in a captured packet; `None` without an IP
/// header.
fn key_and_len(packet: &Packet<'_>) -> Option<(FlowKey, u32)> {
    let frame = packet.link.frame(packet.bytes)?;
    let (parsed, captured) = match &frame {
        Frame::Ethernet(frame) => (parse::ethernet(frame), frame.len()),
        Frame::Ip(packet) => (parse::ip(packet), packet.len()),
    };
    // The rest of a frame is its link header; a frame may have been built with another header than
    // the recorded one, but has as many captured bytes of IP.
    let of_ip = captured.checked_sub(parsed.ip?.offset)?;
    let header = packet.bytes.len().checked_sub(of_ip)?;
    Some((parsed.key, packet.wire_len().saturating_sub(u32::try_from(header).ok()?)))
}

impl Iterator for Trace {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        self.packets.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.packets.size_hint()
    }
}

impl ExactSizeIterator for Trace {}
impl FusedIterator for Trace {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, Resolution, Writer};
    use freeboard::flowhash::Transport;

    const FIRST: Nanos = Nanos(1_700_000_000_000_000_123);

    /// A UDP packet of `len` bytes, of which 28 are captured.
    fn udp(port: u8, len: u16) -> Vec<u8> {
        let [high, low] = len.to_be_bytes();
        let mut packet = vec![0; 28];
        packet[..4].copy_from_slice(&[0x45, 0, high, low]);
        packet[9] = 17;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..24].copy_from_slice(&[0, port, 0, 9]);
        packet
    }

    fn file(link: LinkType, header: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, link, Resolution::Nanos).unwrap();
        for (after, port, len) in [(0, 1, 228), (7_000, 2, 1_500), (3_000, 1, 28), (9_001, 1, 300)]
        {
            let bytes = [header, &udp(port, len)].concat();
            let wire = u32::from(len) + header.len() as u32;
            writer.write(FIRST.plus(Nanos(after)), &bytes, wire).unwrap();
        }
        // No IP: ARP on Ethernet, an unknown version otherwise.
        writer.write(FIRST, &[0; 60], 60).unwrap();
        file
    }

    fn sent(packets: &[(u64, u32)], start: u64) -> Vec<Sent> {
        packets.iter().map(|&(at, payload)| Sent { at: Nanos(start + at), payload }).collect()
    }

    #[test]
    fn a_trace_has_the_recorded_times_and_lengths() {
        let ethernet = [&[2; 12][..], &[0x08, 0x00]].concat();
        let cooked = [&[0; 14][..], &[0x08, 0x00]].concat();
        for (link, header) in
            [(LinkType::RawIp, &[][..]), (LinkType::Ethernet, &ethernet), (LinkType::Sll, &cooked)]
        {
            let trace = Trace::read(&file(link, header), Nanos(50)).unwrap();
            let expected = [(0, 200), (3_000, 0), (7_000, 1_472), (9_001, 272)];
            assert_eq!(trace.len(), 4, "{link:?}");
            assert_eq!(trace.collect::<Vec<_>>(), sent(&expected, 50), "{link:?}");
        }
    }

    #[test]
    fn a_flow_begins_with_its_first_packet() {
        let key = |src_port| FlowKey::V4 {
            src: [10, 0, 0, 1],
            dst: [10, 0, 0, 2],
            transport: Transport { protocol: 17, src_port, dst_port: 9 },
        };
        let file = file(LinkType::RawIp, &[]);
        let read = |port| Trace::read_flow(&file, Nanos(5), &key(port)).unwrap();
        assert_eq!(read(1).collect::<Vec<_>>(), sent(&[(0, 200), (3_000, 0), (9_001, 272)], 5));
        assert_eq!(read(2).collect::<Vec<_>>(), sent(&[(0, 1_472)], 5));
        assert_eq!(read(3).next(), None);
    }

    #[test]
    fn a_file_that_ends_in_a_record_is_an_error() {
        let file = file(LinkType::RawIp, &[]);
        assert!(Trace::read(&file[..file.len() - 1], Nanos::ZERO).is_err());
        assert!(Trace::read(&[], Nanos::ZERO).is_err());
    }
}
