//! Both directions of one end. Only the packets that are sent pass through a queue; the other end
//! queues those that are received.

use core::convert::Infallible;
use core::error::Error;
use core::net::SocketAddr;
use std::io;

use freeboard::SmartQueue;
use freeboard::shaper::Rate;
use tokio::net::UdpSocket;
use tokio_tun::Tun;

use crate::owned_packets::{Clock, OwnedPackets};

/// Longest packet of a device in bytes.
const LONGEST: usize = 65_535;

/// Opens the device and the socket, and forwards until ctrl-C. `addresses` begin with the local
/// one.
pub(crate) fn run(
    device: &str,
    addresses: [SocketAddr; 2],
    rate: Rate,
) -> Result<OwnedPackets, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(forward(device, addresses, rate))
}

async fn forward(
    device: &str,
    [local, remote]: [SocketAddr; 2],
    rate: Rate,
) -> Result<OwnedPackets, Box<dyn Error>> {
    let devices = Tun::builder().name(device).build().map_err(|error| format!("{device}: {error}"));
    let tun = devices?.pop().ok_or("no device")?;
    let socket = UdpSocket::bind(local).await?;
    socket.connect(remote).await?;
    // The headers of IP and UDP are added to each packet.
    let headers = if remote.is_ipv4() { "overhead 28" } else { "overhead 48" };
    let builder = SmartQueue::upload(rate).framing(headers)?;
    let mut packets = OwnedPackets::new(builder, rand::random())?;
    tokio::select! {
        ended = send(&mut packets, &tun, &socket) => match ended? {},
        ended = receive(&socket, &tun) => match ended? {},
        ended = tokio::signal::ctrl_c() => ended?,
    }
    Ok(packets)
}

/// Reads packets from the device into the queue, and sends those that may leave to the other end.
async fn send(packets: &mut OwnedPackets, tun: &Tun, socket: &UdpSocket) -> io::Result<Infallible> {
    let clock = Clock::start();
    let mut buffer = vec![0; LONGEST];
    let mut is_full = false;
    loop {
        let due = packets.poll_at(clock.now()).filter(|_| !is_full);
        tokio::select! {
            len = tun.recv(&mut buffer) => packets.push(clock.now(), buffer[..len?].to_vec()),
            ready = socket.writable(), if is_full => ready?,
            () = clock.reaches(due) => {}
        }
        // The socket refuses packets as well if the other end is not there (ECONNREFUSED).
        is_full = packets.send(clock, |packet| socket.try_send(packet));
    }
}

/// Writes received packets to the device.
async fn receive(socket: &UdpSocket, tun: &Tun) -> io::Result<Infallible> {
    let mut buffer = vec![0; LONGEST];
    loop {
        match socket.recv(&mut buffer).await {
            // A device that is down refuses, and so does one that finds no IP header.
            Ok(len) => drop(tun.send(&buffer[..len]).await),
            // An ICMP error for a packet that was sent: the other end is not there, or a firewall
            // or a router refused it.
            Err(error) if is_refusal(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

const fn is_refusal(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(kind, ConnectionRefused | HostUnreachable | NetworkUnreachable)
}
