//! Drivers and queues that do not fit together.

use core::task::{Context, Waker};

use embassy_net_driver::{Driver as _, HardwareAddress, TxToken as _};
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{FrameQueue, Heap, LinkLayer, PushError, SmartQueue};
use freeboard_embassy::{ShapedDriver, ShapedDriverError, SharedQueue};

use crate::line::End;

const CARD: HardwareAddress = HardwareAddress::Ethernet([2, 0, 0, 0, 0, 1]);

fn end(address: HardwareAddress) -> End {
    let [end, _] = End::pair([address; 2], (1, 1_000_000), Nanos::ZERO);
    end
}

fn refused(end: End, queue: FrameQueue) -> ShapedDriverError {
    ShapedDriver::new(end, &SharedQueue::new(queue)).map(|_| ()).expect_err("they do not fit")
}

/// Goal: a queue that would read the headers of another medium, and find one flow in them, is
/// refused; so are frames without IP headers and buffers that hold no IP packet. Method: each
/// mismatch, and the lengths around the limit.
#[test]
fn what_does_not_fit_is_refused_with_what_is_expected() {
    let builder = SmartQueue::upload(Rate::UNLIMITED).buffers(2);
    let frames = |len| builder.max_len(len).frames([42; 16]).expect("a queue");
    let packets = |len| builder.raw_ip().max_len(len).frames([42; 16]).expect("a queue");
    let (ethernet, raw) = (LinkLayer::Ethernet, LinkLayer::RawIp);

    let error = refused(end(HardwareAddress::Ip), frames(1_514));
    assert_eq!(error, ShapedDriverError::LinkLayer { driver: raw, queue: ethernet });
    let text = "queue reads Ethernet headers, frames of the driver begin with IP headers \
                (expected a queue built with raw_ip)";
    assert_eq!(error.to_string(), text);
    let error = refused(end(CARD), packets(1_500));
    assert_eq!(error, ShapedDriverError::LinkLayer { driver: ethernet, queue: raw });
    let text = "queue reads IP headers, frames of the driver begin with Ethernet headers \
                (expected a queue built without raw_ip)";
    assert_eq!(error.to_string(), text);
    let radio = HardwareAddress::Ieee802154([2; 8]);
    let error = refused(end(radio), frames(1_514));
    assert_eq!(error, ShapedDriverError::Medium(radio));
    assert!(error.to_string().ends_with("is not supported (expected Ethernet or Ip)"), "{error}");

    let error = refused(end(CARD), frames(81));
    assert_eq!(error, ShapedDriverError::Mtu { given: 81, least: 82 });
    assert_eq!(error.to_string(), "frames of at most 81 bytes (expected 82 or more)");
    let error = refused(end(HardwareAddress::Ip), packets(67));
    assert_eq!(error, ShapedDriverError::Mtu { given: 67, least: 68 });
    let short = end(CARD).with_mtu(60);
    assert_eq!(refused(short, frames(1_514)), ShapedDriverError::Mtu { given: 60, least: 82 });

    for (address, queue, mtu) in [
        (CARD, frames(82), 82),
        (HardwareAddress::Ip, packets(68), 68),
        (CARD, frames(2_000), 1_514),
        (HardwareAddress::Ip, packets(1_400), 1_400),
    ] {
        let queue = SharedQueue::new(queue);
        let driver = ShapedDriver::new(end(address), &queue).expect("they fit");
        assert_eq!(driver.hardware_address(), address);
        let capabilities = driver.capabilities();
        assert_eq!(capabilities.max_transmission_unit, mtu);
        assert_eq!(capabilities.max_burst_size, Some(45));
    }
}

/// Returns a queue of IP packets whose buffers hold 1,500 bytes.
fn shared() -> SharedQueue<Heap> {
    let queue = SmartQueue::upload(Rate::UNLIMITED).raw_ip().frames([42; 16]).expect("a queue");
    SharedQueue::new(queue)
}

fn short() -> End {
    end(HardwareAddress::Ip).with_mtu(600)
}

/// Goal: a frame above the MTU of the driver cannot be in the queue before the driver is, and no
/// other driver can change the limit. Method: a frame that only the buffer can hold, forwarded
/// first; then an empty queue, given to two drivers.
#[test]
fn a_queue_is_for_one_driver_and_empty_before_it() {
    let queue = shared();
    queue.forward(&[0; 1_500]).expect("there is room");
    let error = ShapedDriver::new(short(), &queue).map(|_| ()).expect_err("it is not empty");
    assert_eq!(error, ShapedDriverError::NotEmpty { packets: 1 });
    assert_eq!(error.to_string(), "frames in the queue: 1 (expected 0)");

    queue.with(|queue| queue.clear());
    let _driver = ShapedDriver::new(short(), &queue).expect("they fit");
    let other = ShapedDriver::new(end(HardwareAddress::Ip), &queue);
    let error = other.map(|_| ()).expect_err("it has a driver");
    assert_eq!(error, ShapedDriverError::HasDriver);
    let text = "queue already has a driver (expected a queue without one)";
    assert_eq!(error.to_string(), text);
    let long = queue.forward(&[0; 601]);
    assert_eq!(long, Err(PushError::Length { len: 601, max: 600 }));
}

/// Goal: a token does not enqueue what the driver cannot send. Method: one byte above the MTU, in
/// longer buffers.
#[test]
#[should_panic(expected = "frame above the MTU: Err(Length { len: 601, max: 600 })")]
fn a_token_refuses_a_frame_above_the_mtu() {
    let queue = shared();
    let mut driver = ShapedDriver::new(short(), &queue).expect("they fit");
    let token = driver.transmit(&mut Context::from_waker(Waker::noop())).expect("always");
    token.consume(601, |place| place.fill(0));
}
