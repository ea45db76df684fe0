//! Devices and queues that do not fit together.

use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{FrameQueue, LinkLayer, SmartQueue};
use freeboard_smoltcp::{ShapedDevice, ShapedDeviceError};
use smoltcp::phy::{Device as _, Medium, TxToken as _};
use smoltcp::time::{Duration, Instant};

use crate::wire::Wire;

fn refused(wire: Wire, queue: FrameQueue) -> ShapedDeviceError {
    ShapedDevice::new(wire, queue).map(|_| ()).expect_err("they do not fit")
}

fn wire(medium: Medium) -> Wire {
    Wire::new(medium, 1, 1_000_000, Duration::ZERO)
}

/// Goal: a queue that would read the headers of another medium, and find one flow in them, is
/// refused; so are a medium without IP headers and buffers that hold no IP packet. Method: each
/// mismatch, and the lengths around the limit.
#[test]
fn what_does_not_fit_is_refused_with_what_is_expected() {
    let builder = SmartQueue::upload(Rate::UNLIMITED).buffers(2);
    let frames = |len| builder.max_len(len).frames([42; 16]).expect("a queue");
    let packets = |len| builder.raw_ip().max_len(len).frames([42; 16]).expect("a queue");
    let (ethernet, ip) = (Medium::Ethernet, Medium::Ip);

    let error = refused(wire(ip), frames(1_514));
    assert_eq!(error, ShapedDeviceError::LinkLayer { medium: ip, queue: LinkLayer::Ethernet });
    let text = "queue reads Ethernet headers, device has medium Ip \
                (expected a queue built with raw_ip)";
    assert_eq!(error.to_string(), text);
    let error = refused(wire(ethernet), packets(1_500));
    assert_eq!(error, ShapedDeviceError::LinkLayer { medium: ethernet, queue: LinkLayer::RawIp });
    let text = "queue reads IP headers, device has medium Ethernet \
                (expected a queue built without raw_ip)";
    assert_eq!(error.to_string(), text);
    let error = refused(wire(Medium::Ieee802154), frames(1_514));
    assert_eq!(error, ShapedDeviceError::Medium(Medium::Ieee802154));
    let text = "medium Ieee802154 is not supported (expected Ethernet or Ip)";
    assert_eq!(error.to_string(), text);

    let error = refused(wire(ethernet), frames(81));
    assert_eq!(error, ShapedDeviceError::Mtu { given: 81, least: 82 });
    assert_eq!(error.to_string(), "frames of at most 81 bytes (expected 82 or more)");
    let error = refused(wire(ip), packets(67));
    assert_eq!(error, ShapedDeviceError::Mtu { given: 67, least: 68 });
    let short = wire(ip).with_mtu(60);
    assert_eq!(refused(short, packets(1_500)), ShapedDeviceError::Mtu { given: 60, least: 68 });

    for (medium, queue, mtu) in [
        (ethernet, frames(82), 82),
        (ip, packets(68), 68),
        (ethernet, frames(2_000), 1_514),
        (ip, packets(1_400), 1_400),
    ] {
        let device = ShapedDevice::new(wire(medium), queue).expect("they fit");
        let capabilities = device.capabilities();
        assert_eq!((capabilities.medium, capabilities.max_transmission_unit), (medium, mtu));
        assert_eq!(capabilities.max_burst_size, Some(45));
    }
}

/// Goal: a frame above the MTU of the device cannot be in the queue before the device is. Method: a
/// frame that only the buffer can hold, pushed first; an empty queue afterwards.
#[test]
fn a_queue_with_frames_is_refused() {
    let queue = || SmartQueue::upload(Rate::UNLIMITED).raw_ip().frames([42; 16]).expect("a queue");
    let short = || wire(Medium::Ip).with_mtu(600);
    let mut filled = queue();
    filled.push(Nanos(0), &[0; 1_500]).expect("there is room");
    let error = refused(short(), filled);
    assert_eq!(error, ShapedDeviceError::NotEmpty { packets: 1 });
    assert_eq!(error.to_string(), "frames in the queue: 1 (expected 0)");

    let mut cleared = queue();
    cleared.push(Nanos(0), &[0; 1_500]).expect("there is room");
    cleared.clear();
    assert!(ShapedDevice::new(short(), cleared).is_ok());
}

/// Goal: a token does not enqueue what the device cannot send. Method: one byte above the MTU, in
/// longer buffers.
#[test]
#[should_panic(expected = "frame above the MTU: Err(Length { len: 601, max: 600 })")]
fn a_token_refuses_a_frame_above_the_mtu() {
    let queue = SmartQueue::upload(Rate::UNLIMITED).raw_ip().frames([42; 16]).expect("a queue");
    let mut device = ShapedDevice::new(wire(Medium::Ip).with_mtu(600), queue).expect("they fit");
    device.transmit(Instant::ZERO).expect("always").consume(601, |place| place.fill(0));
}
