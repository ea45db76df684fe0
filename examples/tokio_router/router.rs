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

/// Attaches to the TUN device, or creates it. It carries packets once it is up.
fn open(name: &str) -> Result<Tun, Box<dyn Error>> {
    let devices = Tun::builder().name(name).build();
    let mut devices = devices.map_err(|error| format!("{name}: {error}"))?;
    Ok(devices.pop().ok_or("no device")?)
}

/// One direction: a queue, and the number of packets refused by the device behind it.
#[derive(Debug)]
struct Forwarder {
    queue: FrameQueue,
    refused: u64,
}

impl Forwarder {
    const fn new(queue: FrameQueue) -> Self {
        Self { queue, refused: 0 }
    }

    /// Reads packets from one device into the queue, and writes those that may leave to the other.
    async fn forward(&mut self, from: &Tun, to: &Tun, clock: Clock) -> io::Result<Infallible> {
        let mut packet = vec![0; LONGEST];
        let mut again = None;
        loop {
            let due = again.or_else(|| self.queue.poll_at(clock.now()));
            tokio::select! {
                len = from.recv(&mut packet) => {
                    // A packet longer than a buffer is counted as rejected.
                    let _counted = self.queue.push(clock.now(), &packet[..len?]);
                }
                () = clock.reaches(due) => {}
            }
            again = self.send(to, clock);
        }
    }

    /// Writes packets that may leave; returns the time to try again if the device was full. Nothing
    /// is awaited while the queue is borrowed. A packet that the device cannot accept stays in the
    /// queue and does not delay others there.
    fn send(&mut self, to: &Tun, clock: Clock) -> Option<Nanos> {
        let Self { queue, refused } = self;
        let mut is_full = false;
        while queue.pop_if(clock.now(), |packet| match to.try_send(packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                is_full = true;
                false
            }
            // A device that is down refuses permanently, and so does one that finds no IP header.
            sent => {
                *refused += u64::from(sent.is_err());
                true
            }
        }) {}
        is_full.then(|| clock.now().plus(RETRY))
    }
}

/// A clock that counts the time since the start.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until `due`, or forever if there is nothing to wait for. tokio's timer has a
    /// resolution of 1 ms, so a packet may leave 1 ms late. The queue catches up, and the rate is
    /// kept.
    async fn reaches(self, due: Option<Nanos>) {
        match due {
            Some(due) => sleep_until(self.0 + Duration::from_nanos(due.0)).await,
            None => pending().await,
        }
    }
}

/// Counters of both directions.
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
