//! Better messages for common mistakes in the file than those of the TOML parser.

use clap::{Args as _, Command};
use toml::de::{DeTable, DeValue, Error};

use crate::config::RawOptions;

/// Tables of the file.
const TABLES: [&str; 5] = ["names", "weights", "rates", "ceils", "caps"];

/// Minimum similarity (0 to 1) of a key to a known one for a suggestion, as in clap.
const NEAR: f64 = 0.7;

/// Finds a mistake in `text`; returns its byte offset and the message.
pub(super) fn find(text: &str) -> Option<(usize, String)> {
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => return without_quotes(text, &error),
    };
    let options = options();
    let is_option = |key: &str| options.iter().any(|option| option == key);
    let is_list = |name: &str| {
        let names = table.get_ref().get("names").and_then(|names| names.get_ref().as_table());
        names.and_then(|names| names.get(name)).is_some_and(|list| list.get_ref().is_array())
    };
    let mut found: Vec<(usize, String)> = Vec::new();
    for (key, value) in table.get_ref() {
        let (at, key) = (key.span().start, key.get_ref().as_ref());
        match value.get_ref() {
            DeValue::Table(hosts) if TABLES.contains(&key) => {
                for (host, value) in hosts {
                    let (at, host) = (host.span().start, host.get_ref().as_ref());
                    if is_option(host) && !is_list(host) {
                        let why = format!("{host}: option inside table [{key}]");
                        found.push((at, why + " (expected above the first table)"));
                    } else if value.get_ref().is_table() {
                        let why = format!("{host}: a key with dots needs quotes");
                        found.push((at, why + " (expected for example \"192.168.1.10\" = …)"));
                    }
                }
            }
            _ if is_option(key) || TABLES.contains(&key) => {}
            DeValue::Table(_) => {
                let why = format!("{key}: unknown table (expected {})", TABLES.join(", "));
                found.push((at, why + "; options go above the first table"));
            }
            _ => found.push((at, format!("{key}: unknown option{}", meant(key, &options)))),
        }
    }
    found.into_iter().min()
}

/// Returns the keys of options: the long names of the command line, old names last.
fn options() -> Vec<String> {
    let command = RawOptions::augment_args(Command::new(""));
    let names = command.get_arguments().filter_map(|option| option.get_long());
    let old = command.get_arguments().filter_map(|option| option.get_all_aliases()).flatten();
    names.chain(old).map(str::to_owned).collect()
}

/// Returns a suggestion of the known key most similar to `key`.
fn meant(key: &str, options: &[String]) -> String {
    let known = options.iter().map(String::as_str).chain(TABLES);
    // Underscores for dashes are a likely mistake.
    let key = key.replace('_', "-");
    let near = known.map(|known| (strsim::jaro(&key, known), known));
    let near = near.filter(|(alike, _)| *alike > NEAR).max_by(|one, two| one.0.total_cmp(&two.0));
    near.map_or("; see --help".to_owned(), |(_, known)| format!("; did you mean {known}?"))
}

/// Finds missing quotes in the line where the parser stopped.
fn without_quotes(text: &str, error: &Error) -> Option<(usize, String)> {
    let at = error.span()?.start.min(text.len());
    let begin = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(begin..)?.lines().next()?;
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.split('#').next()?.trim());
    let is_bare = |key: &str| {
        !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    if !is_bare(key) && !key.contains(['"', '\'']) && !key.is_empty() {
        return Some((begin, format!("{key}: needs quotes (expected \"{key}\" = …)")));
    }
    let is_word = value.starts_with(|first: char| first.is_alphanumeric() || "/.:".contains(first));
    (is_word && !value.contains(['"', '\'']))
        .then(|| (begin, format!("{key}: {value} needs quotes (expected {key} = \"{value}\")")))
}
