//! Errors of construction.

use core::fmt;

use embassy_net_driver::HardwareAddress;
use freeboard::LinkLayer;

/// Error for a driver and a queue that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapedDriverError {
    /// The frames of a driver with this address begin neither with an Ethernet nor with an IP
    /// header.
    Medium(HardwareAddress),
    /// The queue reads other headers than the frames of the driver begin with. It would find no
    /// flow and no host in them.
    LinkLayer {
        /// The header with which frames of the driver begin.
        driver: LinkLayer,
        /// The header with which the queue expects a frame to begin.
        queue: LinkLayer,
    },
    /// The driver or the buffers of the queue are too short for the packets that every IP host must
    /// be able to send (RFC 791).
    Mtu {
        /// The longest frame in bytes that both can hold.
        given: usize,
        /// The smallest that is accepted.
        least: usize,
    },
}

impl fmt::Display for ShapedDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(address) => {
                write!(f, "hardware address {address:?} is not supported (expected Ethernet or Ip)")
            }
            Self::LinkLayer { driver, queue } => {
                let built = |layer: &LinkLayer| match layer {
                    LinkLayer::RawIp => "with raw_ip",
                    _ => "without raw_ip",
                };
                let (queue, expected) = (built(queue), built(driver));
                write!(f, "queue built {queue}, frames of the driver are {driver:?}")?;
                write!(f, " (expected {expected})")
            }
            Self::Mtu { given, least } => {
                write!(f, "frames of at most {given} bytes (expected {least} or more)")
            }
        }
    }
}

impl core::error::Error for ShapedDriverError {}
