//! Error texts: the value that was given, and what is expected.

use core::error::Error;

use freeboard::shaper::{Rate, Segments};
use freeboard::{CutError, QueueSettings, SmartQueue};

/// Goal: an error in a configuration string names the value and what is expected. Method: compare
/// the whole text.
#[test]
fn settings_name_the_value_and_what_is_accepted() {
    for (words, text) in [
        (
            "tin a tin b share 5/4",
            "at byte 18, `5/4`: share 5/4 (expected more than 0 and up to 1, of 1000000 parts at most)",
        ),
        (
            "tin a tin b share 1.5",
            "at byte 18, `1.5`: share 3/2 (expected more than 0 and up to 1, of 1000000 parts at most)",
        ),
        (
            "tin a share 120%",
            "at byte 12, `120%`: share 6/5 (expected more than 0 and up to 1, of 1000000 parts at most)",
        ),
        (
            "diffserv3 map EF game",
            "at byte 17, `game`: no tin of diffserv3 is named `game` (expected one of bulk best-effort voice)",
        ),
        (
            "nat overhead wash",
            "at byte 4, `overhead`: expected a whole number from -64 to 256 after it, found `wash`",
        ),
    ] {
        assert_eq!(QueueSettings::from_words(words).unwrap_err().to_string(), text);
    }
}

/// Goal: an error of a configuration string or of a framing outlives the string, so that `?` can
/// box it. Method: strings that are dropped before the error is read.
#[test]
fn errors_of_words_are_boxed_by_the_question_mark() {
    fn settings(words: String) -> Result<QueueSettings, Box<dyn Error>> {
        Ok(words.parse()?)
    }
    fn framing(words: String) -> Result<(), Box<dyn Error + Send + Sync>> {
        let _builder = SmartQueue::upload(Rate::UNLIMITED).framing(&words)?;
        Ok(())
    }
    let error = settings("nat wush".into()).unwrap_err().to_string();
    assert!(error.starts_with("at byte 4, `wush`: no such word; did you mean `wash`?"), "{error}");
    let error = framing("ether-vlan pppoe-ptn".into()).unwrap_err().to_string();
    assert!(error.starts_with("unknown link option `pppoe-ptn`"), "{error}");
    let long = "a".repeat(100);
    let error = settings(long).unwrap_err().to_string();
    assert!(error.starts_with(&format!("at byte 0, `{}…`: ", "a".repeat(30))), "{error}");
}

/// Goal: the text of an error is not repeated by its sources. Method: an error that contains
/// another, and the texts of its chain.
#[test]
fn an_error_does_not_repeat_its_source() {
    let why = Segments::one(0).unwrap_err();
    let error = CutError::Segments(why);
    let (mut texts, mut next) = (vec![], Some(&error as &dyn Error));
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    assert_eq!(texts, [why.to_string()]);
}
