//! Tins of a smart queue: which there are, what they get of the rate, and what has happened in
//! them.

use sched_core::{ConfigError, Imbalance, Packet, TinConfig};
use shaper::Rate;

use super::outlet::SmartAqm;
use super::{AqmKind, Descriptors, Rtt, SmartQueue};
use crate::isolation::{IsolatedError, TinCounters};
use crate::labels::Labelled;
use crate::storage::Storage;
use crate::tins::TinPlan;

/// One plan of tins in place of another, on a line of some rate.
pub(super) struct Change {
    from: TinPlan,
    pub(super) to: TinPlan,
    /// Those beyond the tins of the plan are unused.
    configs: [TinConfig; TinPlan::MAX_TINS],
}

/// Returns the settings of each tin of `plan` on a line of this rate. Those beyond the tins of the
/// plan are unused.
pub(super) fn configs_of(plan: &TinPlan, rate: Rate) -> [TinConfig; TinPlan::MAX_TINS] {
    let mut configs = [TinConfig::by_weight(1); TinPlan::MAX_TINS];
    for ((number, tin), config) in (0..).zip(plan.tins()).zip(&mut configs) {
        let by_weight = TinConfig::by_weight(tin.weight().into());
        let bits = plan.threshold(number, rate).map(|bytes| bytes.saturating_mul(8));
        let (least, most) = (Rate::MIN_BITS_PER_SECOND, Rate::MAX_BITS_PER_SECOND);
        *config = bits.map_or(by_weight, |bits| by_weight.with_rate(bits.max(least).min(most)));
    }
    configs
}

impl Change {
    pub(super) fn new(from: TinPlan, to: TinPlan, rate: Rate) -> Self {
        Self { configs: configs_of(&to, rate), from, to }
    }

    /// What each tin has from now on.
    pub(super) fn configs(&self) -> &[TinConfig] {
        self.configs.get(..self.to.count().into()).unwrap_or(&self.configs)
    }

    /// Where what is queued in tin `number` goes: to the tin of the same name, or to the default
    /// tin.
    pub(super) fn tin(&self, number: u8) -> u8 {
        let named = self.from.tin(number).and_then(|tin| self.to.number_of(tin.name()));
        named.unwrap_or(self.to.default_tin())
    }

    /// Whether there are as many tins as before, and all that is queued stays in its tin.
    pub(super) fn keeps_all(&self) -> bool {
        let count = self.from.count();
        count == self.to.count() && (0..count).all(|tin| self.tin(tin) == tin)
    }
}

/// By descriptor: tins.
impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Sets other tins, at any time: all packets stay. `labels_of` returns the labels of a queued
    /// packet, with its tin under the new plan. [Counters](Self::tin_counters) go to the tin of the
    /// same name, or to the default tin if there is none. Where number and names of the tins stay,
    /// only their shares change. The rest as for [`Isolated::rebuild`](crate::Isolated::rebuild).
    ///
    /// ```
    /// use freeboard::flowhash::{Labels, mix};
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::{InTin, SmartQueue, TinMode};
    ///
    /// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?);
    /// let mut queue = builder.tins(TinMode::Diffserv4).descriptors()?;
    /// let labels = Labels { flow: mix(7), src_host: mix(1), dst_host: mix(2) };
    /// let voice = |tin| InTin { labels, tin };
    /// queue.enqueue(Nanos(0), &voice(3), Packet::new(0, 1_000), &mut |_: Packet, _| {})?;
    /// queue.set_tins(TinMode::Diffserv3, |_| voice(2))?;
    /// assert_eq!(queue.tin_counters(2).map(|voice| voice.backlog.packets), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IsolatedError::Memory`] for more tins than there is
    /// [room](super::SmartQueueBuilder::max_tins) for; nothing has changed then.
    pub fn set_tins<L: Labelled>(
        &mut self,
        plan: impl Into<TinPlan>,
        labels_of: impl FnMut(Packet) -> L,
    ) -> Result<(), IsolatedError> {
        let change = Change::new(*self.tins(), plan.into(), self.line().rate());
        if change.keeps_all() {
            return self.begin_tins(change.to);
        }
        let (isolation, to) = (self.isolation(), |tin| change.tin(tin));
        let queues = self.outlet.line.inner_mut();
        queues.rebuild_and_move(isolation, (Some(change.configs()), to), labels_of)?;
        self.follow_plan(change.to);
        Ok(())
    }
}

/// With frames and by descriptor: tins.
impl<S: Storage, P> SmartQueue<S, P> {
    /// Sets the tins where nothing is queued, or where all that is queued stays in its tin.
    pub(super) fn begin_tins(&mut self, plan: TinPlan) -> Result<(), IsolatedError> {
        let change = Change::new(*self.tins(), plan, self.line().rate());
        self.outlet.line.inner_mut().set_tins(change.configs())?;
        self.follow_plan(plan);
        Ok(())
    }

    /// The tins are those of `plan`.
    pub(super) fn follow_plan(&mut self, plan: TinPlan) {
        self.outlet.tins.as_mut().fill(plan);
        self.follow_in_tins(self.aqm(), self.is_l4s());
    }

    /// From now on a host has one share in all tins together, or one in each:
    /// [`Isolated::set_hosts_across_tins`](crate::Isolated::set_hosts_across_tins). Cost: O(hosts ·
    /// tins).
    pub fn set_hosts_across_tins(&mut self, on: bool) {
        self.outlet.line.inner_mut().set_hosts_across_tins(on);
    }

    /// Whether a host has one share in all tins together.
    pub fn hosts_across_tins(&self) -> bool {
        self.isolated().hosts_across_tins()
    }

    /// The tins, and which packet goes to which. By descriptor the caller asks it, and says the tin
    /// with the labels ([`InTin`](crate::InTin)).
    #[must_use]
    pub fn tins(&self) -> &TinPlan {
        plan_of(&self.outlet.tins)
    }

    /// What has happened in tin `number`, and what is queued in it; `None` if there is no such tin.
    /// Cost: O(queues).
    #[must_use]
    pub fn tin_counters(&self, number: u8) -> Option<TinCounters> {
        self.isolated().tin_counters(number)
    }

    /// Checks that the AQM knows the tin of each queue that holds packets.
    pub(super) fn recount_tins(&self) -> Result<(), Imbalance> {
        for (flow, _) in self.isolated().backlogged_queues() {
            let (known, tin) = (self.chosen().tin_of(flow), self.isolated().tin_of(flow));
            Imbalance::check("the tin that the AQM knows", flow.0, tin.into(), known.into())?;
        }
        Ok(())
    }

    /// The parts of the line's rate that the tins have, from now on.
    pub(super) fn follow_rate_in_tins(&mut self) {
        if self.tins().count() == 1 {
            return;
        }
        let change = Change::new(*self.tins(), *self.tins(), self.line().rate());
        let _in_range = self.outlet.line.inner_mut().set_tins(change.configs());
        debug_assert_eq!(_in_range, Ok(()), "as many tins as before, with rates in range");
    }

    /// The AQM of each tin, for its part of the rate.
    pub(super) fn follow_in_tins(&mut self, kind: AqmKind, l4s: bool) {
        let (plan, rate) = (*self.tins(), self.outlet.line.line().rate());
        let (rtt, max_len) = (self.outlet.rtt, self.outlet.max_len);
        let aqm = self.chosen_mut();
        let _in_range = follow_in_tins::<S>(aqm, &plan, (rate, rtt, max_len), kind, l4s);
        debug_assert_eq!(_in_range, Ok(()), "round-trip times are in range");
    }
}

/// The AQM of each tin, for its part of the rate of a line.
pub(super) fn follow_in_tins<S: Storage>(
    aqm: &mut SmartAqm<S>,
    plan: &TinPlan,
    (rate, rtt, max_len): (Rate, Rtt, u32),
    kind: AqmKind,
    l4s: bool,
) -> Result<(), ConfigError> {
    (0..aqm.tins()).try_for_each(|tin| {
        let rate = plan.rate(tin, rate);
        aqm.set_choice_in(tin, rtt.aqm(kind, rate, max_len))?;
        aqm.set_l4s_in(tin, l4s.then(|| rtt.l4s(rate, max_len)))
    })
}

/// The plan in the table of a queue.
pub(super) fn plan_of(table: &impl AsRef<[TinPlan]>) -> &TinPlan {
    table.as_ref().first().unwrap_or(const { &TinPlan::EMPTY })
}
