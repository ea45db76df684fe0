use std::path::Path;

use freeboard::shaper::Framing;

use super::handling::Late;
use super::keywords::rate_word;
use super::*;

mod follow;

fn read(text: &str) -> Result<Config, String> {
    RawOptions::from_text(Path::new("x.toml"), text.to_owned())?.check()
}

const LINE: &str = "lan = \"a\"\nwan = \"b\"\nup = \"1mbit\"\ndown = 16000000\n";

fn with(more: &str) -> Result<Config, String> {
    read(&format!("{LINE}{more}"))
}

#[test]
fn devices_and_rates_are_all_that_is_needed() {
    let config = with("").unwrap();
    assert_eq!(config.up, Rate::megabits_per_second(1).unwrap());
    assert_eq!(config.down, Rate::megabits_per_second(16).unwrap());
    assert_eq!((config.share.kind, config.share.hosts), (QueueKind::Drr, HostMode::Lan));
    assert_eq!(config.framing, Overhead::RAW);
    for option in ["lan", "wan", "up", "down"] {
        let without: String = LINE
            .lines()
            .filter(|line| !line.starts_with(option))
            .map(|l| format!("{l}\n"))
            .collect();
        let error = read(&without).unwrap_err();
        assert!(error.starts_with(&format!("--{option} is missing")), "{error}");
    }
    let error = read(&LINE.replace("\"b\"", "\"a\"")).unwrap_err();
    assert!(error.starts_with("--config x.toml: line 2: --wan"), "{error}");
}

#[test]
fn contradictions_name_the_word_and_what_is_accepted() {
    for (more, part) in [
        (
            "queue = \"fifo\"\nhosts = \"flows\"",
            "--hosts \"flows\": not available with --queue fifo",
        ),
        ("queue = \"qfq\"\nhosts = \"dual-srchost\"", "(expected flows, srchost, dsthost, hosts"),
        (
            "queue = \"drr\"\nhosts = \"users+sqf\"",
            "--hosts \"users+sqf\": not available with --queue drr",
        ),
        ("queue = \"sqf\"\n[weights]\n\"10.0.0.1\" = 2", "(expected drr, qfq"),
        (
            "[weights]\n\"home\" = 2",
            "weights \"home\": invalid value (expected an address, a prefix",
        ),
        ("[weights]\n\"10.0.0.1\" = 0", "weights 10.0.0.1 \"0\": out of range (expected 1 to 1000"),
        (
            "[rates]\n\"home\" = \"1mbit\"",
            "rates \"home\": invalid value (expected an address, a prefix",
        ),
        ("[rates]\n\"10.0.0.1\" = \"fast\"", "rates 10.0.0.1 \"fast\": "),
        ("[rates]\n\"::1\" = 5000\n\"0::1\" = 5000", "given twice (expected once"),
        ("[rates]\n\"10.0.0.1\" = \"unlimited\"", "(expected 1kbit to 400gbit, such as 5mbit)"),
        (
            "[ceils]\n\"home\" = \"1mbit\"",
            "ceils \"home\": invalid value (expected an address, a prefix",
        ),
        ("[ceils]\n\"10.0.0.1\" = \"unlimited\"", "(expected 1kbit to 400gbit, such as 5mbit)"),
        (
            "hosts = \"flows\"\n[ceils]\n\"10.0.0.1\" = 5000",
            "ceils: not available with --hosts flows",
        ),
        (
            "[rates]\n\"::1\" = \"2mbit\"\n[ceils]\n\"0::1\" = \"1mbit\"",
            "ceils 0::1 \"1mbit\": invalid value (expected its rate, 2mbit, or more",
        ),
        ("[rates]\n\"::1\" = 5000\n[caps]\n\"::2\" = 5000", "[caps] is the old name of [rates]"),
        ("[caps]\n\"10.0.0.1\" = \"fast\"", "caps 10.0.0.1 \"fast\": "),
        (
            "hosts = \"flows\"\n[rates]\n\"10.0.0.1\" = 5000",
            "rates: not available with --hosts flows",
        ),
        ("queue = \"qfq\"\n[rates]\n\"10.0.0.1\" = 5000", "(expected --queue drr"),
        ("max-hosts = 8193", "--max-hosts \"8193\": out of range (expected 1 to 8192"),
        (
            "max-hosts = 9\nqueue = \"fifo\"",
            "--max-hosts \"9\": not available with --queue fifo (expected none)",
        ),
        (
            "max-hosts = 9\nhosts = \"users+sqf\"",
            "users+sqf, which has 64 host slots (expected none)",
        ),
        ("overhead = 300", "--overhead \"300\": out of range (expected -64 to 256"),
        ("mpu = -1", "--mpu \"-1\": out of range (expected 0 to 256"),
        (
            "flush-unserved = 500",
            "--flush-unserved \"500\": not available with --queue drr (expected sqf",
        ),
        (
            "queue = \"sqf\"\nflush-unserved = 60001",
            "--flush-unserved \"60001\": out of range (expected 0 to 60000",
        ),
        (
            "aqm = \"fq_pie\"",
            "--aqm \"fq_pie\": invalid value (expected cobalt, codel, pie, pi2, red, blue, none",
        ),
        ("l4s = \"yes\"", "--l4s \"yes\": invalid value (expected on, off"),
        (
            "queue = \"fifo\"\naqm = \"codel\"",
            "--aqm \"codel\": not available with --queue fifo (expected none",
        ),
        (
            "queue = \"fifo\"\nl4s = \"on\"",
            "--l4s \"on\": not available with --queue fifo (expected off",
        ),
        ("catch-up = 1001", "--catch-up \"1001\": out of range (expected 0 to 1000"),
        ("encoding = \"frames\"", "(expected none, atm, ptm"),
        (
            "[weights]\n\"fd00::1\" = 1\n\"fd00:0::1\" = 2",
            "weights \"fd00::1\": given twice (expected once",
        ),
        (
            "queue = \"fifo\"\nhost-by = \"mac\"",
            "--host-by \"mac\": not available with --queue fifo (expected address",
        ),
        ("autorate = \"1.1.1.1,fe80::1\"", "no link-local ones such as fe80::1"),
        ("autorate = \"255.255.255.255\"", "no link-local ones such as fe80::1"),
        ("autorate = \"::1,1.1.1.1,0::1\"", "::1 is given twice (expected each address once"),
        (
            "host-by = \"port\"",
            "--host-by \"port\": invalid value (expected auto, address, mac, vlan",
        ),
        ("host-by = \"prefix/32/129\"", "prefix length 129 (expected 0 to 128)"),
        (
            "[names]\ntv = [\"10.0.0.1\", \"10.0.0.x\"]",
            "names tv \"10.0.0.x\": invalid value (expected an address",
        ),
        (
            "[names]\n\"10.0.0.1\" = [\"10.0.0.1\"]",
            "names \"10.0.0.1\": invalid value (expected 1 to 32 letters",
        ),
        (
            "[names]\na = [\"10.0.0.0/8\"]\nb = [\"10.9.9.9\"]",
            "names b \"10.9.9.9\": overlaps with names a \"10.0.0.0/8\" (expected each",
        ),
        ("[names]\na = []", "names \"a\": list is empty (expected addresses"),
        ("[names]\na = [\"::1\", \"0::1\"]", "names a \"0::1\": overlaps with names a"),
        (
            "[names]\ntv = [\"10.0.0.1\"]\n[rates]\n\"10.0.0.1\" = 5000",
            "rates \"10.0.0.1\": is in list tv (expected the name of the list",
        ),
        (
            "[names]\ntv = [\"10.0.0.0/8\"]\n[ceils]\n\"10.9.0.0/16\" = 5000",
            "ceils \"10.9.0.0/16\": is in list tv (expected the name of the list",
        ),
        ("catch-up = \"+4\"", "--catch-up \"+4\": not a whole number (expected 0 to 1000"),
        (
            "framing = \"overhead +4\"",
            "`overhead`: expected a whole number from -64 to 256 after it, found `+4`",
        ),
        (
            "host-by = \"mac\"\n[weights]\n\"10.0.0.1\" = 5",
            "weights \"10.0.0.1\": not available with --host-by mac (expected MACs and names",
        ),
        (
            "host-by = \"prefix\"\n[weights]\n\"fd00::1\" = 5",
            "weights \"fd00::1\": not available with --host-by prefix/32/64 \
             (expected prefixes of that length",
        ),
        ("[weights]\n\"vlan 7\" = 5", "with --host-by address (expected addresses, prefixes"),
        ("metrics = \"9100\"", "ADDRESS:PORT"),
        ("metrics = \"127.0.0.1:0\"", "ADDRESS:PORT"),
        ("stats-interval = 0", "--stats-interval \"0\": out of range (expected 1 to 86400"),
        ("stats = \"\"", "--stats \"\": invalid value (expected a path"),
        ("speed = 1", "speed: unknown option"),
        ("mpu = 1.5", "a string, a whole number, true or false"),
        (
            "ack-filter = \"some\"",
            "--ack-filter \"some\": invalid value (expected off, conservative",
        ),
        (
            "queue = \"fifo\"\nack-filter = true",
            "--ack-filter \"on\": not available with --queue fifo (expected off); \
             the filter only searches the last 8",
        ),
        (
            "rtt = \"near\"",
            "--rtt \"near\": invalid value (expected datacentre, lan, metro, regional, internet",
        ),
        ("rtt = \"interplanetary\"", "for longer round trips use --aqm none"),
        ("rtt = \"30ms diffserv4 map 0 bests\"", "(expected datacentre"),
        (
            "tins = \"difserv4\"",
            "`difserv4`: unknown keyword; did you mean `diffserv4`? (expected besteffort, precedence",
        ),
        (
            "tins = \"bogus\"",
            "at byte 0, `bogus`: unknown keyword (expected besteffort, precedence",
        ),
        ("tins = \"tin a tin b map XX b\"", "--tins \"tin a tin b map XX b\": at byte "),
        (
            "memory-limit = \"0\"",
            "--memory-limit \"0\": invalid value (expected by-rate, or 1 to 4294967295",
        ),
        (
            "tins = \"diffserv4 wash\"",
            "--tins \"diffserv4 wash\": `wash` is not a keyword for tins (expected besteffort",
        ),
        ("tins = \"\"", "--tins \"\": invalid value (expected besteffort"),
        ("queue = \"sqf\"\ntins = \"diffserv4\"", "with --queue sqf (expected besteffort"),
        (
            "tin-by = \"priority\"",
            "--tin-by \"priority\": not available without several --tins (expected dscp",
        ),
        (
            "hosts-across-tins = true",
            "--hosts-across-tins \"on\": not available without several --tins (expected off",
        ),
        (
            "tins = \"diffserv4\"\nhosts = \"flows\"\nhosts-across-tins = true",
            "with --hosts flows (expected lan, dual-srchost, dual-dsthost or triple-isolate)",
        ),
        (
            "tins = \"diffserv4\"\ntin-by = \"outer\"",
            "--tin-by \"outer\": invalid value (expected dscp, inner-dscp",
        ),
        ("wash = \"left\"", "--wash \"left\": invalid value (expected off, up, down, both, on"),
        ("nat = \"yes\"", "--nat \"yes\": invalid value (expected on, off"),
        ("ingress = \"up\"", "--ingress \"up\": invalid value (expected on, off"),
        (
            "memory-limit = \"4 mb\"",
            "--memory-limit \"4 mb\": invalid value (expected by-rate, or 1 to ",
        ),
        ("memory-limit = 0", "--memory-limit \"0\": invalid value (expected by-rate, or 1 to "),
        ("burst = 0", "--burst \"0\": out of range (expected 1 to 1073741824"),
        (
            "burst = 9\ncatch-up = 9",
            "--burst \"9\": not available with --catch-up (expected one of the two)",
        ),
        (
            "framing = \"docsis\"\nmpu = 64",
            "--framing \"docsis\": not available with --overhead, --mpu and",
        ),
        ("framing = \"ethernet 5\"", "--framing \"ethernet 5\": unknown link option `5`"),
    ] {
        let error = with(more).unwrap_err();
        assert!(error.contains(part) && !error.contains('\n'), "{more}: {error}");
        // Four lines precede it; with two options or hosts, either may be named.
        let line =
            error.strip_prefix("--config x.toml: line ").unwrap_or_else(|| panic!("{error}"));
        let line: usize = line.split([' ', ':']).next().unwrap().parse().unwrap();
        assert!((5..=4 + more.lines().count()).contains(&line), "{more}: {error}");
    }
}

/// Goal: an error of a single keyword is reported before an excess sum of shares. Method: shares
/// that take the whole link, each followed by one wrong keyword.
#[test]
fn a_wrong_word_is_told_before_the_sum_of_the_shares() {
    for (words, why) in [
        ("tin a tin b map EF c", "at byte 19, `c`: no tin is named `c`"),
        ("tin a tin b map XX b", "at byte 16, `XX`: expected code points"),
        ("tin a tin b default-tin c", "at byte 24, `c`: no tin is named `c`"),
        ("tin a tin b dscp", "at byte 12, `dscp`: unknown keyword; "),
        ("tin a tin b wash", "`wash` is not a keyword for tins (expected besteffort"),
        ("tin a rtt 30ms tin b map EF a", "`rtt` is not a keyword for tins (expected besteffort"),
        ("tin wash tin b map EF wash", "at byte 9, `tin`: the tins above the first have 1000/1000"),
    ] {
        let error = with(&format!("tins = \"{words}\"")).unwrap_err();
        let begin = format!("--config x.toml: line 5: --tins {words:?}: {why}");
        assert!(error.starts_with(&begin), "{error}");
    }
}

/// Goal: every AQM keyword works with every queue, with and without the ECT(1) threshold, and a
/// FIFO has none.
#[test]
fn the_aqm_is_what_was_asked_for_and_a_fifo_has_none() {
    let said = |more: &str| with(more).map(|config| (config.share.aqm, config.share.l4s));
    assert_eq!(said(""), Ok((AqmKind::default(), true)));
    for &(word, kind) in AqmKind::WORDS {
        for queue in ["drr", "sqf", "qfq"] {
            let more = format!("queue = \"{queue}\"\naqm = \"{word}\"\n");
            assert_eq!(said(&more), Ok((kind, kind != AqmKind::None)));
            for (l4s, is_on) in [("on", true), ("off", false)] {
                assert_eq!(said(&format!("{more}l4s = \"{l4s}\"")), Ok((kind, is_on)));
            }
        }
    }
    for more in ["", "aqm = \"none\"", "l4s = \"off\""] {
        assert_eq!(said(&format!("queue = \"fifo\"\n{more}")), Ok((AqmKind::None, false)));
    }
    let mut config = with("").unwrap();
    let said = config.take_over(with("aqm = \"codel\"\nl4s = \"off\"").unwrap());
    assert_eq!(said, ["aqm: cobalt -> codel", "l4s: on -> off"]);
    assert_eq!((config.share.aqm, config.share.l4s), (AqmKind::CoDel, false));
}

/// Goal: an error in a long file names the line, and an error on the command line names none.
#[test]
fn a_wrong_value_is_found_by_its_line() {
    let hosts = (0..4_000).map(|at| format!("\"10.0.{}.{}\" = 2\n", at / 250, at % 250));
    let text = format!("[weights]\n{}", hosts.collect::<String>());
    assert_eq!(with(&text).unwrap().weights.len(), 4_000);
    let error = with(&text.replace("\"10.0.8.0\" = 2", "\"10.0.8.0\" = 0")).unwrap_err();
    let expected =
        "--config x.toml: line 2006: weights 10.0.8.0 \"0\": out of range (expected 1 to 1000)";
    assert_eq!(error, expected);
    let file = RawOptions::from_text(Path::new("x.toml"), LINE.to_owned()).unwrap();
    let words = RawOptions { up: Some(Word::said("fast".into())), ..RawOptions::default() };
    let error = words.over(file.clone()).check().unwrap_err();
    assert!(error.starts_with("--up \"fast\": "), "{error}");
    let config = file.check().unwrap();
    assert_eq!(config.places.of("--wan")("gone".into()), "--config x.toml: line 2: gone");
    assert_eq!(config.places.of("--limit")("gone".into()), "gone");
}

/// Goal: common mistakes in a file have an error that names the mistake and its line. Method: each
/// one appended to a correct file.
#[test]
fn usual_mistakes_in_a_file_are_named() {
    for (text, why) in [
        (
            "overhed = 18",
            "line 5 \"overhed = 18\": overhed: unknown option; did you mean overhead?",
        ),
        ("up_min = 5000", "up_min: unknown option; did you mean up-min?"),
        ("colour = 1", "line 5 \"colour = 1\": colour: unknown option; see --help"),
        ("config = \"b\"", "config: unknown option"),
        ("weigths = 1", "weigths: unknown option; did you mean weights?"),
        (
            "[gateway]\nqueue = \"sqf\"",
            "gateway: unknown table (expected names, weights, rates, ceils, caps); options go above",
        ),
        (
            "[weights]\n\"10.0.0.1\" = 2\nqueue = \"sqf\"",
            "line 7 \"queue = \\\"sqf\\\"\": queue: option inside table [weights] (expected above the first table)",
        ),
        ("[rates]\nrtt = \"30ms\"", "rtt: option inside table [rates]"),
        ("[names]\nrtt = \"30ms\"", "rtt: option inside table [names]"),
        ("[weights]\n10.0.0.1 = 2", "line 6 \"10.0.0.1 = 2\": 10: a key with dots needs quotes"),
        (
            "[weights]\nfd00::1 = 2",
            "line 6 \"fd00::1 = 2\": fd00::1: needs quotes (expected \"fd00::1\" = …)",
        ),
        ("[ceils]\n10.0.0.0/8 = 5000", "10.0.0.0/8: needs quotes (expected \"10.0.0.0/8\" = …)"),
        (
            "up-min = 5mbit # least",
            "line 5 \"up-min = 5mbit # least\": up-min: 5mbit needs quotes (expected up-min = \"5mbit\")",
        ),
        ("ack-filter = on", "ack-filter: on needs quotes (expected ack-filter = \"on\")"),
        ("autorate = 9.9.9.9,1.1.1.1", "9.9.9.9,1.1.1.1 needs quotes (expected"),
        ("stats = /run/s", "stats: /run/s needs quotes (expected stats = \"/run/s\")"),
        (
            "tins = diffserv4\nqueue = \"drr\"",
            "line 5 \"tins = diffserv4\": tins: diffserv4 needs quotes",
        ),
        ("rtt = 30", "line 5: --rtt \"30\": missing unit (expected for example 30ms)"),
        ("limit = \"1mbit\"", "line 5: --limit \"1mbit\": invalid value (expected 10000 to "),
        ("limit = ", "line 5 \"limit =\": "),
        ("framing = \"docsis", "line 5 \"framing = \\\"docsis\": "),
    ] {
        let error = with(text).unwrap_err();
        assert!(
            error.starts_with("--config x.toml: line ") && error.contains(why),
            "{text}: {error}"
        );
        assert!(!error.contains('\n'), "{text}: {error}");
    }
    assert_eq!(with("limit = \"1mb\"").unwrap().share.limit, Limit::Bytes(1 << 20));
    // A list may have the name of an option.
    let config = with("[names]\nlan = [\"10.0.0.1\"]\n[weights]\nlan = 3").unwrap();
    assert_eq!(config.weights.len(), 1);
}

/// Goal: a FIFO without a limit delays as a modem does, 1.2 s at 10 Mbit/s, instead of 3.4 s.
#[test]
fn a_fifo_holds_what_a_modem_does() {
    let limit = |more| with(more).unwrap().share.limit;
    assert_eq!(limit("queue = \"fifo\""), Limit::Packets(1_000));
    assert_eq!(limit("queue = \"fifo\"\nlimit = 500000"), Limit::Bytes(500_000));
    assert_eq!(limit("queue = \"sqf\""), Limit::ByRate);
}

/// Goal: the default limit is the library's for the rate of each direction, at most 4 MiB, and for
/// the maximum rate with autorate. Method: the limits of several configurations in bytes.
#[test]
fn the_default_limit_follows_the_rates() {
    let limits = |more: &str| {
        let text = format!("lan = \"a\"\nwan = \"b\"\n{more}");
        let config = read(&text).unwrap();
        memory::limits_of(&config, 1_500).map(|of| of.bytes)
    };
    assert_eq!(limits("up = \"10mbit\"\ndown = \"100mbit\""), [500_000, 4 << 20]);
    // 32 frames of maximum length; the maximum.
    assert_eq!(limits("up = \"1kbit\"\ndown = \"unlimited\""), [32 * 1_522, 4 << 20]);
    let rates = "up = \"10mbit\"\ndown = \"10mbit\"\n";
    assert_eq!(limits(&format!("{rates}rtt = \"oceanic\"")), [1_500_000; 2]);
    assert_eq!(limits(&format!("{rates}limit = \"4mb\"")), [4 << 20; 2]);
    let by_delay = "autorate = \"9.9.9.9\"\nup-min = \"1mbit\"\nup-max = \"40mbit\"";
    assert_eq!(limits(&format!("{rates}{by_delay}")), [2_000_000, 500_000]);
    let by_arrivals = "autorate-ingress = true\ndown-min = \"1mbit\"\ndown-max = \"30mbit\"";
    assert_eq!(limits(&format!("{rates}{by_arrivals}")), [500_000, 1_500_000]);
}

/// Goal: the old name of the rates table is accepted, with a hint each time the file is read.
#[test]
fn caps_are_rates() {
    let config = with("[caps]\n\"10.0.0.1\" = \"2mbit\"").unwrap();
    let rates = with("[rates]\n\"10.0.0.1\" = \"2mbit\"").unwrap();
    assert_eq!(config.rates, rates.rates);
    assert_eq!((config.hints.len(), rates.hints.len()), (1, 0));
    assert!(config.hints[0].contains("use [rates]"));
    let said = with("").unwrap().take_over(config);
    assert_eq!(said[..2], ["host-by: auto -> address", "rates: 10.0.0.1 none -> 2mbit"]);
    assert!(said.len() == 3 && said[2].starts_with("[caps]: "));
}

/// Goal: names, prefixes and host identity are read, changed at run time and logged; a name may
/// have terms.
#[test]
fn hosts_are_named_and_said() {
    let text = "host-by = \"prefix\"\n[weights]\ntv = 3\n[rates]\n\"fd00::/48\" = \"2mbit\"\n\
                [names]\ntv = [\"10.0.0.1\", \"02:00:00:00:00:07\"]";
    let mut config = with("").unwrap();
    let said = config.take_over(with(text).unwrap());
    assert_eq!(
        said,
        [
            "host-by: auto -> prefix/32/64",
            "names: tv none -> 2 addresses",
            "weights: tv 1 -> 3",
            "rates: fd00::/48 none -> 2mbit",
        ]
    );
    let said = config.take_over(with(&text.replace("10.0.0.1", "10.0.0.2")).unwrap());
    assert_eq!(said, ["names: tv 2 addresses -> 2 addresses"]);
}

#[test]
fn users_with_sqf_inside_need_no_second_word() {
    let share = with("hosts = \"users+sqf\"").unwrap().share;
    assert_eq!((share.kind, share.hosts), (QueueKind::Sqf, HostMode::UsersSqf));
}

#[test]
fn a_queue_of_sqf_may_be_dropped_whole() {
    let flush = |more: &str| with(more).unwrap().share.flush_unserved;
    assert_eq!(flush("queue = \"sqf\""), None);
    assert_eq!(flush("queue = \"sqf\"\nflush-unserved = 0"), None);
    let half = Some(Nanos::from_millis(500));
    assert_eq!(flush("queue = \"sqf\"\nflush-unserved = 500"), half);
    assert_eq!(flush("hosts = \"users+sqf\"\nflush-unserved = \"500\""), half);
}

#[test]
fn a_link_that_is_described_does_not_count_the_ethernet_header() {
    let link = with("encoding = \"atm\"\noverhead = 32").unwrap().framing;
    assert_eq!((link.framing(), link.overhead(), link.header()), (Framing::Atm, 32, 14));
    assert_eq!(with("mpu = 64").unwrap().framing.header(), 14);
    assert_eq!(with("framing = \"overhead 32 atm\"").unwrap().framing, link);
    assert_eq!(with("framing = \"raw\"").unwrap().framing, Overhead::RAW);
}

/// Goal: old option names are accepted, with a hint if the name has another meaning now.
#[test]
fn old_names_are_accepted() {
    let framing = |text: &str| {
        let config = with(text).unwrap();
        (config.framing, config.hints)
    };
    let (new, none) = framing("overhead = 34\nencoding = \"ptm\"");
    assert!(none.is_empty());
    assert_eq!(framing("framing = \"overhead 34 ptm\""), (new, Vec::new()));
    assert_eq!(framing("link = \"overhead 34 ptm\""), (new, Vec::new()));
    let hint = "--config x.toml: line 6: --framing \"ptm\": renamed, use --encoding ptm";
    assert_eq!(framing("overhead = 34\nframing = \"ptm\""), (new, vec![hint.to_owned()]));
    let (raw, hints) = framing("framing = \"none\"");
    assert_eq!((raw, hints.len()), (with("encoding = \"none\"").unwrap().framing, 1));
    let both = with("framing = \"ptm\"\nencoding = \"atm\"\nmpu = 64").unwrap_err();
    assert!(both.contains("--framing \"ptm\": not available with --overhead"), "{both}");
    assert_eq!(with("stats-every = 7").unwrap().stats_interval, 7);
    let said = |text: &str| Some(Word::said(text.into()));
    let line = RawOptions { framing: said("ptm"), overhead: said("34"), ..RawOptions::default() };
    let file = RawOptions::from_text(Path::new("x.toml"), format!("{LINE}framing = \"docsis\""));
    let config = line.over(file.unwrap()).check().unwrap();
    assert_eq!(config.framing, new);
    assert_eq!(config.hints, ["--framing \"ptm\": renamed, use --encoding ptm"]);
}

#[test]
fn words_win_over_the_file() {
    let file =
        RawOptions::from_text(Path::new("x.toml"), format!("{LINE}queue = \"sqf\"")).unwrap();
    let words = RawOptions { up: Some(Word::said("3mbit".into())), ..RawOptions::default() };
    let config = words.over(file).check().unwrap();
    assert_eq!((rate_word(config.up), config.share.kind), ("3mbit".to_owned(), QueueKind::Sqf));
}

/// Goal: the command line also replaces related options of the file; both in one place are
/// rejected.
#[test]
fn words_win_over_different_words_of_the_file() {
    let over = |words: RawOptions, text: &str| {
        let text = format!("{LINE}{text}");
        words.over(RawOptions::from_text(Path::new("x.toml"), text)?).check()
    };
    let said = |text: &str| Some(Word::said(text.into()));
    let docsis = || RawOptions { framing: said("docsis"), ..RawOptions::default() };
    let alone = over(docsis(), "").unwrap().framing;
    for text in ["overhead = 30", "encoding = \"atm\"", "mpu = 96", "framing = \"raw\""] {
        assert_eq!(over(docsis(), text).unwrap().framing, alone, "{text}");
    }
    let parts = RawOptions { overhead: said("44"), ..RawOptions::default() };
    let link = over(parts.clone(), "framing = \"docsis\"").unwrap().framing;
    assert_eq!((link.overhead(), link.mpu()), (44, 0));
    let link = over(parts.clone(), "mpu = 96\noverhead = 3").unwrap().framing;
    assert_eq!((link.overhead(), link.mpu()), (44, 96));
    let burst = RawOptions { burst: said("9000"), ..RawOptions::default() };
    assert_eq!(over(burst, "catch-up = 3").unwrap().handling.late, Late::Burst(9_000));
    let catch_up = RawOptions { catch_up: said("3"), ..RawOptions::default() };
    let late = over(catch_up, "burst = 9000").unwrap().handling.late;
    assert_eq!(late, Late::CatchUp(Nanos::from_millis(3)));
    let users = RawOptions { hosts: said("users+sqf"), ..RawOptions::default() };
    assert_eq!(over(users, "queue = \"drr\"").unwrap().share.kind, QueueKind::Sqf);

    let both = RawOptions { framing: said("docsis"), ..parts };
    assert!(
        over(both, "")
            .unwrap_err()
            .starts_with("--framing \"docsis\": not available with --overhead")
    );
    let error = with("framing = \"docsis\"\noverhead = 18").unwrap_err();
    assert!(
        error.contains("line 5: --framing \"docsis\": not available with --overhead"),
        "{error}"
    );
}

/// Goal: a table with few changes is logged in a short line, and so is one with many.
#[test]
fn of_hosts_is_said_what_has_changed() {
    let table = |rate: &str| {
        let rates =
            (0..5_000).map(|at| format!("\"10.0.{}.{}\" = \"{rate}\"\n", at / 250, at % 250));
        format!("[rates]\n{}", rates.collect::<String>())
    };
    let (slow, fast) = (table("1mbit"), table("2mbit"));
    let mut config = with(&slow).unwrap();
    assert!(config.take_over(with(&slow).unwrap()).is_empty());
    let one = slow.replace("\"10.0.3.7\" = \"1mbit\"\n", "\"10.9.9.9\" = \"3mbit\"\n");
    let said = config.take_over(with(&one).unwrap());
    assert_eq!(said, ["rates: 10.0.3.7 1mbit -> none, 10.9.9.9 none -> 3mbit"]);
    config.take_over(with(&slow).unwrap());
    let said = config.take_over(with(&fast).unwrap());
    assert!(said[0].starts_with("rates: 10.0.0.0 1mbit -> 2mbit, 10.0.0.1 "), "{said:?}");
    assert!(said[0].ends_with(", and 4992 more") && said[0].len() < 400, "{said:?}");
}

#[test]
fn what_cannot_change_is_kept_and_said() {
    let mut config = with("").unwrap();
    let new = with("queue = \"qfq\"\nio = \"tap\"\n[weights]\n\"10.0.0.1\" = 3").unwrap();
    let said = config.take_over(Config { up: Rate::UNLIMITED, lan: "c".into(), ..new });
    assert_eq!(
        said,
        [
            "up: 1mbit -> unlimited",
            "queue: drr -> qfq",
            "hosts: lan -> flows",
            "host-by: auto -> address",
            "weights: 10.0.0.1 1 -> 3",
            "lan: cannot change at run time; restart needed, old value kept",
            "io: cannot change at run time; restart needed, old value kept",
        ]
    );
    assert_eq!(
        (config.lan.as_str(), config.io, config.share.kind),
        ("a", Io::Packet, QueueKind::Qfq)
    );
}

/// Outcome of an option in combination with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Has an effect.
    Works,
    /// A hint says that it has no effect, or not the intended one.
    Hinted,
    Refused,
}

/// Goal: every option has an effect with every queue, or is rejected, or has a hint. An option
/// missing in the table fails the test.
#[test]
fn every_option_works_beside_every_queue_or_is_refused_or_said() {
    use Fate::{Hinted, Refused, Works};
    use clap::Args as _;

    const QUEUES: [&str; 7] = [
        "queue = \"drr\"",
        "queue = \"drr\"\nhosts = \"flows\"",
        "queue = \"sqf\"",
        "hosts = \"users+sqf\"",
        "queue = \"qfq\"",
        "queue = \"fifo\"",
        "queue = \"drr\"\naqm = \"none\"",
    ];
    let all = [Works; 7];
    let hosts_matter = [Works, Hinted, Hinted, Works, Hinted, Hinted, Works];
    let drr = [Works, Works, Refused, Refused, Refused, Refused, Works];
    let not_fifo = [Works, Works, Works, Works, Works, Refused, Works];
    let aqm = [Works, Works, Works, Works, Works, Hinted, Hinted];
    let calls = [Works, Works, Works, Works, Works, Hinted, Works];
    let follows = "autorate = \"9.9.9.9\"\nup-min = \"500kbit\"\n";
    let up_max = format!("{follows}up-max = \"2mbit\"");
    let delay = format!("{follows}autorate-delay = 20");
    let table: &[(&str, &str, [Fate; 7])] = &[
        ("lan", "", all),
        ("wan", "", all),
        ("up", "", all),
        ("down", "", all),
        ("queue", "", all),
        ("hosts", "", all),
        ("aqm", "", all),
        ("io", "io = \"tap\"", all),
        ("max-hosts", "max-hosts = 100", [Works, Works, Works, Refused, Works, Refused, Works]),
        ("host-by", "host-by = \"mac\"", [Works, Hinted, Hinted, Works, Hinted, Refused, Works]),
        ("nat", "nat = true", hosts_matter),
        ("limit", "limit = \"100p\"", all),
        (
            "flush-unserved",
            "flush-unserved = 500",
            [Refused, Refused, Works, Works, Refused, Refused, Refused],
        ),
        ("l4s", "l4s = true", not_fifo),
        ("rtt", "rtt = \"regional\"", calls),
        ("rtt", "rtt = \"regional\"\nlimit = \"100p\"", aqm),
        ("rtt", "rtt = \"regional\"\nmemory-limit = \"by-rate\"", all),
        ("overhead", "overhead = 18", all),
        ("mpu", "mpu = 64", all),
        ("encoding", "encoding = \"ptm\"", all),
        ("framing", "framing = \"docsis\"", all),
        ("autorate", follows, calls),
        ("up-min", follows, calls),
        ("up-max", &up_max, calls),
        ("down-min", "autorate = \"9.9.9.9\"\ndown-min = \"1mbit\"", calls),
        ("down-max", "autorate = \"9.9.9.9\"\ndown-min = \"1mbit\"\ndown-max = \"20mbit\"", calls),
        ("autorate-delay", &delay, calls),
        ("autorate-ingress", "autorate-ingress = true\ndown-min = \"1mbit\"", calls),
        ("tins", "tins = \"diffserv4\"", drr),
        ("tin-by", "tins = \"diffserv4\"\ntin-by = \"priority\"", drr),
        ("fwmark", "tins = \"diffserv4\"\nfwmark = 255", drr),
        (
            "hosts-across-tins",
            "tins = \"diffserv4\"\nhosts-across-tins = true",
            [Works, Refused, Refused, Refused, Refused, Refused, Works],
        ),
        ("ack-filter", "ack-filter = true", not_fifo),
        ("wash", "wash = true", all),
        ("memory-limit", "memory-limit = \"4mb\"", all),
        ("catch-up", "catch-up = 20", all),
        ("burst", "burst = 15000", all),
        ("split-gso", "split-gso = false", all),
        ("ingress", "ingress = true", all),
        ("stats", "stats = \"s\"", all),
        ("stats-interval", "stats = \"s\"\nstats-interval = 5", all),
        ("metrics", "metrics = \"127.0.0.1:9100\"", all),
        ("user", "user = \"u\"", all),
        ("names", "[names]\none = [\"10.0.0.1\"]", hosts_matter),
        (
            "weights",
            "[weights]\n\"10.0.0.1\" = 2",
            [Works, Refused, Refused, Refused, Works, Refused, Works],
        ),
        (
            "rates",
            "[rates]\n\"10.0.0.1\" = \"500kbit\"",
            [Works, Refused, Refused, Refused, Refused, Refused, Works],
        ),
        (
            "ceils",
            "[ceils]\n\"10.0.0.1\" = \"500kbit\"",
            [Works, Refused, Refused, Refused, Refused, Refused, Works],
        ),
    ];
    for (option, written, fates) in table {
        for (queue, fate) in QUEUES.iter().zip(fates) {
            let found = match with(&format!("{queue}\n{written}")) {
                Ok(config) if config.hints.is_empty() => Works,
                Ok(config) => {
                    assert_eq!(config.hints.len(), 1, "{option}, {queue}: {:?}", config.hints);
                    Hinted
                }
                Err(_) => Refused,
            };
            assert_eq!(found, *fate, "{option} beside {queue}");
        }
    }
    let command = RawOptions::augment_args(clap::Command::new("x"));
    for option in command.get_arguments().filter_map(clap::Arg::get_long) {
        assert!(table.iter().any(|(known, ..)| *known == option), "{option} is not in the table");
    }
}

/// Goal: a hint names the reason and the location of an option without effect, also if the queue is
/// not the reason.
#[test]
fn options_without_effect_are_said() {
    let said = |text: &str| read(text).unwrap().hints;
    let free = "lan = \"a\"\nwan = \"b\"\nup = \"unlimited\"\ndown = \"unlimited\"\n";
    for (option, value) in [
        ("framing", "\"docsis\""),
        ("overhead", "18"),
        ("mpu", "64"),
        ("encoding", "\"ptm\""),
        ("catch-up", "20"),
        ("burst", "9000"),
        ("ingress", "true"),
    ] {
        let hints = said(&format!("{free}{option} = {value}"));
        assert!(hints.len() == 1 && hints[0].contains(option), "{hints:?}");
        assert!(hints[0].starts_with("--config x.toml: line 5: --"), "{hints:?}");
        assert!(said(&format!("{LINE}{option} = {value}")).is_empty(), "{option}");
    }
    // A ceiling counts bytes on the link.
    let ceil = "framing = \"docsis\"\n[ceils]\n\"10.0.0.1\" = \"5mbit\"";
    assert!(said(&format!("{free}{ceil}")).is_empty());
    assert!(said(&format!("{LINE}io = \"tap\"\nsplit-gso = false"))[0].contains("with --io tap"));
    assert!(said(&format!("{LINE}stats-interval = 5"))[0].ends_with("no effect without --stats"));
    assert!(said(&format!("{LINE}nat = false\nqueue = \"fifo\"")).is_empty());
    // MAC addresses come from the frame, regardless of translation; lists of addresses do not.
    let cards = format!("{LINE}nat = true\nhost-by = \"mac\"");
    assert!(
        said(&cards)[0]
            .ends_with("--nat \"on\": no effect with --host-by mac, which reads the frame header")
    );
    assert!(said(&format!("{cards}\n[names]\ntelevision = [\"10.0.0.1\"]")).is_empty());
    assert!(said(&format!("{LINE}nat = true\nhost-by = \"address\"")).is_empty());
}
