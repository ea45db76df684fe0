//! Textual form of flows and hosts.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use freeboard::flowhash::{FlowKey, HostKey, Transport};

use crate::config::hosts::{Host, Names};
use crate::stats::flow_stats::Flow;

/// Host of all frames without an IP address: ARP and unknown protocols.
const NOT_IP: &str = "not IP";

/// Formats a flow: `10.0.0.1:5000 > 192.0.2.1:443 tcp`, and inside a tunnel with the outer header
/// after it: `… in 192.0.2.1 > 198.51.100.1 protocol 4`.
pub(crate) fn flow((key, outer): &Flow) -> String {
    match outer {
        None => one(key),
        Some(outer) => format!("{} in {}", one(key), one(outer)),
    }
}

fn one(key: &FlowKey) -> String {
    match *key {
        FlowKey::V4 { src, dst, transport } => {
            between(Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into(), transport)
        }
        FlowKey::V6 { src, dst, transport } => {
            between(Ipv6Addr::from(src).into(), Ipv6Addr::from(dst).into(), transport)
        }
        FlowKey::Ethernet { src } => format!("{} {NOT_IP}", mac(src)),
        _ => NOT_IP.to_owned(),
    }
}

fn between(src: IpAddr, dst: IpAddr, transport: Transport) -> String {
    let Transport { protocol, src_port, dst_port } = transport;
    let name = match protocol {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmp6".to_owned(),
        _ => format!("protocol {protocol}"),
    };
    let between = format!("{src} > {dst} {name}");
    match (protocol, src_port, dst_port) {
        (_, 0, 0) => between,
        _ if transport.has_ports() => {
            format!(
                "{} > {} {name}",
                SocketAddr::new(src, src_port),
                SocketAddr::new(dst, dst_port)
            )
        }
        // ICMP has no ports in these fields, but the identifier of an echo, type and code.
        (1 | 58, id, kind) => {
            let code =
                if kind & 0xff == 0 { String::new() } else { format!(" code {}", kind & 0xff) };
            let id = if id == 0 { String::new() } else { format!(" id {id}") };
            format!("{between} type {}{code}{id}", kind >> 8)
        }
        // A number that identifies the flow: of ESP or of IPv6.
        (_, high, low) => format!("{between} {high:04x}{low:04x}"),
    }
}

/// Formats a host by its address, its prefix or the name of its list, as accepted in tables of
/// hosts.
pub(crate) fn host(key: &HostKey, names: &Names) -> String {
    match *key {
        HostKey::V4(address) => {
            Host::of_address(Ipv4Addr::from(address).into(), names.by).to_string()
        }
        HostKey::V6(address) => {
            Host::of_address(Ipv6Addr::from(address).into(), names.by).to_string()
        }
        HostKey::Mac(address) => mac(address),
        HostKey::Vlan([outer, 0]) => format!("vlan {outer}"),
        HostKey::Vlan([outer, inner]) => format!("vlan {outer}.{inner}"),
        HostKey::Named(number) => names.name(number).to_owned(),
        _ => NOT_IP.to_owned(),
    }
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use freeboard::flowhash::{HostBy, PrefixLengths};

    use super::*;

    #[test]
    fn flows_are_written_as_people_write_them() {
        let transport = Transport { protocol: 6, src_port: 5_000, dst_port: 443 };
        let v4 = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport };
        assert_eq!(flow(&(v4, None)), "10.0.0.1:5000 > 192.0.2.1:443 tcp");
        let named = |key| host(&key, &Names::default());
        assert_eq!(named(v4.src_host()), "10.0.0.1");
        assert_eq!(named(HostKey::Mac([2; 6])), "02:02:02:02:02:02");
        let by_prefix = Names::new(HostBy::Prefix(PrefixLengths::new(24, 56).unwrap()));
        let v6 = [0xfd, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(host(&HostKey::V4([10, 0, 0, 0]), &by_prefix), "10.0.0.0/24");
        assert_eq!(host(&HostKey::V6(v6), &by_prefix), "fd00:0:0:700::/56");
        let subnets = Names::new(HostBy::Prefix(PrefixLengths::SUBNETS));
        assert_eq!(host(&v4.src_host(), &subnets), "10.0.0.1", "an IPv4 address is whole there");
        assert_eq!(
            (named(HostKey::Vlan([7, 0])), named(HostKey::Vlan([7, 9]))),
            ("vlan 7".into(), "vlan 7.9".into())
        );
        let none = Transport { protocol: 47, src_port: 0, dst_port: 0 };
        let v6 = FlowKey::V6 { src: [0; 16], dst: [1; 16], transport: none };
        assert_eq!(flow(&(v6, None)), ":: > 101:101:101:101:101:101:101:101 protocol 47");
        let tunnelled = (v4, Some(v6));
        let name =
            "10.0.0.1:5000 > 192.0.2.1:443 tcp in :: > 101:101:101:101:101:101:101:101 protocol 47";
        assert_eq!(flow(&tunnelled), name);
        let echo = Transport { protocol: 1, src_port: 77, dst_port: 8 << 8 };
        let echo = FlowKey::V4 { src: [10, 0, 0, 1], dst: [192, 0, 2, 1], transport: echo };
        assert_eq!(flow(&(echo, None)), "10.0.0.1 > 192.0.2.1 icmp type 8 id 77");
        let advertised = Transport { protocol: 58, src_port: 0, dst_port: 134 << 8 };
        let advertised = FlowKey::V6 { src: [0; 16], dst: [1; 16], transport: advertised };
        assert_eq!(
            flow(&(advertised, None)),
            ":: > 101:101:101:101:101:101:101:101 icmp6 type 134"
        );
        let arp = FlowKey::Ethernet { src: [2, 0, 0, 0, 0, 1] };
        assert_eq!(flow(&(arp, None)), "02:00:00:00:00:01 not IP");
        assert_eq!(named(arp.src_host()), "not IP");
    }
}
