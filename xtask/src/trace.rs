//! Checks that the same operations produce the same trace on a Cortex-M4 and on this machine.

use crate::firmware::cortex_m;
use crate::run::{cargo, output};

pub(crate) fn run() -> Result<(), String> {
    let mut host = cargo(".");
    host.args(["run", "--quiet", "--release", "--package", "golden"]);
    let here = output("trace on this machine", &mut host)?;
    let (_, Some(there)) = cortex_m("trace", "")? else {
        eprintln!("xtask: traces not compared: qemu-system-arm is missing");
        return Ok(());
    };
    if here != there {
        return Err(format!("traces differ\nhere:\n{here}\non the Cortex-M4:\n{there}"));
    }
    eprintln!("xtask: {} traces agree with a Cortex-M4", here.lines().count());
    Ok(())
}
