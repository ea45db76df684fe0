//! One end of a tunnel: IP packets of a TUN device in UDP datagrams to the other end, from a smart
//! queue with a rate. A packet stays in the `Vec` it was received into, as in a VPN that encrypts
//! it in place. Linux, as root:
//!
//! ```text
//! cargo run --release --example udp_tunnel -- tun0 192.0.2.1:5000 192.0.2.2:5000 4mbit &
//! ip addr add 10.9.0.1 peer 10.9.0.2 dev tun0; ip link set tun0 mtu 1472 up
//! ```
//!
//! The arguments are the device, the local and the remote address and the upload rate, in which the
//! headers of IP and UDP count. The other end runs the same program with the addresses exchanged.
//! Ctrl-C ends it with a report. Datagrams are not encrypted, and their ECN field is 0 (the
//! compatibility mode of RFC 6040 §4.1): a packet is marked in its own header.

#[cfg(all(test, target_os = "linux"))]
#[path = "../support/namespaces.rs"]
mod namespaces;
#[cfg(target_os = "linux")]
#[path = "../support/owned_packets.rs"]
mod owned_packets;
#[cfg(all(test, target_os = "linux"))]
mod test;
#[cfg(target_os = "linux")]
mod tunnel;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn core::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let &[device, local, remote, rate] = words.as_slice() else {
        return Err("usage: udp_tunnel DEVICE LOCAL REMOTE RATE, as in: \
                    tun0 192.0.2.1:5000 192.0.2.2:5000 4mbit"
            .into());
    };
    println!("{}", tunnel::run(device, [local.parse()?, remote.parse()?], rate.parse()?)?);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("udp_tunnel: TUN devices are opened as Linux does it");
}
