//! Numbered buffers: each is out once or free once.

use std::collections::BTreeMap;

use freeboard::Buffers;
use freeboard::sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};

/// Goal: numbers are unique among the taken, frames come back as stored, nothing is freed twice.
/// Method: 100,000 random stores and returns, also of numbers that are free or do not exist, against a
/// map.
#[test]
fn buffers_agree_with_a_map() {
    let mut buffers = Buffers::<7, 16>::new();
    let mut model: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut seed = 1_u32;
    for step in 0..100_000_u32 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = (seed >> 20) % 9;
        if seed >> 31 == 0 {
            let frame = vec![step as u8; (seed >> 8) as usize % 18];
            let stored = buffers.store(&frame);
            assert_eq!(stored.is_some(), frame.len() <= 16 && model.len() < 7);
            if let Some(handle) = stored {
                assert!(handle < 7 && model.insert(handle, frame).is_none(), "{handle} was taken");
            }
        } else {
            assert_eq!(buffers.give_back(number), model.remove(&number).is_some());
        }
        assert_eq!(buffers.free(), 7 - model.len());
        assert_eq!(buffers.frame(number), model.get(&number).map(Vec::as_slice));
        if let (Some(frame), Some(copy)) = (buffers.frame_mut(number), model.get_mut(&number)) {
            frame.fill(0xEE);
            copy.fill(0xEE);
        }
    }
}

#[test]
fn buffers_fit_into_a_static() {
    static BUFFERS: Buffers<2, 64> = Buffers::new();
    assert_eq!((BUFFERS.free(), BUFFERS.frame(0)), (2, None));
}

/// Goal: memory of a scheduler may be a `heapless::Vec`, whose length, not its capacity, is that of the table.
#[test]
fn a_heapless_vec_is_memory_for_a_scheduler() {
    let mut memory = heapless::Vec::<Descriptor, 8>::new();
    memory.resize(3, Descriptor::EMPTY).unwrap();
    let mut buffers = Buffers::<8, 64>::new();
    let mut fifo = Fifo::tail_drop(memory, Limits::packets(8));
    for length in 60..64 {
        let handle = buffers.store(&vec![1; length]).unwrap();
        let packet = Packet::new(handle, length as u32);
        let taken = fifo.enqueue(Nanos(0), FlowId(0), packet, &mut buffers);
        assert_eq!(taken.is_ok(), handle < 3, "{taken:?}");
        assert!(taken.is_ok() || buffers.give_back(handle));
    }
    assert_eq!((fifo.backlog().packets, buffers.free()), (3, 5));
    for length in 60..63 {
        let packet = fifo.dequeue(Nanos(0), &mut buffers).unwrap();
        assert_eq!(buffers.frame(packet.handle).map(<[u8]>::len), Some(length));
    }
}
