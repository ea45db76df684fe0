//! Checks the library for C: its header, its files for CMake and pkg-config, and its examples.
//!
//! The header is written by cbindgen from the sources. The examples are built in C11 and C++17 with
//! all warnings as errors, by CMake and by pkg-config, with the static and the shared library. Each
//! program runs under valgrind, and with the address and undefined-behaviour sanitizers. A program
//! fails if one of its own expectations does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::publish::skip;
use crate::run::{cargo, has, output, root, started_from, succeed};
use crate::tools::{Tool, need};

const CRATE: &str = "crates/freeboard-c";
const HEADER: &str = "include/freeboard.h";
/// The parts of the queue that the library has.
const FEATURES: &str = "ack-filter,aqms,tins";
/// The examples, and the compiler and standard of each.
const EXAMPLES: [(&str, &str, &str); 3] = [
    ("driver_queue.c", "cc", "-std=c11"),
    ("burst_loop.c", "cc", "-std=c11"),
    ("dead_child.cpp", "c++", "-std=c++17"),
];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];
const SANITIZERS: &str = "-g -fsanitize=address,undefined -fno-sanitize-recover=all";
const TOOLS: [Tool; 5] = [
    ("cc", &["gcc"]),
    ("c++", &["g++"]),
    ("cmake", &["cmake"]),
    ("pkg-config", &["pkg-config"]),
    ("valgrind", &["valgrind"]),
];

/// Runs all checks. With `renew`, writes the header first.
pub(crate) fn run(renew: bool) -> Result<(), String> {
    need(&TOOLS)?;
    header(renew)?;
    let prefix = installed()?;
    with_cmake(&prefix)?;
    with_pkg_config(&prefix)
}

/// Runs all checks where their tools are installed.
pub(crate) fn check() -> Result<(), String> {
    if let Some((tool, packages)) = TOOLS.into_iter().find(|(tool, _)| !has(tool)) {
        let package = packages.join(" ");
        return skip("examples in C and C++", tool, &format!("apt-get install {package}"));
    }
    run(false)
}

/// Returns the command that builds the library of this type.
pub(crate) fn library(kind: &str) -> Command {
    let mut build = cargo(".");
    build.args(["rustc", "--quiet", "--package", "freeboard-c", "--lib", "--profile", "c"]);
    build.args(["--crate-type", kind, "--no-default-features", "--features", FEATURES]);
    build
}

/// Compares the header with the sources, or writes it.
fn header(renew: bool) -> Result<(), String> {
    let step = "header for C against the sources";
    if !has("cbindgen") {
        return skip(step, "cbindgen", "cargo install --locked cbindgen");
    }
    eprintln!("xtask: {step}");
    let mut list = started_from(CRATE, "cbindgen");
    let written = output("cbindgen", list.args(["--quiet", "--config", "cbindgen.toml"]))?;
    let written = without_safety(&written);
    let file = root().join(CRATE).join(HEADER);
    if renew {
        return fs::write(&file, written).map_err(|error| format!("{}: {error}", file.display()));
    }
    if fs::read_to_string(&file).is_ok_and(|header| header == written) {
        return Ok(());
    }
    Err(format!("{CRATE}/{HEADER} is not current: run `cargo xtask c --renew`"))
}

/// Removes the sections `# Safety` from the comments of a header: they are for callers in Rust.
fn without_safety(header: &str) -> String {
    let (mut lines, mut is_left_out) = (Vec::new(), false);
    for line in header.lines() {
        let comment = line.strip_prefix("//");
        is_left_out = comment.is_some_and(|text| is_left_out || text.trim() == "# Safety");
        if is_left_out {
            // The empty line before the section, too.
            if comment.is_some_and(|text| text.trim() == "# Safety") {
                lines.pop_if(|before: &mut &str| before.trim() == "//");
            }
            continue;
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

/// Builds the libraries and puts them with the header and the files for CMake and pkg-config where
/// an installation has them; returns that folder.
pub(crate) fn installed() -> Result<PathBuf, String> {
    let (target, source) = (root().join("target/c"), root().join(CRATE));
    for kind in ["staticlib", "cdylib"] {
        let mut build = library(kind);
        succeed(&format!("{kind} for C"), build.arg("--target-dir").arg(&target))?;
    }
    let prefix = target.join("prefix");
    let files = [
        (source.join(HEADER), HEADER),
        (target.join("c/libfreeboard_c.a"), "lib/libfreeboard_c.a"),
        (target.join("c/libfreeboard_c.so"), "lib/libfreeboard_c.so"),
        (source.join("freeboard.pc"), "lib/pkgconfig/freeboard.pc"),
        (source.join("cmake/freeboard-config.cmake"), "lib/cmake/freeboard/freeboard-config.cmake"),
    ];
    for (from, to) in files {
        let to = prefix.join(to);
        let copied =
            fs::create_dir_all(to.parent().unwrap_or(&to)).and_then(|()| fs::copy(&from, &to));
        copied.map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
    }
    Ok(prefix)
}

/// Builds the examples by their `CMakeLists.txt`, without and with sanitizers, and runs them.
fn with_cmake(prefix: &Path) -> Result<(), String> {
    for (name, flags) in [("valgrind", ""), ("sanitizers", SANITIZERS)] {
        let build = root().join("target/c").join(name);
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(root().join(CRATE).join("examples")).arg("-B").arg(&build);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        configure.arg(format!("-DCMAKE_C_FLAGS={} {flags}", WARNINGS.join(" ")));
        configure.arg(format!("-DCMAKE_CXX_FLAGS={} {flags}", WARNINGS.join(" ")));
        output(&format!("{name}: configuration"), &mut configure)?;
        output(name, Command::new("cmake").arg("--build").arg(&build))?;
        for (example, ..) in EXAMPLES {
            for linked in ["static", "shared"] {
                let program = build.join(format!("{}_{linked}", stem(example)));
                let step = format!("{example}, {linked}, {name}");
                match flags {
                    "" => under_valgrind(&step, &program, prefix)?,
                    _ => succeed_alone(&step, &mut Command::new(program))?,
                }
            }
        }
    }
    Ok(())
}

/// Builds the examples by the flags that pkg-config prints, and runs them.
fn with_pkg_config(prefix: &Path) -> Result<(), String> {
    let folder = root().join("target/c/pkg-config");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (example, compiler, standard) in EXAMPLES {
        let mut ask = Command::new("pkg-config");
        ask.args(["--cflags", "--libs", "freeboard"]);
        let flags = output("pkg-config", ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))?;
        let program = folder.join(stem(example));
        let mut compile = Command::new(compiler);
        compile.arg(standard).args(WARNINGS).arg("-g");
        compile.arg(root().join(CRATE).join("examples").join(example));
        compile.args(flags.split_whitespace()).arg("-o").arg(&program);
        output(&format!("{example} with pkg-config"), &mut compile)?;
        under_valgrind(&format!("{example}, pkg-config, valgrind"), &program, prefix)?;
    }
    Ok(())
}

/// Runs a program under valgrind, which fails on any finding.
fn under_valgrind(step: &str, program: &Path, prefix: &Path) -> Result<(), String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"]);
    valgrind.arg("--errors-for-leak-kinds=all").arg(program);
    valgrind.env("LD_LIBRARY_PATH", prefix.join("lib"));
    succeed_alone(step, &mut valgrind)
}

/// Runs a program, which has to succeed and to write nothing to its standard error.
fn succeed_alone(step: &str, program: &mut Command) -> Result<(), String> {
    let run = program.output().map_err(|error| format!("{step}: {error}"))?;
    let (text, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    if !run.status.success() || !errors.is_empty() {
        return Err(format!("{step}: {}\n{text}{errors}", run.status));
    }
    eprint!("xtask: {step}: {text}");
    Ok(())
}

/// Returns the name of an example without its extension.
fn stem(example: &str) -> &str {
    example.split('.').next().unwrap_or(example)
}

#[cfg(test)]
mod tests {
    use super::without_safety;

    /// Goal: only the sections for Rust are removed. Method: a header with one in the middle of
    /// comments and code.
    #[test]
    fn sections_for_rust_are_removed() {
        let header = "// Adds.\n//\n// # Safety\n// `a` is valid.\nint add(int a);\n// Two.\n//\n// More.\nint two;\n";
        let left = "// Adds.\nint add(int a);\n// Two.\n//\n// More.\nint two;\n";
        assert_eq!(without_safety(header), left);
    }
}
