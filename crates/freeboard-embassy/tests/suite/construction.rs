//! Drivers and queues that do not fit together.

use embassy_net_driver::{Driver as _, HardwareAddress};
use freeboard::sched_core::Nanos;
use freeboard::shaper::Rate;
use freeboard::{FrameQueue, LinkLayer, SmartQueue};
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
    let text = "queue built without raw_ip, frames of the driver are RawIp (expected with raw_ip)";
    assert_eq!(error.to_string(), text);
    let error = refused(end(CARD), packets(1_500));
    assert_eq!(error, ShapedDriverError::LinkLayer { driver: ethernet, queue: raw });
    let text =
        "queue built with raw_ip, frames of the driver are Ethernet (expected without raw_ip)";
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
