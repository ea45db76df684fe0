//! Both directions of the router.

use core::convert::Infallible;
use core::error::Error;
use core::fmt;
use core::future::pending;
use core::time::Duration;
use std::io;

use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{FrameQueue, SmartQueue};
use tokio::time::{Instant, sleep_until};
use tokio_tun::Tun;

/// The longest packet that a device may give, in bytes.
const LONGEST: usize = 65_535;

/// How long a device that has no room is left alone: a TUN device does not say when it has.
const RETRY: Nanos = Nanos::from_millis(1);

/// Opens the devices, and forwards until ctrl-C. `names` and `rates` begin with the local side.
pub(crate) fn run(names: [&str; 2], rates: [Rate; 2]) -> Result<Report, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(route(names, rates))
}

async fn route([lan, wan]: [&str; 2], [up, down]: [Rate; 2]) -> Result<Report, Box<dyn Error>> {
    let (lan, wan) = (open(lan)?, open(wan)?);
    let clock = Clock(Instant::now());
    let mut up = Forwarder::new(SmartQueue::upload(up).raw_ip().frames(rand::random())?);
    let mut down = Forwarder::new(SmartQueue::download(down).raw_ip().frames(rand::random())?);
    tokio::select! {
        ended = up.forward(&lan, &wan, clock) => match ended? {},
        ended = down.forward(&wan, &lan, clock) => match ended? {},
        ended = tokio::signal::ctrl_c() => ended?,
    }
    Ok(Report([up, down]))
}

/// Attaches to the TUN device, or makes it. It carries packets once it is up.
fn open(name: &str) -> Result<Tun, Box<dyn Error>> {
    let devices = Tun::builder().name(name).build();
    let mut devices = devices.map_err(|error| format!("{name}: {error}"))?;
    Ok(devices.pop().ok_or("no device")?)
}

/// One direction: a queue, and how many packets the device behind it has refused.
#[derive(Debug)]
struct Forwarder {
    queue: FrameQueue,
    refused: u64,
}

impl Forwarder {
    const fn new(queue: FrameQueue) -> Self {
        Self { queue, refused: 0 }
    }

    /// Reads packets from one device into the queue, and writes what may leave to the other.
    async fn forward(&mut self, from: &Tun, to: &Tun, clock: Clock) -> io::Result<Infallible> {
        let mut packet = vec![0; LONGEST];
        let mut again = None;
        loop {
            let due = again.or_else(|| self.queue.poll_at(clock.now()));
            tokio::select! {
                len = from.recv(&mut packet) => {
                    // One that is longer than a buffer is counted as rejected.
                    let _counted = self.queue.push(clock.now(), &packet[..len?]);
                }
                () = clock.reaches(due) => {}
            }
            again = self.send(to, clock);
        }
    }

    /// Writes what may leave; returns when to try again, if the device had no room. Nothing is
    /// awaited while the queue is borrowed, and a packet for which there is no room stays in the
    /// queue, where it does not hold up the others.
    fn send(&mut self, to: &Tun, clock: Clock) -> Option<Nanos> {
        let Self { queue, refused } = self;
        let mut is_full = false;
        while queue.pop_if(clock.now(), |packet| match to.try_send(packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                is_full = true;
                false
            }
            // A device that is down refuses for good, and so does one that finds no IP header.
            sent => {
                *refused += u64::from(sent.is_err());
                true
            }
        }) {}
        is_full.then(|| clock.now().plus(RETRY))
    }
}

/// The time since the start.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until `due`, or for ever if there is nothing to wait for. tokio's timer has a
    /// resolution of 1 ms, so a packet may leave 1 ms late. The queue makes up for this, and the
    /// rate is kept.
    async fn reaches(self, due: Option<Nanos>) {
        match due {
            Some(due) => sleep_until(self.0 + Duration::from_nanos(due.0)).await,
            None => pending().await,
        }
    }
}

/// What became of the packets.
#[derive(Debug)]
pub(crate) struct Report([Forwarder; 2]);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, direction) in ["up", "down"].into_iter().zip(&self.0) {
            let Forwarder { queue, refused } = direction;
            let counters = queue.counters();
            writeln!(
                f,
                "{name:4} at {}: {} packets in, {} rejected, {} dropped, {} queued, {} out ({} bytes), \
                 {} marked, {refused} refused by the device; at most {} bytes queued",
                queue.line().rate(),
                counters.offered().packets,
                counters.rejected.packets,
                counters.dropped_total().packets,
                queue.backlog().packets,
                counters.delivered.packets,
                counters.delivered.bytes,
                counters.marked,
                counters.peak.bytes,
            )?;
        }
        Ok(())
    }
}
