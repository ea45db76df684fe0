//! Sequences with many short-lived flows.

use std::collections::VecDeque;

use crate::Xorshift;

use super::Setting;
use super::operation::{Operation, pick};

/// Lengths so small that several such packets fit in one slot of another flow, up to the longest
/// length.
const MAX_LENGTHS: [u32; 8] = [1, 40, 54, 100, 300, 576, 1_000, 1_500];
/// Nearly equal weights, two kinds, all magnitudes, and one heavy flow among many light ones.
const WEIGHTS: [&[u32]; 4] = [
    &[3, 4, 5, 6, 7, 8],
    &[10, 10, 10, 1_000],
    &[1, 2, 5, 30, 100, 900, 4_000, 16_384, 65_536],
    &[1, 1, 1, 1, 1, 2, 2, 3, 60_000],
];

/// An endless random sequence of operations on `flows` flows. Each flow holds few packets and often
/// none; for periods of time one or two flows, or none, stay backlogged. Flows are added, changed
/// and removed while they hold packets, while they are idle, and while others are.
#[derive(Clone, Debug)]
pub struct Coming {
    random: Xorshift,
    flows: u32,
    weights: &'static [u32],
    /// Next operations; nothing is drawn while any are left.
    script: VecDeque<Operation>,
    spell: u32,
    /// Arrivals per 256 operations; the next field counts departures.
    arrivals: u32,
    departures: u32,
    /// Flows below this number get every other arrival of the current period.
    busy: u32,
}

impl Coming {
    /// Creates the sequence of a seed with `flows` flows.
    #[must_use]
    pub fn new(flows: u32, seed: u64) -> Self {
        let mut random = Xorshift::new(seed);
        let weights = pick(&WEIGHTS, random.byte());
        let script = VecDeque::new();
        let mut history =
            Self { random, flows, weights, script, spell: 0, arrivals: 0, departures: 0, busy: 1 };
        for flow in 0..flows {
            let setting = history.setting();
            history.script.push_back(Operation::Configure { flow, setting });
        }
        history
    }

    fn setting(&mut self) -> Setting {
        let weight = pick(self.weights, self.random.byte());
        Setting { weight, max_len: pick(&MAX_LENGTHS, self.random.byte()) }
    }

    fn arrival(&mut self) -> Operation {
        let busy = self.random.below(2) == 0;
        let flow = self.random.below(if busy { self.busy } else { self.flows });
        let len = pick(&MAX_LENGTHS, self.random.byte());
        // Most flows reject packets longer than their declared maximum.
        let len = if self.random.below(2) == 0 { 1 + self.random.below(54) } else { len };
        Operation::Enqueue { flow, len }
    }

    /// Lets some flows declare short packets and a small weight while they hold long packets, which
    /// keeps their group. They are charged too little, and `V` runs ahead of them, faster if there
    /// is no heavy flow. Others arrive meanwhile: two in the group below that lagged behind before,
    /// and one in the same group.
    fn squeeze(&mut self) -> Operation {
        let weight = pick(&[28, 280, 2_800, 28_000], self.random.byte());
        let long = Setting { weight, max_len: 1_500 };
        let short = Setting { weight: weight / 28, max_len: 54 };
        let slow = Setting { max_len: 1_500, ..short };
        let below = Setting { weight: weight / 14, ..short };
        let squeezed = 2 + self.random.below(6);
        let first = self.random.below(self.flows);
        let flows = self.flows;
        let flow = |number: u32| (first + number) % flows;
        let (crowd, late) = (0..squeezed, flow(squeezed));
        let (slower, others) = (squeezed + 1..squeezed + 5, squeezed + 5..flows);
        let configure = |flow, setting| Operation::Configure { flow, setting };
        let enqueue = |flow, len| Operation::Enqueue { flow, len };

        let mut script = vec![configure(late, short)];
        script.extend(others.clone().map(|number| Operation::Remove { flow: flow(number) }));
        script.extend(slower.clone().map(|number| configure(flow(number), slow)));
        for number in slower.clone() {
            script.push(enqueue(flow(number), 200 + self.random.below(1_300)));
        }
        script.extend((0..1 + self.random.below(3)).map(|_| Operation::Dequeue));
        script.extend(crowd.clone().map(|number| configure(flow(number), long)));
        let held = (0..3).flat_map(|_| crowd.clone());
        script.extend(held.map(|number| enqueue(flow(number), 1_500)));
        script.extend(crowd.clone().map(|number| configure(flow(number), short)));
        script.extend(slower.clone().map(|number| configure(flow(number), below)));
        for number in slower {
            script.extend((0..self.random.below(4)).map(|_| Operation::Dequeue));
            script.push(enqueue(flow(number), 50));
        }
        script.push(enqueue(late, 54));
        for number in others {
            script.extend((0..self.random.below(3)).map(|_| Operation::Dequeue));
            script.push(enqueue(self.random.below(flows), 1 + self.random.below(54)));
            script.push(configure(flow(number), self.setting()));
        }
        self.script.extend(script);
        Operation::Drain
    }
}

impl Iterator for Coming {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if let Some(operation) = self.script.pop_front() {
            return Some(operation);
        }
        if self.spell == 0 {
            self.spell = 1 + self.random.below(100);
            self.busy = 1 + self.random.below(3);
            (self.arrivals, self.departures) = pick(
                &[(100, 140), (120, 120), (140, 100), (200, 50), (20, 220)],
                self.random.byte(),
            );
        }
        self.spell -= 1;
        let kind = self.random.below(256);
        Some(if kind < self.arrivals {
            self.arrival()
        } else if kind < self.arrivals + self.departures {
            Operation::Dequeue
        } else {
            let flow = self.random.below(self.flows);
            match self.random.below(8) {
                0 => Operation::Remove { flow },
                1 if self.random.below(8) == 0 => Operation::Drain,
                2 if self.random.below(3) == 0 => self.squeeze(),
                _ => Operation::Configure { flow, setting: self.setting() },
            }
        })
    }
}
