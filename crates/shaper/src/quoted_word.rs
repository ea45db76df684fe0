//! Owned copy of a word for error messages.

use core::fmt;

/// A copy of a word for use in an error.
///
/// It holds the first [`MAX_LEN`](Self::MAX_LEN) bytes, more than any valid keyword has; a longer
/// word is printed with a trailing `…`. The copy makes errors `'static`, so that `?` can convert
/// them to `Box<dyn Error>`, and it needs no allocator.
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
    /// UTF-8, padded with zeros.
    bytes: [u8; Self::MAX_LEN],
    len: u8,
    is_cut: bool,
}

impl QuotedWord {
    /// Maximum number of bytes kept.
    pub const MAX_LEN: usize = 30;

    /// Copies `word`, truncated at a character boundary if it is too long.
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

    /// Returns the word, or its beginning if it was [truncated](Self::is_cut).
    #[must_use]
    pub fn as_str(&self) -> &str {
        let word = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(word).unwrap_or_default()
    }

    /// Returns true if the word was longer than [`MAX_LEN`](Self::MAX_LEN) bytes and was truncated.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Compares with the whole original word; a truncated word equals no text.
impl PartialEq<str> for QuotedWord {
    fn eq(&self, word: &str) -> bool {
        !self.is_cut && self.as_str() == word
    }
}

/// Compares with the whole original word; a truncated word equals no text.
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
