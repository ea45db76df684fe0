use super::*;

fn read(text: &str) -> Result<Sweep, String> {
    Sweep::read(text, Path::new(""), Queues::new()).map_err(|error| error.to_string())
}

const SMALL: &str = r#"
duration = "5s"
warm-up = "2s"
seeds = 2
queue = "fifo"
[link]
up = "5mbit"
round-trip = "40ms"
limit = 100
[bulk.backup]
direction = "up"
[call.phone]
"#;

#[test]
fn the_template_has_every_key_and_runs() {
    let sweep = read(TEMPLATE).unwrap();
    assert_eq!((sweep.all().len(), sweep.default_seeds()), (4, 3));
    let keys: Vec<_> = sweep.all()[1].keys.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(keys, ["fifo", "8"]);
    assert_eq!(sweep.name(), "an-evening-at-home");
    let scenario = &sweep.all()[0].scenario;
    let kinds = [
        scenario.bulk.len(),
        scenario.cbr.len(),
        scenario.poisson.len(),
        scenario.on_off.len(),
        scenario.call.len(),
        scenario.video.len(),
        scenario.pages.len(),
        scenario.p2p.len(),
        scenario.rrul.len(),
        scenario.flows.len(),
    ];
    assert_eq!(kinds, [1; 10]);
    let run = run::run(scenario, sweep.queues(), 1);
    assert!(run.balanced);
    assert_eq!(run.traffic.len(), 14);
    for measured in &run.traffic {
        assert!(!measured.metrics.is_empty(), "{measured:?}");
        assert!(measured.metrics.iter().all(|(_, value)| value.is_finite()), "{measured:?}");
    }
}

/// Each message names the line and the key, or the swept key and its value.
#[test]
fn errors_name_the_line_and_the_key() {
    let with = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        read(&SMALL.replace(from, to)).unwrap_err()
    };
    for (from, to, expected) in [
        ("up = \"5mbit\"", "up = \"fast\"", &["line 7", "\"fast\" is not a rate"][..]),
        ("up = \"5mbit\"", "upp = \"5mbit\"", &["line 7", "unknown field `upp`", "`up`"]),
        (
            "direction = \"up\"",
            "direction = \"left\"",
            &["line 11", "unknown variant `left`", "`up`"],
        ),
        ("duration = \"5s\"", "", &["missing field `duration`"]),
        (
            "\"fifo\"",
            "\"fifoo\"",
            &["line 5: queue: unknown queue \"fifoo\" (expected one of fifo, drr"],
        ),
        ("\"fifo\"", "\"fifo 5\"", &["line 5: queue: fifo: unknown word \"5\" (expected none)"]),
        ("\"fifo\"", "\"smart diffserv9\"", &["line 5: queue: smart: ", "diffserv9"]),
        ("\"5s\"", "\"0s\"", &["line 2: duration: expected more than 0s"]),
        ("limit = 100", "framing = \"atmm\"", &["line 9: link.framing: ", "atmm"]),
        ("limit = 100", "limit = 0", &["line 9", "expected a nonzero u32"]),
        (
            "[call.phone]",
            "[trace.x]\ndirection = \"up\"\nfile = \"no.pcap\"",
            &["line 14: trace.x.file: no.pcap: "],
        ),
        (
            "[call.phone]",
            "[video.x]\ndirection = \"up\"\nrate = \"5mbit\"\npeak = \"1mbit\"",
            &["line 12: video.x: video: peak rate 1000000 (expected more than the mean rate)"],
        ),
        (
            "[call.phone]",
            "[sweep]\nqueue = 5",
            &["line 13: sweep.queue: expected a list of values"],
        ),
    ] {
        let error = with(from, to);
        for part in expected {
            assert!(error.contains(part), "{to}: expected {part:?} in\n{error}");
        }
    }
    for (from, to, expected) in [
        (
            "seeds = 2",
            "seeds = 4000000000",
            "line 4: seeds: 4000000000 is out of range (expected 1 to 10000)",
        ),
        (
            "limit = 100",
            "limit = 4000000000",
            "line 9: link.limit: 4000000000 is out of range (expected 1 to 1000000)",
        ),
        (
            "[call.phone]",
            "[call.phone]\ncount = 10001",
            "line 13: call.phone.count: 10001 is out of range (expected 0 to 10000)",
        ),
        (
            "[call.phone]",
            "[cbr.x]\ndirection = \"up\"\nrate = \"1mbit\"\nsize = 1473",
            "line 15: cbr.x.size: 1473 is out of range",
        ),
        (
            "[call.phone]",
            "[call.phone]\n[cbr.\"phone up\"]\ndirection = \"up\"\nrate = \"1mbit\"\nsize = 100",
            "has the name \"phone up\" in the report too (expected another)",
        ),
        (
            "[call.phone]",
            "[rrul.backup]\n[call.\"backup upload\"]\ndirection = \"up\"",
            "in the report too",
        ),
    ] {
        let error = with(from, to);
        assert!(error.contains(expected), "{to}: expected {expected:?} in\n{error}");
    }
    let sweep = |lines: &str| read(&format!("{SMALL}\n[sweep]\n{lines}")).unwrap_err();
    let error = sweep("seeds = [1, 2]");
    assert!(
        error.contains("line 15: sweep.seeds: expected the path of a key but seeds"),
        "{error}"
    );
    let error = sweep("\"link.up\" = [\"1mbit\", \"fast\"]");
    assert!(
        error.contains("sweep with link.up = fast") && error.contains("is not a rate"),
        "{error}"
    );
    let error = sweep("\"links.up\" = [\"1mbit\"]");
    assert!(error.contains("line 15: links.up: no table \"links\""), "{error}");
    let error = sweep("\"link.upp\" = [\"1mbit\"]");
    assert!(error.contains("unknown field `upp`"), "{error}");
}

#[test]
fn a_sweep_is_every_combination_and_the_last_key_varies_fastest() {
    let text = format!(
        "{SMALL}\n[sweep]\n\"link.limit\" = [10, 20]\nqueue = [\"fifo\", \"drr\", \"sqf\"]\n"
    );
    let sweep = read(&text).unwrap();
    let cells: Vec<String> =
        sweep.all().iter().map(|cell| format!("{} {}", cell.keys[0].1, cell.keys[1].1)).collect();
    assert_eq!(cells, ["10 fifo", "10 drr", "10 sqf", "20 fifo", "20 drr", "20 sqf"]);
    assert_eq!(sweep.all()[4].scenario.queue, "drr");
    assert_eq!(sweep.all()[4].scenario.link.limit.unwrap().get(), 20);
}

/// A queue of 100 packets of 1,500 bytes at 5 Mbit/s is 240 ms long; a call behind it waits, and
/// one behind fair queueing does not. The upload has the link less the call.
#[test]
fn a_fifo_delays_a_call_and_fair_queueing_does_not() {
    let value = |queue: &str, traffic: &str, metric| {
        let sweep = read(&SMALL.replace("\"fifo\"", &format!("\"{queue}\""))).unwrap();
        let run = run::run(&sweep.all()[0].scenario, sweep.queues(), 1);
        let measured = run.traffic.iter().find(|measured| measured.name == traffic).unwrap();
        measured.metrics.iter().find(|found| found.0 == metric).unwrap().1
    };
    let fifo = value("fifo", "phone up", run::Metric::Delay95);
    assert!((180.0..270.0).contains(&fifo), "{fifo}");
    for queue in ["drr", "fq-codel", "smart"] {
        let fair = value(queue, "phone up", run::Metric::Delay95);
        assert!((20.0..28.0).contains(&fair), "{queue}: {fair}");
        let goodput = value(queue, "backup", run::Metric::Goodput);
        assert!((4.4..4.9).contains(&goodput), "{queue}: {goodput}");
    }
    let good = value("smart", "phone up", run::Metric::Mos);
    let bad = value("fifo", "phone up", run::Metric::Mos);
    assert!(good > 4.2 && bad < good - 0.1, "{good} {bad}");
}

/// A title names the results; without one, or without letters of ASCII, the file does.
#[test]
fn results_have_the_name_of_the_title_or_of_the_file() {
    let name = |title: &str, file: &str| {
        let sweep = read(&format!("{title}\n{SMALL}")).unwrap().named(file);
        (sweep.title().to_owned(), sweep.name())
    };
    assert_eq!(
        name("title = \"One Evening\"", "a"),
        ("One Evening".to_owned(), "one-evening".to_owned())
    );
    assert_eq!(name("", "My File"), ("my-file".to_owned(), "my-file".to_owned()));
    assert_eq!(name("title = \"Вечер\"", "a"), ("Вечер".to_owned(), "a".to_owned()));
    assert_eq!(name("", "…"), ("sweep".to_owned(), "sweep".to_owned()));
}

/// Goal: what is queued when the measurement ends is not lost. Method: three times the rate of the
/// link into a queue that holds all of it, which takes two minutes to empty.
#[test]
fn packets_that_wait_at_the_end_are_not_lost() {
    let text = SMALL
        .replace("limit = 100", "limit = 100000")
        .replace("5mbit", "1mbit")
        .replace(
            "[bulk.backup]\ndirection = \"up\"",
            "[cbr.flood]\ndirection = \"up\"\nrate = \"3mbit\"\nsize = 1200",
        )
        .replace("duration = \"5s\"", "duration = \"60s\"");
    let sweep = read(&text).unwrap();
    let run = run::run(&sweep.all()[0].scenario, sweep.queues(), 1);
    let flood = run.traffic.iter().find(|measured| measured.name == "flood").unwrap();
    let loss = flood.metrics.iter().find(|(metric, _)| *metric == run::Metric::Loss).unwrap();
    assert_eq!((loss.1, run.balanced), (0.0, true));
    let value = |metric| flood.metrics.iter().find(|found| found.0 == metric).unwrap().1;
    assert!(value(run::Metric::Delay99) > 60_000.0);
    assert!((0.9..1.0).contains(&value(run::Metric::Goodput)));
}

#[test]
fn names_are_found_with_their_lines() {
    assert_eq!(at(SMALL, "link.up"), "line 7: link.up: ");
    assert_eq!(at(SMALL, "call.phone"), "line 12: call.phone: ");
    assert_eq!(at(SMALL, "no.such"), "no.such: ");
}
