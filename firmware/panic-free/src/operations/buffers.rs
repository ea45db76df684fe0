//! Numbered buffers.

use core::hint::black_box;

use freeboard::Buffers;
use freeboard::sched_core::{DropReason, DropSink, Packet};

use super::{any, one_of, sizes};

#[unsafe(no_mangle)]
static BUFFERS: &[fn()] = sizes![buffers];

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
