//! Queues as in the gateway, with CoDel in each.

use core::fmt;

use freeboard::sched_core::{ConfigError, FloorShare, Limits};
use freeboard::shaper::{Overhead, Shaper};
use freeboard::{Isolation, Rtt};

use super::{
    Bottleneck, Discipline, Drops, drr_with_codel, isolated, sqf_with_codel, users_sqf_with_codel,
};

/// Queue of the gateway. All but the FIFO have CoDel in each queue, configured by [`Rtt::codel`]
/// for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayQueue {
    /// FIFO with a limit of 1,000 packets.
    Fifo,
    /// Deficit round robin over flows, without priority for sparse flows.
    PlainDrr,
    /// Deficit round robin with sparse flows first, with this isolation mode.
    Isolated(Isolation),
    /// Shortest queue first over flows, with this floor.
    Sqf(FloorShare),
    /// Deficit round robin over hosts, and shortest queue first with this floor over the flows of
    /// each. Flows are numbered by [`PerUser::flow`](super::PerUser::flow).
    UsersSqf(FloorShare),
}

impl GatewayQueue {
    /// Returns the limits of the queue.
    #[must_use]
    pub const fn limits(self) -> Limits {
        match self {
            Self::Fifo => Limits { packets: 1_000, bytes: u32::MAX },
            _ => Limits { packets: 8_192, bytes: 4 << 20 },
        }
    }

    /// Returns true if hosts are its flows or are scheduled above them.
    #[must_use]
    pub fn has_hosts(self) -> bool {
        match self {
            Self::Isolated(isolation) => isolation != Isolation::Flows,
            Self::UsersSqf(_) => true,
            Self::Fifo | Self::PlainDrr | Self::Sqf(_) => false,
        }
    }

    /// Creates an empty queue in front of `line` for this number of hosts. `mtu` is the longest
    /// packet that is sent; `permitted` the longest that an isolated queue accepts.
    ///
    /// # Errors
    /// [`ConfigError`] if a length is out of range.
    pub fn behind(
        self,
        line: Shaper,
        link: Overhead,
        hosts: u32,
        mtu: u32,
        permitted: u32,
    ) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let limits = self.limits();
        let codel = Rtt::INTERNET.codel(line.rate(), link.wire_len(mtu)).with_mtu(mtu);
        match self {
            Self::Fifo => Ok(Discipline::Fifo.behind(line, link, limits, mtu)),
            Self::PlainDrr => drr_with_codel(codel, line, link, limits, mtu),
            Self::Isolated(isolation) => {
                isolated(isolation, Drops::CoDel(codel), line, link, limits, permitted)
            }
            Self::Sqf(floor) => sqf_with_codel(floor, codel, line, link, limits),
            Self::UsersSqf(floor) => {
                users_sqf_with_codel(floor, codel, hosts, mtu, line, link, limits)
            }
        }
    }
}

/// Writes the name in tables.
impl fmt::Display for GatewayQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fifo => f.write_str("FIFO"),
            Self::PlainDrr => f.write_str("DRR over flows"),
            Self::Isolated(Isolation::Flows) => f.write_str("flows, sparse first"),
            Self::Isolated(Isolation::DualSrcHost) => f.write_str("dual-srchost (default)"),
            Self::Isolated(isolation) => isolation.fmt(f),
            Self::Sqf(FloorShare::NONE) => f.write_str("sqf without a floor"),
            Self::Sqf(_) => f.write_str("sqf (gateway)"),
            Self::UsersSqf(FloorShare::NONE) => f.write_str("users+sqf, no floor"),
            Self::UsersSqf(_) => f.write_str("users+sqf (gateway)"),
        }
    }
}
