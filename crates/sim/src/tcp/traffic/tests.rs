//! Tests of the generators: counts, marks, directions, loads and times.

use core::num::NonZeroU64;

use conformance::rng::Streams;
use freeboard::sched_core::{Limits, Nanos};
use freeboard::shaper::{Overhead, Rate, Shaper};

use super::rfc7928::{Congestion, NOT_MODELLED, Profile, Setting};
use super::*;
use crate::discipline::Discipline;
use crate::link::Link;
use crate::measure::goodput::Loss;
use crate::sizes::FlowSizes;
use crate::source::statistics::{assert_near, distance};
use crate::tcp::network::{ConnectionId, Naming, Way};

/// A FIFO for this many packets in each direction at this rate, and a round trip of 20 ms.
fn network(megabits: u64, packets: u32, measured: (Nanos, Nanos)) -> TcpNetwork {
    let link = || {
        let line = Shaper::new(Rate::megabits_per_second(megabits).unwrap());
        let queue = Discipline::Fifo.behind(line, Overhead::RAW, Limits::packets(packets), 1_500);
        Link::new(queue, packets + 1, [0; 16], Nanos::from_millis(10))
    };
    TcpNetwork::new(link(), link(), Naming::Key, measured)
}

fn seconds(count: u64) -> (Nanos, Nanos) {
    (Nanos::ZERO, Nanos::from_secs(count))
}

fn streams() -> Streams {
    Streams::new(1)
}

#[test]
fn a_follower_begins_when_all_before_it_have_arrived() {
    let mut network = network(1_000, 1_000, seconds(9));
    let config = |bytes| sized(cubic(), bytes);
    let connect = |network: &mut TcpNetwork, begins, bytes| {
        let (config, payload) = config(bytes);
        let id = network.connect(Way::Up, [1, 1], begins, config);
        network.set_payload(id, payload);
        id
    };
    let short = connect(&mut network, Nanos::from_millis(3), 400);
    let long = connect(&mut network, Nanos::from_millis(7), 100_000);
    let pause = Nanos::from_millis(50);
    let after = network.connect_after(Way::Down, [1, 1], &[short, long], pause, config(1).0);
    let endless = network.connect(Way::Up, [1, 1], Nanos::from_secs(8), cubic());
    let never = network.connect_after(Way::Up, [1, 1], &[endless, short], pause, config(1).0);
    assert_eq!(network.begins(after), None);
    network.run_until(Nanos::from_secs(1));
    // 452 bytes at 1 Gbit/s are 3.616 µs.
    assert_eq!(network.arrival(short), Some(Nanos(3_000_000 + 10_000_000 + 3_616)));
    assert_eq!(network.begins(after), network.arrival(long).map(|arrived| arrived.plus(pause)));
    assert!(network.arrival(after) > network.begins(after));
    // 70 segments of 1,429 bytes.
    assert_eq!(network.goodput(long).bytes(), 70 * 1_429);
    network.run_until(Nanos::from_secs(9));
    assert_eq!((network.begins(never), network.arrival(endless)), (None, None));
    // One whose predecessors have arrived begins the pause after them, but not in the past.
    let late = network.connect_after(Way::Up, [1, 1], &[short], pause, config(1).0);
    assert_eq!(network.begins(late), Some(Nanos::from_secs(9).plus(pause)));
    assert_eq!(network.recount(), Ok(()));
}

#[test]
fn an_access_delay_adds_to_the_round_trip() {
    let mut network = network(1_000, 1_000, seconds(1));
    let ids = [0, 30].map(|access| {
        let (config, _) = sized(cubic(), 2_896);
        let id = network.connect(Way::Up, [1, 1], Nanos::ZERO, config);
        network.set_access_delay(id, Nanos::from_millis(access));
        id
    });
    network.run_until(Nanos::from_secs(1));
    let [near, far] = ids.map(|id| network.completion(id).unwrap());
    // Both send two segments of 12 µs.
    assert_eq!((near.0 / 100_000, far.0 / 100_000), (200, 500));
    assert_eq!(network.recount(), Ok(()));
}

fn page(document: u64, objects: u32, object: u64) -> Pages {
    let (document, object) = (FlowSizes::Fixed(document), FlowSizes::Fixed(object));
    Pages { document, objects, object, ..Pages::new(Nanos::from_millis(5), 1, cubic) }
}

/// Load time of a page on an idle link of 20 ms.
fn load_time(pages: Pages) -> Nanos {
    let mut network = network(1_000, 10_000, seconds(60));
    let loads = pages.add_to(&mut network, [1, 1], streams().stream("pages"));
    network.run_until(Nanos::from_secs(60));
    assert_eq!(network.recount(), Ok(()));
    loads.loads(&network)[0].time().unwrap()
}

/// A document of ten full segments: two round trips, and at 1 Gbit/s the transmission of 52, 52,
/// 452 and 10 · 1,500 bytes, 8 ns each. Acknowledgements of the handshake are sent later.
#[test]
fn an_idle_page_takes_its_round_trips_and_transmission_times() {
    let sent = |bytes: u64| Nanos(8 * bytes);
    let document = load_time(page(14_480, 0, 0));
    assert_eq!(document, Nanos::from_millis(40).plus(sent(52 + 52 + 452 + 15_000)));
    // 20 segments do not fit into the initial window: one more round trip.
    let more = load_time(page(28_960, 0, 0));
    assert!((60..61).contains(&(more.0 / 1_000_000)), "{more:?}");
    // Objects of one segment over six connections: 1 + ⌈(n − 1)/6⌉ further round trips, or 1.
    for (objects, round_trips) in [(1, 3), (2, 4), (6, 4), (7, 4), (8, 5), (13, 5), (14, 6)] {
        let took = load_time(page(14_480, objects, 1_000));
        let least = Nanos::from_millis(20 * round_trips);
        // Everything that is sent on the downlink takes less than this.
        let most = least.plus(sent(30_000 + 2_000 * u64::from(objects)));
        assert!((least..most).contains(&took), "{objects} objects: {took:?}");
    }
    // One connection: each object is a round trip.
    let one = Pages { connections: 1, ..page(14_480, 5, 1_000) };
    assert_eq!(load_time(one).0 / 1_000_000, 140);
}

#[test]
fn pages_follow_each_other_after_exponential_pauses() {
    let mut network = network(1_000, 10_000, seconds(1));
    let pages = Pages { pages: 400, think: Nanos::from_millis(500), ..page(10_000, 2, 1_000) };
    let loads = pages.add_to(&mut network, [1, 1], streams().stream("pages"));
    network.run_until(Nanos::from_secs(150));
    let some = loads.loads(&network);
    assert!(some.iter().any(|load| load.start.is_none()), "not all pages have begun");
    network.run_until(Nanos::from_secs(3_600));
    let loads = loads.loads(&network);
    assert_eq!(loads.len(), 400);
    let pauses = loads.windows(2).map(|pair| pair[1].start.unwrap().since(pair[0].end.unwrap()));
    let mut pauses: Vec<f64> = pauses.map(|pause| pause.0 as f64 / 5e8).collect();
    assert_near(&pauses, 1.0);
    assert!(distance(&mut pauses, |pause| 1.0 - libm::exp(-pause)) < 1.95 / libm::sqrt(399.0));
}

/// Goal: arrivals are Poisson, with the load and the sizes asked for. Method: 30 Mbit/s in flows of
/// 50,000 bytes in the mean are 75 a second, 30,000 in
/// 400 s.
#[test]
fn flows_arrive_at_their_load() {
    let arrivals = FlowArrivals {
        start: Nanos::from_secs(1),
        until: Nanos::from_secs(401),
        way: Way::Down,
        hosts: [1, 1],
        sizes: FlowSizes::Exponential(50_000.0),
        load: NonZeroU64::new(30_000_000).unwrap(),
        config: cubic,
    };
    let mut network = network(1_000, 1_000, seconds(1));
    let flows = arrivals.add_to(&mut network, streams().stream("arrivals"));
    // The count has a standard error of √30,000 = 173.
    assert!(flows.len().abs_diff(30_000) < 4 * 174, "{}", flows.len());
    let bytes: Vec<f64> = flows.iter().map(|flow| flow.bytes as f64).collect();
    assert_near(&bytes, 50_000.0);
    // Of the load: √(2/30,000), since the second moment is twice the square of the mean.
    let load = bytes.iter().sum::<f64>() * 8.0 / 400.0;
    assert!((load / 3e7 - 1.0).abs() < 4.0 * libm::sqrt(2.0 / 30_000.0), "{load}");
    let gaps = flows.windows(2).map(|pair| pair[1].at.since(pair[0].at).0 as f64 * 75.0 / 1e9);
    let mut gaps: Vec<f64> = gaps.collect();
    assert_near(&gaps, 1.0);
    let furthest = distance(&mut gaps, |gap| 1.0 - libm::exp(-gap));
    assert!(furthest < 1.95 / libm::sqrt(gaps.len() as f64), "{furthest}");
    assert!(flows.iter().all(|flow| network.way(flow.id) == Way::Down));
}

#[test]
fn transfers_that_arrive_complete_with_their_bytes() {
    let mut network = network(100, 1_000, seconds(60));
    let arrivals = FlowArrivals {
        start: Nanos::ZERO,
        until: Nanos::from_secs(5),
        way: Way::Up,
        hosts: [1, 1],
        sizes: FlowSizes::WebSearch,
        load: NonZeroU64::new(30_000_000).unwrap(),
        config: cubic,
    };
    let flows = arrivals.add_to(&mut network, streams().stream("arrivals"));
    network.run_until(Nanos::from_secs(60));
    assert!(!flows.is_empty());
    for flow in flows {
        let sent = network.goodput(flow.id).bytes();
        let surplus = sent - flow.bytes;
        assert!(surplus <= flow.bytes.div_ceil(u64::from(PAYLOAD)), "{flow:?}: {sent}");
        assert!(network.completion(flow.id).unwrap() > Nanos::from_millis(20));
    }
}

#[test]
fn peers_get_uploads_and_return_acknowledgements() {
    let mut network = network(10, 1_000, seconds(15));
    let peers = PeerToPeer::thirty_peers(cubic);
    let uploads = peers.add_to(&mut network, 1, streams().stream("peers"));
    network.run_until(Nanos::from_secs(15));
    let ids: Vec<ConnectionId> = uploads.into_iter().map(|of_peer| of_peer[0]).collect();
    assert_eq!(ids.len(), 30);
    let begins: Vec<f64> =
        ids.iter().map(|&id| network.begins(id).unwrap().0 as f64 / 1e9).collect();
    assert_near(&begins, 0.5);
    assert!(begins.iter().all(|begins| (0.0..1.0).contains(begins)));
    assert!(ids.iter().all(|&id| network.way(id) == Way::Up));
    // Together they fill the uplink but for the first second: 10 Mbit/s less headers. Segments that
    // receivers hold because of a gap are not counted.
    let goodput: u64 = ids.iter().map(|&id| network.goodput(id).bits_per_second()).sum();
    assert!((8_700_000..9_660_000).contains(&goodput), "{goodput}");
    for id in ids {
        let [data, acks] = [Way::Up, Way::Down].map(|way| network.left(id, way));
        // An acknowledgement of at least 52 bytes for at most two segments, of which up to nine are
        // on the link.
        assert!(acks * 3_000 >= (data - 10 * 1_500) * 52, "{data} {acks}");
        assert!(acks < data / 10);
    }
    assert_eq!(network.recount(), Ok(()));
}

/// Goal: peers come and go as asked for. Method: 300 pauses and sizes on an idle link.
#[test]
fn churn_has_its_sizes_and_pauses() {
    let mut network = network(1_000, 10_000, seconds(3_600));
    let (uploads, mean_pause) = (11, Nanos::from_secs(2));
    let churn = Some(Churn { uploads, size: FlowSizes::Exponential(50_000.0), mean_pause });
    let peers = PeerToPeer { churn, ..PeerToPeer::thirty_peers(cubic) };
    let peers = peers.add_to(&mut network, 1, streams().stream("peers"));
    network.run_until(Nanos::from_secs(3_600));
    let (mut pauses, mut sizes) = (Vec::new(), Vec::new());
    for uploads in &peers {
        assert_eq!(uploads.len(), 11);
        sizes.extend(uploads.iter().map(|&id| network.goodput(id).bytes() as f64));
        for pair in uploads.windows(2) {
            let pause = network.begins(pair[1]).unwrap().since(network.arrival(pair[0]).unwrap());
            pauses.push(pause.0 as f64 / 2e9);
        }
    }
    assert_near(&sizes, 50_000.0);
    assert_near(&pauses, 1.0);
    assert!(distance(&mut pauses, |pause| 1.0 - libm::exp(-pause)) < 1.95 / libm::sqrt(300.0));
}

#[test]
fn rrul_has_its_marks_directions_and_probes() {
    let mut network = network(20, 1_000, seconds(15));
    let flows = Rrul { start: Nanos::ZERO, config: cubic }.add_to(&mut network, [1, 1]);
    for (ids, way) in [(flows.up, Way::Up), (flows.down, Way::Down)] {
        for (id, mark) in ids.into_iter().zip(Rrul::MARKS) {
            assert_eq!((network.way(id), network.mark(id)), (way, mark));
            assert_eq!(network.begins(id), Some(Nanos::from_secs(5)));
        }
    }
    assert_eq!(Rrul::MARKS.map(|mark| mark.get()), [0, 8, 40, 46]);
    network.run_until(Nanos::from_secs(5));
    // Four probes, of which the fourth leaves after the first three: 84 bytes at 20 Mbit/s.
    let alone = Nanos(10_000_000 + 4 * 33_600);
    for (probes, mark) in flows.probes.into_iter().zip(Rrul::PROBES) {
        for id in probes {
            assert_eq!(network.source_mark(id), mark);
            let delays = network.delays(id).samples();
            assert!(delays.iter().all(|&delay| delay <= alone), "{delays:?}");
        }
    }
    network.run_until(Nanos::from_secs(16));
    for id in flows.probes.into_iter().flatten() {
        // 15 s in steps of 200 ms.
        let Loss { sent, .. } = network.loss(id);
        assert_eq!(sent, 75);
    }
    for id in flows.up.into_iter().chain(flows.down) {
        assert!(network.goodput(id).bytes() > 100_000);
    }
}

fn setting(way: Way) -> Setting {
    Setting {
        rate: NonZeroU64::new(10_000_000).unwrap(),
        round_trip: Nanos::from_millis(20),
        buffer: 100,
        way,
        start: Nanos::ZERO,
        end: Nanos::from_secs(30),
    }
}

/// Counts of connections, open-loop flows and browsers, for a path of 16.7 and a queue of 100
/// packets: windows of 38.7, 17.3 and 12.2 segments at 0.1, 0.5 and 1 %.
#[test]
fn profiles_of_rfc_7928_have_their_flows() {
    let counts = [
        ("5.1.1", [1, 0, 0]),
        ("5.1.2", [2, 0, 0]),
        ("5.2", [1, 0, 0]),
        ("5.3", [1, 1, 0]),
        ("6.2", [2, 0, 0]),
        ("6.2", [2, 0, 0]),
        ("7.2", [1, 2, 1]),
        ("8.2.2", [3, 0, 0]),
        ("8.2.3", [7, 0, 0]),
        ("8.2.4", [10, 0, 0]),
        ("8.2.5", [10, 0, 0]),
        ("8.2.6", [7, 0, 0]),
        ("9.1", [1 + 8, 2, 1]),
        ("9.2", [2, 0, 0]),
    ];
    for (profile, (section, expected)) in Profile::ALL.into_iter().zip(counts) {
        let mut network = network(10, 100, seconds(10));
        let flows = profile.add_to(&mut network, &setting(Way::Down), &streams());
        let found = [flows.connections.len(), flows.sources.len(), flows.pages.len()];
        assert_eq!((profile.section(), found), (section, expected), "{profile:?}");
        network.run_until(Nanos::from_secs(10));
        assert_eq!(network.recount(), Ok(()));
        let bits = network.sent_bytes(Way::Down) * 8 / 10;
        assert!((8_000_000..=10_010_000).contains(&bits), "{profile:?}: {bits}");
    }
    assert!(NOT_MODELLED.iter().all(|missing| !missing.reason.is_empty()));
}

/// Goal: the number of transfers follows Mathis' law. Its loss is that of congestion signals, one
/// for each reduction of a window: a queue that drops at its limit loses several packets with each
/// (mild: 0.24 % of the packets are sent again). Slow start at the beginning is left out. The law
/// ignores the half-empty queue after reductions, so signals may be off by a factor of two.
#[test]
fn congestion_levels_lose_what_they_say() {
    let mut before = 0.0;
    for congestion in [Congestion::Mild, Congestion::Medium, Congestion::Heavy] {
        let mut network = network(10, 100, seconds(120));
        let setting = Setting { end: Nanos::from_secs(120), ..setting(Way::Down) };
        let flows = Profile::Stable(congestion).add_to(&mut network, &setting, &streams());
        let [early, late] = [20, 120].map(|second| {
            network.run_until(Nanos::from_secs(second));
            let events = flows.connections.iter().map(|&id| network.sender(id).events());
            events.fold([0; 3], |[sent, again, signals], of| {
                [sent + of.sent, again + of.repeated, signals + of.losses]
            })
        });
        let share = |of: usize| (late[of] - early[of]) as f64 / (late[0] - early[0]) as f64;
        let (loss, signals) = (share(1), share(2));
        assert!((0.5..2.0).contains(&(signals / congestion.loss())), "{congestion:?}: {signals}");
        assert!(loss > before, "{congestion:?}: {loss} after {before}");
        before = loss;
    }
}

#[test]
fn round_trips_and_windows_of_profiles_differ() {
    let mut network = network(1_000, 1_000, seconds(1));
    let setting = setting(Way::Up);
    let profile = Profile::RoundTrips(Nanos::from_millis(560));
    let far = profile.add_to(&mut network, &setting, &streams()).connections;
    network.run_until(Nanos::from_millis(580));
    for (id, ms) in far.into_iter().zip([100, 560]) {
        assert_eq!(network.sender(id).smoothed().unwrap().0 / 10_000_000, ms / 10);
    }
    let mut network = self::network(1_000, 1_000, seconds(1));
    let ids = Profile::InitialWindows.add_to(&mut network, &setting, &streams()).connections;
    network.run_until(Nanos::from_millis(10));
    assert_eq!(
        ids.into_iter().map(|id| network.sender(id).events().sent).collect::<Vec<_>>(),
        [3, 10]
    );
}
