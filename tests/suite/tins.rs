//! Tins: their rates, quanta and code points, and AQM targets and intervals by rate, compared with
//! those of a deployed shaper.

use freeboard::sched_core::{Cobalt, CobaltState, Nanos};
use freeboard::shaper::Rate;
use freeboard::{
    Dscp, QueueSettings, Rtt, Tin as PlannedTin, TinMode, TinName, TinPlan, TinPlanError, TinShare,
};

/// Longest packet in the table in bytes: an Ethernet frame.
const MTU: u32 = 1_514;

/// A tin of a mode at a bandwidth.
struct Tin {
    line: &'static str,
    mode: TinMode,
    /// Rate of the link.
    bandwidth: Rate,
    /// Position in the output of `tc`.
    shown: usize,
    rtt: Rtt,
    threshold: u64,
    quantum: u32,
    rate: Rate,
    target_us: u64,
    interval_us: u64,
}

/// Reads `golden/tins.tsv`, the parameters that Linux 6.1's CAKE sets for each tin of five modes at
/// ten bandwidths and round-trip times.
fn tins() -> Vec<Tin> {
    let table = include_str!("../golden/tins.tsv");
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    let tin = |line: &'static str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, tin, bytes, target, interval, quantum] = fields[..].try_into().unwrap();
        let mut words = name.split(' ');
        let mode = words.next().unwrap().parse().unwrap();
        let bandwidth = words.next().unwrap().parse().unwrap();
        let number = |field: &str| field.parse::<u64>().unwrap();
        let rtt = name.split_once(" rtt ").map_or(Rtt::INTERNET, |(_, rtt)| {
            Rtt::new(Nanos::from_millis(number(rtt.strip_suffix("ms").unwrap()))).unwrap()
        });
        let rate = Rate::bits_per_second(8 * number(bytes)).unwrap();
        let (shown, threshold) = (number(tin) as usize, number(bytes));
        let (target_us, interval_us) = (number(target), number(interval));
        let quantum = number(quantum) as u32;
        Tin { line, mode, bandwidth, shown, rtt, threshold, quantum, rate, target_us, interval_us }
    };
    lines.map(tin).collect()
}

fn micros(time: Nanos) -> u64 {
    time.0 / 1_000
}

/// Goal: for a rate, COBALT has the target and the interval of CAKE, to the microsecond, in every
/// line of the table.
#[test]
fn cobalt_has_the_target_and_the_interval_of_every_recorded_tin() {
    let tins = tins();
    assert_eq!(tins.len(), 240);
    for tin in tins {
        let params = tin.rtt.cobalt(tin.rate, MTU);
        let ours = (micros(params.target_on_line()), micros(params.interval_on_line()));
        assert_eq!(ours, (tin.target_us, tin.interval_us), "{}", tin.line);
        assert!(Cobalt::new([CobaltState::EMPTY; 1], params, 1).is_ok(), "{}", tin.line);
    }
}

/// Goal: CoDel departs from the table only by its rule of two packets instead of one and a half:
/// where that raises the target, it is at most four thirds of the recorded one, and the interval
/// grows by the same amount.
#[test]
fn codel_departs_from_the_recorded_tins_by_its_two_packets_alone() {
    let mut as_recorded = 0;
    for tin in tins() {
        let params = tin.rtt.codel(tin.rate, MTU);
        let two = tin.rate.time_of(2 * MTU);
        if two <= tin.rtt.target() {
            as_recorded += 1;
            let ours = (micros(params.target), micros(params.interval));
            assert_eq!(ours, (tin.target_us, tin.interval_us), "{}", tin.line);
            continue;
        }
        assert_eq!(params.target, two, "{}", tin.line);
        assert!(micros(two) >= tin.target_us, "{}", tin.line);
        assert!(3 * micros(two) <= 4 * (tin.target_us + 1), "{}", tin.line);
        let grown = micros(params.interval) - tin.interval_us;
        let more = micros(two) - tin.target_us;
        assert!((more.saturating_sub(1)..=2 * more + 1).contains(&grown), "{}", tin.line);
    }
    assert_eq!(as_recorded, 132, "of 240");
}

/// Goal: a stopped or unlimited link has parameters in range, and COBALT accepts them.
#[test]
fn the_ends_of_the_rates_are_in_range() {
    for (rate, longest) in [(Rate::UNLIMITED, 0), (Rate::STOPPED, (1 << 33) - 1)] {
        for &(_, rtt) in Rtt::PRESETS {
            let params = rtt.cobalt(rate, MTU);
            assert_eq!(params.mtu_time, Nanos(longest));
            assert_eq!((params.target, params.interval), (rtt.target(), rtt.span()));
            assert!(Cobalt::new([CobaltState::EMPTY; 1], params, 1).is_ok());
        }
    }
}

/// Goal: each tin of each mode has the recorded rate and quantum to the byte, and the recorded
/// target and interval for its rate.
#[test]
fn plans_have_the_rates_the_quanta_and_the_delays_of_every_recorded_tin() {
    for tin in tins() {
        let plan = tin.mode.plan();
        let number = plan.shown()[tin.shown];
        assert_eq!(plan.threshold(number, tin.bandwidth), Some(tin.threshold), "{}", tin.line);
        assert_eq!(plan.quantum(number, tin.bandwidth, MTU), tin.quantum, "{}", tin.line);
        let params = tin.rtt.cobalt(plan.rate(number, tin.bandwidth), MTU);
        let ours = (micros(params.target_on_line()), micros(params.interval_on_line()));
        assert_eq!(ours, (tin.target_us, tin.interval_us), "{}", tin.line);
    }
}

/// Goal: in each mode each code point goes to the recorded tin, and the number of tins is equal.
/// `golden/dscp_to_tin.tsv` was read from the counters of Linux 6.1's CAKE.
#[test]
fn every_code_point_goes_to_the_recorded_tin() {
    let table = include_str!("../golden/dscp_to_tin.tsv");
    let mut modes = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let mut fields = line.split('\t');
        let plan = fields.next().unwrap().parse::<TinMode>().unwrap().plan();
        let recorded: Vec<u8> = fields.map(|field| field.parse().unwrap()).collect();
        let (count, recorded) = recorded.split_first().unwrap();
        assert_eq!((plan.count(), recorded.len()), (*count, 64), "{plan}");
        for (dscp, &shown) in Dscp::all().zip(recorded) {
            assert_eq!(plan.of_dscp(dscp), plan.shown()[usize::from(shown)], "{plan} {dscp}");
        }
        modes += 1;
    }
    assert_eq!(modes, TinMode::ALL.len());
}

/// Goal: lower effort is below the default if the mode has a tin for it, and non-queue-building is
/// in the default tin (RFC 8622, RFC 9956). The exception is precedence, which uses only the upper
/// three bits.
#[test]
fn lower_effort_is_lower_and_nqb_is_no_better_than_the_default() {
    for (mode, le, nqb) in [
        (TinMode::BestEffort, "best-effort", "best-effort"),
        (TinMode::Precedence, "tin0", "tin5"),
        (TinMode::Diffserv3, "bulk", "best-effort"),
        (TinMode::Diffserv4, "bulk", "best-effort"),
        (TinMode::Diffserv8, "tin0", "tin2"),
    ] {
        let plan = mode.plan();
        let name = |dscp| plan.tin(plan.of_dscp(dscp)).unwrap().name().to_string();
        assert_eq!((name(Dscp::LE), name(Dscp::NQB)), (le.into(), nqb.into()), "{mode}");
        let default = plan.tin(plan.default_tin()).unwrap().name().to_string();
        assert_eq!(name(Dscp::CS0), default, "{mode}");
        // The caller may place them elsewhere.
        if let Ok(moved) = plan.with(Dscp::NQB, "voice") {
            assert_eq!(moved.of_dscp(Dscp::NQB), moved.count() - 1);
        }
    }
}

/// Goal: a mark selects a tin by the numbers of `tc`, from 1 on; with 0 and numbers out of range
/// the code point decides.
#[test]
fn a_mark_goes_before_the_code_point() {
    for &mode in TinMode::ALL {
        let plan = mode.plan();
        for dscp in Dscp::all() {
            let by_code = plan.of_dscp(dscp);
            assert_eq!(plan.of_marked(0, dscp), by_code);
            for (mark, &tin) in (1..).zip(plan.shown()) {
                assert_eq!(plan.of_marked(mark, dscp), tin, "{mode} {mark}");
            }
            for beyond in [u32::from(plan.count()) + 1, 256, 1 << 16, u32::MAX] {
                assert_eq!(plan.of_marked(beyond, dscp), by_code, "{mode} {beyond}");
            }
        }
        let mut numbers = plan.shown().to_vec();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..plan.count()).collect::<Vec<u8>>(), "{mode}");
    }
}

fn planned(name: &str, share: &str) -> PlannedTin {
    PlannedTin::new(TinName::new(name).unwrap(), share.parse().unwrap())
}

/// Goal: each error in a plan is named, and values at the limits are accepted.
#[test]
fn a_faulty_plan_is_refused_with_what_is_accepted() {
    let share = |parts, whole| Err(TinPlanError::Share { parts, whole });
    assert_eq!(TinShare::new(0, 4), share(0, 4));
    assert_eq!(TinShare::new(5, 4), share(5, 4));
    assert_eq!(TinShare::new(0, 0), share(0, 0));
    assert_eq!(TinShare::new(1, 1_000_001), share(1, 1_000_001));
    assert_eq!(TinShare::new(4, 4), Ok(TinShare::ALL));
    for (word, error) in [
        ("0", TinPlanError::Share { parts: 0, whole: 1 }),
        ("0%", TinPlanError::Share { parts: 0, whole: 1 }),
        ("101%", TinPlanError::Share { parts: 101, whole: 100 }),
        ("1.01", TinPlanError::Share { parts: 101, whole: 100 }),
        ("", TinPlanError::NoShare),
        ("-1/4", TinPlanError::NoShare),
        ("1/4/2", TinPlanError::NoShare),
        ("1.%", TinPlanError::NoShare),
        (".5", TinPlanError::NoShare),
        ("half", TinPlanError::NoShare),
        ("99999999999", TinPlanError::NoShare),
        ("1/99999999999", TinPlanError::NoShare),
    ] {
        assert_eq!(word.parse::<TinShare>(), Err(error), "{word}");
    }
    assert_eq!("2/8".parse(), TinShare::new(1, 4));
    assert_eq!("0.000001".parse(), TinShare::new(1, 1_000_000));

    for name in ["", "1st", "two words", "sixteen-letters-", "µ"] {
        assert_eq!(TinName::new(name), Err(TinPlanError::Name), "{name}");
    }
    assert!(TinName::new("fifteen-letters").is_ok());

    assert_eq!(TinPlan::new(&[]), Err(TinPlanError::Tins { given: 0 }));
    let eight: Vec<PlannedTin> = (0..8).map(|n| planned(&format!("t{n}"), "1/8")).collect();
    assert!(TinPlan::new(&eight).is_ok());
    let nine = [&eight[..], &[planned("t8", "1/8")]].concat();
    assert_eq!(TinPlan::new(&nine), Err(TinPlanError::Tins { given: 9 }));
    let again = [eight[0], eight[1], eight[0]];
    assert_eq!(TinPlan::new(&again), Err(TinPlanError::SameName(*eight[0].name())));
    let crowded = [planned("rest", "1"), planned("a", "1/2"), planned("b", "1/2")];
    let error = TinPlan::new(&crowded).unwrap_err();
    assert_eq!(error, TinPlanError::Crowded { thousandths: 1_000 });
    assert!(error.to_string().contains("1000/1000"));
    assert!(
        TinPlan::new(&[planned("rest", "1"), planned("a", "1/2"), planned("b", "49%")]).is_ok()
    );
    assert_eq!(planned("a", "1").with_weight(0), Err(TinPlanError::Weight));
    assert_eq!(planned("a", "1/8").weight(), 128);
    assert_eq!(planned("a", "0.0001").weight(), 1);

    let plan = TinMode::Diffserv4.plan();
    let name = TinName::new("game").unwrap();
    let unknown = TinPlanError::UnknownTin { name, mode: Some(TinMode::Diffserv4) };
    assert_eq!(plan.with(Dscp::EF, "game"), Err(unknown));
    assert_eq!(plan.with_default("game"), Err(unknown));
    assert_eq!(
        unknown.to_string(),
        "no tin of diffserv4 is named `game` (expected one of bulk best-effort video voice)"
    );
    let own = TinPlan::new(&[planned("rest", "1")]).unwrap().with_default("game").unwrap_err();
    assert_eq!(own, TinPlanError::UnknownTin { name, mode: None });
    assert_eq!(own.to_string(), "no tin is named `game` (expected the name of a given tin)");
    assert_eq!(plan.with(Dscp::EF, "no name"), Err(TinPlanError::Name));
    let once = plan.with(Dscp::EF, "video").unwrap();
    assert_eq!(once.with(Dscp::EF, "voice"), Err(TinPlanError::Twice(Dscp::EF)));
    assert_eq!(once.of_dscp(Dscp::EF), 2);
    let other = once.with_default("video").unwrap();
    assert_eq!(other.with_default("bulk"), Err(TinPlanError::TwoDefaults));
}

/// Goal: changing the default tin moves the code points that were in the previous default tin,
/// except for those assigned by name, whatever the order of the two.
#[test]
fn another_default_takes_what_no_list_names() {
    let plan = TinMode::Diffserv4.plan();
    let before = plan.with(Dscp::NQB, "best-effort").unwrap().with_default("bulk").unwrap();
    let after = plan.with_default("bulk").unwrap().with(Dscp::NQB, "best-effort").unwrap();
    assert_eq!(before, after);
    for dscp in Dscp::all() {
        let expected = match (dscp, plan.of_dscp(dscp)) {
            (Dscp::NQB, _) => 0,
            (_, 0) => 1,
            (_, other) => other,
        };
        assert_eq!(before.of_dscp(dscp), expected, "{dscp}");
    }
    assert_eq!(before.default_tin(), 1);
}

/// Goal: the guarantees of tins add up to at most the link's rate, and every tin of a plan with
/// names has one on a link that is not slow; stopped and unlimited links have rates that an AQM
/// accepts.
#[test]
fn promises_fit_the_line() {
    let named = TinPlan::new(&[planned("rest", "1"), planned("a", "2/3"), planned("b", "33%")]);
    let plans = TinMode::ALL.iter().copied().map(TinMode::plan);
    for plan in plans.chain(named) {
        for bits in [1_000, 128_000, 20_000_000, 999_999_999, Rate::MAX_BITS_PER_SECOND] {
            let line = Rate::bits_per_second(bits).unwrap();
            let promised = (0..plan.count()).map(|tin| plan.promised(tin, line).unwrap());
            assert!(promised.clone().sum::<u64>() <= bits / 8, "{plan} {line}");
            if bits >= 128_000 && plan.mode().is_none() {
                assert!(promised.clone().all(|bytes| bytes > 0), "{plan} {line}");
            }
            for tin in 0..plan.count() {
                let rate = plan.rate(tin, line).as_bits_per_second().unwrap();
                assert!((Rate::MIN_BITS_PER_SECOND..=bits).contains(&rate), "{plan} {line}");
            }
        }
        for line in [Rate::STOPPED, Rate::UNLIMITED] {
            for tin in 0..plan.count() {
                assert_eq!(plan.rate(tin, line), line);
            }
        }
        assert_eq!(plan.promised(0, Rate::UNLIMITED), None);
        assert_eq!(plan.quantum(0, Rate::UNLIMITED, MTU), MTU);
        assert_eq!(plan.rate(200, Rate::STOPPED), Rate::STOPPED);
    }
}

/// Goal: every code point reads back from all its printed forms, regardless of case, and nothing
/// else is accepted.
#[test]
fn code_points_are_read_back() {
    for dscp in Dscp::all() {
        let word = dscp.to_string();
        for word in
            [word.to_lowercase(), dscp.get().to_string(), format!("{:#x}", dscp.get()), word]
        {
            assert_eq!(word.parse(), Ok(dscp), "{word}");
        }
    }
    for &(name, dscp) in Dscp::NAMES {
        assert_eq!(name.parse(), Ok(dscp));
    }
    for word in ["64", "0x40", "256", "-1", "+1", "", "0x", "x1", "AF44", "CS8", " EF", "4 6"] {
        assert!(word.parse::<Dscp>().is_err(), "{word}");
    }
}

/// Goal: a tin of a CAKE mode in a custom plan keeps its share when its plan is printed and read,
/// including rounding. Method: each tin of every mode above one with a share of 1.
#[test]
fn a_tin_of_a_mode_is_read_back_in_another_plan() {
    for &mode in TinMode::ALL {
        for tin in mode.plan().tins().iter().filter(|tin| tin.share() != TinShare::ALL) {
            let below = planned("below", "1");
            let plan = TinPlan::new(&[below, *tin]).unwrap();
            let words = plan.to_string();
            let read = QueueSettings::from_words(&words);
            assert_eq!(read.map(|settings| settings.tins), Ok(Some(plan)), "{plan}");
        }
    }
    assert_eq!("7/8^7".parse::<TinShare>().map(|share| share.fraction()), Ok((823_543, 1 << 21)));
    for word in ["7/8^", "7/8^0", "7/8^8", "7/8^02", "7/8^-1", "3/4^2"] {
        assert!(word.parse::<TinShare>().is_err(), "{word}");
    }
}

/// Goal: the documentation lists the tin of each code point correctly. Method: the rows of its
/// table compared with the plans; code points not named are in the tin of the last row.
#[test]
fn the_page_of_tins_says_where_each_code_point_goes() {
    let page = include_str!("../../docs/tables/code-points.md");
    let cells = |row: &'static str| -> Vec<&str> {
        row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
    };
    let mut rows = page.lines().skip_while(|line| !line.starts_with("| code points |")).map(cells);
    let head = rows.next().expect("a table");
    let modes: Vec<TinMode> = head[1..].iter().map(|word| word.parse().expect("a mode")).collect();
    assert_eq!(modes, TinMode::ALL[1..]);
    let mut said = vec![None; 64];
    let rows: Vec<_> = rows.skip(1).take_while(|row| row.len() == head.len()).collect();
    let (others, named) = rows.split_last().expect("rows");
    assert_eq!(others[0], "all others");
    for row in named {
        for dscp in row[0].split(", ").map(|code| code.parse::<Dscp>().expect(code)) {
            let before = said[usize::from(dscp.get())].replace(&row[1..]);
            assert_eq!(before, None, "{} stands twice", row[0]);
        }
    }
    for (number, said) in (0_u8..).zip(said) {
        let dscp = Dscp::new(number).expect("below 64");
        for (place, mode) in modes.iter().enumerate() {
            let plan = mode.plan();
            let tin = plan.tin(plan.of_dscp(dscp)).expect("a tin").name().to_string();
            let expected = match said {
                Some(row) => row[place].to_owned(),
                None if *mode == TinMode::Precedence => format!("tin{}", number >> 3),
                None => others[place + 1].to_owned(),
            };
            assert_eq!(tin, expected, "{mode}, code point {number}");
        }
    }
    for &mode in TinMode::ALL {
        let plan = mode.plan();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{mode}` |")));
        let row = row.unwrap_or_else(|| panic!("{mode} has no row"));
        let names = plan.tins().iter().map(|tin| tin.name().to_string());
        // With eight tins, only the first and the last are named.
        let is_named = |(at, _): &(usize, String)| plan.count() < 8 || at % 7 == 0;
        for (_, name) in names.enumerate().filter(is_named) {
            assert!(row.contains(&format!("`{name}`")), "{mode}: {name}");
        }
    }
}
