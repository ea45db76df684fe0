//! Experiments of the user's own, in a TOML file: a link, queues, traffic, and sweeps over any key.
//!
//! ```text
//! file ─▶ sweep: a scenario for each cell ─▶ run with a seed ─▶ report: table, chart, data
//! ```
//!
//! - [`mod@file`]: keys and their meaning; the annotated template
//! - [`queues`]: queues by name, and how to add one
//! - [`run`]: the model network of a scenario and its measurements
//! - [`Sweep`]: all cells of a file, a [`Study`](crate::experiments::Study)
//! - [`recording`]: one run in detail, for flent and Wireshark
//!
//! Connections are those of [`crate::tcp`], open-loop sources those of [`crate::source`].

pub mod file;
pub mod queues;
pub mod recording;
mod report;
pub mod run;

use core::fmt;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Value};

pub use file::Scenario;
pub use queues::Queues;

/// An annotated file with every key, which runs as it is.
pub const TEMPLATE: &str = include_str!("scenario/template.toml");

/// A file that cannot be used: the key, where it is, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    text: String,
}

impl ScenarioError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl core::error::Error for ScenarioError {}

/// All cells of a file.
#[derive(Debug)]
pub struct Sweep {
    queues: Queues,
    title: Option<String>,
    name: String,
    cells: Vec<Cell>,
}

/// A scenario of a sweep.
#[derive(Debug)]
pub struct Cell {
    /// Swept keys with their values, as in the file.
    pub keys: Vec<(String, String)>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

/// Maximum number of cells of a file.
const MOST_CELLS: usize = 100_000;

impl Sweep {
    /// Reads a file: its text, and the folder to which paths in it are relative.
    ///
    /// # Errors
    /// The line and the key of what is wrong, and what was expected.
    pub fn read(text: &str, folder: &Path, queues: Queues) -> Result<Self, ScenarioError> {
        Self::parse(text, Some(folder), queues)
    }

    fn parse(text: &str, folder: Option<&Path>, queues: Queues) -> Result<Self, ScenarioError> {
        let parse_error = |error: toml_edit::TomlError| ScenarioError::new(error.to_string());
        let document: DocumentMut = text.parse().map_err(parse_error)?;
        let base = scenario(text, folder, &queues)?;
        let title = base.title.clone();
        let name = "sweep".to_owned();
        let Some(sweep) = document.get("sweep") else {
            let cells = vec![Cell { keys: Vec::new(), scenario: base }];
            return Ok(Self { queues, title, name, cells });
        };
        let axes = axes(sweep, text)?;
        let count =
            axes.iter().try_fold(1_usize, |count, (_, values)| count.checked_mul(values.len()));
        let count = count.filter(|&count| count <= MOST_CELLS).ok_or_else(|| {
            ScenarioError::new(format!("sweep: too many cells (expected at most {MOST_CELLS})"))
        })?;
        let cell = |number: usize| {
            let (mut rest, mut stride) = (number, count);
            let mut document = document.clone();
            let mut keys = Vec::new();
            for (path, values) in &axes {
                stride /= values.len();
                let value = &values[rest / stride];
                rest %= stride;
                set(&mut document, path, value)
                    .map_err(|why| ScenarioError::new(format!("{}{why}", at(text, path))))?;
                keys.push((path.clone(), shown(value)));
            }
            let scenario = scenario(&document.to_string(), folder, &queues).map_err(|error| {
                let keys: Vec<String> =
                    keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                ScenarioError::new(format!("sweep with {}: {error}", keys.join(", ")))
            })?;
            Ok(Cell { keys, scenario })
        };
        let cells = (0..count).map(cell).collect::<Result<_, ScenarioError>>()?;
        Ok(Self { queues, title, name, cells })
    }

    /// Reads the file of a sweep whose results are known: nothing is run, and neither queues nor
    /// captures are needed.
    ///
    /// # Errors
    /// As for [`Sweep::read`].
    pub fn of_results(text: &str) -> Result<Self, ScenarioError> {
        Self::parse(text, None, Queues::new())
    }

    /// Sets the name of a sweep whose file has no title, or none with letters of ASCII: that of the
    /// file.
    #[must_use]
    pub fn named(self, file: &str) -> Self {
        let name = words(file);
        if name.is_empty() { self } else { Self { name, ..self } }
    }

    /// Returns the title in the file, or the name.
    #[must_use]
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the name of run files and results: the title in small letters, with hyphens.
    #[must_use]
    pub fn name(&self) -> String {
        let title = words(self.title());
        if title.is_empty() { self.name.clone() } else { title }
    }

    /// Returns all cells, in order: the last key of the sweep varies fastest.
    #[must_use]
    pub fn all(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the known queues.
    #[must_use]
    pub const fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Returns the number of seeds in the file.
    #[must_use]
    pub fn default_seeds(&self) -> u32 {
        self.cells.first().map_or(1, |cell| cell.scenario.seeds.get())
    }
}

/// Reads one scenario.
fn scenario(text: &str, folder: Option<&Path>, queues: &Queues) -> Result<Scenario, ScenarioError> {
    let scenario: Scenario = toml_edit::de::from_str(text)
        .map_err(|error| ScenarioError::new(error.to_string().trim_end()))?;
    let Some(folder) = folder else { return Ok(scenario) };
    scenario
        .checked(folder, queues)
        .map_err(|(path, why)| ScenarioError::new(format!("{}{why}", at(text, &path))))
}

/// Returns a text as words of ASCII letters and digits, in small letters and joined by hyphens.
fn words(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let words = text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// Returns the swept keys with their values.
fn axes(sweep: &Item, text: &str) -> Result<Vec<(String, Vec<Value>)>, ScenarioError> {
    let table = sweep.as_table_like().ok_or_else(|| {
        ScenarioError::new(
            "sweep: expected a table [sweep] with keys like \"link.up\" = [\"1mbit\", \"10mbit\"]",
        )
    })?;
    let axis = |(key, values): (&str, &Item)| {
        if key == "seeds" || key.split('.').any(|part| matches!(part, "" | "sweep")) {
            let line = at(text, &format!("sweep.{key}"));
            return Err(ScenarioError::new(format!("{line}expected the path of a key but seeds")));
        }
        let values: Vec<Value> = match values.as_array() {
            Some(values) if !values.is_empty() => values.iter().cloned().collect(),
            _ => {
                let line = at(text, &format!("sweep.{key}"));
                let why = format!("{line}expected a list of values, for example [1, 10]");
                return Err(ScenarioError::new(why));
            }
        };
        Ok((key.to_owned(), values))
    };
    table.iter().map(axis).collect()
}

/// Sets the key at a path like `bulk.uploads.count`.
fn set(document: &mut DocumentMut, path: &str, value: &Value) -> Result<(), String> {
    let (tables, key) = path.rsplit_once('.').map_or(("", path), |(tables, key)| (tables, key));
    let mut table = document.as_table_mut() as &mut dyn toml_edit::TableLike;
    for name in tables.split('.').filter(|name| !name.is_empty()) {
        table = table.get_mut(name).and_then(Item::as_table_like_mut).ok_or_else(|| {
            format!("no table {tables:?} in this file (expected the path of a key, for example \"link.up\")")
        })?;
    }
    let mut value = value.clone();
    *value.decor_mut() = toml_edit::Decor::new(" ", "");
    match table.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => {
            table.insert(key, Item::Value(value));
        }
    }
    Ok(())
}

/// Returns a value as in a table: text without quotes.
fn shown(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.clone().decorated("", "").to_string(),
    }
}

/// Returns `line N: key: ` for the key at `path`, or the path alone if its line is not found.
fn at(text: &str, path: &str) -> String {
    let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut current = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            header.trim_matches('[').trim().clone_into(&mut current);
        }
        let name = line.split('=').next().unwrap_or_default().trim();
        let is_here = current == table && name == key;
        let is_header = current == path && line.starts_with('[');
        let is_swept =
            current == "sweep" && name.trim_matches('"') == path.trim_start_matches("sweep.");
        if is_here || is_header || is_swept {
            return format!("line {}: {path}: ", number + 1);
        }
    }
    format!("{path}: ")
}

#[cfg(test)]
mod tests;
