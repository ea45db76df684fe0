//! Offloads and features of network cards, by requests of `ethtool`.

use std::io;
use std::os::fd::AsRawFd as _;

use super::{checked, question, request};

/// Sends a request to the interface's driver; `value` is a structure that begins with an ethtool
/// command.
fn ask<T>(name: &str, value: &mut T) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = core::ptr::from_mut(value).cast();
    let socket = question()?;
    // SAFETY: `value` outlives the call and is as long as its command requires, which the callers
    // below ensure.
    checked(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &mut request)
    })?;
    Ok(())
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rest: [u8; 32 + 12 + 5 * 4],
}

/// Returns true if the interface is a TAP device according to its driver.
pub(crate) fn is_tap(name: &str) -> bool {
    const GET_DRIVER_INFO: u32 = 3;
    let empty = [0; 32];
    let mut info = DriverInfo {
        command: GET_DRIVER_INFO,
        driver: empty,
        version: empty,
        firmware: empty,
        bus: empty,
        rest: [0; 64],
    };
    ask(name, &mut info).is_ok()
        && info.driver.starts_with(b"tun\0")
        && info.bus.starts_with(b"tap\0")
}

/// Returns the offloads, named as in `ethtool -K`, with which the interface coalesces received
/// packets.
pub(crate) fn merging(name: &str) -> Vec<&'static str> {
    const GET_FLAGS: u32 = 0x25;
    const GET_GRO: u32 = 0x2b;
    const FLAG_LRO: u32 = 1 << 15;
    let ask = |command| {
        let mut value = EthtoolValue { command, data: 0 };
        // A driver that does not know the command does not coalesce.
        ask(name, &mut value).map_or(0, |()| value.data)
    };
    let mut words = Vec::new();
    if ask(GET_GRO) != 0 {
        words.push("gro");
    }
    if ask(GET_FLAGS) & FLAG_LRO != 0 {
        words.push("lro");
    }
    let by_card = "rx-gro-hw";
    if active(name).is_some_and(|active| active.iter().any(|name| name == by_card)) {
        words.push(by_card);
    }
    words
}

/// Maximum number of features read: a kernel has 64, in blocks of 32.
const FEATURES: usize = 256;

/// `struct ethtool_sset_info` for one set.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    count: u32,
}

/// `struct ethtool_gstrings`.
#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; 32]; FEATURES],
}

/// `struct ethtool_gfeatures`; the words of a block are available, requested, active and never
/// changed.
#[repr(C)]
struct Features {
    command: u32,
    blocks: u32,
    features: [[u32; 4]; FEATURES / 32],
}

/// Returns the names of active features as shown by `ethtool -k`; `None` if they cannot be read.
pub(super) fn active(name: &str) -> Option<Vec<String>> {
    const GET_SET_INFO: u32 = 0x37;
    const GET_STRINGS: u32 = 0x1b;
    const GET_FEATURES: u32 = 0x3a;
    const NAMES_OF_FEATURES: u32 = 4;
    let mask = 1 << NAMES_OF_FEATURES;
    let mut info = SetInfo { command: GET_SET_INFO, reserved: 0, mask, count: 0 };
    ask(name, &mut info).ok()?;
    // The kernel writes all names, regardless of the buffer's size.
    if info.mask != mask || info.count as usize > FEATURES {
        return None;
    }
    let names = [[0; 32]; FEATURES];
    let mut strings = Strings { command: GET_STRINGS, set: NAMES_OF_FEATURES, count: 0, names };
    ask(name, &mut strings).ok()?;
    let blocks = (FEATURES / 32) as u32;
    let features = [[0; 4]; FEATURES / 32];
    let mut features = Features { command: GET_FEATURES, blocks, features };
    ask(name, &mut features).ok()?;
    let is_active = |at: usize| {
        let block = features.features.get(at / 32);
        block.is_some_and(|[_, _, active, _]| active >> (at % 32) & 1 == 1)
    };
    let text = |name: &[u8; 32]| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let named = strings.names.iter().take(strings.count as usize).enumerate();
    Some(named.filter(|(at, _)| is_active(*at)).map(|(_, name)| text(name)).collect())
}
