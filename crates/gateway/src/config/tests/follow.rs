//! Errors of autorate options.

use super::{LINE, read};

/// Goal: each error names location, option, value and what is expected. Method: the full text of
/// every error that options can cause.
#[test]
fn a_refusal_names_the_value_and_the_range() {
    const AUTORATE: &str = "autorate = \"9.9.9.9\"\n";
    const ARRIVALS: &str = "autorate-ingress = true\n";
    let addresses = "1 to 16 comma-separated addresses that answer ping, or off; \
                     no link-local ones such as fe80::1)";
    let reflectors = format!("invalid value (expected {addresses}");
    let seventeen: Vec<String> = (1..=17).map(|last| format!("10.0.0.{last}")).collect();
    let seventeen = seventeen.join(",");
    let rates = "invalid value (expected 1kbit to 400gbit, such as 5mbit)";
    for (before, option, value, why) in [
        ("", "autorate", "", &*reflectors),
        ("", "autorate", "router", &reflectors),
        ("", "autorate", "0.0.0.0", &reflectors),
        ("", "autorate", "224.0.0.1", &reflectors),
        ("", "autorate", "1.1.1.1,fe80::1", &reflectors),
        ("", "autorate", &seventeen, &reflectors),
        ("", "autorate", "::1,1.1.1.1,0::1", "::1 is given twice (expected each address once)"),
        ("", "autorate", "9.9.9.9", "not available without --up-min or --down-min"),
        ("", "autorate-ingress", "down", "invalid value (expected on, off)"),
        ("", "autorate-ingress", "on", "not available without --down-min"),
        ("", "autorate-delay", "0", "out of range (expected 1 to 1000)"),
        ("", "autorate-delay", "1001", "out of range (expected 1 to 1000)"),
        ("", "autorate-delay", "15ms", "not a whole number (expected 1 to 1000)"),
        ("", "autorate-delay", "15", "not available without --autorate"),
        (
            "autorate-ingress = true\ndown-min = \"1mbit\"\n",
            "autorate-delay",
            "15",
            "not available without --autorate",
        ),
        ("", "up-min", "500kbit", "not available without --autorate"),
        ("", "up-max", "2mbit", "not available without --autorate"),
        (ARRIVALS, "up-min", "500kbit", "not available without --autorate"),
        ("", "down-min", "5mbit", "not available without --autorate or --autorate-ingress"),
        ("", "down-max", "20mbit", "not available without --autorate or --autorate-ingress"),
        (AUTORATE, "up-min", "unlimited", rates),
        (AUTORATE, "up-max", "fast", rates),
        (AUTORATE, "down-min", "999", rates),
        (ARRIVALS, "down-max", "401gbit", rates),
        (AUTORATE, "up-max", "2mbit", "not available without --up-min"),
        (AUTORATE, "down-max", "20mbit", "not available without --down-min"),
        (ARRIVALS, "down-max", "20mbit", "not available without --down-min"),
        (AUTORATE, "up-min", "1001kbit", "above --up (expected 1kbit to 1mbit)"),
        (AUTORATE, "down-min", "17mbit", "above --down (expected 1kbit to 16mbit)"),
        (ARRIVALS, "down-min", "17mbit", "above --down (expected 1kbit to 16mbit)"),
        (
            "autorate = \"9.9.9.9\"\nup-min = \"500kbit\"\n",
            "up-max",
            "999kbit",
            "below --up (expected 1mbit to 400gbit)",
        ),
        (
            "autorate-ingress = true\ndown-min = \"5mbit\"\n",
            "down-max",
            "15mbit",
            "below --down (expected 16mbit to 400gbit)",
        ),
    ] {
        let text = format!("{LINE}{before}{option} = \"{value}\"\n");
        let line = text.lines().count();
        let said = format!("--config x.toml: line {line}: --{option} {value:?}: {why}");
        assert_eq!(read(&text).unwrap_err(), said);
    }
}

/// Goal: an unlimited base rate is rejected with its location and the option that needs a finite
/// rate.
#[test]
fn a_rate_without_a_limit_cannot_follow() {
    let text = LINE.replace("1mbit", "unlimited").replace("16000000", "\"unlimited\"");
    for (autorate, beside, line, base) in [
        ("autorate = \"9.9.9.9\"", "up-min", 3, "up"),
        ("autorate = \"9.9.9.9\"", "up-max", 3, "up"),
        ("autorate = \"9.9.9.9\"", "down-min", 4, "down"),
        ("autorate-ingress = true", "down-min", 4, "down"),
        ("autorate-ingress = true", "down-max", 4, "down"),
    ] {
        let error = read(&format!("{text}{autorate}\n{beside} = \"5mbit\"\n")).unwrap_err();
        let said = format!(
            "--config x.toml: line {line}: --{base} \"unlimited\": not available with --{beside} \
             (expected 1kbit to 400gbit, such as 10mbit)"
        );
        assert_eq!(error, said);
    }
}

/// Goal: the ends of the ranges named by errors are accepted.
#[test]
fn what_a_refusal_names_is_accepted() {
    for more in [
        "autorate = \"9.9.9.9\"\nup-min = \"1kbit\"\nup-max = \"400gbit\"\nautorate-delay = 1000",
        "autorate = \"9.9.9.9\"\nup-min = \"1mbit\"\nup-max = \"1mbit\"\nautorate-delay = 1",
        "autorate-ingress = true\ndown-min = \"16mbit\"\ndown-max = \"16mbit\"",
        "autorate = \"off\"",
    ] {
        let config = read(&format!("{LINE}{more}"));
        assert!(config.is_ok(), "{more}: {}", config.unwrap_err());
    }
}
