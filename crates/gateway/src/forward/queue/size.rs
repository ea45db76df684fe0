//! Number of queues and host entries, and their memory.

use core::convert::Infallible;
use core::fmt;

use freeboard::flowhash::TagLine;
use freeboard::sched_core::{
    ChosenAqmState, LengthFlow, LongestFlow, QfqFlow, Queue as Empty, WaitingFlow,
};
use freeboard::{Allocate, IsolatedMemory, Storage, TinPlan};

use super::{ROUNDS, Shortest, users};
use crate::config::Sharing;
use crate::config::keywords::{HostMode, QueueKind};

/// Queues per host slot.
const QUEUES_OF_HOST: u32 = 4;
/// Minimum number of queues.
const FEWEST_QUEUES: u32 = 1_024;
/// Entries per host slot: with sets at most half full on average, few hosts find theirs full.
const ENTRIES_OF_HOST: u32 = 2;
/// Minimum number of host entries.
const FEWEST_ENTRIES: u32 = 256;

/// Returns the number of queues of a direction, a power of two.
pub(super) fn queues(share: &Sharing) -> usize {
    (QUEUES_OF_HOST * share.max_hosts).max(FEWEST_QUEUES).next_power_of_two() as usize
}

/// Returns the number of host entries, a power of two.
pub(super) fn host_entries(share: &Sharing) -> usize {
    (ENTRIES_OF_HOST * share.max_hosts).max(FEWEST_ENTRIES).next_power_of_two() as usize
}

/// Returns the size of one direction's tables in bytes, except those that grow with its frames.
pub(crate) fn bytes_of_tables(share: &Sharing) -> usize {
    let (queues, hosts) = (queues(share), host_entries(share));
    let in_line = size_of::<TagLine>() / 8;
    let of_queue = in_line + size_of::<Empty>() + size_of::<ChosenAqmState>();
    // The SQF scheduler contains its length classes.
    let of_shortest = |queues: usize| {
        queues * (of_queue + size_of::<LengthFlow>() + size_of::<WaitingFlow>())
            + size_of::<Shortest>()
    };
    match (share.kind, share.hosts) {
        (QueueKind::Fifo, _) => 0,
        (_, HostMode::UsersSqf) => users::USERS as usize * of_shortest(users::FLOWS),
        (QueueKind::Sqf, _) => of_shortest(queues),
        (QueueKind::Qfq, _) => {
            queues * (of_queue + size_of::<QfqFlow>() + size_of::<LongestFlow>())
        }
        (QueueKind::Drr, _) => {
            bytes_of_isolated(queues, hosts) + (queues + hosts) * size_of::<ChosenAqmState>()
        }
    }
}

/// Returns the size of the tables for this many queues and hosts, extrapolated from small ones:
/// each table grows with the queues, the hosts or both, or has a fixed length.
fn bytes_of_isolated(queues: usize, hosts: usize) -> usize {
    let of_eight = counted(8, 8);
    let (of_queues, of_hosts) = (counted(16, 8) - of_eight, counted(8, 16) - of_eight);
    of_eight + of_queues * (queues / 8 - 1) + of_hosts * (hosts / 8 - 1)
}

/// Allocates all tables and returns their bytes.
fn counted(queues: usize, hosts: usize) -> usize {
    let mut bytes = Counted(0);
    let tables = IsolatedMemory::allocate_in(&mut bytes, queues, hosts, TinPlan::MAX_TINS, 0);
    let Ok(tables) = tables.and_then(|tables| tables.with_rates_in(&mut bytes));
    let Ok(_tables) = tables.with_triple_in(&mut bytes, ROUNDS);
    bytes.0
}

/// An allocator that counts the bytes of its tables.
#[derive(Debug)]
struct Counted(usize);

impl Storage for Counted {
    type Of<T: fmt::Debug + 'static> = Vec<T>;
    type One<T: fmt::Debug + 'static> = Vec<T>;
    type Tins<T: fmt::Debug + 'static> = Vec<T>;
    type Rates<T: fmt::Debug + 'static> = Vec<T>;
    type Rounds<T: fmt::Debug + 'static> = Vec<T>;
}

type Made<T> = Result<Vec<T>, Infallible>;

impl Allocate for Counted {
    type Storage = Self;
    type Error = Infallible;

    fn table<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
        self.0 += len * size_of::<T>();
        Ok(vec![empty; len])
    }

    fn one<T: Clone + fmt::Debug + 'static>(&mut self, empty: T) -> Made<T> {
        self.table(empty, 1)
    }

    fn tins<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
        self.table(empty, len)
    }

    fn rates<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
        self.table(empty, len)
    }

    fn rounds<T: Clone + fmt::Debug + 'static>(&mut self, empty: T, len: usize) -> Made<T> {
        self.table(empty, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DEFAULT_MAX_HOSTS;
    use crate::config::keywords::Limit;
    use freeboard::AqmKind;

    fn share(kind: QueueKind, max_hosts: u32) -> Sharing {
        Sharing {
            kind,
            hosts: HostMode::Lan,
            max_hosts,
            limit: Limit::Packets(1),
            flush_unserved: None,
            aqm: AqmKind::CoDel,
            l4s: true,
            rtt: freeboard::Rtt::INTERNET,
        }
    }

    #[test]
    fn queues_and_entries_grow_with_the_hosts_and_memory_with_them() {
        let small = share(QueueKind::Drr, 1);
        assert_eq!((queues(&small), host_entries(&small)), (1_024, 256));
        let usual = share(QueueKind::Drr, DEFAULT_MAX_HOSTS);
        assert_eq!((queues(&usual), host_entries(&usual)), (8_192, 4_096));
        for kind in [QueueKind::Drr, QueueKind::Sqf, QueueKind::Qfq] {
            let bytes = [256, 1_024, 4_096].map(|hosts| bytes_of_tables(&share(kind, hosts)));
            // Besides the tables that grow, DRR has tables of fixed length, and SQF its scheduler.
            assert_eq!(bytes[2] - bytes[1], 4 * (bytes[1] - bytes[0]), "{kind:?} {bytes:?}");
            assert!(bytes[1] == 4 * bytes[0] || kind != QueueKind::Qfq, "{kind:?} {bytes:?}");
            assert!(bytes[2] > 3 * bytes[1], "{kind:?} {bytes:?}");
        }
        assert_eq!(bytes_of_tables(&share(QueueKind::Fifo, 9)), 0);
    }

    /// Goal: the extrapolated size is the actual one. Method: tables of the default size with all
    /// optional parts.
    #[test]
    fn small_tables_tell_the_size_of_large_ones() {
        assert_eq!(bytes_of_isolated(8_192, 4_096), counted(8_192, 4_096));
    }

    /// Goal: the help and the page give the actual memory per host.
    #[test]
    fn what_a_host_takes_is_what_the_help_says() {
        let each = bytes_of_tables(&share(QueueKind::Drr, 8_192)) / 8_192;
        assert!((1_957..1_967).contains(&each), "{each}");
    }
}
