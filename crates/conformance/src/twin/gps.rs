//! Generalised processor sharing, the ideal that packet schedulers approximate, in exact
//! arithmetic.
//!
//! A link that serves all backlogged flows at once, each at rate `w/Σw` over the backlogged flows
//! (Demers, Keshav and Shenker 1989; Parekh and Gallager 1993). Virtual time is the service of a
//! backlogged flow per unit of weight; it advances at `1/Σw`. Time is in bytes of the link.

use std::collections::VecDeque;

pub use num_rational::BigRational;

#[derive(Clone, Debug)]
struct GpsFlow {
    weight: BigRational,
    /// Number and virtual finish of each packet.
    queue: VecDeque<(usize, BigRational)>,
    served: BigRational,
}

/// The fluid server.
#[derive(Clone, Debug)]
pub struct Gps {
    now: BigRational,
    virtual_time: BigRational,
    flows: Vec<GpsFlow>,
    arrived: usize,
    /// Departure time by packet number.
    departures: Vec<Option<BigRational>>,
}

fn whole(number: u64) -> BigRational {
    BigRational::from_integer(number.into())
}

impl Gps {
    /// Creates an idle server at time 0 for flows with these weights.
    ///
    /// # Panics
    /// If a weight is 0.
    #[must_use]
    pub fn new(weights: &[u32]) -> Self {
        assert!(weights.iter().all(|&weight| weight > 0), "a weight of 0 is no share");
        let flow = |&weight: &u32| GpsFlow {
            weight: whole(weight.into()),
            queue: VecDeque::new(),
            served: whole(0),
        };
        Self {
            now: whole(0),
            virtual_time: whole(0),
            flows: weights.iter().map(flow).collect(),
            arrived: 0,
            departures: Vec::new(),
        }
    }

    /// Adds a packet of `len` bytes to flow number `flow`; returns the number of the packet,
    /// counted from 0.
    pub fn arrive(&mut self, flow: usize, len: u32) -> usize {
        let flow = &mut self.flows[flow];
        let last = flow.queue.back().map_or(&self.virtual_time, |packet| &packet.1);
        let finish = last + whole(len.into()) / &flow.weight;
        flow.queue.push_back((self.arrived, finish));
        self.departures.push(None);
        self.arrived += 1;
        self.arrived - 1
    }

    /// Serves until `time`, in bytes of the link; an earlier time changes nothing.
    pub fn advance(&mut self, time: u64) {
        let time = whole(time);
        while self.now < time {
            let Some((finish, at)) = self.next_departure() else {
                self.now = time;
                return;
            };
            if at <= time {
                self.serve(finish);
                self.now = at;
            } else {
                let rest = (&time - &self.now) / self.weight();
                self.serve(&self.virtual_time + rest);
                self.now.clone_from(&time);
            }
        }
    }

    /// Serves until all queues are empty.
    pub fn drain(&mut self) {
        while let Some((finish, at)) = self.next_departure() {
            self.serve(finish);
            self.now = at;
        }
    }

    /// Returns the departure time of a packet; `None` if it has not left.
    #[must_use]
    pub fn departure(&self, packet: usize) -> Option<&BigRational> {
        self.departures.get(packet)?.as_ref()
    }

    /// Returns the bytes of `flow` served so far.
    #[must_use]
    pub fn served(&self, flow: usize) -> &BigRational {
        &self.flows[flow].served
    }

    /// Returns the current time in bytes of the link.
    #[must_use]
    pub const fn now(&self) -> &BigRational {
        &self.now
    }

    /// Returns true if `flow` is backlogged.
    #[must_use]
    pub fn is_backlogged(&self, flow: usize) -> bool {
        !self.flows[flow].queue.is_empty()
    }

    /// Returns the sum of the weights of the backlogged flows.
    fn weight(&self) -> BigRational {
        let backlogged = self.flows.iter().filter(|flow| !flow.queue.is_empty());
        backlogged.map(|flow| &flow.weight).sum()
    }

    /// Returns virtual finish and time of the next departure, assuming no arrival before it.
    fn next_departure(&self) -> Option<(BigRational, BigRational)> {
        let heads = self.flows.iter().filter_map(|flow| flow.queue.front());
        let finish = heads.map(|head| &head.1).min()?;
        let at = &self.now + (finish - &self.virtual_time) * self.weight();
        Some((finish.clone(), at))
    }

    /// Serves until virtual time `until`; no head finishes before it.
    fn serve(&mut self, until: BigRational) {
        let at = &self.now + (&until - &self.virtual_time) * self.weight();
        for flow in &mut self.flows {
            if flow.queue.is_empty() {
                continue;
            }
            flow.served += (&until - &self.virtual_time) * &flow.weight;
            while let Some((packet, _)) = flow.queue.pop_front_if(|head| head.1 <= until) {
                self.departures[packet] = Some(at.clone());
            }
        }
        self.virtual_time = until;
        if self.flows.iter().all(|flow| flow.queue.is_empty()) {
            // The future is independent of the past here; restarting at 0 keeps denominators small.
            self.virtual_time = whole(0);
        }
    }
}
