//! smoltcp's TCP with few packets in flight: its retransmission timeout is at least a second, so a
//! loss not detected by duplicate acknowledgements leaves the link idle.

use core::net::{Ipv4Addr, SocketAddrV4};

use freeboard::sched_core::{Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};
use sim::app::{BulkReceiver, BulkSender};
use sim::discipline::Discipline;
use sim::host::{Buffers, Host};
use sim::link::Link;
use sim::measure::goodput::Goodput;
use sim::network::{Application, Network, Side};

const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const DEVICE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);
const LIMITS: Limits = Limits::packets(1_000);
const MTU: u32 = 1_500;

/// All uploads of the device, or their receivers.
enum App {
    Senders(Vec<BulkSender>),
    Receivers(Vec<BulkReceiver>),
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        // A fold, so that all are called.
        let earliest =
            |first: Option<Nanos>, next: Option<Nanos>| first.into_iter().chain(next).min();
        match self {
            Self::Senders(all) => all.iter_mut().map(|app| app.act(now, host)).fold(None, earliest),
            Self::Receivers(all) => {
                all.iter_mut().map(|app| app.act(now, host)).fold(None, earliest)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    megabits: u64,
    round_trip: Nanos,
    uploads: u16,
    /// Maximum bytes in flight of each upload.
    window: usize,
}

/// Returns the payload of all uploads relative to the rate of the link, over 30 s behind the smart
/// queue.
fn share(case: Case) -> f64 {
    let (from, to) = (Nanos::from_secs(5), Nanos::from_secs(35));
    let link = |discipline: Discipline, megabits| {
        let line = Shaper::new(Rate::megabits_per_second(megabits).unwrap());
        let queue = discipline.behind(line, Overhead::RAW, LIMITS, MTU);
        Link::new(queue, LIMITS.packets + 1, [7; 16], Nanos(case.round_trip.0 / 2))
    };
    let up = link(Discipline::Smart, case.megabits);
    let mut network = Network::new(up, link(Discipline::Fifo, 100));
    let sender = |number: u16| {
        let buffers = Buffers { send: case.window, receive: 4_096 };
        let start = Nanos::from_millis(37 * u64::from(number));
        BulkSender::new(SocketAddrV4::new(SERVER, 5_000 + number), start, buffers)
    };
    let receiver = |number: u16| {
        let buffers = Buffers { send: 4_096, receive: 65_535 };
        BulkReceiver::new(5_000 + number, buffers, Goodput::over(from, to))
    };
    let senders = App::Senders((0..case.uploads).map(sender).collect());
    network.add(Side::Home, Host::new(DEVICE, 1), senders);
    let receivers = App::Receivers((0..case.uploads).map(receiver).collect());
    let server = network.add(Side::Internet, Host::new(SERVER, 2), receivers);
    network.run_until(to, &mut |_, _| ());
    assert_eq!(network.recount(), Ok(()));
    let App::Receivers(receivers) = network.application(server) else { unreachable!() };
    let bits: u64 = receivers.iter().map(|receiver| receiver.goodput().bits_per_second()).sum();
    bits as f64 / (case.megabits as f64 * 1e6)
}

/// Goal: uploads whose windows together fill the link use it fully. Method: windows of three
/// packets and of four, and one that Reno reduces to as few. 1,460 of 1,500 bytes are payload,
/// 0.973. If queues of three packets were signalled, the first case would have 0.54.
#[test]
fn uploads_of_few_packets_fill_the_link() {
    let case = |megabits, micros, uploads, window| {
        let round_trip = Nanos::from_micros(micros);
        Case { megabits, round_trip, uploads, window }
    };
    for case in [
        case(1, 20_000, 1, 65_535),
        case(5, 200, 2, 4_380),
        case(5, 200, 2, 5_840),
        case(5, 200, 2, 65_535),
        case(5, 200, 4, 8_192),
    ] {
        let share = share(case);
        assert!(share >= 0.95, "{case:?}: {share:.3}");
    }
}
