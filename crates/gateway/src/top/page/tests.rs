use super::*;
use crate::stats::report::Report;

pub(in crate::top) fn host_or_flow(name: &str, sent_bytes: u64) -> HostOrFlow {
    let json = format!(
        r#"{{"name":"{name}","sent":5,"sent_bytes":{sent_bytes},"queued":8192,"queued_bytes":6000,
        "drops":[["aqm",1234567],["overflow",89]],"delay":{{"p50_ms":1.5,"p99_ms":12345.678}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

/// Creates a report of two directions with `count` hosts and `count` flows each.
pub(in crate::top) fn report(seconds: f64, sent_bytes: u64, count: usize) -> Report {
    let json = format!(
        r#"{{"name":"up","rate":"10mbit","queue":"drr","hosts":"lan","received":9,"sent":5,
        "sent_bytes":{sent_bytes},"queued":4,"queued_bytes":6000,"marked":1,
        "drops":[["aqm",2],["no frame free",3]],"unaccounted":0,"overruns":7,
        "delay":{{"p50_ms":1.5,"p99_ms":null}},"hosts_seen":[],"flows_seen":[]}}"#
    );
    let mut up: DirectionReport = serde_json::from_str(&json).unwrap();
    up.hosts_seen =
        (0..count).map(|host| host_or_flow(&format!("10.0.0.{host}"), sent_bytes)).collect();
    let flow = |port| {
        host_or_flow(
            &format!("192.168.100.100:{} > 142.250.180.140:443 tcp", 50_000 + port),
            sent_bytes,
        )
    };
    up.flows_seen = (0..count).map(flow).collect();
    let down = DirectionReport { name: "down".to_owned(), ..up.clone() };
    let json = format!(r#"{{"seconds":{seconds},"directions":[]}}"#);
    let mut report: Report = serde_json::from_str(&json).unwrap();
    report.directions = vec![up, down];
    report
}

pub(in crate::top) fn reports(all: impl IntoIterator<Item = Report>) -> Reports {
    let mut reports = Reports::default();
    all.into_iter().for_each(|report| reports.add(report));
    reports
}

/// Returns a page without line breaks and spaces.
fn pressed(page: &Page) -> String {
    page.to_string().split_whitespace().collect()
}

#[test]
fn rates_are_those_since_the_last_report() {
    let (first, second) = (report(1.0, 125_000, 1), report(3.0, 2_625_000, 1));
    let text = |of: Reports| Page::new(&of, None, (160, 40)).to_string();
    let of_first = text(reports([report(1.0, 125_000, 1)]));
    assert!(
        of_first.contains("up    1.000 Mbit/s of 10mbit, drr lan; 4 packets, 6000 bytes queued"),
        "{of_first}"
    );
    let mut by_prefix = report(1.0, 125_000, 1);
    by_prefix.directions[0].host_by = "prefix/32/64".to_owned();
    by_prefix.directions[1].host_by = "address".to_owned();
    let by_prefix = text(reports([by_prefix]));
    assert!(by_prefix.contains("drr lan host-by prefix/32/64; 4 packets"), "{by_prefix}");
    assert_eq!(by_prefix.matches("host-by").count(), 1, "the default is not shown");
    let state = "p50 1.50 ms, p99 - ms; marked 1; dropped: aqm 2, no frame free 3, overruns 7\n";
    assert!(of_first.contains(state), "{of_first}");
    let both = text(reports([first, second]));
    assert!(both.contains("up    10.0 Mbit/s"), "{both}");
    let host = both.lines().find(|line| line.contains("10.0.0.0")).unwrap();
    let cells: Vec<&str> = host.split_whitespace().collect();
    assert_eq!(cells, ["10.0.0.0", "10.0", "8192", "1.50", "12346", "1234567", "89"]);
    // A restarted gateway counts from zero.
    let again = text(reports([report(3.0, 2_625_000, 1), report(1.0, 125_000, 1)]));
    assert!(again.contains("up    1.000 Mbit/s"), "{again}");
}

/// Goal: nothing is truncated, however narrow the terminal and long the names: every line fits, and
/// all numbers and names are shown.
#[test]
fn names_and_numbers_are_whole() {
    let host = "2001:db8:1111:2222:3333:4444:5555:6666";
    let flow = format!("[{host}]:50000 > [{host}]:443 tcp");
    for columns in [56, 60, 70, 80, 90, 100, 120, 200] {
        let mut report = report(1.0, 12_345_678_900, 3);
        report.directions[1].hosts_seen[1].name = host.to_owned();
        report.directions[1].flows_seen[1].name.clone_from(&flow);
        let page = Page::new(&reports([report]), None, (columns, 200));
        let longest = page.lines.iter().map(|(_, line)| line.chars().count()).max();
        assert!(longest <= Some(columns), "{columns}\n{page}");
        let text = pressed(&page);
        for part in
            [host, &flow, "192.168.100.100:50002 > 142.250.180.140:443 tcp", "no frame free 3"]
        {
            let part: String = part.split_whitespace().collect();
            assert!(text.contains(&part), "{columns}: {part}\n{page}");
        }
        let drops = if columns < 70 { "1234656" } else { "123456789" };
        assert_eq!(text.matches(drops).count(), 12, "{columns}\n{page}");
        // The column of all drops begins like that of the delay.
        let delays = if columns < 70 { 24 } else { 12 };
        assert_eq!(text.matches("12346").count(), delays, "{columns}\n{page}");
        // The rate in Mbit/s: of each direction, its hosts and its flows.
        assert_eq!(text.matches("98765").count(), 14, "{columns}\n{page}");
    }
}

/// Goal: tins are a complete table with numbers under their titles, at every width.
#[test]
fn tins_are_a_table() {
    let tin = |name: &str, sent_bytes: u64| -> TinReport {
        let json = format!(
            r#"{{"name":"{name}","sent":5,"sent_bytes":{sent_bytes},"queued":12,"queued_bytes":9,"marked":34,
            "dropped":567,"threshold_bits_per_second":2500000,"target_ms":7.27,
            "delay":{{"peak_ms":88.5,"average_ms":4.25,"sparse_ms":null}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    };
    let with = |seconds, sent_bytes| {
        let mut report = report(seconds, sent_bytes, 2);
        report.directions[0].tins = vec![tin("best-effort", sent_bytes), tin("voice", 0)];
        report
    };
    let values = ["best-effort", "2.500", "8.000", "12", "34", "567", "7.27", "88.5", "4.25", "-"];
    for (columns, rows) in [(160, 1), (100, 1), (80, 1), (70, 2), (56, 2)] {
        let of = reports([with(1.0, 125_000), with(2.0, 1_125_000)]);
        let page = Page::new(&of, None, (columns, 60)).to_string();
        let up: Vec<&str> = page.lines().take_while(|line| !line.starts_with("down")).collect();
        let cells: Vec<&str> = up
            .iter()
            .filter(|line| line.trim_start().starts_with("best-effort"))
            .flat_map(|line| line.split_whitespace().skip(1))
            .collect();
        let titles = up.iter().filter(|line| line.trim_start().starts_with("tin (2)")).count();
        assert_eq!((titles, &cells[..]), (rows, &values[1..]), "{columns}\n{page}");
        assert!(page.lines().all(|line| line.chars().count() <= columns), "{page}");
    }
    // A report of an older gateway has no delays.
    let old = r#"{"name":"voice","sent":0,"sent_bytes":0,"queued":0,"queued_bytes":0,"marked":0,"dropped":0}"#;
    let old: TinReport = serde_json::from_str(old).unwrap();
    assert_eq!((old.target_ms, old.delay), (None, TinDelay::default()));
}

/// Goal: the lines of a terminal are used, and none is missing.
#[test]
fn rows_fill_the_height() {
    for (columns, height) in [(60, 20), (80, 24), (100, 40), (200, 50), (200, 100)] {
        let page = Page::new(&reports([report(1.0, 125_000, 40)]), None, (columns, height));
        let rows = page.lines.len();
        // A row may need two lines, if its name has its own.
        assert!((height - 2..=height).contains(&rows), "{rows} of {height}\n{page}");
        let tables = page.lines.iter().filter(|(kind, _)| *kind == Kind::Head).count();
        assert_eq!(tables, 4, "{page}");
    }
    // Fewer rows than lines: all of them.
    let page = Page::new(&reports([report(1.0, 125_000, 3)]), None, (200, 50));
    assert_eq!(page.to_string().matches("10.0.0.").count(), 6, "{page}");
}

#[test]
fn a_terminal_of_no_size_is_no_fault() {
    for (columns, height) in [(0, 0), (1, 1), (10, 3), (50, 5)] {
        let page = Page::new(&reports([report(1.0, 125_000, 3)]), Some("gone"), (columns, height));
        assert!(page.lines.len() <= height);
    }
}

#[test]
fn text_is_broken_at_spaces_and_words_where_they_must() {
    assert_eq!(wrapped("one two three", 7, 2), ["one two", "  three"]);
    assert_eq!(wrapped("abcdefghij kl", 6, 2), ["abcdef", "  ghij", "  kl"]);
    assert_eq!(wrapped("", 6, 2), [""]);
    assert_eq!(
        [59.9, 61.0, 3_700.0, 90_000.0].map(span),
        ["59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]
    );
    assert_eq!(
        [0.0, 0.1234, 9.9996, 99.96, 1_234.5].map(|of| digits(of, 3)),
        ["0.000", "0.123", "10.0", "100", "1234"]
    );
}
