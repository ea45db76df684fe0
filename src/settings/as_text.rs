//! Settings in a configuration file of the caller's: the text that they are read from and printed
//! as.

use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::QueueSettings;

/// As a string, in the words that [`Display`](fmt::Display) prints.
impl Serialize for QueueSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From a string, in the words of [`QueueSettings::from_words`]. The text of a refusal is that of
/// [`SettingsError`](super::SettingsError): the word, where it stands, and what is accepted there.
impl<'de> Deserialize<'de> for QueueSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Words)
    }
}

struct Words;

impl Visitor<'_> for Words {
    type Value = QueueSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings in words, `bandwidth 20mbit diffserv4` for one")
    }

    fn visit_str<E: Error>(self, words: &str) -> Result<QueueSettings, E> {
        QueueSettings::from_words(words).map_err(E::custom)
    }
}
