//! The catalogue names every discipline that there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::catalog::{Arrays, FlowRecipe, Recipe, Room};
use freeboard::sched_core::Limits;

const CRATES: [&str; 3] = ["src", "crates/sched-core/src", "crates/shaper/src"];
const TRAITS: [&str; 4] = ["FlowScheduler", "Scheduler", "Aqm", "LabelledScheduler"];

/// Parts that no caller names, what is made of them, and where it says so.
const INSIDE: [(&str, &str, &str); 3] = [
    ("Releasing", "Hashed", "src/hashed.rs"),
    ("IsolationOrder", "Isolated", "src/isolated.rs"),
    ("Claims", "Isolated", "src/isolated.rs"),
];

/// Types that implement one of the traits in a file: the word behind `for` of `impl<…> Trait for Type`.
fn implementors(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines: Vec<&str> =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let words = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (at, _) in words.match_indices("impl") {
        let header = words[at..].split(['{', ';']).next().unwrap_or_default();
        let header = header.split(" where ").next().unwrap_or_default();
        let Some((before, after)) = header.split_once(" for ") else { continue };
        let name = before.rsplit([' ', ':', '>']).next().unwrap_or_default();
        if TRAITS.contains(&name) {
            let of = after.trim_start_matches(['&', '(']).trim_start_matches("mut ");
            let end = of.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(of.len());
            found.push(of[..end].to_owned());
        }
    }
    found
}

fn scan(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.contains("tests") {
            continue;
        }
        if path.is_dir() {
            scan(&path, found);
        } else if name.ends_with(".rs") {
            found.extend(implementors(&fs::read_to_string(&path).unwrap()));
        }
    }
}

fn of_flows<R: FlowRecipe>(_: R) -> &'static str {
    std::any::type_name::<R::Made<Arrays<4>, Arrays<4>>>()
}

fn of_packets<R: Recipe>(_: R) -> &'static str {
    std::any::type_name::<R::Made<Arrays<4>, Arrays<4>, Arrays<4>>>()
}

/// The full names of the types that the entries make.
fn made() -> String {
    macro_rules! types {
        ([$of:ident] $($name:ident: $recipe:expr,)*) => { [$($of($recipe)),*] };
    }
    let lists = [
        &conformance::flow_schedulers!(types, [of_flows])[..],
        &conformance::schedulers!(types, [of_packets]),
        &conformance::compositions!(types, [of_packets]),
    ];
    lists.concat().join("\n")
}

/// Goal: a discipline that is added and not entered is noticed.
/// Method: every type that implements one of the traits in the sources of the library is looked for in the names of the
/// types that the entries make, but for parts of others (`INSIDE`). A type parameter, a reference or a box forwards to a type
/// that is looked for itself.
#[test]
fn every_implementor_in_the_sources_is_made_by_an_entry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeSet::new();
    for folder in CRATES {
        scan(&root.join(folder), &mut found);
    }
    let forwards = |name: &str| name.len() == 1 || ["Box", "dyn"].contains(&name);
    found.retain(|name| !forwards(name));
    println!("{found:?}");
    assert!(found.len() >= 20, "{found:?}");
    let made = made();
    let reached = |name: &String| {
        made.match_indices(name.as_str()).any(|(at, _)| {
            let (before, after) = (&made[..at], &made[at + name.len()..]);
            before.ends_with("::") && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    };
    for (part, whole, file) in INSIDE {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(part) && found.remove(part) && found.contains(whole), "{part}");
    }
    let missing: Vec<_> = found.iter().filter(|name| !reached(name)).collect();
    assert!(missing.is_empty(), "no entry of the catalogue makes {missing:?}");
}

/// Goal: no two entries have one name, and each can be made.
#[test]
fn names_are_unique_and_every_entry_can_be_made() {
    fn flows<R: FlowRecipe>(recipe: R) -> bool {
        let room = Room::of_flows(Arrays::<16>, 1_500).with_hosts(Arrays::<4>);
        recipe.flow_scheduler(room).is_some()
    }
    fn packets<R: Recipe>(recipe: R) -> bool {
        let room = Room::of_flows(Arrays::<16>, 1_500).with_hosts(Arrays::<4>);
        recipe.scheduler(room, Arrays::<16>, Limits::NONE).is_some()
    }
    macro_rules! entries {
        ([$of:ident] $($name:ident: $recipe:expr,)*) => {
            [$((stringify!($name), $of($recipe))),*]
        };
    }
    let lists = [
        &conformance::flow_schedulers!(entries, [flows])[..],
        &conformance::schedulers!(entries, [packets]),
        &conformance::compositions!(entries, [packets]),
    ];
    let entries = lists.concat();
    for (name, can_be_made) in &entries {
        assert!(can_be_made, "{name}");
    }
    let names: BTreeSet<_> = entries.iter().map(|entry| entry.0).collect();
    assert_eq!(names.len(), entries.len());
}

#[test]
fn implementors_are_found_in_any_form() {
    let text = "impl<O, N> FlowScheduler for Drr<N>\nwhere\n    N: Table<T>,\n{\n}\n\
                impl crate::Aqm for NoAqm {}\n// impl Aqm for Comment {}\n\
                impl<S: Scheduler + ?Sized> Scheduler for &mut S {}\n\
                impl<N: Table<A>, M: Table<B>> FlowScheduler\n    for Plus<N, M>\n{\n}\n\
                #[cfg(test)]\nmod tests {\nimpl Scheduler for InTests {}";
    assert_eq!(implementors(text), ["Drr", "NoAqm", "S", "Plus"]);
}
