//! Mapping from flows to classes.

use crate::FlowId;
use crate::flow_scheduler::ConfigError;

/// A flow from the point of view of a node in a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The class, which is a flow of the node's flow scheduler.
    pub class: FlowId,
    /// The number of the flow in that class.
    pub flow: FlowId,
}

/// Maps flows to classes, and to their numbers there.
///
/// A flow number must always give the same result, or the packets of a flow may be reordered.
/// Implemented for every `Fn(FlowId) -> Option<Member>`; `None` rejects the packet.
pub trait Classify {
    /// Returns the class of `flow` and its number there; `None` if it belongs to none.
    fn classify(&self, flow: FlowId) -> Option<Member>;

    /// Returns an upper bound of the flow numbers of all classes, for the error message.
    fn flows(&self, classes: u32) -> u32 {
        let _any = classes;
        u32::MAX
    }
}

impl<F: Fn(FlowId) -> Option<Member>> Classify for F {
    fn classify(&self, flow: FlowId) -> Option<Member> {
        self(flow)
    }
}

/// Splits flow numbers into bits: the high bits are the class, the low bits the flow in it.
///
/// Nested levels each remove its bits from the top: with 10 low bits at the root and 4 in
/// each class, flow `0b101_000011_0111` is flow 7 in class 3 of class 5.
///
/// ```
/// use sched_core::{Classify, FlowId, LowBits, Member};
/// let classes_of_16 = LowBits::new(4)?;
/// let member = Member { class: FlowId(2), flow: FlowId(5) };
/// assert_eq!(classes_of_16.classify(FlowId(0x25)), Some(member));
/// assert_eq!(classes_of_16.flow(member), FlowId(0x25));
/// # Ok::<(), sched_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowBits {
    /// At most 31.
    bits: u32,
}

impl LowBits {
    /// Creates a mapping in which the `bits` low bits are the flow in its class, `0..2^bits`.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if `bits` is above 31.
    pub const fn new(bits: u32) -> Result<Self, ConfigError> {
        match ConfigError::check_range("low bits of a flow", bits as u64, 0, 31) {
            Ok(()) => Ok(Self { bits }),
            Err(error) => Err(error),
        }
    }

    /// Returns the flow number of a member; excess bits are cut off.
    #[must_use]
    pub const fn flow(self, member: Member) -> FlowId {
        FlowId(member.class.0.wrapping_shl(self.bits) | member.flow.0 & self.mask())
    }

    const fn mask(self) -> u32 {
        1_u32.wrapping_shl(self.bits).wrapping_sub(1)
    }
}

impl Classify for LowBits {
    #[inline]
    fn classify(&self, flow: FlowId) -> Option<Member> {
        let class = FlowId(flow.0.wrapping_shr(self.bits));
        Some(Member { class, flow: FlowId(flow.0 & self.mask()) })
    }

    fn flows(&self, classes: u32) -> u32 {
        let flows = u64::from(classes).wrapping_shl(self.bits);
        u32::try_from(flows).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_split_and_put_together_again() {
        for bits in 0..=31 {
            let split = LowBits::new(bits).unwrap();
            for flow in [0, 1, 0x8000_0000, 0x1234_5678, u32::MAX] {
                let member = split.classify(FlowId(flow)).unwrap();
                assert_eq!(u64::from(member.flow.0), u64::from(flow) % (1 << bits));
                assert_eq!(member.class.0, flow >> bits);
                assert_eq!(split.flow(member), FlowId(flow));
            }
        }
        let split = LowBits::new(10).unwrap();
        assert_eq!((split.flows(3), split.flows(1 << 22)), (3_072, u32::MAX));
        let error =
            ConfigError::OutOfRange { what: "low bits of a flow", value: 32, min: 0, max: 31 };
        assert_eq!(LowBits::new(32), Err(error));
    }
}
