//! Hosts, applications and a link together, with results calculated manually.

use core::net::{Ipv4Addr, SocketAddrV4};

use conformance::rng::Streams;
use freeboard::sched_core::{Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};
use sim::app::{Browser, Media, Packetised, Page, WebServer};
use sim::discipline::Discipline;
use sim::host::Host;
use sim::link::Link;
use sim::network::{Application, Network, Side};
use sim::source::Cbr;

const HOME: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const DELAY: Nanos = Nanos::from_millis(20);

enum App {
    Browser(Browser),
    Web(WebServer),
    Media(Media),
}

impl Application for App {
    fn act(&mut self, now: Nanos, host: &mut Host) -> Option<Nanos> {
        match self {
            Self::Browser(app) => app.act(now, host),
            Self::Web(app) => app.act(now, host),
            Self::Media(app) => app.act(now, host),
        }
    }
}

fn network(rate: Rate) -> Network<App> {
    let link = || {
        let limits = Limits::packets(100);
        let queue = Discipline::Fifo.behind(Shaper::new(rate), Overhead::RAW, limits, 1_500);
        Link::new(queue, 101, [0; 16], DELAY)
    };
    Network::new(link(), link())
}

/// Goal: the browser behaves like its model, over real TCP connections. Method: on a link without a
/// rate only round trips of 40 ms count. The document takes two (handshake; request). Then the
/// first connection requests an object while five more are opened, and a round trip later all six
/// do: seven objects have arrived after two more round trips, eight take a third.
#[test]
fn a_page_costs_its_round_trips() {
    for (objects, round_trips) in [(0, 2), (1, 3), (2, 4), (7, 4), (8, 5), (13, 5), (14, 6)] {
        let mut network = network(Rate::UNLIMITED);
        let start = Nanos::from_millis(7);
        network.add(Side::Internet, Host::new(SERVER, 1), App::Web(WebServer::new(80)));
        let page = Page::uniform(1_000, objects, 1_000);
        let (pause, stream) = (Nanos::from_secs(1_000), Streams::new(1).stream("browser"));
        let to = SocketAddrV4::new(SERVER, 80);
        let browser = Browser::new(to, vec![page], start, pause, stream);
        let browser = network.add(Side::Home, Host::new(HOME, 2), App::Browser(browser));
        network.run_until(Nanos::from_secs(1), &mut |_, _| {});
        let App::Browser(browser) = network.application(browser) else { unreachable!() };
        let [load] = browser.loads() else { panic!("{:?}", browser.loads()) };
        let took = load.end.map(|end| end.since(start));
        assert_eq!((load.start, took), (start, Some(Nanos::from_millis(40 * round_trips))));
        assert_eq!(network.recount(), Ok(()));
    }
}

/// Goal: the delay of a call is that of the link only, and only departures from the uplink are
/// tapped. Method: 200 bytes at 1 Mbit/s are 1.6 ms, plus 20 ms of propagation, in both directions;
/// the packet that would be due at the end is not sent.
#[test]
fn a_call_alone_takes_its_time_on_the_line() {
    let mut network = network(Rate::megabits_per_second(1).unwrap());
    let end = |peer, phase| {
        let (source, until) =
            (Cbr::g711(Nanos::from_millis(phase)), Nanos::from_millis(phase + 1_000));
        let voice = Packetised { source, payload_type: 0, until };
        App::Media(Media::new(5_004, SocketAddrV4::new(peer, 5_004), Some(voice)))
    };
    let ends = [
        network.add(Side::Home, Host::new(HOME, 1), end(SERVER, 3)),
        network.add(Side::Internet, Host::new(SERVER, 2), end(HOME, 11)),
    ];
    let mut tapped = Vec::new();
    network.run_until(Nanos::from_secs(2), &mut |at, packet| {
        tapped.push((at, packet.len(), packet[12..16] == HOME.octets()));
    });
    for id in ends {
        let App::Media(media) = network.application(id) else { unreachable!() };
        assert_eq!(media.sent().len(), 50);
        assert_eq!(media.delays(), [Some(Nanos::from_micros(21_600)); 50]);
    }
    let expected: Vec<_> = (0..50).map(|k| (Nanos::from_millis(3 + 20 * k), 200, true)).collect();
    assert_eq!(tapped, expected);
    assert_eq!(network.recount(), Ok(()));
}
