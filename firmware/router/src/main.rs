//! A bridge between a LAN and a WAN network card with a smart queue in each direction, on QEMU's
//! RISC-V board `virt`, without an operating system or an allocator. `cargo xtask firmware-router`
//! builds and boots it.
//!
//! The card in virtio slot 0 is the LAN side, that in slot 1 the WAN side. The boot arguments
//! (QEMU's `-append`) have the settings of both queues, in the keywords of `tc` for CAKE: `upload
//! bandwidth 10mbit; download bandwidth 50mbit`. Anything typed at the serial port prints the
//! counters.
#![no_std]
#![no_main]

mod board;
mod device_tree;
mod port;

use core::cell::UnsafeCell;
use core::convert::Infallible;
use core::fmt::Write as _;

use board::Uart;
use device_tree::{property, text};
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{
    DeviceRoom, QueueSettings, SmartQueue, SmartQueueBuilder, StaticFrameQueue, StaticFrames,
};
use port::{MAX_FRAME, Passed, Port, PortMemory};
use virtio_drivers::Error;
use virtio_drivers::transport::{DeviceType, Transport as _};

/// 512 frames in each direction, 256 queues, 64 hosts, up to eight tins.
type Frames = StaticFrames<512, MAX_FRAME, 8, 8>;

/// All memory of the program, beside its stack and the rings of the cards.
struct Memory {
    ports: [PortMemory; 2],
    queues: [Frames; 2],
}

const UPLOAD: &str = "upload";
const DOWNLOAD: &str = "download";

struct MainOnly(UnsafeCell<Memory>);

// SAFETY: only `main` uses it, which runs on one processor; `riscv-rt` parks all others.
unsafe impl Sync for MainOnly {}

static MEMORY: MainOnly = MainOnly(UnsafeCell::new(Memory {
    ports: [PortMemory::EMPTY; 2],
    queues: [const { Frames::new() }; 2],
}));

#[riscv_rt::entry]
fn main(_processor: usize, tree: usize) -> ! {
    // SAFETY: `main` runs once, and nothing else uses `MEMORY`.
    let memory = unsafe { &mut *MEMORY.0.get() };
    // SAFETY: QEMU passes the address of the tree, and refuses to boot if that overlaps the
    // program's memory.
    let tree = unsafe { board::device_tree(tree) };
    let Err(error) = run(memory, tree);
    panic!("virtio: {error}");
}

fn run(memory: &'static mut Memory, tree: &[u8]) -> Result<Infallible, Error> {
    let Memory { ports: [lan_memory, wan_memory], queues: [up_memory, down_memory] } = memory;
    let random = property(tree, "rng-seed").unwrap_or_default();
    let &[up_key, down_key] = random.as_chunks().0 else {
        panic!("rng-seed: {} bytes in the device tree (expected 32)", random.len());
    };
    let words = text(property(tree, "bootargs").unwrap_or_default());
    let words =
        core::str::from_utf8(words).unwrap_or_else(|error| panic!("boot arguments: {error}"));
    let mut lan = port(0, lan_memory)?;
    let mut wan = port(1, wan_memory)?;
    let [of_up, of_down] = settings(words);
    let up = SmartQueue::upload(Rate::UNLIMITED).settings(&of_up);
    let down = SmartQueue::download(Rate::UNLIMITED).settings(&of_down);
    let up = &mut queue(UPLOAD, up, up_memory, up_key);
    let down = &mut queue(DOWNLOAD, down, down_memory, down_key);
    let (of_up, of_down) = (up.settings(), down.settings());
    let _ = writeln!(Uart, "upload: {of_up}\ndownload: {of_down}\npress Enter for counters");
    board::start();
    let mut is_typed = false;
    loop {
        receive(&mut lan, up)?;
        receive(&mut wan, down)?;
        let next = [send(up, &mut wan)?, send(down, &mut lan)?];
        if core::mem::take(&mut is_typed) || Uart::take_typed() {
            report(UPLOAD, up, lan.passed(), wan.passed());
            report(DOWNLOAD, down, wan.passed(), lan.passed());
        }
        if !lan.is_ready() && !wan.is_ready() {
            board::sleep_until(next.into_iter().flatten().min(), || {
                lan.acknowledge();
                wan.acknowledge();
                is_typed |= Uart::take_typed();
            });
        }
    }
}

/// Starts the network card in this virtio slot.
fn port(slot: usize, memory: &'static mut PortMemory) -> Result<Port, Error> {
    match board::virtio(slot) {
        Ok(card) if card.device_type() == DeviceType::Network => Port::new(card, memory),
        Ok(other) => {
            panic!("virtio slot {slot}: {:?} (expected a network card)", other.device_type())
        }
        Err(error) => panic!("virtio slot {slot}: {error} (expected a network card)"),
    }
}

/// Returns the settings of both directions in the boot arguments, each given once.
fn settings(words: &str) -> [QueueSettings; 2] {
    let mut found = [None; 2];
    for part in words.split(';').map(str::trim_ascii).filter(|part| !part.is_empty()) {
        let (direction, keywords) = part.split_once(' ').unwrap_or((part, ""));
        let place = match direction {
            UPLOAD => &mut found[0],
            DOWNLOAD => &mut found[1],
            _ => panic!("boot arguments: `{part}` (expected `upload ...; download ...`)"),
        };
        assert!(place.is_none(), "boot arguments: `{direction}` twice (expected once)");
        *place = Some(of_direction(direction, keywords));
    }
    let [up, down] = found;
    [(UPLOAD, up), (DOWNLOAD, down)].map(|(direction, settings)| {
        settings.unwrap_or_else(|| {
            panic!(
                "boot arguments `{words}`: no `{direction}` (expected `{direction} bandwidth 10mbit`)"
            )
        })
    })
}

/// Returns the settings of a direction.
fn of_direction(direction: &str, keywords: &str) -> QueueSettings {
    let settings = keywords.parse::<QueueSettings>();
    let settings = settings.unwrap_or_else(|error| panic!("{direction}: {error}"));
    assert!(settings.rate.is_some(), "{direction}: no rate (expected `bandwidth 10mbit`)");
    let without_effect = [
        ("nat", settings.nat == Some(true)),
        ("autorate-ingress", settings.autorate == Some(true)),
        ("fwmark", settings.fwmark.is_some()),
    ];
    for (word, is_set) in without_effect {
        assert!(!is_set, "{direction}: `{word}` is not supported by this program");
    }
    settings
}

/// Builds the queue of a direction.
fn queue<'a>(
    direction: &str,
    builder: SmartQueueBuilder,
    memory: &'a mut Frames,
    key: [u8; 16],
) -> StaticFrameQueue<'a> {
    builder.frames_in(memory, key).unwrap_or_else(|error| panic!("{direction}: {error}"))
}

/// Queues received frames, read from the card's buffers directly into those of the queue.
fn receive(from: &mut Port, queue: &mut StaticFrameQueue<'_>) -> Result<(), Error> {
    from.receive(|frame| {
        // A frame that cannot be queued is counted as rejected.
        let _ = queue.push_with(board::now(), frame.len(), |place| place.copy_from_slice(frame));
    })
}

/// Sends all frames that may leave now; returns when the next one may.
fn send(queue: &mut StaticFrameQueue<'_>, to: &mut Port) -> Result<Option<Nanos>, Error> {
    loop {
        let has_room = to.has_room()?;
        queue.set_device(if has_room { DeviceRoom::Ready } else { DeviceRoom::Busy });
        let now = board::now();
        let Some(frame) = queue.pop(now) else { return Ok(queue.poll_at(now)) };
        to.send(frame)?;
    }
}

/// Prints the counters of a direction: `received` and `sent` as its cards count them.
fn report(direction: &str, queue: &StaticFrameQueue<'_>, from: Passed, to: Passed) {
    let counters = queue.counters();
    let _ = writeln!(
        Uart,
        "{direction}: received {} sent {} dropped {} rejected {} queued {} marked {}",
        from.received,
        to.sent,
        counters.dropped_total().packets,
        counters.rejected.packets,
        queue.backlog().packets,
        counters.marked
    );
}
