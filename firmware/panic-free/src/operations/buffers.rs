//! Numbered buffers, and the ring from an interrupt to them.

use core::hint::black_box;

use freeboard::Buffers;
use freeboard::sched_core::{DropReason, DropSink, Packet};
use heapless::spsc::{Consumer, Queue};

use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static BUFFERS: &[fn()] = sizes![buffers ring];

fn buffers<const N: usize>() {
    let mut buffers = Buffers::<N, 64>::new();
    let packet = Packet::new(any(), any());
    let buffers = &mut buffers;
    one_of!(buffers;
        buffers.store(black_box(&[0; 64][..]));
        buffers.fill(any() as usize, |bytes| bytes.fill(1));
        buffers.frame(any()).map(<[u8]>::len);
        buffers.frame_mut(any()).map(|frame| frame.len());
        buffers.give_back(any());
        buffers.dropped(packet, black_box(DropReason::Drained));
        buffers.free();
    );
}

fn ring<const N: usize>() {
    let mut ring = Queue::<heapless::Vec<u8, 64>, 5>::new();
    let (mut interrupt, mut received) = ring.split();
    if let Ok(frame) = heapless::Vec::from_slice(black_box(&[0; 64][..])) {
        seen(interrupt.enqueue(frame).is_ok());
    }
    store_received(&mut Buffers::<N, 64>::new(), black_box(&mut received));
}

/// Separate and not inlined, so that the compiler does not know the length of the ring.
#[inline(never)]
fn store_received<const N: usize>(
    buffers: &mut Buffers<N, 64>,
    received: &mut Consumer<'_, heapless::Vec<u8, 64>>,
) {
    seen(black_box(buffers).store_received(received));
}
