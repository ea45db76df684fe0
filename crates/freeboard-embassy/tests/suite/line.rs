//! A simulated device: a ring of slots for frames, in front of a link.

use core::cell::RefCell;
use core::task::{Context, Waker};
use std::collections::VecDeque;
use std::rc::Rc;

use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};
use freeboard::sched_core::Nanos;
use freeboard_embassy::now;

/// One direction of a link.
#[derive(Debug)]
struct Way {
    slots: usize,
    bits_per_second: u64,
    /// Propagation delay after the link.
    delay: Nanos,
    /// Frames in the ring and in transit, each with the time at which the link has sent it.
    frames: VecDeque<(Nanos, Vec<u8>)>,
    /// Number of frames passed to the link.
    carried: u64,
    /// The task that receives.
    reader: Option<Waker>,
}

/// An end of a link. A frame keeps its slot until the link has sent all of it.
#[derive(Clone, Debug)]
pub(crate) struct End {
    address: HardwareAddress,
    mtu: usize,
    out: Rc<RefCell<Way>>,
    back: Rc<RefCell<Way>>,
}

/// Wakes a task at `at`.
fn wake_at(at: Nanos, task: &Waker) {
    let ticks = at.0.div_ceil(1_000_000_000 / embassy_time_driver::TICK_HZ);
    embassy_time_driver::schedule_wake(ticks, task);
}

impl End {
    /// Creates both ends of a link with this ring and rate in one direction, and a fast one back.
    pub(crate) fn pair(
        addresses: [HardwareAddress; 2],
        (slots, bits_per_second): (usize, u64),
        delay: Nanos,
    ) -> [Self; 2] {
        let way = |slots, bits_per_second| {
            let (frames, carried, reader) = (VecDeque::new(), 0, None);
            Rc::new(RefCell::new(Way { slots, bits_per_second, delay, frames, carried, reader }))
        };
        let (up, down) = (way(slots, bits_per_second), way(1_000, 100_000_000));
        let mtu = if addresses[0] == HardwareAddress::Ip { 1_500 } else { 1_514 };
        [(addresses[0], &up, &down), (addresses[1], &down, &up)].map(|(address, out, back)| Self {
            address,
            mtu,
            out: Rc::clone(out),
            back: Rc::clone(back),
        })
    }

    /// Returns the number of frames that this end has sent.
    pub(crate) fn carried(&self) -> u64 {
        self.out.borrow().carried
    }

    /// Sets the longest frame in bytes.
    pub(crate) fn with_mtu(self, mtu: usize) -> Self {
        Self { mtu, ..self }
    }
}

impl Driver for End {
    type RxToken<'a> = Received;
    type TxToken<'a> = Slot<'a>;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Received, Slot<'_>)> {
        let mut back = self.back.borrow_mut();
        back.reader = Some(cx.waker().clone());
        let arrives = back.frames.front()?.0.plus(back.delay);
        if arrives > now() {
            wake_at(arrives, cx.waker());
            return None;
        }
        let (_, frame) = back.frames.pop_front()?;
        drop(back);
        Some((Received(frame), Slot(self)))
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Option<Slot<'_>> {
        let out = self.out.borrow();
        let mut taken = out.frames.iter().map(|&(sent, _)| sent).filter(|&sent| sent > now());
        if taken.clone().count() < out.slots {
            drop(out);
            return Some(Slot(self));
        }
        wake_at(taken.next()?, cx.waker());
        None
    }

    fn link_state(&mut self, _: &mut Context<'_>) -> LinkState {
        LinkState::Up
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = self.mtu;
        capabilities.max_burst_size = Some(45);
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        self.address
    }
}

pub(crate) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, read: F) -> R {
        read(&mut self.0)
    }
}

pub(crate) struct Slot<'a>(&'a mut End);

impl TxToken for Slot<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        assert!(len <= self.0.mtu, "{len} bytes");
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        let out = &mut *self.0.out.borrow_mut();
        let begin = out.frames.back().map_or(now(), |&(sent, _)| sent.max(now()));
        let time = Nanos((len as u64 * 8_000_000_000).div_ceil(out.bits_per_second));
        let sent = begin.plus(time);
        out.frames.push_back((sent, frame));
        out.carried += 1;
        if let Some(reader) = &out.reader {
            wake_at(sent.plus(out.delay), reader);
        }
        result
    }
}
