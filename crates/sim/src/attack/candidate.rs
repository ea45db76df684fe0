//! Queues compared under attack.

use freeboard::flowhash::{self, Labels};
use freeboard::sched_core::{
    Aqm, CoDel, CoDelParams, CoDelState, Descriptor, FloorShare, Limits, NoAqm, OwnVictim,
};
use freeboard::{Heap, Isolated, IsolatedConfig, IsolatedMemory, LabelledScheduler};

use super::{Arrival, Attack, MEMORY};
use crate::discipline::{QUEUES, by_hash, drr, longest, sqf};

/// Capacity of the host table.
const HOSTS: u32 = 256;

/// Queue that serves the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidate {
    /// One queue, tail drop.
    Fifo,
    /// Deficit round robin over hashed flows; drops come from the longest queue.
    Drr,
    /// Deficit round robin with sparse flows first, as in FQ-CoDel.
    SparseFirst,
    /// Shortest queue first.
    Sqf,
    /// [`Isolated`] by source and flow: hosts above flows with sparse flows first; drops come from
    /// the host with the longest backlog. It is only a part of a
    /// [`SmartQueue`](freeboard::SmartQueue): all candidates have the AQM of the attack, mostly
    /// none, and no shaper.
    Isolated,
    /// `Isolated` with the ingress port of a packet as its host.
    Ports,
}

impl Candidate {
    /// All candidates, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Fifo, Self::Drr, Self::SparseFirst, Self::Sqf, Self::Isolated, Self::Ports];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "FIFO",
            Self::Drr => "DRR",
            Self::SparseFirst => "DRR++",
            Self::Sqf => "SQF",
            Self::Isolated => "Isolated",
            Self::Ports => "by port",
        }
    }

    /// Returns the labels by which this queue tells `arrival` from others: none for a FIFO, the
    /// ingress port instead of the source for [`Candidate::Ports`].
    pub(super) fn labels(self, arrival: &Arrival) -> Labels {
        match self {
            Self::Fifo => Labels { flow: 0, ..arrival.labels },
            Self::Ports => Labels { src_host: flowhash::mix(arrival.port), ..arrival.labels },
            Self::Drr | Self::SparseFirst | Self::Sqf | Self::Isolated => arrival.labels,
        }
    }

    /// Builds an empty queue for the packets of `attack`.
    pub(super) fn build(self, attack: Attack) -> Box<dyn LabelledScheduler> {
        if attack.has_codel() {
            let states = vec![CoDelState::EMPTY; (QUEUES + HOSTS) as usize];
            let params = CoDelParams::INTERNET.with_mtu(attack.max_len());
            let codel = CoDel::new(states, params).expect("the parameters of the RFC");
            self.with(codel, attack.max_len())
        } else {
            self.with(NoAqm, attack.max_len())
        }
    }

    fn with<A: Aqm + 'static>(self, aqm: A, max_len: u32) -> Box<dyn LabelledScheduler> {
        let within = "the sizes are constants and the length is one of a packet";
        let limits = Limits::bytes(MEMORY);
        // The shortest packets of an attack are one byte long, but only a few of them are between
        // two long ones.
        let packets = 1 << 16;
        let room = vec![Descriptor::EMPTY; packets];
        let drr = || drr(QUEUES, max_len).expect(within);
        match self {
            // All packets have one label.
            Self::Fifo => Box::new(by_hash(drr(), OwnVictim, aqm, room, limits)),
            Self::Drr => Box::new(by_hash(drr(), longest(QUEUES), aqm, room, limits)),
            Self::SparseFirst => {
                Box::new(by_hash(drr().sparse_first(), longest(QUEUES), aqm, room, limits))
            }
            Self::Sqf => {
                let sqf = sqf(QUEUES, FloorShare::NONE).expect(within);
                Box::new(by_hash(sqf, OwnVictim, aqm, room, limits))
            }
            Self::Isolated | Self::Ports => {
                let (queues, hosts) = (QUEUES as usize, HOSTS as usize);
                let memory = IsolatedMemory::<Heap>::allocate(queues, hosts, 1, packets);
                let config = IsolatedConfig::new(max_len, limits);
                Box::new(Isolated::with_aqm(memory, aqm, config).expect(within))
            }
        }
    }
}
