//! Build script of the programs for this board: passes a memory map and the linker script of
//! `cortex-m-rt` to the linker. The map is `memory.x` of the program, or else that of the board.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Paths relative to the folder of a program.
const MAPS: [&str; 2] = ["memory.x", "../mps2-an386/memory.x"];

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let map = MAPS.iter().find(|map| Path::new(map).exists()).ok_or(io::ErrorKind::NotFound)?;
    fs::copy(map, out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tlink.x");
    println!("cargo::rustc-link-arg=--nmagic");
    println!("cargo::rerun-if-changed={map}");
    Ok(())
}
