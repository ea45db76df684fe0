//! Disciplines over users and their flows, with one level or two.

use freeboard::sched_core::{
    ClassState, Classes, CoDel, CoDelParams, CoDelState, ConfigError, Descriptor, Fifo, FloorShare,
    FlowId, FlowScheduler, Guarantee, Limits, LongestClass, LowBits, Nanos, NoAqm, OwnVictim,
    Scheduler,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};

use super::{Bottleneck, by_number, descriptors, drr, line_and_overhead, longest, qfq, sqf};

/// Scheduling level above the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PerUser {
    /// None: the flows of all users are scheduled alike.
    Flows,
    /// Deficit round robin over users, with a quantum of the longest packet.
    Drr,
    /// Quick fair queueing over users, with equal weights.
    Qfq,
}

/// Scheduling of flows: those of one user, or of all users if there is no level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserFlows {
    /// One queue for all of them, with tail drop.
    Fifo,
    /// Deficit round robin with a quantum of the longest packet.
    Drr,
    /// Shortest queue first.
    Sqf,
    /// Shortest queue first, with one of [`UserFlows::FLOOR`] bytes for the queue that has waited
    /// longest.
    SqfWithFloor,
}

/// Bits of a flow number that identify the flow within its user; the bits above are the user.
const FLOW_BITS: u32 = 4;

/// A queue of any kind.
type Any = Box<dyn Scheduler>;

impl Bottleneck for Shaped<Any> {
    line_and_overhead!();
}

impl PerUser {
    /// Maximum number of flows of one user.
    pub const FLOWS: u32 = 1 << FLOW_BITS;

    /// Returns the number of a user's flow, below [`PerUser::FLOWS`].
    #[must_use]
    pub const fn flow(user: u32, flow: u32) -> FlowId {
        FlowId(user << FLOW_BITS | flow)
    }

    /// Returns the user of a flow.
    #[must_use]
    pub const fn user(flow: FlowId) -> u32 {
        flow.0 >> FLOW_BITS
    }

    /// Creates an empty queue for `users` users in front of `line`. On overflow, packets are
    /// dropped from the longest queue of the user with the longest backlog, or from the longest
    /// queue if there is no level above; a FIFO rejects.
    ///
    /// Handles are numbered up to `limits.packets`, inclusively.
    ///
    /// # Errors
    /// [`ConfigError`] if a discipline does not accept packets of `max_len` bytes.
    pub fn behind(
        self,
        inside: UserFlows,
        users: u32,
        max_len: u32,
        line: Shaper,
        limits: Limits,
    ) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let room = descriptors(limits);
        let queue = match self {
            Self::Flows => inside.queues(users * Self::FLOWS, max_len, room, limits)?,
            Self::Drr => over(drr(users, max_len)?, inside, users, max_len, limits)?,
            Self::Qfq => over(qfq(users, max_len)?, inside, users, max_len, limits)?,
        };
        Ok(Box::new(Shaped::new(queue, line, Overhead::RAW)))
    }

    /// Returns the guarantee of each of `users` users; `None` if there is none.
    #[must_use]
    pub fn guarantee(self, users: u32, max_len: u32) -> Option<Guarantee> {
        match self {
            Self::Flows => None,
            Self::Drr => drr(users, max_len).ok()?.guarantee(FlowId(0)),
            Self::Qfq => qfq(users, max_len).ok()?.guarantee(FlowId(0)),
        }
    }

    /// Returns the maximum number of bytes that the link sends from the arrival of a packet of
    /// `len` bytes to its end, if its flow is alone the shortest of its user; `None` if the
    /// shortest is not preferred. The sum of
    ///
    /// - the maximum lag of the flow's user behind its share;
    /// - a packet of this user on the wire;
    /// - with a floor, consecutive packets of the floor, less than `L + L/(k − 1)` bytes;
    /// - the packet itself.
    ///
    /// Source: `docs/proofs/queues.md`.
    #[must_use]
    pub fn bound(self, inside: UserFlows, users: u32, max_len: u32, len: u32) -> Option<u64> {
        let of_user = match inside {
            UserFlows::Fifo | UserFlows::Drr => return None,
            UserFlows::Sqf => max_len,
            UserFlows::SqfWithFloor => 2 * max_len + (max_len - 1) / (UserFlows::FLOOR - 1),
        };
        let before = match self.guarantee(users, max_len) {
            Some(user) => user.latency + user.share.link_of(of_user.into()),
            None => of_user.into(),
        };
        Some(before + u64::from(len))
    }
}

impl UserFlows {
    /// The floor gets one of this many bytes.
    pub const FLOOR: u32 = 8;

    /// Creates queues for flows 0, 1, … below `flows`, with this packet capacity.
    pub(super) fn queues(
        self,
        flows: u32,
        max_len: u32,
        room: Vec<Descriptor>,
        limits: Limits,
    ) -> Result<Any, ConfigError> {
        let by_length = |floor, room| {
            Ok(Box::new(by_number(sqf(flows, floor)?, OwnVictim, NoAqm, room, limits)))
        };
        Ok(match self {
            Self::Fifo => Box::new(Fifo::tail_drop(room, limits)),
            Self::Drr => {
                Box::new(by_number(drr(flows, max_len)?, longest(flows), NoAqm, room, limits))
            }
            Self::Sqf => by_length(FloorShare::NONE, room)?,
            Self::SqfWithFloor => by_length(FloorShare::EIGHTH, room)?,
        })
    }
}

/// Creates a queue in front of `line` with deficit round robin over users. The flows of each user
/// are served by shortest queue first with this floor and have CoDel in each queue. Flows are
/// numbered by [`PerUser::flow`].
///
/// Handles are numbered up to `limits.packets`, inclusively.
///
/// # Errors
/// [`ConfigError`] if a discipline does not accept packets of `max_len` bytes, or if `params` are
/// invalid for [`CoDel`].
pub fn users_sqf_with_codel(
    floor: FloorShare,
    params: CoDelParams,
    users: u32,
    max_len: u32,
    line: Shaper,
    link: Overhead,
    limits: Limits,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let flows = || -> Result<Any, ConfigError> {
        let codel = CoDel::new(vec![CoDelState::EMPTY; PerUser::FLOWS as usize], params)?;
        let (sqf, room) = (sqf(PerUser::FLOWS, floor)?, descriptors(limits));
        Ok(Box::new(by_number(sqf, OwnVictim, codel, room, Limits::NONE)))
    };
    let queue = classes(drr(users, max_len)?, flows, users, limits)?;
    Ok(Box::new(Shaped::new(queue, line, link)))
}

/// Puts users under `scheduler`, each with queues of its own.
fn over<O: FlowScheduler + 'static>(
    scheduler: O,
    inside: UserFlows,
    users: u32,
    max_len: u32,
    limits: Limits,
) -> Result<Any, ConfigError> {
    let queues = || inside.queues(PerUser::FLOWS, max_len, descriptors(limits), Limits::NONE);
    classes(scheduler, queues, users, limits)
}

/// Puts users under `scheduler`, each with a child created by `queues`.
fn classes<O: FlowScheduler + 'static>(
    scheduler: O,
    queues: impl Fn() -> Result<Any, ConfigError>,
    users: u32,
    limits: Limits,
) -> Result<Any, ConfigError> {
    let classes: Vec<Any> = (0..users).map(|_| queues()).collect::<Result<_, _>>()?;
    let states = vec![ClassState::EMPTY; users as usize];
    let node = Classes::new(scheduler, classes, states, LowBits::new(FLOW_BITS)?, limits);
    Ok(Box::new(node.dropping_from_longest(vec![LongestClass::EMPTY; users as usize])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::sched_core::{Nanos, Packet};
    use freeboard::shaper::Rate;

    /// Goal: each name selects the right parts. Method: user 0 has one bulk flow with six packets
    /// of 1,000 and one flow with one of 100; user 1 has three bulk flows of two packets. Compares
    /// handles in the order of departure: over users, user 0 has every other turn, or the turns of
    /// QFQ, and SQF inside sends the short packet first.
    #[test]
    fn each_level_serves_in_its_own_order() {
        use {PerUser as P, UserFlows as U};
        let first_of = |above: PerUser, inside: UserFlows| {
            let line = Shaper::new(Rate::UNLIMITED);
            let limits = Limits::packets(20);
            let mut queue = above.behind(inside, 2, 1_000, line, limits).unwrap();
            let drops = &mut |_: Packet, _| unreachable!("there is room");
            let bulk = |user, flow| (PerUser::flow(user, flow), 1_000);
            let mut packets = vec![bulk(0, 0); 6];
            packets.push((PerUser::flow(0, 1), 100));
            packets.extend([0, 1, 2, 0, 1, 2].map(|flow| bulk(1, flow)));
            for ((flow, len), handle) in packets.into_iter().zip(0..) {
                queue.enqueue(Nanos(0), flow, Packet::new(handle, len), drops).unwrap();
            }
            assert_eq!(queue.recount(), Ok(()));
            let sent = || queue.dequeue(Nanos(0), drops).map(|packet| packet.handle);
            let sent: Vec<u32> = core::iter::from_fn(sent).collect();
            assert_eq!(sent.len(), 13);
            let of_user_0 = sent.iter().take(8).filter(|&&handle| handle < 7).count();
            let call = sent.iter().position(|&handle| handle == 6).unwrap();
            (of_user_0, call)
        };
        assert_eq!(first_of(P::Flows, U::Fifo), (7, 6));
        // Five flows in turn; the short one is second.
        assert_eq!(first_of(P::Flows, U::Drr), (3, 1));
        assert_eq!(first_of(P::Flows, U::Sqf), (2, 0));
        assert_eq!(first_of(P::Drr, U::Sqf), (5, 0));
        let (shares, call) = first_of(P::Drr, U::Drr);
        assert!(shares >= 4 && call > 0, "{shares} {call}");
        let (shares, call) = first_of(P::Qfq, U::Sqf);
        assert!((4..=5).contains(&shares) && call == 0, "{shares} {call}");
    }

    #[test]
    fn only_users_are_promised_something() {
        assert_eq!(PerUser::Flows.guarantee(2, 1_500), None);
        // (1 − φ)(Q + L̄)/φ + (n − 1)·L̄ + L: docs/guarantees.md.
        let drr = PerUser::Drr.guarantee(2, 1_500).unwrap();
        assert_eq!(drr.latency, 2_999 + 1_499 + 1_500);
        assert!(PerUser::Qfq.guarantee(2, 1_500).is_some());
    }
    /// Calculated manually, in bytes of the link: the lag of DRR over two users with quanta of
    /// 1,500 is at most 2,999 + 1,499 + 1,500; a packet of 1,500 at half the rate counts as 3,000;
    /// the packet itself is 200. SQF over all flows waits for one packet; with a floor of an eighth
    /// for another and 1,499 / 7.
    #[test]
    fn the_bound_is_that_of_the_levels() {
        let bound = |above: PerUser, inside| above.bound(inside, 2, 1_500, 200);
        assert_eq!(bound(PerUser::Flows, UserFlows::Fifo), None);
        assert_eq!(bound(PerUser::Drr, UserFlows::Drr), None);
        assert_eq!(bound(PerUser::Flows, UserFlows::Sqf), Some(1_700));
        assert_eq!(bound(PerUser::Flows, UserFlows::SqfWithFloor), Some(3_414));
        assert_eq!(bound(PerUser::Drr, UserFlows::Sqf), Some(5_998 + 3_000 + 200));
        assert_eq!(bound(PerUser::Drr, UserFlows::SqfWithFloor), Some(5_998 + 6_428 + 200));
    }
}
