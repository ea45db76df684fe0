//! The catalogue lists every discipline in the library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::catalog::{Arrays, Queued, QueuesRecipe, Recipe, Room, WithoutAqm};
use freeboard::sched_core::Limits;

const CRATES: [&str; 3] = ["src", "crates/sched-core/src", "crates/shaper/src"];
const TRAITS: [&str; 6] =
    ["FlowScheduler", "DropPolicy", "FlowDirectory", "Scheduler", "Aqm", "LabelledScheduler"];

/// Parts that callers do not name, or that are missing from type names because they are default
/// type parameters; with the type that contains them and the file that shows it.
const INSIDE: [(&str, &str, &str); 6] = [
    ("OwnVictim", "FlowQueues", "crates/sched-core/src/queues/flow_queues.rs"),
    ("NoDirectory", "FlowQueues", "crates/sched-core/src/queues/flow_queues.rs"),
    ("HashDirectory", "Hashed", "src/hashed.rs"),
    ("LongestHostDrop", "Isolated", "src/isolation/queue.rs"),
    ("Serving", "Isolated", "src/isolation/queue.rs"),
    ("Directory", "Isolated", "src/isolation/queue.rs"),
];

/// Strips the arguments of a trait: `impl<L> Directory<O>` becomes `impl<L> Directory`.
fn without_arguments(header: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in header.char_indices().rev() {
        match letter {
            '>' => depth += 1,
            '<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if letter == '<' { &header[..at] } else { header };
        }
    }
    header
}

/// Returns the types in a file that implement one of the traits: the word after `for` in `impl<…>
/// Trait for Type`.
fn implementors(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines: Vec<&str> =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let words = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    // A macro of the library generates some implementations.
    let by_macro =
        words.match_indices("signals_arrivals!(").map(|(at, of)| &words[at + of.len()..]);
    found.extend(by_macro.map(name));
    for (at, _) in words.match_indices("impl") {
        let header = words[at..].split(['{', ';']).next().unwrap_or_default();
        let header = header.split(" where ").next().unwrap_or_default();
        let Some((before, after)) = header.split_once(" for ") else { continue };
        let of_trait = without_arguments(before).rsplit([' ', ':', '>']).next().unwrap_or_default();
        if TRAITS.contains(&of_trait) && !after.starts_with('$') {
            found.push(name(after.trim_start_matches(['&', '(']).trim_start_matches("mut ")));
        }
    }
    found
}

/// Calls `each` with every source file below the folder, except tests.
fn each_source(folder: &Path, each: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.contains("tests") {
            continue;
        }
        if path.is_dir() {
            each_source(&path, each);
        } else if name.ends_with(".rs") {
            each(&fs::read_to_string(&path).unwrap());
        }
    }
}

fn of_flows<R: QueuesRecipe>(recipe: R) -> &'static str {
    of_packets(Queued { of: recipe, aqm: WithoutAqm })
}

fn of_packets<R: Recipe>(_: R) -> &'static str {
    core::any::type_name::<R::Output<Arrays<4>, Arrays<4>>>()
}

/// Returns the full names of the types that the entries build.
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

/// Goal: a discipline without an entry is reported. Method: every type in the library's sources
/// that implements one of the traits must be in the names of the types that the entries build,
/// except for parts of others (`INSIDE`). Implementations for type parameters, references and boxes
/// forward to a type that is checked itself.
#[test]
fn every_implementor_in_the_sources_is_made_by_an_entry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeSet::new();
    for folder in CRATES {
        each_source(&root.join(folder), &mut |text| found.extend(implementors(text)));
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

/// Goal: the names of entries are unique, and each entry can be built.
#[test]
fn names_are_unique_and_every_entry_can_be_made() {
    fn flows<R: QueuesRecipe>(recipe: R) -> bool {
        packets(Queued { of: recipe, aqm: WithoutAqm })
    }
    fn packets<R: Recipe>(recipe: R) -> bool {
        let room = Room::of_flows(Arrays::<16>, 1_500);
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

/// The methods of `Scheduler` with a default body, in the order of [`PACKET_BY_PACKET`].
const PROVIDED: [&str; 2] = ["enqueue_burst", "dequeue_burst"];

/// Schedulers that process the packets of a burst one by one, as in the default body.
const PACKET_BY_PACKET: [(&str, [bool; 2]); 3] = [
    // The class of each packet is looked up separately, and its flow scheduler is informed of
    // each.
    ("Classes", [true, true]),
    // Two queues: the next one is known only after the previous packet has left.
    ("DualPi2", [true, true]),
    // One queue: there is nothing to prefetch.
    ("Fifo", [true, true]),
];

/// Adds each implementor of `Scheduler` in the text, with the provided methods that it lacks.
fn lacking(text: &str, found: &mut BTreeSet<(String, [bool; 2])>) {
    for block in text.split("\nimpl").skip(1) {
        let block = block.split("\n}").next().unwrap_or_default();
        let header = block.split('{').next().unwrap_or_default();
        let words = header.split_whitespace().collect::<Vec<_>>().join(" ");
        if !words.starts_with("Scheduler for ") && !words.contains(" Scheduler for ") {
            continue;
        }
        for name in implementors(&format!("impl{header}{{")) {
            let forwards = block.contains("forward_to_scheduler!(");
            let lacks = PROVIDED.map(|method| {
                let is_forwarded = forwards && method == "dequeue_burst";
                !is_forwarded && !block.contains(&format!("fn {method}("))
            });
            if lacks.contains(&true) {
                found.insert((name, lacks));
            }
        }
    }
}

/// Goal: a wrapper of a scheduler forwards bursts, so that the inner one can prefetch memory. (The
/// other methods have no default body, so a missing one does not compile.) Method: the
/// implementations in the library's sources without a burst method are those listed, with the
/// reason.
#[test]
fn no_scheduler_around_another_forgets_a_burst() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeSet::new();
    for folder in CRATES {
        each_source(&root.join(folder), &mut |text| lacking(text, &mut found));
    }
    let listed = PACKET_BY_PACKET.map(|(name, lacks)| (name.to_owned(), lacks));
    assert_eq!(found, BTreeSet::from(listed));
}

#[test]
fn implementors_are_found_in_any_form() {
    let text = "impl<O, N> FlowScheduler for Drr<N>\nwhere\n    N: Table<T>,\n{\n}\n\
                impl crate::Aqm for NoAqm {}\n// impl Aqm for Comment {}\n\
                impl<S: Scheduler + ?Sized> Scheduler for &mut S {}\n\
                impl<N: Table<A>, M: Table<B>> FlowScheduler\n    for Plus<N, M>\n{\n}\n\
                impl<O: FlowScheduler, L: Table<T>> crate::DropPolicy<O> for Longest<L> {}\n\
                impl<T> Aqm for $aqm<T> {}\nsignals_arrivals!(Red<RedState>);\n\
                #[cfg(test)]\nmod tests {\nimpl Scheduler for InTests {}";
    assert_eq!(implementors(text), ["Red", "Drr", "NoAqm", "S", "Plus", "Longest"]);
}
