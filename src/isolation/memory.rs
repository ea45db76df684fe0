//! The tables of an isolated queue.

use core::convert::Infallible;
use core::fmt;

use flowhash::TagLine;
use sched_core::{
    AqmSetting, ChosenAqmState, ConfigError, Descriptor, FlowRecord, HeldFlow, HeldHost,
    HostClasses, Queue, TinState,
};

use super::calendar::{FEWEST, List, MOST, TinRounds};
use super::rates::{ExcessTurn, HostRate};
use super::records::{Flow, Host, Turn};
use super::rounds::{Due, Share};
use super::serve::TINS;
use crate::storage::{Allocate, NoTable, Slices, Storage};
use crate::{IsolatedError, TinPlan};

/// The tables of an [`Isolated`](super::Isolated) queue; their contents do not matter.
///
/// There are queues, and after them a spare queue for each host. The numbers of queues and hosts
/// are powers of two, together at most [`MAX_QUEUES`](Self::MAX_QUEUES). Memory: 752 bytes, 16 per
/// packet, 48 per queue, 81 per host including its spare queue, and 44 per host for each allocated
/// tin (a power of two). A tin beyond the first takes 240. An AQM needs a state for each queue in
/// addition, spare ones included: 24 bytes for [`ChosenAqm`](sched_core::ChosenAqm), which also
/// takes 136 for each tin ([`AqmMemory`]).
///
/// Two groups of tables are optional: [rates](Self::with_rates) of hosts, and
/// [`triple-isolate`](Self::with_triple), which is refused without them. If the [storage](Storage)
/// does not support them, their code is not compiled.
pub struct IsolatedMemory<S: Storage> {
    /// One for each handle.
    pub(super) packets: S::Of<Descriptor>,
    /// One for eight queues; none for spare ones.
    pub(super) lines: S::Of<TagLine>,
    /// One for each queue, spare ones included.
    pub(super) queues: S::Of<Queue>,
    /// One for each queue, spare ones included.
    pub(super) flows: S::Of<Flow>,
    /// The bytes of each flow, for longest-queue drop; one for each queue, spare ones included.
    pub(super) held_flows: S::Of<HeldFlow>,
    /// One for eight hosts.
    pub(super) host_lines: S::Of<TagLine>,
    /// One for each host.
    pub(super) hosts: S::Of<Host>,
    /// The bytes of each host, for longest-queue drop; one for each host.
    pub(super) held_hosts: S::Of<HeldHost>,
    /// One element.
    pub(super) classes: S::One<HostClasses>,
    /// One for each host in each tin.
    pub(super) turns: S::Of<Turn>,
    /// One for each allocated tin.
    pub(super) tins: S::Tins<TinState>,
    /// One for each tin beyond the first.
    pub(super) records: S::Tins<FlowRecord>,
    /// One element.
    pub(super) totals: S::One<FlowRecord>,
    /// One for each host, or none.
    pub(super) rates: S::Rates<HostRate>,
    /// One for each turn, or none.
    pub(super) excess: S::Rates<ExcessTurn>,
    pub(super) rounds: RoundTables<S>,
}

/// The tables of a [`SmartQueue`](crate::SmartQueue) beside [`IsolatedMemory`], for its AQM and its
/// tins. Their contents do not matter.
#[derive(Debug)]
pub struct AqmMemory<S: Storage> {
    /// One for each queue, spare ones included.
    pub states: S::Of<ChosenAqmState>,
    /// One for each allocated tin.
    pub settings: S::Tins<AqmSetting>,
    /// One element, for the tins of the queue.
    pub plan: S::One<TinPlan>,
}

/// The tables of `triple-isolate`; all empty without it.
pub(super) struct RoundTables<S: Storage> {
    /// One for each round.
    pub(super) lists: S::Rounds<List>,
    /// One for 64 rounds, and for each tin.
    pub(super) words: S::Rounds<u64>,
    /// One for each allocated tin.
    pub(super) tins: S::Rounds<TinRounds>,
    /// One for each queue, spare ones included.
    pub(super) dues: S::Rounds<Due>,
    /// One for each turn.
    pub(super) shares: S::Rounds<Share>,
    /// One for eight hosts of the side that is not the local one.
    pub(super) lines: S::Rounds<TagLine>,
}

impl RoundTables<Slices<'_>> {
    pub(super) const NONE: Self = Self {
        lists: NoTable::NEW,
        words: NoTable::NEW,
        tins: NoTable::NEW,
        dues: NoTable::NEW,
        shares: NoTable::NEW,
        lines: NoTable::NEW,
    };
}

impl<S: Storage> RoundTables<S> {
    fn allocate_in<A: Allocate<Storage = S>>(
        maker: &mut A,
        rounds: usize,
        tins: usize,
        queues: usize,
        (hosts, turns): (usize, usize),
    ) -> Result<Self, A::Error> {
        Ok(Self {
            lists: maker.rounds(List::EMPTY, rounds)?,
            words: maker.rounds(0, words(rounds, tins))?,
            tins: maker.rounds(TinRounds::EMPTY, tins)?,
            dues: maker.rounds(Due::EMPTY, queues)?,
            shares: maker.rounds(Share::EMPTY, turns)?,
            lines: maker.rounds(TagLine::EMPTY, hosts.div_ceil(8))?,
        })
    }
}

/// Returns the number of words with a bit for each round.
const fn words(rounds: usize, tins: usize) -> usize {
    let words = rounds.div_ceil(64);
    if words > tins { words } else { tins }
}

/// Returns the number of tins for which there are tables.
const fn allocated(tins: usize) -> usize {
    let tins = if tins < TINS { tins } else { TINS };
    tins.next_power_of_two()
}

/// Returns the most bytes of a block that a table of `len` elements takes, including what is
/// skipped to align it.
const fn most<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>()).saturating_add(align_of::<T>().saturating_sub(1))
}

/// Returns the sum.
const fn sum(mut terms: &[usize]) -> usize {
    let mut sum = 0_usize;
    while let [first, rest @ ..] = terms {
        sum = sum.saturating_add(*first);
        terms = rest;
    }
    sum
}

/// Leaves out the tables.
impl<S: Storage> fmt::Debug for IsolatedMemory<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolatedMemory")
            .field("queues", &self.queues.as_ref().len())
            .field("packets", &self.packets())
            .finish_non_exhaustive()
    }
}

/// Allocation that cannot fail, such as on the heap.
impl<S: Allocate<Storage = S, Error = Infallible> + Storage + Default> IsolatedMemory<S> {
    /// Allocates tables for these numbers of queues, hosts, tins per host, and packets. More than
    /// eight tins count as eight; without the feature `tins`, every number counts as one.
    #[must_use]
    pub fn allocate(queues: usize, hosts: usize, tins: usize, packets: usize) -> Self {
        let Ok(memory) = Self::allocate_in(&mut S::default(), queues, hosts, tins, packets);
        memory
    }

    /// Allocates the other tables of a [`SmartQueue`](crate::SmartQueue) over these, for its AQM
    /// and its tins.
    #[must_use]
    pub fn aqm(&self) -> AqmMemory<S> {
        let Ok(memory) = self.aqm_in(&mut S::default());
        memory
    }

    /// Adds tables for a committed rate and a ceiling of every host: 112 bytes per host, and 20 for
    /// each of its turns.
    #[must_use]
    pub fn with_rates(self) -> Self {
        let Ok(memory) = self.with_rates_in(&mut S::default());
        memory
    }

    /// Adds tables for `triple-isolate`: 12 bytes per queue, 8 per host and 8 for each of its tins,
    /// 8 per round. `rounds` is at least two for each tin, and at most 4,096. The tins have equal
    /// parts of it, the largest powers of two: in a tin with `r` rounds, the load of a host is at
    /// most `r - 1`, however many flows it has beyond that.
    #[must_use]
    pub fn with_triple(self, rounds: usize) -> Self {
        let Ok(memory) = self.with_triple_in(&mut S::default(), rounds);
        memory
    }
}

/// Allocation that may fail, such as in one block of memory.
impl<S: Storage> IsolatedMemory<S> {
    /// Allocates tables from `maker`, with the numbers of [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// The error of `maker`, if it fails.
    pub fn allocate_in<A: Allocate<Storage = S>>(
        maker: &mut A,
        queues: usize,
        hosts: usize,
        tins: usize,
        packets: usize,
    ) -> Result<Self, A::Error> {
        let all = queues.saturating_add(hosts);
        let tins = allocated(tins);
        Ok(Self {
            packets: maker.table(Descriptor::EMPTY, packets)?,
            lines: maker.table(TagLine::EMPTY, queues.div_ceil(8))?,
            queues: maker.table(Queue::EMPTY, all)?,
            flows: maker.table(Flow::EMPTY, all)?,
            held_flows: maker.table(HeldFlow::EMPTY, all)?,
            host_lines: maker.table(TagLine::EMPTY, hosts.div_ceil(8))?,
            hosts: maker.table(Host::EMPTY, hosts)?,
            held_hosts: maker.table(HeldHost::EMPTY, hosts)?,
            classes: maker.one(HostClasses::EMPTY)?,
            turns: maker.table(Turn::EMPTY, hosts.saturating_mul(tins))?,
            tins: maker.tins(TinState::EMPTY, tins)?,
            records: maker.tins(FlowRecord::EMPTY, tins.saturating_sub(1))?,
            totals: maker.one(FlowRecord::EMPTY)?,
            rates: maker.rates(HostRate::EMPTY, 0)?,
            excess: maker.rates(ExcessTurn::EMPTY, 0)?,
            rounds: RoundTables::allocate_in(maker, 0, 0, 0, (0, 0))?,
        })
    }

    /// Allocates the tables of an AQM from `maker`, like [`aqm`](Self::aqm).
    ///
    /// # Errors
    /// The error of `maker`, if it fails.
    pub fn aqm_in<A: Allocate<Storage = S>>(
        &self,
        maker: &mut A,
    ) -> Result<AqmMemory<S>, A::Error> {
        Ok(AqmMemory {
            states: maker.table(ChosenAqmState::EMPTY, self.queues())?,
            settings: maker.tins(AqmSetting::EMPTY, self.tins())?,
            plan: maker.one(TinPlan::EMPTY)?,
        })
    }

    /// Adds tables for rates and ceilings of hosts from `maker`, like
    /// [`with_rates`](Self::with_rates).
    ///
    /// # Errors
    /// The error of `maker`, if it fails.
    pub fn with_rates_in<A: Allocate<Storage = S>>(self, maker: &mut A) -> Result<Self, A::Error> {
        let rates = maker.rates(HostRate::EMPTY, self.hosts.as_ref().len())?;
        let excess = maker.rates(ExcessTurn::EMPTY, self.turns.as_ref().len())?;
        Ok(Self { rates, excess, ..self })
    }

    /// Adds tables for `triple-isolate` from `maker`, like [`with_triple`](Self::with_triple).
    ///
    /// # Errors
    /// The error of `maker`, if it fails.
    pub fn with_triple_in<A: Allocate<Storage = S>>(
        self,
        maker: &mut A,
        rounds: usize,
    ) -> Result<Self, A::Error> {
        let (queues, hosts, tins) = (self.queues(), self.hosts.as_ref().len(), self.tins());
        let sides = (hosts, self.turns.as_ref().len());
        let rounds = RoundTables::allocate_in(maker, rounds, tins, queues, sides)?;
        Ok(Self { rounds, ..self })
    }

    /// Returns how many bytes of a block suffice for the tables of
    /// [`allocate_in`](Self::allocate_in) and [`aqm_in`](Self::aqm_in), in any order and wherever
    /// the block begins. The result does not depend on the storage.
    ///
    /// ```
    /// use freeboard::{IsolatedMemory, Slices};
    ///
    /// // 64 queues, 16 hosts, one tin and 256 packets.
    /// const BYTES: usize = IsolatedMemory::<Slices<'_>>::bytes(64, 16, 1, 256);
    /// assert!(BYTES < 13 << 10);
    /// ```
    #[must_use]
    pub const fn bytes(queues: usize, hosts: usize, tins: usize, packets: usize) -> usize {
        let all = queues.saturating_add(hosts);
        let tins = allocated(tins);
        sum(&[
            most::<Descriptor>(packets),
            most::<TagLine>(queues.div_ceil(8)),
            most::<Queue>(all),
            most::<Flow>(all),
            most::<HeldFlow>(all),
            most::<TagLine>(hosts.div_ceil(8)),
            most::<Host>(hosts),
            most::<HeldHost>(hosts),
            most::<HostClasses>(1),
            most::<Turn>(hosts.saturating_mul(tins)),
            most::<TinState>(tins),
            most::<FlowRecord>(tins.saturating_sub(1)),
            most::<FlowRecord>(1),
            most::<ChosenAqmState>(all),
            most::<AqmSetting>(tins),
            most::<TinPlan>(1),
        ])
    }

    /// Returns how many bytes of a block suffice for the tables of
    /// [`with_triple_in`](Self::with_triple_in), in any order and wherever the block begins.
    #[must_use]
    pub const fn triple_bytes(queues: usize, hosts: usize, tins: usize, rounds: usize) -> usize {
        let tins = allocated(tins);
        sum(&[
            most::<List>(rounds),
            most::<u64>(words(rounds, tins)),
            most::<TinRounds>(tins),
            most::<Due>(queues.saturating_add(hosts)),
            most::<Share>(hosts.saturating_mul(tins)),
            most::<TagLine>(hosts.div_ceil(8)),
        ])
    }
}

impl<S: Storage> IsolatedMemory<S> {
    /// The maximum number of queues, spare ones included: links between them have 16 bits.
    pub const MAX_QUEUES: u32 = u16::MAX as u32;

    /// Returns the number of queues, spare ones included, which is the number of states that an AQM
    /// needs.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.as_ref().len()
    }

    /// Returns the number of tins that were allocated.
    pub(crate) fn tins(&self) -> usize {
        let (turns, hosts) = (self.turns.as_ref().len(), self.hosts.as_ref().len());
        turns.checked_div(hosts).unwrap_or(1).min(TINS)
    }

    /// Returns the number of descriptors.
    pub(crate) fn packets(&self) -> usize {
        self.packets.as_ref().len()
    }

    /// Checks that every table is long enough for the number of queues or hosts; tag lines are
    /// checked by their tables.
    pub(super) fn check(&self) -> Result<(), IsolatedError> {
        let (queues, hosts) = (self.queues.as_ref().len(), self.hosts.as_ref().len());
        let turns = self.turns.as_ref().len();
        let tables = [
            ("flows", self.flows.as_ref().len(), queues),
            ("bytes of flows", self.held_flows.as_ref().len(), queues),
            ("bytes of hosts", self.held_hosts.as_ref().len(), hosts),
            ("classes of hosts", self.classes.as_ref().len(), 1),
            ("records of all", self.totals.as_ref().len(), 1),
            ("turns", turns, hosts),
            ("tins", self.tins.as_ref().len(), self.tins()),
            ("records of tins", self.records.as_ref().len(), self.tins().saturating_sub(1)),
        ];
        tables.into_iter().try_for_each(is_long_enough)?;
        // The label of a host selects its entry, so there are rates for all entries or for none.
        let rates = [
            ("rates", self.rates.as_ref().len(), hosts),
            ("turns in excess", self.excess.as_ref().len(), self.turns.as_ref().len()),
        ];
        if rates.iter().any(|(_, given, _)| *given > 0) {
            rates.into_iter().try_for_each(is_long_enough)?;
        }
        let (of, turns) = (&self.rounds, self.turns.as_ref().len());
        let length = of.lists.as_ref().len();
        if !self.has_triple() {
            return Ok(());
        }
        if !(FEWEST..=MOST).contains(&length) {
            let (min, max) = (FEWEST as u64, MOST as u64);
            let (what, value) = ("rounds of the calendar", length as u64);
            return Err(ConfigError::OutOfRange { what, value, min, max }.into());
        }
        let tables = [
            ("words of rounds", of.words.as_ref().len(), length.div_ceil(64).max(self.tins())),
            ("rounds of tins", of.tins.as_ref().len(), self.tins()),
            ("turns in triple-isolate", of.dues.as_ref().len(), queues),
            ("loads of hosts", of.shares.as_ref().len(), turns),
        ];
        tables.into_iter().try_for_each(is_long_enough)
    }

    /// Returns true if there is any table of `triple-isolate`.
    pub(super) fn has_triple(&self) -> bool {
        !self.rounds.lists.as_ref().is_empty() || !self.rounds.dues.as_ref().is_empty()
    }
}

/// Checks that a table of `given` elements has as many as are needed.
pub(crate) fn is_long_enough(
    (what, given, needed): (&'static str, usize, usize),
) -> Result<(), IsolatedError> {
    if given < needed {
        return Err(IsolatedError::Memory { what, given, needed });
    }
    Ok(())
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::{Heap, StaticTables};

    /// Removes the last element.
    fn shorten<E: Clone>(table: &mut alloc::boxed::Box<[E]>) {
        *table = table.split_last().map(|(_, rest)| rest.into()).unwrap_or_default();
    }

    /// Returns the bytes of all tables except those per packet.
    fn bytes(queues: usize, hosts: usize, tins: usize) -> usize {
        let memory = IsolatedMemory::<Heap>::allocate(queues, hosts, tins, 0);
        size_of_val(&memory.lines[..])
            + size_of_val(&memory.queues[..])
            + size_of_val(&memory.flows[..])
            + size_of_val(&memory.held_flows[..])
            + size_of_val(&memory.host_lines[..])
            + size_of_val(&memory.hosts[..])
            + size_of_val(&memory.held_hosts[..])
            + size_of_val(&memory.classes[..])
            + size_of_val(&memory.turns[..])
            + size_of_val(&memory.tins[..])
            + size_of_val(&memory.records[..])
            + size_of_val(&memory.totals[..])
    }

    /// Goal: the documented memory is right. Method: the difference that a queue, a host or a tin
    /// makes.
    #[test]
    fn tables_take_what_the_page_says() {
        let whole = bytes(1_024, 64, 1);
        assert_eq!(bytes(2_048, 64, 1), whole + 1_024 * 48);
        assert_eq!(bytes(1_024, 128, 1), whole + 64 * (81 + 44));
        assert_eq!(bytes(1_024, 64, 3), whole + 3 * (64 * 44 + 240));
        assert_eq!(whole, 57_904);
        assert_eq!((size_of::<ChosenAqmState>(), size_of::<AqmSetting>()), (24, 136));

        let values = (size_of::<crate::DescriptorQueue>(), size_of::<crate::FrameQueue>());
        let of_slices = size_of::<crate::StaticFrameQueue<'static>>();
        assert!(values.0 <= 1_440 && values.1.max(of_slices) <= 1_600, "{values:?}, {of_slices}");

        let (few, many) = (StaticTables::<0, 8, 2>::new(), StaticTables::<0, 16, 2>::new());
        assert_eq!(size_of_val(&many) - size_of_val(&few), 8 * (2_184 + 2 * 352));
    }

    /// An allocator that counts the bytes of its tables, and those that alignment may cost.
    #[derive(Debug)]
    struct Counted(usize, usize);

    impl Storage for Counted {
        type Of<T: fmt::Debug + 'static> = alloc::vec::Vec<T>;
        type One<T: fmt::Debug + 'static> = alloc::vec::Vec<T>;
        type Tins<T: fmt::Debug + 'static> = alloc::vec::Vec<T>;
        type Rates<T: fmt::Debug + 'static> = alloc::vec::Vec<T>;
        type Rounds<T: fmt::Debug + 'static> = alloc::vec::Vec<T>;
    }

    type Made<T> = Result<alloc::vec::Vec<T>, ()>;

    impl Allocate for Counted {
        type Storage = Self;
        type Error = ();

        fn table<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
            self.0 += len * size_of::<T>();
            self.1 += align_of::<T>() - 1;
            Ok(alloc::vec![empty; len])
        }

        fn one<T: Clone + fmt::Debug + 'static>(&mut self, empty: T) -> Made<T> {
            self.table(empty, 1)
        }

        fn tins<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
            self.table(empty, len)
        }

        fn rates<T: Clone + fmt::Debug + 'static>(&mut self, _: T, _: usize) -> Made<T> {
            Ok(alloc::vec::Vec::new())
        }

        fn rounds<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
            if len > 0 { self.table(empty, len) } else { Ok(alloc::vec::Vec::new()) }
        }
    }

    /// Goal: the bytes given for a block are those of its tables and their alignment. Method: an
    /// allocator that counts, for several sizes.
    #[test]
    fn the_bytes_of_a_block_suffice() -> Result<(), ()> {
        type Sizes = IsolatedMemory<Counted>;
        for (queues, hosts, tins, packets, rounds) in
            [(8, 8, 1, 0, 2), (64, 16, 1, 256, 64), (1_024, 256, 3, 1_000, 256), (8, 64, 9, 1, 65)]
        {
            let mut maker = Counted(0, 0);
            let memory = Sizes::allocate_in(&mut maker, queues, hosts, tins, packets)?;
            memory.aqm_in(&mut maker)?;
            let bytes = Sizes::bytes(queues, hosts, tins, packets);
            assert_eq!(bytes, maker.0 + maker.1);
            let mut maker = Counted(0, 0);
            memory.with_triple_in(&mut maker, rounds)?;
            let bytes = Sizes::triple_bytes(queues, hosts, tins, rounds);
            assert_eq!(bytes, maker.0 + maker.1);
        }
        Ok(())
    }

    /// Goal: rates take the documented memory, and a table of them that is too short is named.
    /// Method: the size of an element of each, and each without its last one.
    #[test]
    fn rates_take_what_the_page_says_for_every_host() {
        let memory = || IsolatedMemory::<Heap>::allocate(64, 16, 2, 64).with_rates();
        let (rates, excess) = (memory().rates, memory().excess);
        assert_eq!((size_of_val(&rates[..]), size_of_val(&excess[..])), (16 * 112, 32 * 20));
        let mut short = memory();
        shorten(&mut short.rates);
        let (what, given, needed) = ("rates", 15, 16);
        assert_eq!(short.check(), Err(IsolatedError::Memory { what, given, needed }));
        let mut short = memory();
        shorten(&mut short.excess);
        let (what, given, needed) = ("turns in excess", 31, 32);
        assert_eq!(short.check(), Err(IsolatedError::Memory { what, given, needed }));
    }

    /// Goal: more queues than links can number are refused. Method: tables near the limit, and
    /// beyond it by queues and by hosts.
    #[test]
    fn more_queues_than_links_number_are_refused() {
        let make = |queues, hosts| {
            let memory = IsolatedMemory::<Heap>::allocate(queues, hosts, 1, 0);
            let config = crate::IsolatedConfig::new(1_500, sched_core::Limits::NONE);
            crate::Isolated::new(memory, config).map(|_| ())
        };
        let (what, max) = ("flow entries", IsolatedMemory::<Heap>::MAX_QUEUES.into());
        let refused = |value| Err(ConfigError::OutOfRange { what, value, min: 0, max }.into());
        assert_eq!((make(32_768, 16_384), make(8, 32_768)), (Ok(()), Ok(())));
        assert_eq!((make(32_768, 32_768), make(65_536, 8)), (refused(65_536), refused(65_544)));
    }

    /// Goal: no number of tins overflows or allocates more than can be used. Method: the largest
    /// number.
    #[test]
    fn no_more_tins_than_there_may_be_take_room() {
        assert_eq!(bytes(64, 16, usize::MAX), bytes(64, 16, 8));
    }

    /// Goal: no table may be too short for its queues or hosts. Method: each in turn without its
    /// last element; the error names it.
    #[test]
    fn a_table_that_is_too_short_is_named() {
        type Cut = fn(&mut IsolatedMemory<Heap>);
        let cut: [(&str, usize, Cut); 7] = [
            ("flows", 80, |memory| shorten(&mut memory.flows)),
            ("bytes of flows", 80, |memory| shorten(&mut memory.held_flows)),
            ("bytes of hosts", 16, |memory| shorten(&mut memory.held_hosts)),
            ("classes of hosts", 1, |memory| shorten(&mut memory.classes)),
            ("turns", 16, |memory| shorten(&mut memory.turns)),
            ("tins", 4, |memory| shorten(&mut memory.tins)),
            ("records of tins", 3, |memory| shorten(&mut memory.records)),
        ];
        for (what, needed, cut) in cut {
            let tins = if what == "turns" { 1 } else { 4 };
            let mut memory = IsolatedMemory::allocate(64, 16, tins, 64);
            assert_eq!(memory.check(), Ok(()));
            cut(&mut memory);
            let given = needed - 1;
            assert_eq!(memory.check(), Err(IsolatedError::Memory { what, given, needed }));
        }
    }

    fn triple() -> IsolatedMemory<Heap> {
        IsolatedMemory::allocate(64, 16, 4, 64).with_triple(256)
    }

    /// Goal: the documented memory of `triple-isolate` is right. Method: the difference that a
    /// queue, a host, a tin or a round makes.
    #[test]
    fn tables_of_triple_isolate_take_what_the_page_says() {
        let bytes = |queues, hosts, tins, rounds| {
            let memory = IsolatedMemory::<Heap>::allocate(queues, hosts, tins, 0);
            let of = memory.with_triple(rounds).rounds;
            size_of_val(&of.lists[..])
                + size_of_val(&of.dues[..])
                + size_of_val(&of.shares[..])
                + size_of_val(&of.lines[..])
        };
        let whole = bytes(1_024, 64, 1, 64);
        assert_eq!(bytes(2_048, 64, 1, 64), whole + 1_024 * 12);
        // A host has a spare queue as well.
        assert_eq!(bytes(1_024, 128, 1, 64), whole + 64 * (12 + 8 + 8));
        assert_eq!(bytes(1_024, 64, 2, 64), whole + 64 * 8);
        assert_eq!(bytes(1_024, 64, 1, 128), whole + 64 * 8);
    }

    /// Goal: no table of `triple-isolate` may be too short, and rounds are 2 to 4,096. Method: each
    /// table in turn without its last element; numbers of rounds at the ends.
    #[test]
    fn a_table_of_triple_isolate_that_is_too_short_is_named() {
        assert_eq!(triple().check(), Ok(()));
        type Cut = fn(&mut RoundTables<Heap>);
        let cut: [(&str, usize, Cut); 4] = [
            ("words of rounds", 4, |of| shorten(&mut of.words)),
            ("rounds of tins", 4, |of| shorten(&mut of.tins)),
            ("turns in triple-isolate", 80, |of| shorten(&mut of.dues)),
            ("loads of hosts", 64, |of| shorten(&mut of.shares)),
        ];
        for (what, needed, cut) in cut {
            let mut memory = triple();
            cut(&mut memory.rounds);
            let given = needed - 1;
            assert_eq!(memory.check(), Err(IsolatedError::Memory { what, given, needed }));
        }
        for (rounds, is_accepted) in
            [(0, false), (1, false), (2, true), (4_096, true), (4_097, false)]
        {
            let memory = IsolatedMemory::<Heap>::allocate(64, 16, 1, 64).with_triple(rounds);
            assert_eq!(memory.check().is_ok(), is_accepted, "{rounds}");
        }
    }

    /// Goal: `triple-isolate` is refused without its tables and for more tins than half the rounds,
    /// and otherwise accepted. Method: queues with and without them, and other tins.
    #[test]
    fn triple_isolate_needs_its_tables() -> Result<(), IsolatedError> {
        use crate::{Isolated, IsolatedConfig, Isolation};
        use sched_core::{Limits, TinConfig};
        let config = IsolatedConfig::new(1_500, Limits::NONE).isolated_by(Isolation::TripleIsolate);
        let without = IsolatedMemory::<Heap>::allocate(64, 16, 4, 64);
        assert_eq!(Isolated::new(without, config).err(), Some(IsolatedError::NoTriple));
        let memory = IsolatedMemory::<Heap>::allocate(64, 16, 4, 64).with_triple(5);
        let mut queue = Isolated::new(memory, config)?;
        let tins = [TinConfig::by_weight(1); 4];
        assert_eq!(queue.set_tins(&tins[..2]), Ok(()));
        let (what, given, needed) = ("rounds", 5, 6);
        let short = Err(IsolatedError::Memory { what, given, needed });
        assert_eq!((queue.set_tins(&tins[..3]), queue.tins()), (short, 2));
        Ok(())
    }
}
