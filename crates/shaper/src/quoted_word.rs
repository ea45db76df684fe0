//! A word that an error quotes, copied, so that the error outlives the text.

use core::fmt;

/// A copy of a word that an error quotes: its first [`MAX_LEN`](Self::MAX_LEN) bytes, which is more
/// than any accepted word has. A longer word is printed with `…` behind these.
///
/// Errors own what they quote, so that they are `'static`: `?` makes a `Box<dyn Error>` of them,
/// without an allocator here.
///
/// ```
/// use shaper::QuotedWord;
///
/// let word = QuotedWord::new("pppoe-ptn");
/// assert_eq!(word, "pppoe-ptn");
/// let long = QuotedWord::new("a-word-that-is-longer-than-any-of-these");
/// assert_eq!(long.to_string(), "a-word-that-is-longer-than-any…");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QuotedWord {
    /// UTF-8; behind the word, zeros.
    bytes: [u8; Self::MAX_LEN],
    len: u8,
    is_cut: bool,
}

impl QuotedWord {
    /// The most bytes that are kept.
    pub const MAX_LEN: usize = 30;

    /// Copies `word`, cut before the first character that does not fit.
    #[must_use]
    pub fn new(word: &str) -> Self {
        let mut len = word.len().min(Self::MAX_LEN);
        while !word.is_char_boundary(len) {
            len = len.saturating_sub(1);
        }
        let mut bytes = [0; Self::MAX_LEN];
        for (place, byte) in bytes.iter_mut().zip(word.bytes().take(len)) {
            *place = byte;
        }
        let len = u8::try_from(len).unwrap_or(0);
        Self { bytes, len, is_cut: usize::from(len) < word.len() }
    }

    /// Returns the word, or its beginning if it was [cut](Self::is_cut).
    #[must_use]
    pub fn as_str(&self) -> &str {
        let word = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(word).unwrap_or_default()
    }

    /// Returns true if the word was longer than [`MAX_LEN`](Self::MAX_LEN) bytes.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Equal to the whole word that was copied; a word that was cut equals no text.
impl PartialEq<str> for QuotedWord {
    fn eq(&self, word: &str) -> bool {
        !self.is_cut && self.as_str() == word
    }
}

/// As for `str`.
impl PartialEq<&str> for QuotedWord {
    fn eq(&self, word: &&str) -> bool {
        self == *word
    }
}

impl fmt::Debug for QuotedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.as_str(), if self.is_cut { "…" } else { "" })
    }
}

impl fmt::Display for QuotedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.as_str(), if self.is_cut { "…" } else { "" })
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for QuotedWord {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}{=str}", self.as_str(), if self.is_cut { "…" } else { "" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_long_word_is_cut_between_two_characters_and_says_so() {
        let thirty = "123456789012345678901234567890";
        let whole = QuotedWord::new(thirty);
        assert_eq!(whole, thirty);
        assert!(!whole.is_cut());
        for word in ["1234567890123456789012345678901", "12345678901234567890123456789ß"] {
            let cut = QuotedWord::new(word);
            assert!(cut.is_cut() && word.starts_with(cut.as_str()), "{word}");
            assert_ne!(cut, cut.as_str());
            assert!(cut.to_string().ends_with('…'), "{word}");
            assert!(cut.as_str().len() >= 29, "{word}");
        }
        assert_eq!(QuotedWord::new("ß").as_str(), "ß");
        assert_eq!(QuotedWord::new(""), "");
    }
}
