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
    /// The queue holds frames, which may be longer than the device can send.
    NotEmpty {
        /// Their number.
        packets: u32,
    },
}

impl fmt::Display for ShapedDeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(medium) => {
                write!(f, "medium {medium:?} is not supported (expected Ethernet or Ip)")
            }
            Self::LinkLayer { medium, queue } => {
                let (headers, built) = match queue {
                    LinkLayer::RawIp => ("IP", "without"),
                    _ => ("Ethernet", "with"),
                };
                write!(f, "queue reads {headers} headers, device has medium {medium:?}")?;
                write!(f, " (expected a queue built {built} raw_ip)")
            }
            Self::Mtu { given, least } => {
                write!(f, "frames of at most {given} bytes (expected {least} or more)")
            }
            Self::NotEmpty { packets } => {
                write!(f, "frames in the queue: {packets} (expected 0)")
            }
        }
    }
}

impl core::error::Error for ShapedDeviceError {}
