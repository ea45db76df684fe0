//! Hands the memory map and the linker script of `cortex-m-rt` to the linker.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    // Kept below `ld/`: a `memory.x` beside Cargo.toml would be found before this one.
    fs::copy("ld/mps2-an386.x", out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tlink.x");
    println!("cargo::rustc-link-arg=--nmagic");
    println!("cargo::rerun-if-changed=ld");
    Ok(())
}
