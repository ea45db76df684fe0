//! The tables of an isolated queue, and where they lie.

use core::fmt;

use flowhash::Line;
use sched_core::{
    DrrFlow, HeldFlow, HostClasses, HostRing, HostedFlow, LongestHost, Queue, RoundList,
    RoundsFlow, RoundsHost, Slot, Table,
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

/// Tables in slices that somebody else keeps: parts of a `static`, or of one allocation.
#[derive(Debug)]
pub struct Slices<'a>(core::marker::PhantomData<&'a mut ()>);

impl<'a> Storage for Slices<'a> {
    type Of<T: fmt::Debug + 'static> = &'a mut [T];
}

/// The tables of an [`Isolated`](crate::Isolated) queue; what they contain does not matter.
///
/// `QUEUES` and `HOSTS` are powers of two; a line is eight queues of a table. Memory: 16 bytes a packet,
/// and for each queue and host what the fields say.
#[derive(Debug)]
pub struct IsolatedMemory<S: Storage> {
    /// `QUEUES / 8`: 8 bytes a queue.
    pub lines: S::Of<Line>,
    /// `QUEUES`: 16 bytes.
    pub queues: S::Of<Queue>,
    /// One for each handle: 16 bytes.
    pub slots: S::Of<Slot>,
    /// `QUEUES`, for the flows of hosts: 24 bytes.
    pub flows: S::Of<HostedFlow>,
    /// `HOSTS`, for the rings of their flows: 16 bytes.
    pub rings: S::Of<HostRing>,
    /// `HOSTS`, for their turns: 24 bytes.
    pub hosts: S::Of<DrrFlow>,
    /// `QUEUES`, for the flows of rounds: 32 bytes.
    pub turns: S::Of<RoundsFlow>,
    /// Two or more: flows of a host beyond this are not told apart in `triple-isolate`: 8 bytes.
    pub calendar: S::Of<RoundList>,
    /// `HOSTS`, for the loads of sources: 8 bytes.
    pub source_loads: S::Of<RoundsHost>,
    /// `HOSTS`, for the loads of destinations: 8 bytes.
    pub destination_loads: S::Of<RoundsHost>,
    /// `HOSTS / 8`: 8 bytes a host.
    pub source_lines: S::Of<Line>,
    /// `HOSTS / 8`: 8 bytes a host.
    pub destination_lines: S::Of<Line>,
    /// `HOSTS`: 4 bytes.
    pub source_flows: S::Of<u32>,
    /// `HOSTS`: 4 bytes.
    pub destination_flows: S::Of<u32>,
    /// `QUEUES`, for who gives way: 16 bytes.
    pub held: S::Of<HeldFlow>,
    /// `HOSTS`, for who gives way: 16 bytes.
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
    /// All tables for so many queues, hosts of either side, handles, and rounds of the calendar.
    #[must_use]
    pub fn allocate(queues: usize, hosts: usize, packets: usize, rounds: usize) -> Self {
        Self {
            lines: S::table(Line::EMPTY, lines(queues)),
            queues: S::table(Queue::EMPTY, queues),
            slots: S::table(Slot::EMPTY, packets),
            flows: S::table(HostedFlow::EMPTY, queues),
            rings: S::table(HostRing::EMPTY, hosts),
            hosts: S::table(DrrFlow::EMPTY, hosts),
            turns: S::table(RoundsFlow::EMPTY, queues),
            calendar: S::table(RoundList::EMPTY, rounds),
            source_loads: S::table(RoundsHost::EMPTY, hosts),
            destination_loads: S::table(RoundsHost::EMPTY, hosts),
            source_lines: S::table(Line::EMPTY, lines(hosts)),
            destination_lines: S::table(Line::EMPTY, lines(hosts)),
            source_flows: S::table(0, hosts),
            destination_flows: S::table(0, hosts),
            held: S::table(HeldFlow::EMPTY, queues),
            longest: S::table(LongestHost::EMPTY, hosts),
            classes: S::table(HostClasses::EMPTY, hosts),
        }
    }
}

/// Lines for so many queues of a [`flowhash::Table`].
const fn lines(queues: usize) -> usize {
    queues.div_ceil(8)
}

impl<S: Storage> IsolatedMemory<S> {
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
        at_least("longest", self.longest.as_ref().len(), hosts)?;
        at_least("classes", self.classes.as_ref().len(), hosts)
    }
}
