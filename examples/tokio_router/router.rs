//! Both directions of the router.

use core::convert::Infallible;
use core::error::Error;
use core::fmt;
use std::io;

use freeboard::SmartQueue;
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use tokio_tun::Tun;

use crate::owned_packets::{Clock, OwnedPackets};

/// Longest packet of a device in bytes.
const LONGEST: usize = 65_535;

/// Time until a full device is tried again: a TUN device does not report when it can accept
/// packets.
const RETRY: Nanos = Nanos::from_millis(1);

/// Opens the devices, and forwards until ctrl-C. `names` and `rates` begin with the local side.
pub(crate) fn run(names: [&str; 2], rates: [Rate; 2]) -> Result<Report, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(route(names, rates))
}

async fn route([lan, wan]: [&str; 2], [up, down]: [Rate; 2]) -> Result<Report, Box<dyn Error>> {
    let (lan, wan) = (open(lan)?, open(wan)?);
    let clock = Clock::start();
    let mut up = OwnedPackets::new(SmartQueue::upload(up), rand::random())?;
    let mut down = OwnedPackets::new(SmartQueue::download(down), rand::random())?;
    tokio::select! {
        ended = forward(&mut up, &lan, &wan, clock) => match ended? {},
        ended = forward(&mut down, &wan, &lan, clock) => match ended? {},
        ended = tokio::signal::ctrl_c() => ended?,
    }
    Ok(Report([up, down]))
}

/// Attaches to the TUN device, or creates it. It carries packets once it is up.
fn open(name: &str) -> Result<Tun, Box<dyn Error>> {
    let devices = Tun::builder().name(name).build();
    let mut devices = devices.map_err(|error| format!("{name}: {error}"))?;
    Ok(devices.pop().ok_or("no device")?)
}

/// One direction: reads packets from one device into the queue, and writes those that may leave to
/// the other.
async fn forward(
    packets: &mut OwnedPackets,
    from: &Tun,
    to: &Tun,
    clock: Clock,
) -> io::Result<Infallible> {
    let mut buffer = vec![0; LONGEST];
    let mut again = None;
    loop {
        let due = again.or_else(|| packets.poll_at(clock.now()));
        tokio::select! {
            len = from.recv(&mut buffer) => packets.push(clock.now(), buffer[..len?].to_vec()),
            () = clock.reaches(due) => {}
        }
        // A device that is down refuses packets as well, and so does one that finds no IP header.
        let is_full = packets.send(clock, |packet| to.try_send(packet));
        again = is_full.then(|| clock.now().plus(RETRY));
    }
}

/// Counters of both directions.
#[derive(Debug)]
pub(crate) struct Report([OwnedPackets; 2]);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([up, down]) = self;
        writeln!(f, "up   at {up}\ndown at {down}")
    }
}
