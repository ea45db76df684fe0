//! The disciplines by name, over boxed memory and behind a line: what experiments compare.
//!
//! All but the FIFO keep a queue for each flow, and drop from the head of the longest queue when
//! the limits are reached, so that what differs between them is the order of service alone.

use core::fmt;
use core::str::FromStr;

use freeboard::sched_core::{
    ConfigError, Drr, DrrFlow, Fifo, FlowId, FlowQueues, FlowScheduler, Limits, LongestFlow,
    LongestQueueDrop, Queue, Scheduler, ShortestFlow, ShortestQueue, Slot,
};
use freeboard::shaper::{Overhead, Shaped, Shaper};

/// A discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First in, first out, with tail drop: what a modem has.
    Fifo,
    /// Deficit round robin with a quantum of the longest packet.
    Drr,
    /// Shortest queue first.
    Sqf,
}

/// What a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Flows are numbered below this. A FIFO takes packets of any.
    pub flows: u32,
    /// Handles are numbered below this: one more than packets may be queued, since the arrival that
    /// overflows the limit has one too.
    pub handles: u32,
    /// What may be queued at once.
    pub limits: Limits,
    /// The longest packet, in bytes.
    pub max_len: u32,
}

impl Discipline {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Drr, Self::Sqf];

    /// The name on command lines and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Drr => "drr",
            Self::Sqf => "sqf",
        }
    }

    /// An empty queue of this discipline in front of a line, with all its flows added and alike.
    ///
    /// # Errors
    /// [`ConfigError`] if the discipline cannot have packets of that length.
    pub fn behind(
        self,
        line: Shaper,
        link: Overhead,
        size: Size,
    ) -> Result<Box<Shaped<dyn Scheduler>>, ConfigError> {
        let Size { flows, handles, limits, max_len } = size;
        Ok(match self {
            Self::Fifo => {
                let slots = vec![Slot::EMPTY; handles as usize];
                Box::new(Shaped::new(Fifo::tail_drop(slots, limits), line, link))
            }
            Self::Drr => {
                let mut drr = Drr::new(vec![DrrFlow::EMPTY; flows as usize], max_len)?;
                drr.add_all(max_len)?;
                Box::new(Shaped::new(queues(longest_dropped(drr), size), line, link))
            }
            Self::Sqf => {
                let mut sqf = ShortestQueue::new(vec![ShortestFlow::EMPTY; flows as usize]);
                for flow in 0..flows {
                    sqf.configure(FlowId(flow), (), None)?;
                }
                Box::new(Shaped::new(queues(sqf, size), line, link))
            }
        })
    }
}

fn longest_dropped<O: FlowScheduler>(order: O) -> LongestQueueDrop<O, Vec<LongestFlow>> {
    let flows = vec![LongestFlow::EMPTY; order.flows() as usize];
    LongestQueueDrop::new(order, flows)
}

fn queues<O: FlowScheduler>(order: O, size: Size) -> FlowQueues<O, Vec<Queue>, Vec<Slot>> {
    let queues = vec![Queue::EMPTY; size.flows as usize];
    FlowQueues::new(order, queues, vec![Slot::EMPTY; size.handles as usize], size.limits)
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDiscipline {
    /// The word.
    pub word: String,
}

impl fmt::Display for UnknownDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Discipline::ALL.map(Discipline::name).join(", ");
        write!(f, "{:?} is not a scheduler; accepted: {names}", self.word)
    }
}

impl core::error::Error for UnknownDiscipline {}

impl FromStr for Discipline {
    type Err = UnknownDiscipline;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|discipline| discipline.name() == word);
        found.ok_or_else(|| UnknownDiscipline { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::sched_core::{DropReason, Nanos, Packet};
    use freeboard::shaper::Rate;

    const SIZE: Size = Size { flows: 4, handles: 6, limits: Limits::packets(5), max_len: 1_500 };

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for discipline in Discipline::ALL {
            assert_eq!(discipline.to_string().parse(), Ok(discipline));
        }
        let error = "sfq".parse::<Discipline>().unwrap_err();
        assert!(error.to_string().starts_with("\"sfq\" is not a scheduler; accepted: fifo, drr"));
    }

    /// Goal: the wiring is what the name says. Method: flow 0 sends four packets of 1,000 bytes, flow
    /// 1 two of 100, into room for five. A FIFO rejects the last arrival and keeps the order; the
    /// others drop the first packet of flow 0. DRR then gives flow 0 its turn of 1,500 bytes, two
    /// packets; SQF sends flow 1 first.
    #[test]
    fn each_discipline_serves_and_drops_in_its_own_order() {
        for (discipline, gone, order) in [
            (Discipline::Fifo, (5, DropReason::Rejected), vec![0, 1, 2, 3, 4]),
            (Discipline::Drr, (0, DropReason::Overflow), vec![1, 2, 4, 5, 3]),
            (Discipline::Sqf, (0, DropReason::Overflow), vec![4, 5, 1, 2, 3]),
        ] {
            let line = Shaper::new(Rate::UNLIMITED);
            let mut queue = discipline.behind(line, Overhead::RAW, SIZE).unwrap();
            let mut lost = Vec::new();
            let sink = &mut |packet: Packet, why| lost.push((packet.handle, why));
            let burst = [(0, 1_000), (0, 1_000), (0, 1_000), (0, 1_000), (1, 100), (1, 100)];
            for ((flow, len), handle) in burst.into_iter().zip(0..) {
                queue.enqueue_burst(Nanos(0), &[(FlowId(flow), Packet::new(handle, len))], sink);
            }
            let sent = || queue.dequeue(Nanos(0), sink).map(|packet| packet.handle);
            assert_eq!(core::iter::from_fn(sent).collect::<Vec<_>>(), order, "{discipline}");
            assert_eq!(lost, [gone], "{discipline}");
            assert_eq!(queue.recount(), Ok(()));
        }
    }

    #[test]
    fn a_length_no_packet_can_have_is_refused() {
        let line = Shaper::new(Rate::UNLIMITED);
        let size = Size { max_len: Packet::MAX_LEN + 1, ..SIZE };
        assert!(Discipline::Drr.behind(line, Overhead::RAW, size).is_err());
    }
}
