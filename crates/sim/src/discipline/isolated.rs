//! Flows and hosts isolated, over boxed memory and behind a line.

use core::fmt::Debug;

use freeboard::flowhash::{self, FlowKey, SipHash13};
use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, ConfigError, DropSink, Limits, Nanos, Packet, Rejected,
};
use freeboard::shaper::{Overhead, Shaped, Shaper};
use freeboard::{
    Heap, Isolated, IsolatedConfig, IsolatedMemory, Isolation, LabelledScheduler as _, NoRoom,
    OnDemand,
};

use super::{Bottleneck, QUEUES};

/// Hosts of either side that are told apart.
const HOSTS: usize = 256;
/// One more than flows: no load is cut.
const ROUNDS: usize = QUEUES as usize + 1;

/// Which packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// When the limit is reached, from the longest queue of the host that holds the most.
    Longest,
    /// That, and what [`CoDel`] chooses in each queue.
    CoDel(CoDelParams),
}

impl<A: Aqm> Bottleneck for Shaped<Isolated<Heap, A, NoRoom, Heap>> {
    fn line(&self) -> &Shaper {
        self.line()
    }

    fn overhead(&self) -> Overhead {
        self.overhead()
    }

    fn lookups(&self) -> Option<flowhash::Counts> {
        None
    }

    fn enqueue_key(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        hasher: &SipHash13,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> Result<(), Rejected> {
        self.enqueue_labelled(now, &OnDemand { key, hasher }, packet, drops)
    }
}

/// An empty queue with this isolation in front of `line`: [`QUEUES`] queues in sets of eight and a spare one
/// for each slot of a host, quanta of the longest packet.
///
/// Handles are numbered up to `limits.packets`, inclusively. `max_len` is the longest packet in bytes;
/// outside `1..=`[`Packet::MAX_LEN`] it counts as the nearest within. Longer packets are rejected.
///
/// # Errors
/// Parameters that [`CoDel`] refuses.
pub fn isolated(
    isolation: Isolation,
    drops: Drops,
    line: Shaper,
    link: Overhead,
    limits: Limits,
    max_len: u32,
) -> Result<Box<dyn Bottleneck>, ConfigError> {
    let config = IsolatedConfig::new(max_len.clamp(1, Packet::MAX_LEN), limits);
    let config = config.isolated_by(isolation);
    let packets = limits.packets as usize + 1;
    let memory = IsolatedMemory::<Heap>::allocate(QUEUES as usize, HOSTS, packets);
    let memory = memory.with_triple(ROUNDS);
    let within = "queues and hosts are powers of two and the length was clamped";
    Ok(match drops {
        Drops::Longest => {
            let queue = Isolated::new(memory, config).expect(within);
            Box::new(Shaped::new(queue, line, link))
        }
        Drops::CoDel(params) => {
            let states = vec![CoDelState::EMPTY; QUEUES as usize + HOSTS];
            let codel = CoDel::new(states, params)?;
            let queue = Isolated::with_aqm(memory, codel, config).expect(within);
            Box::new(Shaped::new(queue, line, link))
        }
    })
}
