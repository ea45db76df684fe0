//! Reference model of QFQ+ on top of that of QFQ: aggregates with lists of members and a queue of
//! backlogged ones. Written from the section "The exact order" at the head of `sched-core`'s
//! `qfq/plus.rs`.

use std::collections::VecDeque;

use freeboard::sched_core::{ConfigError, FlowId};

use super::{LENGTH_RATIO, MAX_WEIGHT, MAX_WEIGHT_SUM, NaiveQfq, NaiveQfqFlow, ONE, slot};
use crate::history::Setting;
use crate::twin::flow_scheduler::{NaiveFlowScheduler, QueuesView, in_range, unknown};

/// Number of slots for open aggregates.
const OPEN: usize = 64;

/// Properties shared by the members of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    inverse: u64,
    max_len: u32,
}

impl Class {
    fn weight(self) -> u64 {
        ONE / self.inverse
    }

    /// Returns the top six bits of a product modulo 2^32.
    fn place(self) -> usize {
        let inverse = u32::try_from(self.inverse).expect("at most 2^30");
        let product = (inverse ^ self.max_len.rotate_left(16)).wrapping_mul(0x9E37_79B9);
        (product as usize * OPEN) >> 32
    }
}

#[derive(Clone, Debug)]
struct Aggregate {
    class: Class,
    members: usize,
    ring: VecDeque<FlowId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    aggregate: FlowId,
    deficit: u32,
}

#[derive(Clone, Copy, Debug)]
struct Service {
    aggregate: FlowId,
    budget: u32,
    sent: u32,
    /// `V` at the last update of the lists of lingering aggregates.
    heard: u64,
}

/// QFQ+.
#[derive(Clone, Debug)]
pub struct NaiveQfqPlus {
    qfq: NaiveQfq,
    flows: Vec<Option<Member>>,
    /// Aggregates, indexed by their flow number in the model of QFQ.
    aggregates: Vec<Option<Aggregate>>,
    open: [Option<FlowId>; OPEN],
    service: Option<Service>,
    most_members: usize,
    max_len: u32,
}

impl NaiveQfqPlus {
    /// Creates the model without flows, for at most `flows` flows, packets of at most `max_len`
    /// bytes and at most `most_members` flows per aggregate.
    #[must_use]
    pub fn new(flows: u32, max_len: u32, most_members: u32) -> Self {
        Self {
            qfq: NaiveQfq::new(flows, max_len * most_members),
            flows: vec![None; flows as usize],
            aggregates: vec![None; flows as usize],
            open: [None; OPEN],
            service: None,
            most_members: most_members as usize,
            max_len,
        }
    }

    fn aggregate(&mut self, at: FlowId) -> &mut Aggregate {
        self.aggregates[at.index()].as_mut().expect("has members")
    }

    fn member(&mut self, flow: FlowId) -> &mut Member {
        self.flows[flow.index()].as_mut().expect("added")
    }

    fn class(&self, flow: FlowId) -> Option<Class> {
        let member = self.flows.get(flow.index())?.as_ref()?;
        Some(self.aggregates[member.aggregate.index()].as_ref()?.class)
    }

    /// Updates the lists before an aggregate that is not in service enters or leaves.
    fn hear(&mut self) {
        let now = self.qfq.virtual_time;
        if let Some(service) = &mut self.service
            && service.heard != now
        {
            self.qfq.hear(service.heard);
            service.heard = now;
        }
    }

    fn end(&mut self, Service { aggregate: at, sent, heard, .. }: Service) {
        let aggregate = self.aggregate(at);
        let most = aggregate.members as u32 * aggregate.class.max_len;
        let more = !aggregate.ring.is_empty();
        self.qfq.charge(at, sent.min(most), more, heard);
        self.service = None;
    }

    fn enlist(&mut self, flow: FlowId) {
        let at = self.member(flow).aggregate;
        let ring = &mut self.aggregate(at).ring;
        ring.push_back(flow);
        if ring.len() == 1 {
            self.hear();
            self.qfq.join(at);
        }
    }

    fn unlist(&mut self, flow: FlowId) {
        let at = self.member(flow).aggregate;
        if self.aggregate(at).ring.front() == Some(&flow) {
            self.member(flow).deficit = self.aggregate(at).class.max_len;
        }
        self.aggregate(at).ring.retain(|&other| other != flow);
        if !self.aggregate(at).ring.is_empty() {
            return;
        }
        match self.service {
            Some(service) if service.aggregate == at => self.end(service),
            _ => {
                self.hear();
                self.qfq.leave(at);
            }
        }
    }

    fn open_to(&self, class: Class) -> Option<FlowId> {
        let at = self.open[class.place()]?;
        let aggregate = self.aggregates[at.index()].as_ref()?;
        (aggregate.class == class && aggregate.members < self.most_members).then_some(at)
    }

    /// Sets the weight of an aggregate in the model of QFQ.
    fn weigh(&mut self, at: FlowId) {
        let Aggregate { class, members, .. } = *self.aggregate(at);
        let effective = class.max_len.max(self.qfq.max_len.div_ceil(LENGTH_RATIO));
        let longest = u64::from(effective) * class.inverse;
        let group = (0..).find(|&group| longest <= slot(group)).expect("65535 · 2^30 < 2^46");
        let inverse = class.inverse / members as u64;
        let state = self.qfq.flows[at.index()].get_or_insert(NaiveQfqFlow {
            max_len: class.max_len,
            inverse,
            group,
            stamp: 0,
            joined: None,
        });
        state.inverse = inverse;
    }

    fn quit(&mut self, flow: FlowId) {
        let Some(member) = self.flows[flow.index()].take() else { return };
        let at = member.aggregate;
        let aggregate = self.aggregate(at);
        aggregate.members -= 1;
        let (class, left) = (aggregate.class, aggregate.members);
        if left > 0 {
            self.open[class.place()] = Some(at);
            self.weigh(at);
        } else {
            self.aggregates[at.index()] = None;
            self.qfq.unlist(at);
            self.qfq.flows[at.index()] = None;
        }
    }

    fn join(&mut self, flow: FlowId, class: Class) {
        let at = self.open_to(class).unwrap_or_else(|| {
            let free = self.aggregates.iter().position(Option::is_none).expect("one a flow");
            FlowId(u32::try_from(free).expect("as many as flows"))
        });
        let new = || Aggregate { class, members: 0, ring: VecDeque::new() };
        let aggregate = self.aggregates[at.index()].get_or_insert_with(new);
        if aggregate.members == 0 {
            self.open[class.place()] = Some(at);
        }
        aggregate.members += 1;
        self.weigh(at);
        self.flows[flow.index()] = Some(Member { aggregate: at, deficit: class.max_len });
    }
}

impl NaiveFlowScheduler for NaiveQfqPlus {
    fn configure(
        &mut self,
        flow: FlowId,
        setting: Setting,
        head_len: Option<u32>,
    ) -> Result<(), ConfigError> {
        let flows = self.flows.len();
        self.flows.get(flow.index()).ok_or_else(|| unknown(flow, flows))?;
        let Setting { weight, max_len } = setting;
        in_range("weight", weight, 1, MAX_WEIGHT)?;
        in_range("max_len in bytes", max_len, 1, self.max_len)?;
        let class = Class { inverse: ONE / u64::from(weight), max_len };
        let others = (0..flows as u32).map(FlowId).filter(|&other| other != flow);
        let sum = others.filter_map(|other| self.class(other)).map(Class::weight).sum::<u64>();
        if sum + class.weight() > MAX_WEIGHT_SUM {
            return Err(ConfigError::OutOfRange {
                what: "weight",
                value: weight.into(),
                min: 1,
                max: MAX_WEIGHT_SUM - sum,
            });
        }
        if self.class(flow) == Some(class) {
            return Ok(());
        }
        if head_len.is_some() {
            self.unlist(flow);
        }
        self.quit(flow);
        self.join(flow, class);
        if head_len.is_some() {
            self.enlist(flow);
        }
        Ok(())
    }

    fn remove(&mut self, flow: FlowId) {
        if flow.index() < self.flows.len() {
            self.quit(flow);
        }
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        let class = self.class(flow)?;
        Some([u32::try_from(class.weight()).expect("at most 2^16"), class.max_len])
    }

    fn max_len(&self, flow: FlowId) -> Option<u32> {
        self.class(flow).map(|class| class.max_len)
    }

    fn backlogged(&mut self, flow: FlowId, _head_len: u32) {
        self.enlist(flow);
    }

    fn served(&mut self, flow: FlowId, len: u32, next_head: Option<u32>) {
        let Member { aggregate: at, deficit } = *self.member(flow);
        let Aggregate { class, members, .. } = *self.aggregate(at);
        let now = self.qfq.virtual_time;
        let mut service = self.service.unwrap_or(Service {
            aggregate: at,
            budget: members as u32 * class.max_len,
            sent: 0,
            heard: now,
        });
        self.qfq.virtual_time = now.wrapping_add(u64::from(len) * self.qfq.inverse_sum());
        let charged = len.min(class.max_len);
        service.sent += charged;
        let ends = charged >= deficit;
        let left = if ends { deficit + class.max_len - charged } else { deficit - charged };
        let ring = &mut self.aggregate(at).ring;
        if next_head.is_none() {
            ring.pop_front();
        } else if ends {
            ring.rotate_left(1);
        }
        let is_over = ring.is_empty() || service.budget - service.sent < class.max_len;
        let credit_is_lost = next_head.is_none() && !ends;
        self.member(flow).deficit = if credit_is_lost { class.max_len } else { left };
        self.service = Some(service);
        if is_over {
            self.end(service);
        }
    }

    fn lost(&mut self, flow: FlowId, head: Option<u32>) {
        if head.is_none() {
            self.unlist(flow);
        }
    }

    fn select(&self, queues: QueuesView<'_>) -> Option<FlowId> {
        let at = match self.service {
            Some(service) => service.aggregate,
            None => self.qfq.select(queues)?,
        };
        self.aggregates[at.index()].as_ref()?.ring.front().copied()
    }
}
