//! Build script of the programs for this board: passes its memory map and the linker script of
//! `cortex-m-rt` to the linker.

use std::path::PathBuf;
use std::{env, fs, io};

/// Path relative to the folder of a program.
const BOARD: &str = "../mps2-an386";

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::copy(PathBuf::from(BOARD).join("memory.x"), out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tlink.x");
    println!("cargo::rustc-link-arg=--nmagic");
    println!("cargo::rerun-if-changed={BOARD}");
    Ok(())
}
