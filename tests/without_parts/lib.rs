//! `freeboard` without its default features: parts left out are rejected, and the rest works.
#![cfg(test)]

use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{
    AckFilter, AqmKind, QueueSettings, SettingsProblem, SmartQueue, Tin, TinMode, TinName, TinPlan,
    TinPlanError, TinShare,
};

const LEFT_OUT: [&str; 10] = [
    "ack-filter",
    "ack-filter-aggressive",
    "red",
    "pie",
    "pi2",
    "blue",
    "precedence",
    "diffserv3",
    "diffserv4",
    "diffserv8",
];

/// Goal: a keyword of a part that is left out is an error at its position, and is not taken as a
/// keyword for framing.
#[test]
fn words_of_parts_that_are_left_out_are_refused() {
    for word in LEFT_OUT {
        let text = format!("bandwidth 20mbit {word} pppoe-ptm");
        let error = QueueSettings::from_words(&text).unwrap_err();
        assert_eq!((error.offset, error.word.as_str()), (17, word));
        assert!(matches!(error.problem, SettingsProblem::NotOffered { .. }), "{error}");
        assert!(word.parse::<AqmKind>().is_err() && word.parse::<TinMode>().is_err(), "{word}");
    }
    assert!("aggressive".parse::<AckFilter>().is_err());
    let two = ["rest", "calls"].map(|name| Tin::new(TinName::new(name).unwrap(), TinShare::ALL));
    assert_eq!(TinPlan::new(&two), Err(TinPlanError::Tins { given: 2 }));
}

/// Goal: a queue with every other setting sends what it accepts, and prints its settings.
#[test]
fn a_queue_without_parts_works() {
    let words = "besteffort map EF best-effort hosts-across-tins no-ack-filter codel l4s ingress";
    let settings = QueueSettings::from_words(words).unwrap();
    assert_eq!(settings.to_string().parse(), Ok(settings));
    let builder = SmartQueue::upload(Rate::megabits_per_second(20).unwrap()).settings(&settings);
    let mut queue = builder.frames([42; 16]).unwrap();
    for at in 0..100 {
        queue.push(Nanos(at), &[at as u8; 60]).unwrap();
    }
    queue.set_tins(TinMode::BestEffort).unwrap();
    queue.recount().unwrap();
    let sent =
        (100..).map(|ms| queue.pop(Nanos::from_millis(ms)).is_some()).take_while(|sent| *sent);
    assert_eq!(sent.count(), 100);
}
