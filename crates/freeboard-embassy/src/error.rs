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
    /// The queue holds frames, which may be longer than the driver can send.
    NotEmpty {
        /// Their number.
        packets: u32,
    },
    /// The queue was already given to a driver.
    HasDriver,
}

impl fmt::Display for ShapedDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(address) => {
                write!(f, "hardware address {address:?} is not supported (expected Ethernet or Ip)")
            }
            Self::LinkLayer { driver, queue } => {
                let headers = |layer: &LinkLayer| match layer {
                    LinkLayer::RawIp => ("IP", "with"),
                    _ => ("Ethernet", "without"),
                };
                let ((read, _), (begin, built)) = (headers(queue), headers(driver));
                write!(f, "queue reads {read} headers, frames of the driver begin with {begin}")?;
                write!(f, " headers (expected a queue built {built} raw_ip)")
            }
            Self::Mtu { given, least } => {
                write!(f, "frames of at most {given} bytes (expected {least} or more)")
            }
            Self::NotEmpty { packets } => {
                write!(f, "frames in the queue: {packets} (expected 0)")
            }
            Self::HasDriver => {
                write!(f, "queue already has a driver (expected a queue without one)")
            }
        }
    }
}

impl core::error::Error for ShapedDriverError {}
