//! What errors say: the value that was given, and what is accepted in its place.

use freeboard::QueueSettings;

/// Goal: what is wrong with a word of the settings is said with its value and what is accepted. Method: the whole text.
#[test]
fn settings_name_the_value_and_what_is_accepted() {
    for (words, text) in [
        (
            "tin a tin b share 5/4",
            "at byte 18, `5/4`: share 5/4; accepted are those above 0 and up to 1, of 1000000 parts at most",
        ),
        (
            "tin a tin b share 1.5",
            "at byte 18, `1.5`: share 3/2; accepted are those above 0 and up to 1, of 1000000 parts at most",
        ),
        (
            "tin a share 120%",
            "at byte 12, `120%`: share 6/5; accepted are those above 0 and up to 1, of 1000000 parts at most",
        ),
        (
            "diffserv3 map EF game",
            "at byte 17, `game`: no tin of diffserv3 is named `game`; accepted are bulk best-effort voice",
        ),
        (
            "nat overhead wash",
            "at byte 4, `overhead`: `overhead` needs a whole number in -64..=256 after it, and has `wash`",
        ),
    ] {
        assert_eq!(QueueSettings::from_words(words).unwrap_err().to_string(), text);
    }
}
