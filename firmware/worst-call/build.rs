//! Passes the memory map of the emulated board and the linker script of its runtime to the linker.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let is_arm = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "arm");
    let map = if is_arm { "../mps2-an386/memory.x" } else { "riscv-virt.x" };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::copy(map, out.join("memory.x"))?;
    println!("cargo::rustc-link-search={}", out.display());
    if !is_arm {
        println!("cargo::rustc-link-arg=-Tmemory.x");
    }
    println!("cargo::rustc-link-arg=-Tlink.x");
    println!("cargo::rustc-link-arg=--nmagic");
    println!("cargo::rerun-if-changed={map}");
    Ok(())
}
