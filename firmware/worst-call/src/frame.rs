//! Frames of all kinds, some with as many headers as the parser reads.

use crate::sequence::MAX_LEN;

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
const VLAN: [u8; 4] = [0x81, 0, 0, 1];
/// A header of a PPPoE session with an IPv6 packet.
const PPPOE: [u8; 10] = [0x88, 0x64, 0x11, 0, 0, 1, 2, 0, 0, 0x57];

/// A frame of `len` bytes of a flow; the network card of each host sends four flows. Frames of up
/// to 64 bytes are TCP acknowledgements of `number`.
pub struct Frame {
    bytes: [u8; MAX_LEN as usize],
    at: usize,
}

impl Frame {
    pub const fn new() -> Self {
        Self { bytes: [0; MAX_LEN as usize], at: 0 }
    }

    pub fn write(&mut self, flow: u32, len: u32, number: u32) -> &[u8] {
        *self = Self::new();
        let [.., host] = (flow / 4).to_be_bytes();
        self.put(&[2, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, host]);
        let bytes = len - len.min(14);
        match flow % 4 {
            0 => {
                self.put(&IPV4);
                self.ipv4(flow, bytes, 17);
            }
            1 => {
                self.put(&IPV4);
                self.ipv4(flow, bytes, 6);
            }
            2 => {
                self.put(&IPV6);
                self.ipv6(flow, bytes, &[], 6);
            }
            _ => {
                for _ in 0..4 {
                    self.put(&VLAN);
                }
                self.put(&PPPOE);
                // Four tunnels, and the longest chain of extension headers in each.
                for next in [41, 41, 41, 41, 6] {
                    self.ipv6(flow, bytes, &[0, 60, 60, 60, 60, 60, 60, 60], next);
                }
            }
        }
        let [.., high, low] = flow.to_be_bytes();
        let [n0, n1, n2, n3] = number.to_be_bytes();
        // Ports, sequence number, acknowledgement, no options, ACK, window.
        self.put(&[high, low, 1, 187, 0, 0, 0, 1, n0, n1, n2, n3, 0x50, 0x10, 255, 255]);
        &self.bytes[..len as usize]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..][..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn ipv4(&mut self, flow: u32, bytes: u32, protocol: u8) {
        let [.., host, port] = flow.to_be_bytes();
        let [.., high, low] = bytes.to_be_bytes();
        self.put(&[0x45, port << 1, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        self.put(&[10, 0, host, port, 192, 0, 2, 1]);
    }

    fn ipv6(&mut self, flow: u32, bytes: u32, extensions: &[u8], next: u8) {
        let [.., host, port] = flow.to_be_bytes();
        let [.., high, low] = (bytes - bytes.min(40)).to_be_bytes();
        let [first, others @ ..] = extensions else {
            return self.put_ipv6([high, low, next], [host, port]);
        };
        self.put_ipv6([high, low, *first], [host, port]);
        for next in others.iter().chain([&next]) {
            self.put(&[*next, 0, 1, 4, 0, 0, 0, 0]);
        }
    }

    fn put_ipv6(&mut self, [high, low, next]: [u8; 3], [host, port]: [u8; 2]) {
        self.put(&[0x60 | port >> 4, port << 4, 0, 0, high, low, next, 64]);
        self.put(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host, port]);
        self.put(&[0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
