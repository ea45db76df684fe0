//! The tables of an isolated queue, and where they lie.

use core::fmt;

use flowhash::TagLine;
use sched_core::{
    CeilingFlow, CeilingReturn, CommittedFlow, CommittedReturn, Descriptor, DrrFlow, HeldFlow,
    HostClasses, HostDrrFlow, HostRing, LoadDrrFlow, LoadDrrHost, LongestHost, Queue, RoundList,
    Table,
};

use super::IsolatedError;

/// Where tables lie: one choice for all of them.
///
/// ```
/// use freeboard::Storage;
/// use freeboard::sched_core::Table;
///
/// #[derive(Debug)]
/// enum Vecs {}
///
/// impl Storage for Vecs {
///     type Of<T: core::fmt::Debug + 'static> = Vec<T>;
/// }
/// ```
pub trait Storage {
    /// A table of `T`.
    type Of<T: fmt::Debug + 'static>: Table<T> + fmt::Debug;
}

/// Tables in slices that the caller keeps: parts of a `static`, or of one allocation.
#[derive(Debug)]
pub struct Slices<'a>(core::marker::PhantomData<&'a mut ()>);

impl<'a> Storage for Slices<'a> {
    type Of<T: fmt::Debug + 'static> = &'a mut [T];
}

/// Tables of nothing: no room for the rates of hosts, where no host has one ([`IsolatedMemory`]).
#[derive(Debug)]
pub enum NoRoom {}

impl Storage for NoRoom {
    type Of<T: fmt::Debug + 'static> = [T; 0];
}

/// The tables of an [`Isolated`](crate::Isolated) queue; what they contain does not matter.
///
/// `QUEUES` and `HOSTS` are powers of two; a line is eight queues of a table. `ALL` is `QUEUES + HOSTS`: a
/// spare queue for each slot of a host stands behind those of the table. Memory: 16 bytes a packet, and for
/// each queue and host what the fields say.
///
/// Where the tables for rates lie is a choice of its own, `K`. With [`NoRoom`], which it is unless chosen,
/// nothing of rates is left in the code; with room a packet costs more, whether a rate is set or not.
#[derive(Debug)]
pub struct IsolatedMemory<S: Storage, K: Storage = NoRoom> {
    /// `QUEUES / 8`: 8 bytes a queue.
    pub lines: S::Of<TagLine>,
    /// `ALL`: 16 bytes.
    pub queues: S::Of<Queue>,
    /// One for each handle: 16 bytes.
    pub slots: S::Of<Descriptor>,
    /// `ALL`, for the flows of hosts: 24 bytes.
    pub flows: S::Of<HostDrrFlow>,
    /// `HOSTS`, for the rings of their flows: 16 bytes.
    pub rings: S::Of<HostRing>,
    /// `HOSTS`, for their turns: 24 bytes.
    pub hosts: S::Of<DrrFlow>,
    /// `HOSTS`, or none where no host has a rate, for the turns of those in excess: 24 bytes.
    pub excess: K::Of<DrrFlow>,
    /// `HOSTS`, or none where no host has a rate, for the rates: 48 bytes.
    pub committed: K::Of<CommittedFlow>,
    /// `HOSTS`, or none where no host has a rate, for when those in excess conform again: 16 bytes.
    pub returns: K::Of<CommittedReturn>,
    /// `HOSTS`, or none where no host has a rate, for the ceilings: 48 bytes.
    pub ceilings: K::Of<CeilingFlow>,
    /// `HOSTS`, or none where no host has a rate, for when those that wait may send: 16 bytes.
    pub waiting: K::Of<CeilingReturn>,
    /// `ALL`, for the flows of rounds: 32 bytes.
    pub turns: S::Of<LoadDrrFlow>,
    /// Two or more: flows of a host beyond this are not told apart in `triple-isolate`: 8 bytes.
    pub calendar: S::Of<RoundList>,
    /// `HOSTS`, for the loads of sources: 8 bytes.
    pub source_loads: S::Of<LoadDrrHost>,
    /// `HOSTS`, for the loads of destinations: 8 bytes.
    pub destination_loads: S::Of<LoadDrrHost>,
    /// `HOSTS / 8`: 8 bytes a host.
    pub source_lines: S::Of<TagLine>,
    /// `HOSTS / 8`: 8 bytes a host.
    pub destination_lines: S::Of<TagLine>,
    /// `HOSTS`: 4 bytes.
    pub source_flows: S::Of<u32>,
    /// `HOSTS`: 4 bytes.
    pub destination_flows: S::Of<u32>,
    /// `HOSTS`, for which spare queues are claimed: 1 byte.
    pub spares: S::Of<bool>,
    /// `ALL`, for the choice of the flow that gives way: 16 bytes.
    pub held: S::Of<HeldFlow>,
    /// `HOSTS`, for the choice of the host that gives way: 8 bytes.
    pub longest: S::Of<LongestHost>,
    /// `HOSTS`, for which of their flows gives way: 132 bytes.
    pub classes: S::Of<HostClasses>,
}

/// Storage that makes its tables.
pub trait Allocate: Storage {
    /// A table of `len` times `empty`.
    fn table<T: Clone + fmt::Debug + 'static>(empty: T, len: usize) -> Self::Of<T>;
}

impl<S: Allocate> IsolatedMemory<S> {
    /// All tables for these numbers of queues, hosts of either side, handles, and rounds of the calendar; spare
    /// queues not counted, and without room for rates.
    #[must_use]
    pub fn allocate(queues: usize, hosts: usize, packets: usize, rounds: usize) -> Self {
        let all = queues.saturating_add(hosts);
        Self {
            lines: S::table(TagLine::EMPTY, lines(queues)),
            queues: S::table(Queue::EMPTY, all),
            slots: S::table(Descriptor::EMPTY, packets),
            flows: S::table(HostDrrFlow::EMPTY, all),
            rings: S::table(HostRing::EMPTY, hosts),
            hosts: S::table(DrrFlow::EMPTY, hosts),
            excess: [],
            committed: [],
            returns: [],
            ceilings: [],
            waiting: [],
            turns: S::table(LoadDrrFlow::EMPTY, all),
            calendar: S::table(RoundList::EMPTY, rounds),
            source_loads: S::table(LoadDrrHost::EMPTY, hosts),
            destination_loads: S::table(LoadDrrHost::EMPTY, hosts),
            source_lines: S::table(TagLine::EMPTY, lines(hosts)),
            destination_lines: S::table(TagLine::EMPTY, lines(hosts)),
            source_flows: S::table(0, hosts),
            destination_flows: S::table(0, hosts),
            spares: S::table(false, hosts),
            held: S::table(HeldFlow::EMPTY, all),
            longest: S::table(LongestHost::EMPTY, hosts),
            classes: S::table(HostClasses::EMPTY, hosts),
        }
    }

    /// The same with room for a committed rate and a ceiling of every host: 152 bytes a host.
    #[must_use]
    pub fn with_rates(self) -> IsolatedMemory<S, S> {
        let hosts = self.hosts.as_ref().len();
        IsolatedMemory {
            lines: self.lines,
            queues: self.queues,
            slots: self.slots,
            flows: self.flows,
            rings: self.rings,
            hosts: self.hosts,
            excess: S::table(DrrFlow::EMPTY, hosts),
            committed: S::table(CommittedFlow::EMPTY, hosts),
            returns: S::table(CommittedReturn::EMPTY, hosts),
            ceilings: S::table(CeilingFlow::EMPTY, hosts),
            waiting: S::table(CeilingReturn::EMPTY, hosts),
            turns: self.turns,
            calendar: self.calendar,
            source_loads: self.source_loads,
            destination_loads: self.destination_loads,
            source_lines: self.source_lines,
            destination_lines: self.destination_lines,
            source_flows: self.source_flows,
            destination_flows: self.destination_flows,
            spares: self.spares,
            held: self.held,
            longest: self.longest,
            classes: self.classes,
        }
    }
}

/// Lines for `queues` queues of a [`flowhash::FlowTable`].
const fn lines(queues: usize) -> usize {
    queues.div_ceil(8)
}

impl<S: Storage, K: Storage> IsolatedMemory<S, K> {
    /// Whether every table is as long as the queues or hosts ask for; lines are measured by their tables.
    pub(super) fn check(&self) -> Result<(), IsolatedError> {
        let (queues, hosts) = (self.queues.as_ref().len(), self.hosts.as_ref().len());
        let at_least = |what, given, needed| {
            if given < needed {
                return Err(IsolatedError::Memory { what, given, needed });
            }
            Ok(())
        };
        at_least("flows", self.flows.as_ref().len(), queues)?;
        at_least("turns", self.turns.as_ref().len(), queues)?;
        at_least("held", self.held.as_ref().len(), queues)?;
        at_least("rings", self.rings.as_ref().len(), hosts)?;
        at_least("source_loads", self.source_loads.as_ref().len(), hosts)?;
        at_least("destination_loads", self.destination_loads.as_ref().len(), hosts)?;
        at_least("source_flows", self.source_flows.as_ref().len(), hosts)?;
        at_least("destination_flows", self.destination_flows.as_ref().len(), hosts)?;
        at_least("spares", self.spares.as_ref().len(), hosts)?;
        // Rates for all hosts, or for none: which slot a host gets is a matter of its label.
        let rates = [
            ("excess", self.excess.as_ref().len()),
            ("committed", self.committed.as_ref().len()),
            ("returns", self.returns.as_ref().len()),
            ("ceilings", self.ceilings.as_ref().len()),
            ("waiting", self.waiting.as_ref().len()),
        ];
        if rates.iter().any(|(_, given)| *given > 0) {
            for (what, given) in rates {
                at_least(what, given, hosts)?;
            }
        }
        at_least("longest", self.longest.as_ref().len(), hosts)?;
        at_least("classes", self.classes.as_ref().len(), hosts)
    }
}
