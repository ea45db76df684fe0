//! The keywords, and the search for the one most similar to an unknown word.

use shaper::{KeywordProblem, Overhead};

/// Our own keywords, each with the number of values after it.
pub(super) const OURS: [(&str, usize); 54] = [
    ("bandwidth", 1),
    ("unlimited", 0),
    ("besteffort", 0),
    ("precedence", 0),
    ("diffserv3", 0),
    ("diffserv4", 0),
    ("diffserv8", 0),
    ("tin", 1),
    ("share", 1),
    ("weight", 1),
    ("map", 2),
    ("default-tin", 1),
    ("tin-by", 1),
    ("fwmark", 1),
    ("flows", 0),
    ("srchost", 0),
    ("dsthost", 0),
    ("hosts", 0),
    ("dual-srchost", 0),
    ("dual-dsthost", 0),
    ("triple-isolate", 0),
    ("hosts-across-tins", 0),
    ("hosts-in-each-tin", 0),
    ("nat", 0),
    ("nonat", 0),
    ("wash", 0),
    ("nowash", 0),
    ("ack-filter", 0),
    ("ack-filter-aggressive", 0),
    ("no-ack-filter", 0),
    ("ingress", 0),
    ("egress", 0),
    ("autorate-ingress", 0),
    ("no-autorate-ingress", 0),
    ("rtt", 1),
    ("datacentre", 0),
    ("lan", 0),
    ("metro", 0),
    ("regional", 0),
    ("internet", 0),
    ("oceanic", 0),
    ("satellite", 0),
    ("codel", 0),
    ("cobalt", 0),
    ("pie", 0),
    ("pi2", 0),
    ("red", 0),
    ("blue", 0),
    ("no-aqm", 0),
    ("l4s", 0),
    ("no-l4s", 0),
    ("memlimit", 1),
    ("split-gso", 0),
    ("no-split-gso", 0),
];

/// Keywords of the link, which [`shaper::Overhead::from_words`] parses.
pub(super) const OF_THE_LINK: [&str; 46] = [
    "raw",
    "conservative",
    "overhead",
    "mpu",
    "atm",
    "ptm",
    "ptm-paper",
    "noatm",
    "pppoa-vcmux",
    "pppoa-llc",
    "pppoe-vcmux",
    "pppoe-llcsnap",
    "bridged-vcmux",
    "bridged-llcsnap",
    "ipoa-vcmux",
    "ipoa-llcsnap",
    "pppoe-ptm",
    "bridged-ptm",
    "docsis",
    "ethernet",
    "gpon",
    "xg-pon",
    "xgs-pon",
    "ether-vlan",
    "via-ethernet",
    "gem",
    "xgem",
    "pppoe",
    "wireguard",
    "wireguard6",
    "esp",
    "esp6",
    "esp-udp",
    "gre",
    "gre6",
    "vxlan",
    "vxlan6",
    "gtp",
    "ipip",
    "6in4",
    "4in6",
    "ds-lite",
    "mpls",
    "add",
    "least",
    "pad",
];

/// Returns true if a number follows `word`, a keyword of the link.
pub(super) fn needs_number(word: &str) -> bool {
    let problem = Overhead::from_keywords(word, 0).map_err(|error| error.problem);
    matches!(problem, Err(KeywordProblem::Number { .. }))
}

/// Returns the alternative to a keyword of `tc` that is not supported.
pub(super) fn not_offered(word: &str) -> Option<&'static str> {
    match word {
        "flowblind" => Some("flows are always isolated here; `flows` isolates no hosts"),
        "interplanetary" => Some("the longest is `rtt 8589934591ns`; `no-aqm` disables the AQM"),
        _ => None,
    }
}

/// Returns the number of values after `word`; `None` if it is no keyword of ours.
pub(super) fn values(word: &str) -> Option<usize> {
    OURS.iter().find(|(name, _)| *name == word).map(|(_, values)| *values)
}

/// Length of the longest word that is compared.
const LONGEST: usize = 24;
/// Distance from which on a word is no longer similar.
const FAR: usize = 3;

/// Returns the known keyword most similar to `word`, if one is similar.
pub(super) fn nearest(word: &str) -> Option<&'static str> {
    let known = OURS.iter().map(|(name, _)| *name).chain(OF_THE_LINK);
    let near = known.map(|name| (distance(word.as_bytes(), name.as_bytes()), name));
    near.filter(|(changes, name)| *changes < FAR && *changes < name.len().min(word.len()))
        .min_by_key(|(changes, _)| *changes)
        .map(|(_, name)| name)
}

/// Returns the Levenshtein distance of `a` and `b`, ignoring case; [`FAR`] for long words. Cost:
/// the product of both lengths, at most 576 steps.
fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len() > LONGEST || b.len() > LONGEST {
        return FAR;
    }
    // The row of the distance matrix for the prefix of `a` so far: the distance to each prefix of
    // `b`.
    let mut row = [0_usize; LONGEST + 1];
    for (at, place) in row.iter_mut().enumerate() {
        *place = at;
    }
    for (from, byte) in (1_usize..).zip(a) {
        let (mut left, mut diagonal) = (from, from.saturating_sub(1));
        let (first, rest) = match &mut row {
            [first, rest @ ..] => (first, rest),
        };
        *first = from;
        for (place, other) in rest.iter_mut().zip(b) {
            let replaced = diagonal.saturating_add(usize::from(!byte.eq_ignore_ascii_case(other)));
            diagonal = *place;
            left = replaced.min(place.saturating_add(1)).min(left.saturating_add(1));
            *place = left;
        }
    }
    row.get(b.len()).copied().unwrap_or(FAR)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;

    use super::*;

    /// Goal: the link keywords that misspelt words are compared with are those its error lists, and
    /// no keyword is of both kinds.
    #[test]
    fn the_words_of_the_link_are_read_by_the_link() {
        let unknown = Overhead::from_keywords("?", 14).err().map(|error| std::format!("{error}"));
        let unknown = unknown.unwrap_or_default();
        let named: std::vec::Vec<&str> = unknown.split(['(', ',', ')', ' ']).collect();
        for word in OF_THE_LINK {
            assert!(named.contains(&word), "{word} is not in: {unknown}");
            let read = Overhead::from_words([word, "16"].into_iter(), 14);
            let is_unknown = |error: shaper::KeywordError| {
                error.index == 0 && error.problem == KeywordProblem::Unknown
            };
            assert!(!read.is_err_and(is_unknown), "{word}");
            assert_eq!(values(word), None, "{word}");
        }
        for (word, _) in OURS {
            let read = Overhead::from_keywords(word, 14).map_err(|error| error.problem);
            assert_eq!(read, Err(KeywordProblem::Unknown), "{word}");
        }
    }

    /// Goal: a keyword with a letter wrong, missing, doubled or in the wrong case has itself as the
    /// most similar one, and a dissimilar word has none. Method: every change at every position of
    /// each keyword of four letters or more; another keyword may be equally similar, but none more.
    #[test]
    fn a_misspelt_word_has_a_near_one() {
        for word in OURS.map(|(word, _)| word).into_iter().chain(OF_THE_LINK) {
            assert_eq!(distance(word.as_bytes(), word.as_bytes()), 0);
            if word.len() < 4 {
                continue;
            }
            for at in 0..word.len() {
                let (before, after) = word.split_at(at);
                let (letter, rest) = after.split_at(1);
                for wrong in [
                    std::format!("{before}#{rest}"),
                    std::format!("{before}{rest}"),
                    std::format!("{before}{letter}{letter}{rest}"),
                ] {
                    let near = nearest(&wrong).unwrap_or_default();
                    let (found, own) = (near.as_bytes(), word.as_bytes());
                    assert!(distance(wrong.as_bytes(), own) <= 1, "{wrong}");
                    assert!(distance(wrong.as_bytes(), found) <= 1, "{wrong} {near}");
                }
            }
            assert_eq!(
                nearest(&word.chars().map(|c| c.to_ascii_uppercase()).collect::<String>()),
                Some(word)
            );
        }
        for word in ["", "x", "zzzzzzzz", "a-word-that-is-longer-than-any-of-these", "ß"] {
            assert_eq!(nearest(word), None, "{word}");
        }
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
    }
}
