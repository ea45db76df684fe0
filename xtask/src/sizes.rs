//! Compares the flash and RAM of each part of the library with the guide, or measures them for
//! other numbers of flows and packets.

use std::fs;

use crate::firmware::{CORTEX_M4, build, build_with, sizes};
use crate::progress::progress;
use crate::run::{BARE_METAL, root};

/// The page of the guide that records the sizes.
pub(crate) const PAGE: &str = "docs/guide/sizes.md";
/// First line of the table in [`PAGE`]; the table ends with an empty line.
const HEAD: &str = "| part | Cortex-M4 | Cortex-M0 | RISC-V | RAM | goal |\n";

/// A row of the table: name, features of `firmware/sizes`, and the goal for the code on a Cortex-M4
/// in bytes.
type Row = (&'static str, &'static str, Option<u64>);

const ROWS: [Row; 21] = [
    ("FIFO", "fifo", Some(1_500)),
    ("FIFO, shaper", "fifo-shaped", Some(3_000)),
    ("DRR", "drr", Some(3_000)),
    ("DRR, longest-queue drop", "drr-longest", Some(5_000)),
    ("SQF", "sqf", Some(4_000)),
    ("QFQ", "qfq", Some(8_000)),
    ("WF²Q+", "wf2q", Some(10_000)),
    ("parser, labels by SipHash", "labels", Some(6_000)),
    ("FQ-CoDel", "fq-codel", Some(12_000)),
    ("FQ-CoDel, shaper", "fq-codel-shaped", Some(14_000)),
    ("FQ-CoDel, shaper, longest-queue drop", "fq-codel-shaped-longest", Some(18_000)),
    ("`Isolated`", "isolated", Some(20_000)),
    ("`Isolated`, COBALT", "isolated-cobalt", Some(24_000)),
    ("`SmartQueue` by descriptor", "descriptors", Some(28_000)),
    ("`SmartQueue` with frames", "frames", Some(32_000)),
    ("with frames, `ack-filter`", "frames,ack-filter", None),
    ("with frames, `aqms`", "frames,aqms", None),
    ("with frames, `tins`", "frames,tins", None),
    ("with frames, all three", "frames,ack-filter,aqms,tins", None),
    ("with frames, all three, keywords", "keywords,ack-filter,aqms,tins", None),
    (
        "with frames, all three, keywords, autorate, statistics",
        "autorate,ack-filter,aqms,tins",
        Some(56_000),
    ),
];

/// What to measure; without arguments, all that the guide records.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Write the measured sizes to the guide
    #[arg(long, conflicts_with_all = ["flows", "packets", "hosts", "frame_len", "tins", "part", "target"])]
    renew: bool,
    /// Flows, 1 to 32768 [default: 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    flows: Option<u32>,
    /// Packets, and with frames their buffers, 1 to 65535 [default: 128]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    packets: Option<u32>,
    /// Hosts, 1 to 8192 [default: a quarter of the flows]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8_192))]
    hosts: Option<u32>,
    /// Longest frame in bytes, 64 to 16384 [default: 1514]
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=16_384))]
    frame_len: Option<u32>,
    /// Tins of the parts with `tins` [default: 4]
    #[arg(long, value_parser = ["4", "8"])]
    tins: Option<String>,
    /// Measure only this part, such as `frames` or `frames,tins` [default: all]
    #[arg(long, value_parser = ROWS.map(|(_, features, _)| features))]
    part: Option<String>,
    /// Build for this target [default: Cortex-M4]
    #[arg(long, value_parser = BARE_METAL)]
    target: Option<String>,
}

/// Renews the guide, compares all parts with it, or measures what is asked for.
pub(crate) fn run(asked: &Asked) -> Result<(), String> {
    match asked {
        Asked {
            flows: None,
            packets: None,
            hosts: None,
            frame_len: None,
            tins: None,
            part: None,
            target: None,
            renew,
        } => compare_all(*renew),
        _ => measure(asked),
    }
}

/// Returns the number of groups of 32 flows and 8 hosts.
fn groups(flows: u32, hosts: Option<u32>) -> u32 {
    flows.div_ceil(32).max(hosts.unwrap_or(0).div_ceil(8)).next_power_of_two()
}

/// Builds the parts with the numbers in `asked` and prints their sizes.
fn measure(asked: &Asked) -> Result<(), String> {
    let (flows, packets) = (asked.flows.unwrap_or(64), asked.packets.unwrap_or(128));
    let groups = groups(flows, asked.hosts);
    let len = asked.frame_len.unwrap_or(1_514);
    let target = asked.target.as_deref().unwrap_or(CORTEX_M4);
    let mut variables =
        vec![("SIZES_GROUPS", groups), ("SIZES_PACKETS", packets), ("SIZES_FRAME_LEN", len)];
    variables
        .extend(asked.tins.iter().flat_map(|tins| tins.parse()).map(|tins| ("SIZES_TINS", tins)));
    let variables = variables.into_iter().map(|(name, number)| (name, number.to_string()));
    let variables: Vec<_> = variables.collect();
    println!(
        "{} flows and {} hosts ({groups} groups of 32 and 8; expected: a power of two), \
         {packets} packets of up to {len} bytes, {target}\n\
         | part | code and constants | RAM |\n|---|--:|--:|",
        32 * groups,
        8 * groups,
    );
    // Not that of the guide's sizes, so that neither build discards the other.
    let into = root().join("target/sizes-firmware/asked");
    for (name, features, _) in ROWS {
        if asked.part.as_ref().is_none_or(|part| part == features) {
            let elf = build_with(&variables, "sizes", target, features, &into)?;
            let [code, ram] = sizes(&elf)?;
            println!("| {name} | {} | {} |", with_comma(code), with_comma(ram));
        }
    }
    Ok(())
}

/// Builds every row for every target and prints the table. Compares it with the guide, or writes it
/// there if `renew` is set.
pub(crate) fn compare_all(renew: bool) -> Result<(), String> {
    let guide = page(PAGE)?;
    let progress = progress((ROWS.len() * BARE_METAL.len()) as u64);
    let (mut table, mut wrong) = (HEAD.to_owned() + "|---|--:|--:|--:|--:|--:|\n", Vec::new());
    progress.suspend(|| print!("{table}"));
    let into = root().join("target/sizes-firmware");
    for (name, features, goal) in ROWS {
        let mut measured = Vec::new();
        let mut most_ram = 0;
        for target in BARE_METAL {
            let [code, ram] = sizes(&build("sizes", target, features, &into)?)?;
            measured.push((target, code));
            most_ram = most_ram.max(ram);
            progress.inc(1);
        }
        measured.push(("RAM", most_ram));
        wrong.extend(compare(&guide, name, &measured).err());
        let row = row(name, &measured, goal);
        progress.suspend(|| print!("{row}"));
        table += &row;
    }
    progress.finish_and_clear();
    if renew {
        let guide = renewed(&guide, &table).ok_or(format!("{PAGE}: expected {HEAD}"))?;
        return fs::write(root().join(PAGE), guide).map_err(|error| format!("{PAGE}: {error}"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n`cargo xtask sizes --renew` records the measured sizes", wrong.join("\n")))
}

/// Reads a page of the documents; the path is relative to the root.
pub(crate) fn page(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Returns a row of the table, with the first figure in bold if it exceeds the goal.
fn row(name: &str, measured: &[(&str, u64)], goal: Option<u64>) -> String {
    let mut cells: Vec<String> = measured.iter().map(|&(_, bytes)| with_comma(bytes)).collect();
    if let (Some((_, code)), Some(goal)) = (measured.first(), goal)
        && *code > goal
    {
        cells[0] = format!("**{}**", cells[0]);
    }
    cells.push(goal.map_or("–".into(), with_comma));
    format!("| {name} | {} |\n", cells.join(" | "))
}

pub(crate) fn with_comma(bytes: u64) -> String {
    match (bytes / 1_000, bytes % 1_000) {
        (0, bytes) => bytes.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

/// Returns the guide with its table replaced by `table`.
fn renewed(guide: &str, table: &str) -> Option<String> {
    let (before, old) = guide.split_once(HEAD)?;
    let (_, after) = old.split_once("\n\n")?;
    Some(format!("{before}{table}\n{after}"))
}

/// Fails unless each figure is within 2 % of the cell in the same column of `row`.
pub(crate) fn compare(guide: &str, row: &str, measured: &[(&str, u64)]) -> Result<(), String> {
    within(guide, row, measured, u64::abs_diff)
}

/// Fails if a figure is more than 2 % above the cell in the same column of `row`.
pub(crate) fn not_above(guide: &str, row: &str, measured: &[(&str, u64)]) -> Result<(), String> {
    within(guide, row, measured, u64::saturating_sub)
}

fn within(
    guide: &str,
    row: &str,
    measured: &[(&str, u64)],
    difference: fn(u64, u64) -> u64,
) -> Result<(), String> {
    let cells = guide.lines().find_map(|line| line.strip_prefix(&format!("| {row} | ")));
    let recorded: Vec<_> = cells.unwrap_or_default().split('|').map(bytes).collect();
    for (place, (figure, measured)) in measured.iter().enumerate() {
        let Some(recorded) = recorded.get(place).copied().flatten() else {
            return Err(format!("docs: {row}: no figure for {figure} (expected {measured})"));
        };
        if difference(*measured, recorded) * 50 > recorded {
            return Err(format!("docs: {row}: {figure}: {measured} (expected {recorded}, ± 2 %)"));
        }
    }
    Ok(())
}

/// Parses a cell of the guide: `53.7 kB`, `8,948` or `**8,948**`.
fn bytes(cell: &str) -> Option<u64> {
    let cell = cell.trim();
    match cell.strip_suffix(" kB") {
        Some(kilobytes) => {
            kilobytes.parse::<f64>().ok().map(|number| (number * 1_000.0).round() as u64)
        }
        None => cell.replace(['*', ','], "").parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the tables have as many flows and hosts as asked for, or the next larger number that
    /// is possible.
    #[test]
    fn flows_and_hosts_are_rounded_up_to_groups() {
        assert_eq!([1, 32, 33, 64, 65].map(|flows| groups(flows, None)), [1, 1, 2, 2, 4]);
        assert_eq!([1, 16, 17, 33].map(|hosts| groups(64, Some(hosts))), [2, 2, 4, 8]);
    }

    const ROW: [(&str, u64); 3] = [("M4", 3_284), ("M0", 950), ("RAM", 0)];

    /// Goal: a figure that is more than 2 % off is reported with its row, column and expected
    /// value.
    #[test]
    fn a_figure_that_is_off_is_named() {
        let guide =
            format!("{}| stack | 10.0 kB |\n| code | ten kB |\n", row("DRR", &ROW, Some(3_000)));
        compare(&guide, "DRR", &ROW).unwrap();
        compare(&guide, "DRR", &[("M4", 3_349), ("M0", 931)]).unwrap();
        for (figure, bytes) in [("M0", 970), ("M0", 930)] {
            let error = compare(&guide, "DRR", &[("M4", 3_284), (figure, bytes)]).unwrap_err();
            let named = format!("DRR: M0: {bytes} (expected 950, ± 2 %)");
            assert!(error.ends_with(&named), "{error}");
        }
        compare(&guide, "stack", &[("bytes", 10_200)]).unwrap();
        not_above(&guide, "DRR", &[("M4", 1), ("M0", 969)]).unwrap();
        not_above(&guide, "DRR", &[("M4", 1), ("M0", 970)]).unwrap_err();
        for (row, bytes) in [("stack", 10_201), ("stack", 9_799), ("code", 10_000), ("heap", 1)] {
            compare(&guide, row, &[("bytes", bytes)]).unwrap_err();
        }
    }

    /// Goal: the table that `--renew` writes passes the comparison, and the rest of the guide is
    /// unchanged.
    #[test]
    fn a_renewed_table_takes_the_place_of_the_old_one() {
        let old = format!("# Sizes\n\n{HEAD}|---|\n| FIFO | 1 |\n\nBeneath.\n\n| DRR | 1 |\n");
        let table = format!("{HEAD}|---|\n{}", row("DRR", &ROW, None));
        let new = renewed(&old, &table).unwrap();
        assert_eq!(new, format!("# Sizes\n\n{table}\nBeneath.\n\n| DRR | 1 |\n"));
        compare(&new, "DRR", &ROW).unwrap();
        assert_eq!(row("QFQ", &ROW, Some(3_283)), "| QFQ | **3,284** | 950 | 0 | 3,283 |\n");
    }
}
