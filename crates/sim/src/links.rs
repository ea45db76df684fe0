//! Links and the event loop that moves simulated time over them.
//!
//! The ends of the links (hosts, sources) belong to the caller and have events of their own.

use freeboard::sched_core::{Ecn, Nanos};

use crate::event::EventQueue;
use crate::link::Link;

/// Identifies a link by the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(pub(crate) usize);

impl LinkId {
    /// Returns the event list for arriving packets: in order while the link's delay is constant.
    const fn arrivals(self) -> usize {
        2 * self.0
    }

    /// Returns the event list for the times at which the link may send again: mostly in order.
    const fn frees(self) -> usize {
        2 * self.0 + 1
    }
}

/// A link and the time of its one valid event.
#[derive(Debug)]
struct TimedLink<P> {
    link: Link<P>,
    due: Option<Nanos>,
}

/// An event.
#[derive(Debug)]
pub(crate) enum Event<E> {
    /// The queue of a link may send.
    LinkFree(LinkId),
    /// An event of the caller.
    Own(E),
}

/// Links for packets `P`, the events of their queues and of the caller (`E`), and the clock.
#[derive(Debug)]
pub(crate) struct Links<P, E> {
    links: Vec<TimedLink<P>>,
    events: EventQueue<Event<E>>,
}

impl<P, E> Links<P, E> {
    /// Creates a set without links at time zero.
    pub(crate) const fn new() -> Self {
        Self { links: Vec::new(), events: EventQueue::new() }
    }

    /// Adds a link.
    pub(crate) fn add(&mut self, link: Link<P>) -> LinkId {
        self.links.push(TimedLink { link, due: None });
        LinkId(self.links.len() - 1)
    }

    pub(crate) fn link(&self, id: LinkId) -> &Link<P> {
        &self.links[id.0].link
    }

    pub(crate) fn link_mut(&mut self, id: LinkId) -> &mut Link<P> {
        &mut self.links[id.0].link
    }

    /// Returns all links.
    pub(crate) fn links(&self) -> impl ExactSizeIterator<Item = &Link<P>> {
        self.links.iter().map(|timed| &timed.link)
    }

    /// Returns the current time.
    pub(crate) const fn now(&self) -> Nanos {
        self.events.now()
    }

    /// Schedules an event of the caller.
    pub(crate) fn schedule(&mut self, at: Nanos, event: E) {
        self.events.schedule(at, Event::Own(event));
    }

    /// Removes the next valid event, if it is due at `end` or before.
    pub(crate) fn next_until(&mut self, end: Nanos) -> Option<(Nanos, Event<E>)> {
        loop {
            let (now, event) = self.events.pop_until(end)?;
            if let Event::LinkFree(id) = event {
                let line = &mut self.links[id.0];
                if line.due != Some(now) {
                    continue;
                }
                line.due = None;
            }
            return Some((now, event));
        }
    }

    /// Sends the packets that may leave a link's queue at `now`, and schedules the rest. `sent` is
    /// called for each packet with its code point and the time at which its last bit is on the
    /// link; it returns the event to schedule at the far end.
    pub(crate) fn serve(
        &mut self,
        now: Nanos,
        id: LinkId,
        mut sent: impl FnMut(Nanos, Ecn, P) -> Option<E>,
    ) {
        let line = &mut self.links[id.0];
        while let Some(leaving) = line.link.leave(now) {
            let last_bit = leaving.arrives.since(line.link.delay());
            if let Some(event) = sent(last_bit, leaving.ecn, leaving.packet) {
                self.events.schedule_in(id.arrivals(), leaving.arrives, Event::Own(event));
            }
        }
        let next = line.link.poll_at(now);
        if next == line.due {
            return;
        }
        line.due = next;
        if let Some(at) = next {
            self.events.schedule_in(id.frees(), at, Event::LinkFree(id));
        }
    }
}

impl<P, E> Default for Links<P, E> {
    fn default() -> Self {
        Self::new()
    }
}
