//! The controller of QFQ Fig. 8: it decides which flow gets a packet next and when the scheduler is
//! drained.
//!
//! Arrivals and departures alternate in bursts: fed until `high` packets are queued, drained until
//! `low` are (hysteresis), and so on. The flow that is believed to hold least is fed first, ties in
//! the order in which they came about. For that the controller keeps 32 lists of flows, by what
//! they are believed to hold, and a word that says which lists are worth a look. Packets come from
//! a free list that is a stack. Everything allocates before the first packet.
//!
//! It is the same for every scheduler, the empty one included, and it knows the flow of each
//! packet: no flow is looked up. It stands apart from the bench so that tests can run it over a
//! flow scheduler.

use super::traffic::{MTU, Traffic};

/// No packet.
pub const NONE: u32 = u32::MAX;

/// The largest backlog of a flow that has a list; list 31 is a dead end.
const LAST_LIST: u32 = 30;
const LISTS: usize = 32;

/// What a caller knows of a packet, 16 bytes that never lie across two cache lines; there is no
/// payload.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
struct Header {
    /// The packet behind this one, on the free list or in the chain of NONE.
    next: u32,
    len: u32,
    flow: u32,
}

/// What the controller drives.
pub trait Subject {
    /// Whether there is no scheduler: the controller then chains the packets by their headers.
    const IS_NONE: bool = false;

    /// Takes the packet `handle` of `flow`.
    fn enqueue(&mut self, flow: u32, handle: u32, len: u32);

    /// Gives a packet back; [`NONE`] if there is none.
    fn dequeue(&mut self) -> u32;

    /// How many packets the controller is to believe that `flow` holds.
    fn held(&self, flow: u32) -> u32;
}

/// A place in one of the lists, which are rings through a head of their own.
#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    prev: u32,
    /// The set of the flow; of a head nothing.
    set: u32,
}

/// What has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets in.
    pub enqueued: u64,
    /// Packets out.
    pub dequeued: u64,
    /// Bytes out.
    pub bytes_dequeued: u64,
}

/// The controller, with its flows and packets.
#[derive(Debug)]
pub struct Controller {
    /// The flows, then the heads of the lists.
    nodes: Box<[Node]>,
    /// The number of the first head.
    heads: u32,
    /// The length of the packets of the flows of a set.
    sets: Box<[u32]>,
    headers: Box<[Header]>,
    /// The top of the free list.
    free: u32,
    /// The ends of the chain; the tail is stale while there is no head.
    chain: (u32, u32),
    /// Lengths in the order in which they are drawn; empty where those of the sets hold.
    lengths: Box<[u32]>,
    drawn: usize,
    /// Bit `k`: list `k` is worth a look. A list whose bit is clear may still hold flows.
    listed: u32,
    pending: u64,
    low: u64,
    high: u64,
    feeding: bool,
    passed: Passed,
}

impl Controller {
    /// The controller before its first packet.
    #[must_use]
    pub fn new(traffic: &Traffic) -> Self {
        let heads = traffic.flows;
        let mut nodes: Vec<Node> = Vec::new();
        for (set, &(_, count)) in (0..).zip(&traffic.sets()) {
            nodes.extend((0..count).map(|_| Node { next: 0, prev: 0, set }));
        }
        nodes.extend((heads..).take(LISTS).map(|head| Node { next: head, prev: head, set: 0 }));
        let (low, high) = traffic.bounds();
        let packets = traffic.packets();
        let mut headers = [Header::default()].repeat(packets.len());
        let behind = packets.iter().skip(1).chain([&NONE]);
        for (&packet, &next) in packets.iter().zip(behind) {
            headers[packet as usize].next = next;
        }
        let mut controller = Self {
            nodes: nodes.into_boxed_slice(),
            heads,
            sets: traffic.sets().iter().map(|_| MTU).collect(),
            headers: headers.into_boxed_slice(),
            free: packets[0],
            chain: (NONE, NONE),
            lengths: traffic.lengths(),
            drawn: 0,
            listed: 1,
            pending: 0,
            low,
            high,
            feeding: true,
            passed: Passed::default(),
        };
        for flow in 0..heads {
            controller.append(0, flow);
        }
        controller
    }

    /// Runs `iterations`, each at most one packet in or out; returns what has passed since the
    /// beginning.
    #[inline(never)]
    pub fn run<S: Subject>(&mut self, subject: &mut S, iterations: u64) -> Passed {
        for _ in 0..iterations {
            if self.feeding && self.pending >= self.high {
                self.feeding = false;
            } else if !self.feeding && self.pending <= self.low {
                self.feeding = true;
            }
            if !(self.feeding && self.feed(subject)) {
                self.drain(subject);
            }
        }
        self.passed
    }

    /// One packet in; `false` if no list is worth a look.
    #[inline(always)]
    fn feed<S: Subject>(&mut self, subject: &mut S) -> bool {
        let (mut list, mut flow) = (0, NONE);
        while self.listed != 0 {
            list = self.listed.trailing_zeros();
            flow = self.nodes[(self.heads + list) as usize].next;
            if flow < self.heads {
                break;
            }
            // A list without flows: where the controller does not follow backlogs, flows leave
            // lists unseen.
            self.listed &= self.listed - 1;
        }
        if flow >= self.heads {
            return false;
        }
        self.unlink(flow);
        let head = self.heads + list;
        if self.nodes[head as usize].next == head {
            self.listed &= !(1 << list);
        }
        self.append(list + 1, flow);
        if list < LAST_LIST {
            self.listed |= 2 << list;
        }

        let set = self.nodes[flow as usize].set;
        let mut len = self.sets[set as usize];
        if let Some(&drawn) = self.lengths.get(self.drawn) {
            len = drawn;
            self.drawn += 1;
            if self.drawn == self.lengths.len() {
                self.drawn = 0;
            }
        }
        let handle = self.free;
        let header = &mut self.headers[handle as usize];
        self.free = header.next;
        *header = Header { next: NONE, len, flow };
        if !S::IS_NONE {
            subject.enqueue(flow, handle, len);
        } else if self.chain.0 == NONE {
            self.chain = (handle, handle);
        } else {
            self.headers[self.chain.1 as usize].next = handle;
            self.chain.1 = handle;
        }
        self.pending += 1;
        self.passed.enqueued += 1;
        true
    }

    /// One packet out, if there is one.
    #[inline(always)]
    fn drain<S: Subject>(&mut self, subject: &mut S) {
        let handle = if S::IS_NONE { self.chain.0 } else { subject.dequeue() };
        if handle == NONE {
            return;
        }
        self.pending -= 1;
        self.passed.dequeued += 1;
        let Header { flow, len, next } = self.headers[handle as usize];
        if S::IS_NONE {
            self.chain.0 = next;
        }
        self.passed.bytes_dequeued += u64::from(len);
        let held = subject.held(flow);
        if held < LAST_LIST {
            // Of the harness that this repeats, and kept: others may be left on that list. They are
            // seen again when a flow joins them.
            self.listed &= !(2 << held);
            self.listed |= 1 << held;
            self.unlink(flow);
            self.append(held, flow);
        }
        self.headers[handle as usize].next = self.free;
        self.free = handle;
    }

    #[inline(always)]
    fn unlink(&mut self, flow: u32) {
        let Node { next, prev, .. } = self.nodes[flow as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
    }

    /// Puts `flow`, on no list, at the tail of `list`.
    #[inline(always)]
    fn append(&mut self, list: u32, flow: u32) {
        let head = self.heads + list;
        let last = self.nodes[head as usize].prev;
        self.nodes[last as usize].next = flow;
        self.nodes[head as usize].prev = flow;
        let node = &mut self.nodes[flow as usize];
        (node.next, node.prev) = (head, last);
    }
}
