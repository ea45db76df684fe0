//! Configuration strings: parsed, printed, read back, and rejected with the position of the wrong
//! keyword.

use core::fmt::{Debug, Display};
use core::str::FromStr;

use conformance::effort::effort;
use freeboard::sched_core::{ConfigError, Nanos};
use freeboard::shaper::{KeywordProblem, Overhead, OverheadError, QuotedWord, Rate};
use freeboard::{
    AckFilter, AqmKind, Dscp, Isolation, LinkLayer, MemoryLimit, QueueSettings, Rtt,
    SettingsProblem, SmartQueue, SmartQueueBuilder, SmartQueueError, Tin, TinBy, TinMode, TinName,
    TinPlan, TinPlanError,
};
use proptest::prelude::*;

fn read(words: &str) -> QueueSettings {
    QueueSettings::from_words(words).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// Goal: keywords of CAKE's `tc` have the same meaning here.
#[test]
fn the_words_of_tc_say_what_they_say_there() {
    let settings = read(
        "bandwidth 20Mbit diffserv4 dual-srchost nat wash ack-filter ingress rtt 30ms pppoe-ptm \
         ether-vlan overhead 10 mpu 96 memlimit 4mb autorate-ingress split-gso fwmark 0xf0",
    );
    assert_eq!(settings.rate, Rate::megabits_per_second(20).ok());
    assert_eq!(settings.tins, Some(TinMode::Diffserv4.plan()));
    assert_eq!(settings.isolation, Some(Isolation::DualSrcHost));
    assert_eq!(
        (settings.nat, settings.wash, settings.ingress),
        (Some(true), Some(true), Some(true))
    );
    assert_eq!((settings.autorate, settings.split_gso), (Some(true), Some(true)));
    assert_eq!(settings.rtt, Some(Rtt::REGIONAL));
    assert_eq!(settings.memory_limit, Some(MemoryLimit::Bytes(4 << 20)));
    assert_eq!(read("memlimit by-rate").memory_limit, Some(MemoryLimit::ByRate));
    assert_eq!((settings.fwmark, settings.aqm, settings.l4s), (Some(0xf0), None, None));
    let link = Overhead::from_keywords("pppoe-ptm ether-vlan overhead 10 mpu 96", 14).unwrap();
    assert_eq!(settings.framing.map(|(frames, _)| frames), Some(link));

    let opposite = read("unlimited besteffort nonat nowash no-ack-filter egress no-split-gso l4s");
    assert_eq!(opposite.rate, Some(Rate::UNLIMITED));
    assert_eq!(opposite.tins, Some(TinPlan::default()));
    let all = [opposite.nat, opposite.wash, opposite.ingress, opposite.split_gso];
    assert_eq!((all, opposite.l4s), ([Some(false); 4], Some(true)));

    assert_eq!(read(""), QueueSettings::NONE);
    assert_eq!(read(" \t\n"), QueueSettings::NONE);
    assert_eq!(
        read("diffserv3 diffserv8 lan rtt 100ms nat nonat").to_string(),
        "diffserv8 nonat internet"
    );
    assert_eq!(read("rtt 50").rtt, Rtt::new(Nanos::from_micros(50)).ok());
    assert_eq!(
        read("memlimit 1000 bandwidth stopped").to_string(),
        "bandwidth stopped memlimit 1000b"
    );
    // A value may be equal to a keyword.
    let plan = read("tin nat tin wash share 1/4 map EF wash").tins.unwrap();
    assert_eq!((plan.of_dscp(Dscp::EF), plan.tins()[0].name().as_str()), (1, "nat"));
    assert_eq!(read("tin nat").nat, None);
}

/// Goal: custom tins have the configured properties, wherever the code points are given.
#[test]
fn tins_of_the_caller_are_read() {
    let words = "map LE,CS1 slow tin rest default-tin calls tin slow share 5% weight 9 tin calls weight 300 share 1/4 map 0x2e calls";
    let plan = read(words).tins.unwrap();
    let tin = |name, share: &str| Tin::new(TinName::new(name).unwrap(), share.parse().unwrap());
    let expected = TinPlan::new(&[
        tin("rest", "1"),
        tin("slow", "1/20").with_weight(9).unwrap(),
        tin("calls", "1/4").with_weight(300).unwrap(),
    ]);
    let expected = expected
        .and_then(|plan| plan.with(Dscp::LE, "slow"))
        .and_then(|plan| plan.with(Dscp::CS1, "slow"))
        .and_then(|plan| plan.with(Dscp::EF, "calls"))
        .and_then(|plan| plan.with_default("calls"));
    assert_eq!(Ok(plan), expected);
    assert_eq!(
        plan.to_string(),
        "tin rest share 1 weight 1024 tin slow share 1/20 weight 9 tin calls share 1/4 weight 300 \
         default-tin calls map LE,CS1 slow map EF calls"
    );
}

/// Goal: each error is located at its word, by byte, and the text says what is expected.
#[test]
fn an_error_points_at_the_word() {
    let unknown = |nearest| SettingsProblem::Unknown { nearest };
    let tins = SettingsProblem::Tins;
    let no_tin =
        |name, mode| tins(TinPlanError::UnknownTin { name: TinName::new(name).unwrap(), mode });
    let number = |expected, given: Option<&str>| {
        let given = given.map(QuotedWord::new);
        SettingsProblem::Link(KeywordProblem::Number { expected, given })
    };
    let overhead = |given| number("whole number from -64 to 256", given);
    for (words, at, problem) in [
        ("nat difserv4", "difserv4", unknown(Some("diffserv4"))),
        ("pppoe-ptn", "pppoe-ptn", unknown(Some("pppoe-ptm"))),
        ("nowash bandwith 1mbit", "bandwith", unknown(Some("bandwidth"))),
        ("Diffserv4", "Diffserv4", unknown(Some("diffserv4"))),
        ("flowblind?", "flowblind?", unknown(None)),
        ("rtt 30ms 44", "44", unknown(None)),
        ("diffserv3 overhead 257", "overhead", {
            let range = OverheadError::Overhead(257);
            SettingsProblem::Link(KeywordProblem::Range(range))
        }),
        ("nat overhead", "overhead", overhead(None)),
        ("overhead nat", "overhead", overhead(Some("nat"))),
        ("overhead nat 44", "overhead", overhead(Some("nat"))),
        ("atm mpu rtt 30ms 96", "mpu", number("whole number from 0 to 256", Some("rtt"))),
        ("pad diffserv4 16", "pad", number("power of two from 1 to 128", Some("diffserv4"))),
        ("tin a tin b share 5/4", "5/4", tins(TinPlanError::Share { parts: 5, whole: 4 })),
        ("tin a tin b share 0", "0", tins(TinPlanError::Share { parts: 0, whole: 1 })),
        ("tin a tin b share all", "all", tins(TinPlanError::NoShare)),
        ("diffserv4 map EF,EF voice", "EF", tins(TinPlanError::Twice(Dscp::EF))),
        ("diffserv4 map EF game", "game", no_tin("game", Some(TinMode::Diffserv4))),
        ("diffserv4 default-tin game", "game", no_tin("game", Some(TinMode::Diffserv4))),
        ("map EF voice", "voice", no_tin("voice", Some(TinMode::BestEffort))),
        ("tin a map EF voice", "voice", no_tin("voice", None)),
        ("tin a tin b share 1/2 tin a", "tin", {
            tins(TinPlanError::SameName(TinName::new("a").unwrap()))
        }),
        ("nat share 1/4", "share", SettingsProblem::NoTin),
        ("weight 5 tin a", "weight", SettingsProblem::NoTin),
        ("tin a diffserv4", "diffserv4", SettingsProblem::TwoPlans),
        ("diffserv4 tin a", "tin", SettingsProblem::TwoPlans),
    ] {
        let error = QueueSettings::from_words(words).unwrap_err();
        assert_eq!((error.word, error.problem), (QuotedWord::new(at), problem), "{words}");
        assert_eq!(words.get(error.offset..error.offset + at.len()), Some(at), "{words}");
        let begin = format!("at byte {}, `{at}`: ", error.offset);
        assert!(error.to_string().starts_with(&begin), "{error}");
    }
    let nine = "tin a tin b share 1% tin c share 1% tin d share 1% tin e share 1% tin f share 1% \
                tin g share 1% tin h share 1% tin i";
    let error = QueueSettings::from_words(nine).unwrap_err();
    let last = (nine.len() - 5, tins(TinPlanError::Tins { given: 9 }));
    assert_eq!((error.offset, error.problem), last);
    let crowded = "tin a tin b share 1/2 tin c share 1/2";
    let error = QueueSettings::from_words(crowded).unwrap_err();
    assert_eq!(error.offset, crowded.find("tin c").unwrap());
    assert_eq!(error.problem, tins(TinPlanError::Crowded { thousandths: 1_000 }));

    for (words, value) in [
        ("bandwidth 10mbps", "10mbps"),
        ("bandwidth 0", "0"),
        ("bandwidth nat", "nat"),
        ("nat rtt 1h", "1h"),
        ("rtt 20ns", "20ns"),
        ("rtt 9s", "9s"),
        ("rtt 1.0001us", "1.0001us"),
        ("memlimit 0", "0"),
        ("memlimit 1.5mb", "1.5mb"),
        ("memlimit 4gb", "4gb"),
        ("fwmark -1", "-1"),
        ("tin-by inner", "inner"),
        ("fwmark 0x100000000", "0x100000000"),
        ("tin 1st", "1st"),
        ("tin a weight 0", "0"),
        ("tin a weight 65536", "65536"),
        ("diffserv4 map EF,AF44 voice", "AF44"),
        ("diffserv4 map EF, voice", "EF,"),
        ("diffserv4 map 64 voice", "64"),
    ] {
        let error = QueueSettings::from_words(words).unwrap_err();
        assert_eq!(error.word, value, "{words}");
        assert!(matches!(error.problem, SettingsProblem::Value { .. }), "{words}: {error}");
        assert!(error.to_string().contains("expected "), "{error}");
        assert_eq!(words.get(error.offset..error.offset + value.len()), Some(value), "{words}");
    }
    for word in "bandwidth rtt memlimit fwmark tin-by tin default-tin map".split(' ') {
        let words = format!("wash {word}");
        let error = QueueSettings::from_words(&words).unwrap_err();
        assert_eq!((error.offset, error.word.as_str()), (5, word));
        assert!(matches!(error.problem, SettingsProblem::Missing { .. }), "{error}");
    }
    let text = QueueSettings::from_words("nat wush").unwrap_err().to_string();
    assert!(text.contains("did you mean `wash`?") && text.contains(" ether-vlan"), "{text}");
}

/// Goal: an error in a single word is reported before an excessive sum of shares, which is not the
/// fault of a single word. Method: shares that add up to the whole link, followed by each kind of
/// error in a code point or a default tin; without this error the sum is reported.
#[test]
fn a_wrong_word_is_told_before_the_sum_of_the_shares() {
    let crowded = SettingsProblem::Tins(TinPlanError::Crowded { thousandths: 1_000 });
    for (fault, at) in [
        ("map EF c", "c"),
        ("map XX b", "XX"),
        ("map EF,EF b", "EF"),
        ("default-tin c", "c"),
        ("default-tin b default-tin a", "a"),
        ("overhead 257", "overhead"),
        ("wush", "wush"),
    ] {
        let words = format!("tin a tin b {fault}");
        let error = QueueSettings::from_words(&words).unwrap_err();
        assert_eq!(error.word, at, "{words}: {error}");
        assert_ne!(error.problem, crowded, "{words}");
    }
    for words in ["tin a tin b map EF b default-tin a", "map EF b tin a tin b wash"] {
        let error = QueueSettings::from_words(words).unwrap_err();
        let last = words.rfind("tin b").unwrap();
        assert_eq!((error.offset, error.problem), (last, crowded), "{words}");
    }
}

/// Generates keywords, each valid by itself.
fn phrase() -> impl Strategy<Value = String> {
    let flags = prop::sample::select(vec![
        "nat",
        "nonat",
        "wash",
        "nowash",
        "ack-filter",
        "ack-filter-aggressive",
        "no-ack-filter",
        "ingress",
        "egress",
        "autorate-ingress",
        "no-autorate-ingress",
        "l4s",
        "no-l4s",
        "codel",
        "cobalt",
        "pie",
        "pi2",
        "red",
        "blue",
        "no-aqm",
        "split-gso",
        "no-split-gso",
        "unlimited",
        "flows",
        "srchost",
        "dsthost",
        "hosts",
        "dual-srchost",
        "dual-dsthost",
        "triple-isolate",
        "datacentre",
        "lan",
        "metro",
        "regional",
        "internet",
        "oceanic",
        "satellite",
        "pppoe-ptm",
        "ether-vlan",
        "atm",
        "docsis",
        "ethernet",
        "raw",
        "wireguard",
        "conservative",
        "via-ethernet",
        "bandwidth stopped",
        "memlimit by-rate",
        "tin-by dscp",
        "tin-by inner-dscp",
        "tin-by priority",
    ]);
    prop_oneof![
        4 => flags.prop_map(String::from),
        1 => (1_000..=400_000_000_000_u64).prop_map(|bits| format!("bandwidth {bits}")),
        1 => (1..=400_000_u64).prop_map(|mbit| format!("bandwidth {mbit}mbit")),
        1 => (20_480..1_u64 << 33).prop_map(|ns: u64| format!("rtt {ns}ns")),
        1 => (1..8_000_u64).prop_map(|ms| format!("rtt {ms}ms")),
        1 => (1..=u32::MAX).prop_map(|bytes| format!("memlimit {bytes}")),
        1 => (1..4_096_u32).prop_map(|mb| format!("memlimit {mb}mb")),
        1 => any::<u32>().prop_map(|mask| format!("fwmark {mask}")),
        1 => (-20..60_i32, 0..=256_u32).prop_map(|(add, mpu)| format!("overhead {add} mpu {mpu}")),
    ]
}

/// Generates a plan of tins, a mode's or a custom one.
fn plan() -> impl Strategy<Value = String> {
    let mode = prop::sample::select(TinMode::ALL.to_vec()).prop_map(|mode| {
        (mode.to_string(), {
            mode.plan().tins().iter().map(|tin| tin.name().to_string()).collect::<Vec<_>>()
        })
    });
    let own = prop::collection::vec((1..100_u32, prop::option::of(1..=u16::MAX)), 1..=8).prop_map(
        |tins| {
            let count = tins.len() as u32;
            let names: Vec<String> = (0..count).map(|n| format!("t{n}")).collect();
            let words = tins.iter().zip(&names).map(|((parts, weight), name)| {
                // The sum is below 1.
                let weight = weight.map_or(String::new(), |weight| format!(" weight {weight}"));
                format!("tin {name} share {parts}/{}{weight}", 100 * count)
            });
            (words.collect::<Vec<_>>().join(" "), names)
        },
    );
    let points = prop::collection::btree_map(0..64_u8, any::<prop::sample::Index>(), 0..12);
    (prop_oneof![mode, own], points, prop::option::of(any::<prop::sample::Index>())).prop_map(
        |((mut words, names), points, default)| {
            for (code, tin) in points {
                words += &format!(" map {code} {}", tin.get(&names));
            }
            if let Some(tin) = default {
                words += &format!(" default-tin {}", tin.get(&names));
            }
            words
        },
    )
}

/// Returns the settings in effect of a queue of frames and of a queue of descriptors.
fn in_force(words: &str, is_raw_ip: bool) -> Option<[QueueSettings; 2]> {
    let builder = SmartQueue::upload(Rate::UNLIMITED).tables(8, 8).buffers(4);
    let builder = if is_raw_ip { builder.raw_ip() } else { builder };
    let builder = builder.settings(&read(words));
    let is_known = |error| matches!(error, SmartQueueError::MemoryLimit(_));
    let frames = builder.frames([42; 16]).inspect_err(|&error| assert!(is_known(error))).ok()?;
    let descriptors = builder.descriptors().expect("what frames are built of");
    Some([frames.settings(), descriptors.settings()])
}

/// Goal: a queue has the properties in the configuration string, and keywords that a queue does not
/// support are rejected by name.
#[test]
fn a_queue_is_built_of_words() {
    let words = "bandwidth 20mbit diffserv3 srchost nat wash ack-filter-aggressive ingress lan codel no-l4s memlimit by-rate \
                 split-gso overhead 44 mpu 96 atm";
    let [frames, descriptors] = in_force(words, false).unwrap();
    let said = "bandwidth 20mbit diffserv3 srchost wash ack-filter-aggressive ingress lan codel no-l4s memlimit by-rate \
                overhead 44 mpu 96 atm";
    assert_eq!(frames.to_string(), said);
    assert_eq!(descriptors.to_string(), said.replace(" wash", ""));
    let [unsaid, _] = in_force("", false).unwrap();
    assert_eq!(
        unsaid.to_string(),
        "bandwidth unlimited besteffort dual-srchost nowash no-ack-filter egress internet cobalt l4s raw"
    );

    // The selection of a tin is the caller's task by descriptor; otherwise it is printed unless it
    // is the default.
    for (words, said) in [
        ("tin-by inner-dscp fwmark 0xff0", "tin-by inner-dscp fwmark 0xff0 "),
        ("tin-by priority fwmark 0", "tin-by priority fwmark 0x0 "),
        ("tin-by dscp fwmark 0xffffffff", ""),
    ] {
        let [frames, descriptors] = in_force(words, false).unwrap();
        let unsaid = unsaid.to_string();
        let expected = unsaid.replace("besteffort ", &format!("besteffort {said}"));
        assert_eq!((frames.to_string(), descriptors), (expected, in_force("", false).unwrap()[1]));
    }
    for word in ["flowblind", "interplanetary"] {
        let words = format!("nat {word} lan");
        let error = QueueSettings::from_words(&words).unwrap_err();
        assert_eq!((error.offset, error.word.as_str()), (4, word));
        assert!(matches!(error.problem, SettingsProblem::NotOffered { .. }), "{error}");
        assert!(error.to_string().contains("not supported"), "{error}");
    }
}

/// Goal: changes while a queue runs appear in its settings, except for a framing that cannot be
/// expressed in keywords.
#[test]
fn settings_are_those_in_force() {
    let mut queue = SmartQueue::upload(Rate::UNLIMITED).frames([42; 16]).unwrap();
    let drops = &mut |_: freeboard::sched_core::Packet, _| {};
    queue.set_rate(Nanos(0), Rate::STOPPED);
    queue.set_wash(true);
    queue.set_memory_limit(Some(MemoryLimit::Bytes(1 << 20))).unwrap();
    queue.set_overhead(Overhead::PPPOE_PTM.for_frames(14));
    queue.set_aqm(AqmKind::None);
    let said = "bandwidth stopped besteffort dual-srchost wash no-ack-filter egress internet no-aqm l4s memlimit 1mb overhead 30 ptm";
    assert_eq!(queue.settings().to_string(), said);
    // The full length of frames counts.
    queue.set_overhead(Overhead::PPPOE_PTM);
    assert_eq!(queue.settings().framing, None);

    let packets = SmartQueue::download(Rate::UNLIMITED).raw_ip().overhead(Overhead::PPPOE_PTM);
    let mut queue = packets.descriptors().unwrap();
    queue.set_memory_limit(Some(MemoryLimit::ByRate), drops).unwrap();
    let said = "bandwidth unlimited besteffort dual-dsthost no-ack-filter egress internet cobalt l4s memlimit by-rate overhead 30 ptm";
    assert_eq!(queue.settings().to_string(), said);
    queue.set_overhead(Overhead::PPPOE_PTM.for_frames(14));
    assert_eq!(queue.settings().framing, None);
}

/// Goal: a buffer length below the longest packet is rejected.
#[test]
fn a_buffer_is_as_long_as_the_longest_packet() {
    let with = |bytes| SmartQueue::upload(Rate::UNLIMITED).max_len(1_514).buffer_len(bytes);
    let error = with(1_513).descriptors().map(|_| ()).unwrap_err();
    let (what, value) = ("buffer of a packet in bytes", 1_513);
    let range = ConfigError::OutOfRange { what, value, min: 1_514, max: u32::MAX.into() };
    assert_eq!(error, range.into());
    assert!(error.to_string().contains("1513"), "{error}");
    assert!(with(1_514).descriptors().is_ok());
    assert_eq!(SmartQueueBuilder::MAX_FRAME, 1_522);
    // Frames use the queue's own buffers, so the setting has no effect.
    assert!(with(1).frames([42; 16]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort(400, 40_000)))]

    /// Goal: any printed settings read back as equal settings, and print the same text again.
    #[test]
    fn settings_are_read_back(
        before in prop::collection::vec(phrase(), 0..8),
        plan in prop::option::of(plan()),
        after in prop::collection::vec(phrase(), 0..8),
    ) {
        let words = [before, plan.into_iter().collect(), after].concat().join(" ");
        // The sums of a framing may be out of range.
        if let Ok(settings) = QueueSettings::from_words(&words) {
            let printed = settings.to_string();
            prop_assert_eq!(read(&printed), settings, "{}: {}", words, printed);
            prop_assert_eq!(read(&printed).to_string(), printed);
            let text = serde_json::to_string(&settings).unwrap();
            prop_assert_eq!(serde_json::from_str::<QueueSettings>(&text).unwrap(), settings);
            prop_assert_eq!(QueueSettings::NONE.and(settings), settings);
            prop_assert_eq!(settings.and(QueueSettings::NONE), settings);
        }
    }

    /// Goal: a queue built from a configuration string has these settings, whatever other defaults
    /// it adds, and its text builds an equal queue.
    #[test]
    fn a_queue_says_the_words_that_it_is_built_of(
        words in prop::collection::vec(phrase(), 0..8),
        is_raw_ip in any::<bool>(),
    ) {
        let words = words.join(" ");
        let Ok(said) = QueueSettings::from_words(&words) else { return Ok(()) };
        let Some(built) = in_force(&words, is_raw_ip) else { return Ok(()) };
        for in_force_there in built {
            let mut expected = in_force_there.and(said);
            (expected.nat, expected.autorate, expected.split_gso) = (None, None, None);
            if in_force_there.tin_by.is_none() {
                expected.tin_by = None;
            }
            if in_force_there.fwmark.is_none() {
                expected.fwmark = None;
            }
            // `overhead 0` equals `raw` where there is no header.
            let layer = if is_raw_ip { LinkLayer::RawIp } else { LinkLayer::Ethernet };
            if expected.overhead(layer) == in_force_there.overhead(layer) {
                expected.framing = in_force_there.framing;
            }
            if in_force_there.wash.is_none() {
                expected.wash = None;
            }
            prop_assert_eq!(in_force_there, expected, "{}", words);
            let text = in_force_there.to_string();
            prop_assert_eq!(read(&text), in_force_there, "{}", text);
            let again = in_force(&text, is_raw_ip).expect("built once before");
            prop_assert!(again.contains(&in_force_there), "{}", text);
        }
    }

    /// Goal: no text panics, and every error points to its word in the text.
    #[test]
    fn any_text_has_an_answer(
        text in prop_oneof![
            any::<String>(),
            prop::collection::vec(prop_oneof![phrase(), plan(), "[a-z0-9,/%.-]{0,12}"], 0..8)
                .prop_map(|words| words.join(" ")),
        ],
    ) {
        if let Err(error) = QueueSettings::from_words(&text) {
            let found = text.get(error.offset..).is_some_and(|rest| rest.starts_with(error.word.as_str()));
            prop_assert!(found && !error.word.as_str().is_empty(), "{:?}", error);
            prop_assert!(error.to_string().len() > 20);
        }
    }
}

/// Goal: later settings override earlier ones where they are given.
#[test]
fn later_settings_hold_where_they_say_something() {
    let first = read("bandwidth 10mbit nat wash diffserv3");
    let both = first.and(read("bandwidth 20mbit nowash codel"));
    assert_eq!(both, read("bandwidth 20mbit diffserv3 nat nowash codel"));
    assert_eq!(both.aqm, Some(AqmKind::CoDel));
}

/// Goal: a configuration file of the caller holds settings as text, and its errors are those of
/// `from_words`.
#[test]
fn settings_are_a_string_for_serde() {
    let words = "bandwidth 20mbit diffserv4 map NQB voice nat wash regional overhead 34 ptm";
    let text = serde_json::to_string(&read(words)).unwrap();
    assert_eq!(text, format!("\"{words}\""));
    assert_eq!(serde_json::from_str::<QueueSettings>(&text).unwrap(), read(words));
    // With an escape in the text, the string cannot be borrowed from the input.
    let escaped = serde_json::from_str::<QueueSettings>("\"nat\\twash\"").unwrap();
    assert_eq!(escaped, read("nat wash"));
    assert_eq!(serde_json::from_str::<QueueSettings>("\"\"").unwrap(), QueueSettings::NONE);

    let refused = |text: &str| serde_json::from_str::<QueueSettings>(text).unwrap_err().to_string();
    let wrong = "bandwidth 20mbit difserv4";
    let said = QueueSettings::from_words(wrong).unwrap_err().to_string();
    assert!(refused(&format!("\"{wrong}\"")).starts_with(&said));
    assert!(refused("20").contains("expected settings as keywords"));
    assert!(refused("null").contains("expected settings as keywords"));
}

/// Goal: the output of `tc -s qdisc` for a CAKE queue can be pasted. Method: the forms of such
/// lines, each with the same settings in keywords; errors still point into the line.
#[test]
fn a_line_that_tc_prints_is_read() {
    let plain = "bandwidth 20mbit diffserv3 triple-isolate nonat nowash no-ack-filter split-gso rtt 100ms docsis";
    let numbers = "bandwidth 20Mbit diffserv3 triple-isolate nonat nowash no-ack-filter split-gso \
                   rtt 100.0ms noatm overhead 18 mpu 64 (docsis)";
    for prefix in [
        "",
        "qdisc cake 8001: root refcnt 2 ",
        "qdisc cake 8001: dev eth0 root refcnt 9 ",
        "qdisc cake 8002: dev eth0 parent 1:10 ",
    ] {
        let printed = format!("{prefix}{numbers}");
        assert_eq!(QueueSettings::from_words(&printed), QueueSettings::from_words(plain));
        let wrong = format!("{prefix}bandwidth 20Mbit difserv3");
        let error = QueueSettings::from_words(&wrong).unwrap_err();
        assert_eq!((error.offset, error.word.as_str()), (wrong.len() - 8, "difserv3"));
    }
    assert!(QueueSettings::from_words("qdisc fq_codel 8001: root refcnt 2").is_err());
}

/// Goal: each value that is printed as a keyword reads back exactly. Method: all values of types
/// that can be enumerated, and random rates and times.
#[test]
fn what_is_printed_reads_back() {
    fn reads_back<T: FromStr + Display + PartialEq + Debug + Copy>(
        values: impl IntoIterator<Item = T>,
    ) {
        for value in values {
            let printed = value.to_string();
            assert_eq!(printed.parse().ok(), Some(value), "{printed}");
        }
    }
    reads_back(AckFilter::ALL.iter().copied());
    reads_back(AqmKind::WORDS.iter().map(|&(_, kind)| kind));
    reads_back(Isolation::ALL.iter().copied());
    reads_back(TinBy::ALL.iter().copied());
    reads_back(TinMode::ALL.iter().copied());
    reads_back((0..64).map(|code| Dscp::new(code).expect("six bits")));
    reads_back(Rtt::PRESETS.iter().map(|&(_, rtt)| rtt));
    reads_back([Rate::STOPPED, Rate::UNLIMITED]);
    reads_back([Nanos::ZERO, Nanos::MAX]);
    let (least, most) = (Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND);
    // Also round numbers of each unit, which random values do not include.
    let scaled = (0..10_u32, any::<u64>()).prop_map(|(power, number)| {
        let unit = 10_u64.pow(power);
        number / unit * unit
    });
    proptest!(ProptestConfig::with_cases(2_000), |(number in scaled)| {
        reads_back([Nanos(number)]);
        reads_back(Rate::bits_per_second(least + number % (most - least + 1)).ok());
        reads_back(Rate::bits_per_second(number % (most + 1)).ok());
        reads_back(Rtt::new(Nanos(number % (1 << 33))).ok());
    });
}
