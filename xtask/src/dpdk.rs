//! Builds the DPDK program in `benches/dpdk` with the C library, and runs it.
//!
//! As root, the program also sends frames through the kernel, between two connected interfaces in a
//! network namespace of its own.

use std::path::PathBuf;
use std::process::Command;

use crate::c;
use crate::publish::skip;
use crate::run::{has, root, succeed};
use crate::tools::{is_root, need_packages};

/// What the program needs to build and run, as packages of Debian.
const PACKAGES: [&str; 8] =
    ["dpdk-dev", "pkg-config", "gcc", "libc6-dev", "cmake", "make", "iproute2", "util-linux"];

/// Creates two connected interfaces in a new network namespace, then runs the program.
const IN_NAMESPACE: &str = "ip link add veth0 type veth peer name veth1 && ip link set veth0 up && \
                            ip link set veth1 up && exec \"$@\" --wire veth0 veth1";

/// Arguments of `cargo xtask dpdk`.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Check function in seconds, with runs too short to measure
    #[arg(long)]
    quick: bool,
    /// Build with AddressSanitizer and UndefinedBehaviorSanitizer
    #[arg(long)]
    sanitize: bool,
}

pub(crate) fn run(asked: &Asked) -> Result<(), String> {
    if !is_installed() {
        need_packages("DPDK, a C compiler or CMake", &PACKAGES)?;
    }
    let program = build(asked.sanitize)?;
    let quick: &[&str] = if asked.quick { &["--quick"] } else { &[] };
    let mut command = if can_create_namespaces() {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "sh", "-c", IN_NAMESPACE, "sh"]).arg(&program);
        unshare
    } else {
        skip("frames through the kernel", "namespaces", "ip link add, as root")?;
        Command::new(&program)
    };
    succeed("scheduler of a DPDK program", command.args(quick))
}

/// Checks the function of the program, with sanitizers, where DPDK is installed.
pub(crate) fn check() -> Result<(), String> {
    if !is_installed() {
        let install = format!("apt-get install {}", PACKAGES.join(" "));
        return skip("scheduler of a DPDK program", "dpdk", &install);
    }
    run(&Asked { quick: true, sanitize: true })
}

fn is_installed() -> bool {
    let finds = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    finds.is_ok_and(|status| status.success()) && ["cc", "cmake", "make"].into_iter().all(has)
}

fn can_create_namespaces() -> bool {
    let creates = Command::new("unshare").args(["--net", "ip", "link"]).output();
    is_root() && creates.is_ok_and(|run| run.status.success())
}

/// Builds the C library and the program, and returns the path of the program.
fn build(sanitize: bool) -> Result<PathBuf, String> {
    let library = c::installed()?;
    let folder = root().join(if sanitize { "target/dpdk-sanitize" } else { "target/dpdk" });
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("benches/dpdk")).arg("-B").arg(&folder);
    configure.args(["-G", "Unix Makefiles", "--log-level=WARNING"]);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", library.display()));
    configure.arg(format!("-DSANITIZE={}", if sanitize { "ON" } else { "OFF" }));
    succeed("DPDK program: configuration", &mut configure)?;
    succeed("DPDK program", Command::new("cmake").arg("--build").arg(&folder))?;
    Ok(folder.join("freeboard-dpdk"))
}
