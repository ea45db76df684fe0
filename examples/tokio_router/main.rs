//! A user-space router: IP packets between two TUN devices, a smart queue with a rate in each
//! direction, and a tokio timer on `poll_at`. Linux, as root:
//!
//! ```text
//! ip netns add left; ip netns add right
//! cargo run --release --example tokio_router -- lan0 wan0 2mbit 10mbit &
//! ip link set lan0 netns left;  ip -n left  addr add 10.9.0.1 peer 10.9.0.2 dev lan0; ip -n left  link set lan0 up
//! ip link set wan0 netns right; ip -n right addr add 10.9.0.2 peer 10.9.0.1 dev wan0; ip -n right link set wan0 up
//! ip netns exec left ping 10.9.0.2
//! ```
//!
//! The arguments are the device on the side of the local hosts, the device on the side of the link,
//! and the upload and download rates. Ctrl-C ends it with a report. Packets are not modified: there
//! is no address translation, and the time to live is kept. The example `udp_tunnel` has a socket
//! in place of the second device.

#[cfg(all(test, target_os = "linux"))]
#[path = "../support/namespaces.rs"]
mod namespaces;
#[cfg(target_os = "linux")]
#[path = "../support/owned_packets.rs"]
mod owned_packets;
#[cfg(target_os = "linux")]
mod router;
#[cfg(all(test, target_os = "linux"))]
mod test;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn core::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let &[lan, wan, up, down] = words.as_slice() else {
        return Err("usage: tokio_router LAN WAN UP DOWN, as in: lan0 wan0 2mbit 10mbit".into());
    };
    print!("{}", router::run([lan, wan], [up.parse()?, down.parse()?])?);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("tokio_router: TUN devices are opened as Linux does it");
}
