//! Runs every fuzz target for a given time, on nightly.

use core::time::Duration;
use std::process::Command;

use indicatif::HumanDuration;

use crate::run::{output, root, succeed};

pub(crate) fn run(seconds: u32) -> Result<(), String> {
    let fuzz = || {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz"]).current_dir(root());
        for (name, _) in std::env::vars() {
            if name.starts_with("CARGO") && name != "CARGO_HOME"
                || name.starts_with("RUSTUP_TOOLCHAIN")
            {
                command.env_remove(name);
            }
        }
        command
    };
    let targets = output("fuzz targets", fuzz().arg("list"))?;
    let count = targets.lines().count() as u64;
    for (done, target) in (0..).zip(targets.lines()) {
        // libFuzzer writes new inputs to the first folder only; the committed corpus is curated
        // manually.
        let found = root().join("fuzz/target/corpus").join(target);
        std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
        // The crates have no unsafe code, so a sanitizer finds nothing; without one, fuzzing is
        // three times as fast.
        let mut command = fuzz();
        command.args(["run", "--sanitizer", "none", target]).arg(found);
        command
            .arg(root().join("fuzz/corpus").join(target))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .args(["-max_len=4096", "-print_final_stats=1", "-verbosity=0"]);
        let left = Duration::from_secs((count - done) * u64::from(seconds));
        let step = format!("fuzz {target} for {seconds} s ({} left)", HumanDuration(left));
        succeed(&step, &mut command)?;
    }
    Ok(())
}
