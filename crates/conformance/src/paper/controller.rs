//! The controller of QFQ Fig. 8: selects the flow of each new packet, and alternates between
//! feeding and draining the scheduler.
//!
//! Arrivals and departures alternate in bursts: the controller feeds until `high` packets are
//! queued, drains until `low` are left (hysteresis), and repeats. It feeds the flow with the
//! smallest recorded backlog first, ties in the order in which they arose. For this it keeps 32
//! lists of flows by recorded backlog, and a word that marks the lists to examine. Packets come
//! from a free list that is a stack. All memory is allocated before the first packet.
//!
//! The controller is identical for every scheduler, including the empty one. It knows the flow of
//! each packet, so no flow is looked up. It is separate from the bench so that tests can use it
//! with a flow scheduler.

use super::traffic::{MTU, Traffic};

/// Marker for no packet.
pub const NONE: u32 = u32::MAX;

/// Largest backlog whose list can be marked; flows on list 31 are not fed.
const LAST_LIST: u32 = 30;
const LISTS: usize = 32;

/// Data about a packet: 16 bytes that never cross a cache line; there is no payload.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
struct Header {
    /// Next packet on the free list or in the chain of NONE.
    next: u32,
    len: u32,
    flow: u32,
}

/// A scheduler driven by the controller.
pub trait Subject {
    /// True if there is no scheduler; the controller then chains the packets by their headers.
    const IS_NONE: bool = false;

    /// Enqueues packet `handle` of `flow`.
    fn enqueue(&mut self, flow: u32, handle: u32, len: u32);

    /// Dequeues a packet; returns [`NONE`] if there is none.
    fn dequeue(&mut self) -> u32;

    /// Returns the backlog of `flow` in packets, as recorded by the controller.
    fn held(&self, flow: u32) -> u32;
}

/// An element of one of the lists, which are rings through their heads.
#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    prev: u32,
    /// Set of the flow; unused in a head.
    set: u32,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets enqueued.
    pub enqueued: u64,
    /// Packets dequeued.
    pub dequeued: u64,
    /// Bytes dequeued.
    pub bytes_dequeued: u64,
}

/// The controller with its flows and packets.
#[derive(Debug)]
pub struct Controller {
    /// Flows, followed by the heads of the lists.
    nodes: Box<[Node]>,
    /// Index of the first head.
    heads: u32,
    /// Packet length of the flows of each set.
    sets: Box<[u32]>,
    headers: Box<[Header]>,
    /// Top of the free list.
    free: u32,
    /// First and last packet of the chain; the last is stale while there is no first.
    chain: (u32, u32),
    /// Packet lengths in the order of use; empty if the lengths of the sets apply.
    lengths: Box<[u32]>,
    drawn: usize,
    /// Bit `k` is set if list `k` is to be examined. A list whose bit is clear may still contain
    /// flows.
    listed: u32,
    pending: u64,
    low: u64,
    high: u64,
    feeding: bool,
    passed: Passed,
}

impl Controller {
    /// Creates a controller that has not sent any packet.
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

    /// Runs `iterations`, each with at most one packet in or out; returns the totals since the
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

    /// Enqueues one packet; returns false if no list is marked.
    #[inline(always)]
    fn feed<S: Subject>(&mut self, subject: &mut S) -> bool {
        let (mut list, mut flow) = (0, NONE);
        while self.listed != 0 {
            list = self.listed.trailing_zeros();
            flow = self.nodes[(self.heads + list) as usize].next;
            if flow < self.heads {
                break;
            }
            // An empty list: where the controller does not track backlogs, flows leave lists
            // without clearing bits.
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

    /// Dequeues one packet, if any.
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
            // Inherited from the original harness and kept: the list may still contain other flows.
            // They are found once another flow joins that list.
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

    /// Appends `flow`, which is on no list, to `list`.
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
