//! The driver without a stack: what a token does after which the driver is not called again.

use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Waker};
use std::sync::Arc;
use std::task::Wake;

use embassy_net_driver::{Driver, HardwareAddress, RxToken as _, TxToken as _};
use embassy_time::{Duration, MockDriver};
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{PushError, SmartQueue};
use freeboard_embassy::{ShapedDriver, SharedQueue};

use crate::line::End;
use crate::world::World;

#[derive(Debug, Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    /// Returns true if the task was woken since the last call.
    fn take(&self) -> bool {
        self.0.swap(0, Ordering::Relaxed) > 0
    }
}

fn packet() -> [u8; 1_000] {
    let mut packet = [0; 1_000];
    packet[..10].copy_from_slice(&[0x45, 0, 3, 0xe8, 0, 0, 0, 0, 64, 17]);
    packet
}

fn advance(micros: u64) {
    MockDriver::get().advance(Duration::from_micros(micros));
}

/// Goal: whoever consumes the last token need not call the driver again: the task is woken when the
/// frame may leave, not before, and not again. Method: tokens of `transmit` and of `receive` on an
/// idle and on a busy link; at 100 kbit/s a packet of 1,000 bytes takes 80 ms. A stack may call
/// `receive` once more by itself, so this test is without one.
#[test]
fn the_last_token_wakes_the_task() {
    let _clock = World::new();
    let [near, mut far] = End::pair([HardwareAddress::Ip; 2], (8, 100_000_000), Nanos::ZERO);
    let rate = Rate::kilobits_per_second(100).expect("in range");
    let queue = SmartQueue::upload(rate).raw_ip().max_len(2_000).frames([42; 16]).expect("a queue");
    let queue = SharedQueue::new(queue);
    let mut driver = ShapedDriver::new(near.clone(), &queue).expect("they fit");
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let cx = &mut Context::from_waker(&waker);

    assert!(driver.receive(cx).is_none() && !wakes.take());
    let token = driver.transmit(cx).expect("always");
    token.consume(1_000, |place| place.copy_from_slice(&packet()));
    assert!(wakes.take(), "the link is idle: the frame may leave now");
    assert!(driver.receive(cx).is_none());
    assert_eq!((near.carried(), wakes.take()), (1, false));

    let token = driver.transmit(cx).expect("always");
    token.consume(1_000, |place| place.copy_from_slice(&packet()));
    assert!(!wakes.take(), "the link is busy");
    advance(79_999);
    assert!(!wakes.take());
    advance(1);
    assert!(wakes.take());

    // The frame leaves; a response is the next.
    let token = far.transmit(cx).expect("a free slot");
    token.consume(1_000, |place| place.copy_from_slice(&packet()));
    advance(100);
    wakes.take();
    let (received, response) = driver.receive(cx).expect("it has arrived");
    assert_eq!((near.carried(), wakes.take()), (2, false));
    let frame = received.consume(|frame| frame.to_vec());
    assert!(frame == packet());
    response.consume(1_000, |place| place.copy_from_slice(&frame));
    assert!(!wakes.take(), "the link is busy");
    advance(79_899);
    assert!(!wakes.take());
    advance(1);
    assert!(wakes.take());
    assert!(driver.receive(cx).is_none());
    assert_eq!(near.carried(), 3);
    advance(1_000_000);
    assert!(!wakes.take(), "nothing is queued");

    // Another task: with nothing else to do, the task of the stack is woken at once.
    queue.forward(&packet()).expect("there is room");
    assert!(wakes.take());
    let long = queue.forward(&[0; 1_501]);
    assert_eq!(long, Err(PushError::Length { len: 1_501, max: 1_500 }), "the device would panic");
    let rejected = queue.with(|queue| queue.counters().rejected);
    assert_eq!((rejected.packets, rejected.bytes), (1, 0));
}
