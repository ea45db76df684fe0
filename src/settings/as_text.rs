//! Settings in your configuration files: serialization as text.

use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::QueueSettings;

/// Serializes to a string, as [`Display`](fmt::Display) prints it.
impl Serialize for QueueSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Deserializes from a string with [`QueueSettings::from_words`]. The error has the text of
/// [`SettingsError`](super::SettingsError): the word, its position, and what was expected.
impl<'de> Deserialize<'de> for QueueSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Words)
    }
}

struct Words;

impl Visitor<'_> for Words {
    type Value = QueueSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings as keywords, such as `bandwidth 20mbit diffserv4`")
    }

    fn visit_str<E: Error>(self, words: &str) -> Result<QueueSettings, E> {
        QueueSettings::from_words(words).map_err(E::custom)
    }
}
