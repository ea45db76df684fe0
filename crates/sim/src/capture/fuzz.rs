//! Fuzz target for captures.

use super::{Packet, Reader, Resolution, Writer};

/// Asserts four properties for any bytes:
///
/// - A capture is read to its end, or to an error inside it.
/// - The packets read lie in the file, one after the other.
/// - A truncated file gives equal packets up to the truncation.
/// - Packets that can be written back are read back unchanged.
pub fn check_reading(bytes: &[u8]) {
    let whole = read(bytes);
    for (packet, next) in whole.iter().zip(&whole[1.min(whole.len())..]) {
        assert!(packet.offset + packet.bytes.len() < next.offset, "{packet:?}, then {next:?}");
    }
    for packet in &whole {
        let end = packet.bytes.as_ptr_range().end;
        assert!(bytes.as_ptr_range().contains(&packet.bytes.as_ptr()) || packet.bytes.is_empty());
        assert!(end <= bytes.as_ptr_range().end, "beyond the file");
        assert!(packet.wire_len() as usize >= packet.bytes.len());
    }
    for cut in [bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        let part = read(&bytes[..cut]);
        assert!(whole.starts_with(&part), "cut at {cut}");
    }

    let mut file = Vec::new();
    let Some(link) = whole.first().map(|packet| packet.link) else { return };
    let mut writer = Writer::new(&mut file, link, Resolution::Nanos).expect("memory takes all");
    let written: Vec<_> = whole
        .iter()
        .filter(|packet| writer.write(packet.at, packet.bytes, packet.original_len).is_ok())
        .collect();
    let again = read(&file);
    assert_eq!(again.len(), written.len());
    for (packet, again) in written.into_iter().zip(again) {
        assert_eq!(
            Packet { offset: 0, link, original_len: packet.wire_len(), ..*packet },
            Packet { offset: 0, ..again },
            "written and read"
        );
    }
}

/// Returns the packets before the end or the error.
fn read(file: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => {
            assert_eq!(error.offset, 0, "{error}");
            return packets;
        }
    };
    for packet in &mut reader {
        match packet {
            Ok(packet) => packets.push(packet),
            Err(error) => assert!(error.offset <= file.len(), "{error}"),
        }
    }
    assert!(reader.next().is_none(), "after its end");
    packets
}
