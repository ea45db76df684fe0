//! Numbered buffers: each is either in use or free, exactly once.

use std::collections::BTreeMap;

use freeboard::Buffers;
use freeboard::sched_core::{Descriptor, Fifo, FlowId, Limits, Nanos, Packet, Scheduler};

/// Goal: the numbers in use are unique, frames are returned as stored, and nothing is freed twice.
/// Method: 100,000 random stores and releases, also of numbers that are free or do not exist,
/// compared with a map.
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

/// Goal: a `heapless::Vec` can be the memory of a scheduler; the length of the table is its length,
/// not its capacity.
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

/// Goal: no frame between an interrupt and the main loop is lost or changed, none overtakes
/// another, and a frame without a free buffer stays in the ring. Method: the interrupt is a thread
/// that sends 20,000 numbered frames and retries while the ring is full; the main loop holds its
/// buffers for a while.
#[test]
fn frames_of_an_interrupt_arrive_whole_and_in_order() {
    use heapless::spsc::Queue;
    const FRAMES: u32 = 20_000;
    let mut ring = Queue::<heapless::Vec<u8, 64>, 4>::new();
    let (mut interrupt, mut received) = ring.split();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..FRAMES {
                let bytes = [number.to_le_bytes(); 8].concat();
                let mut frame = heapless::Vec::from_slice(&bytes).unwrap();
                while let Err(refused) = interrupt.enqueue(frame) {
                    frame = refused;
                    std::thread::yield_now();
                }
            }
        });
        let mut buffers = Buffers::<3, 64>::new();
        let mut held = std::collections::VecDeque::new();
        let mut expected = 0;
        while expected < FRAMES {
            while let Some(handle) = buffers.store_received(&mut received) {
                held.push_back(handle);
            }
            if held.len() == 3 && received.peek().is_some() {
                assert_eq!(buffers.store_received(&mut received), None);
            }
            if let Some(handle) = held.pop_front() {
                let bytes = [expected.to_le_bytes(); 8].concat();
                assert_eq!(buffers.frame(handle), Some(&bytes[..]));
                assert!(buffers.give_back(handle));
                expected += 1;
            } else {
                std::thread::yield_now();
            }
        }
        assert!(received.peek().is_none());
    });
}
