//! Errors of construction.

use core::fmt;

use freeboard::LinkLayer;
use smoltcp::phy::Medium;

/// Error for a device and a queue that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapedDeviceError {
    /// The frames of this medium begin neither with an Ethernet nor with an IP header.
    Medium(Medium),
    /// The queue reads other headers than the frames of the device begin with. It would find no
    /// flow and no host in them.
    LinkLayer {
        /// The medium of the device.
        medium: Medium,
        /// The header with which the queue expects a frame to begin.
        queue: LinkLayer,
    },
    /// The device or the buffers of the queue are too short for the packets that every IP host must
    /// be able to send (RFC 791).
    Mtu {
        /// The longest frame in bytes that both can hold.
        given: usize,
        /// The smallest that is accepted.
        least: usize,
    },
}

impl fmt::Display for ShapedDeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(medium) => {
                write!(f, "medium {medium:?} is not supported (expected Ethernet or Ip)")
            }
            Self::LinkLayer { medium, queue: LinkLayer::RawIp } => {
                write!(f, "queue built with raw_ip, medium {medium:?} (expected Ip)")
            }
            Self::LinkLayer { medium, .. } => {
                write!(f, "queue built without raw_ip, medium {medium:?} (expected Ethernet)")
            }
            Self::Mtu { given, least } => {
                write!(f, "frames of at most {given} bytes (expected {least} or more)")
            }
        }
    }
}

impl core::error::Error for ShapedDeviceError {}
