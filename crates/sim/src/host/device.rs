//! Implementation of smoltcp's device trait, used by this file only: one incoming packet and a list
//! of outgoing ones.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// The packet to process next and the outgoing packets. Never full: the queue at the link decides
/// which packets are dropped. (A device that reports "full" starves all but the first socket,
/// because smoltcp's egress begins at socket 0 each time.)
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) arrived: Option<Vec<u8>>,
    pub(super) sent: Vec<Vec<u8>>,
}

/// Length of the longest IP packet that a host sends, in bytes.
pub(super) const MTU: usize = 1_500;

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Leaving<'_>)> {
        let packet = self.arrived.take()?;
        Some((Arrived(packet), Leaving(&mut self.sent)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

#[derive(Debug)]
pub(super) struct Arrived(Vec<u8>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

#[derive(Debug)]
pub(super) struct Leaving<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push(packet);
        result
    }
}
