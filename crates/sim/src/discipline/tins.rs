//! Tins over flows that are known by number, behind a line: the classes of CAKE without its hosts.

use freeboard::sched_core::{
    Admission, Aqm, Cobalt, CobaltState, ConfigError, FlowId, FlowQueues, Head, Limits,
    LongestFlow, LongestQueueDrop, Look, Offer, Probability, Queue, TinConfig, TinDrr, TinFlow,
    Verdict,
};
use freeboard::shaper::{Overhead, Rate, Shaped, Shaper};
use freeboard::{Dscp, Rtt, TinPlan};

use super::{Bottleneck, descriptors};

/// Tins, and what is in them. In a tin flows take turns, sparse flows first, and each queue has COBALT as CAKE sets it for
/// the rate of the tin. A full buffer drops from the longest queue.
#[derive(Clone, Copy, Debug)]
pub struct Tins<'a> {
    /// Which tins there are, and the tin of each code point.
    pub plan: &'a TinPlan,
    /// Flow `n` has the code point `marks[n]`.
    pub marks: &'a [Dscp],
    /// What sets the target and the interval of COBALT.
    pub rtt: Rtt,
    /// Whether BLUE drops packets of flows that do not react. Without it, COBALT is its `CoDel` alone.
    pub blue: bool,
}

impl Tins<'_> {
    /// An empty queue in front of `line`, for packets of at most `max_len` bytes. `seed` is for the draws of BLUE.
    ///
    /// Handles are numbered up to `limits.packets`, inclusively.
    ///
    /// # Errors
    /// [`ConfigError`] if `max_len` or the rate of a tin is out of range.
    pub fn behind(
        self,
        line: Shaper,
        link: Overhead,
        limits: Limits,
        max_len: u32,
        seed: u64,
    ) -> Result<Box<dyn Bottleneck>, ConfigError> {
        let flows = self.marks.len();
        let scheduler = self.scheduler(line.rate(), link, max_len)?;
        let cobalts = self.plan.tins().iter().zip(0..).map(|(_, tin)| {
            let rate = self.plan.rate(tin, line.rate());
            let params = self.rtt.cobalt(rate, link.wire_len(max_len));
            let least = Probability::from_raw(1);
            let params = if self.blue { params } else { params.with_steps(least, least) };
            Cobalt::new(vec![CobaltState::EMPTY; flows], params, seed)
        });
        let aqm = PerTin { cobalts: cobalts.collect::<Result<_, _>>()?, tin_of: self.tin_of() };
        let queues = vec![Queue::EMPTY; flows];
        let queues =
            FlowQueues::with_parts(scheduler, aqm, queues, descriptors(limits), [], limits);
        let longest = LongestQueueDrop::new(vec![LongestFlow::EMPTY; flows]);
        Ok(Box::new(Shaped::new(queues.with_drop_policy(longest), line, link)))
    }

    fn scheduler(
        self,
        line: Rate,
        link: Overhead,
        max_len: u32,
    ) -> Result<TinDrr<Vec<TinFlow>, Overhead>, ConfigError> {
        let nodes = vec![TinFlow::EMPTY; self.marks.len()];
        let mut scheduler = TinDrr::on_link(nodes, max_len, link)?.sparse_first();
        scheduler.add_all(max_len)?;
        let configs = self.plan.tins().iter().zip(0..).map(|(tin, number)| {
            let by_weight = TinConfig::by_weight(tin.weight().into());
            let bits = self.plan.rate(number, line).as_bits_per_second();
            bits.map_or(by_weight, |bits| by_weight.with_rate(bits))
        });
        scheduler.set_tins(&configs.collect::<Vec<_>>())?;
        for (flow, tin) in (0..).zip(self.tin_of()) {
            scheduler.assign(FlowId(flow), tin.into())?;
        }
        Ok(scheduler)
    }

    /// The tin of each flow.
    fn tin_of(self) -> Vec<u8> {
        self.marks.iter().map(|&mark| self.plan.of_dscp(mark)).collect()
    }
}

/// COBALT with the parameters of the tin that a flow is in. Flows beyond `tin_of` count as of the first tin.
struct PerTin {
    cobalts: Vec<Cobalt<Vec<CobaltState>>>,
    tin_of: Vec<u8>,
}

impl PerTin {
    fn tin(&self, flow: FlowId) -> usize {
        self.tin_of.get(flow.index()).copied().unwrap_or(0).into()
    }

    fn of(&mut self, flow: FlowId) -> &mut Cobalt<Vec<CobaltState>> {
        let tin = self.tin(flow);
        &mut self.cobalts[tin]
    }
}

impl Aqm for PerTin {
    const MAX_DROPS: u32 = <Cobalt<Vec<CobaltState>> as Aqm>::MAX_DROPS;

    fn admit(&mut self, flow: FlowId, offer: Offer) -> Admission {
        // An overflow may be that of a queue in another tin, and has the time of the last arrival.
        for cobalt in &mut self.cobalts {
            let _accepted = cobalt.admit(flow, offer);
        }
        Admission::Accept
    }

    fn judge(&mut self, flow: FlowId, head: Head, look: Look) -> Verdict {
        self.of(flow).judge(flow, head, look)
    }

    fn foresee(&self, flow: FlowId) -> impl FnMut(Head) -> Verdict {
        self.cobalts[self.tin(flow)].foresee(flow)
    }

    fn overflowed(&mut self, flow: FlowId) {
        self.of(flow).overflowed(flow);
    }

    fn emptied(&mut self, flow: FlowId) {
        self.of(flow).emptied(flow);
    }

    fn forget(&mut self, flow: FlowId) {
        self.of(flow).forget(flow);
    }

    /// Tins are those of [`PerTin::tin_of`].
    fn assign(&mut self, _flow: FlowId, _tin: u8) {}

    fn swap(&mut self, flow: FlowId, other: FlowId) {
        self.cobalts.iter_mut().for_each(|cobalt| cobalt.swap(flow, other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freeboard::TinMode;
    use freeboard::sched_core::{Nanos, Packet};

    /// Goal: code points, rates and tins are joined as the plan says. Method: best effort, bulk and voice backlogged on a
    /// line of 8 Mbit/s for 2 s. Voice has its quarter, bulk its sixteenth, best effort the rest; without tins
    /// each has a third.
    #[test]
    fn backlogged_tins_have_their_shares() {
        let marks = [Dscp::CS0, Dscp::CS1, Dscp::EF];
        for (mode, expected) in
            [(TinMode::Diffserv4, [1_375, 125, 500]), (TinMode::BestEffort, [667; 3])]
        {
            let line = Shaper::new(Rate::megabits_per_second(8).unwrap());
            let tins = Tins { plan: &mode.plan(), marks: &marks, rtt: Rtt::INTERNET, blue: true };
            let limits = Limits::packets(8_192);
            let mut queue = tins.behind(line, Overhead::RAW, limits, 1_000, 1).unwrap();
            let mut flow_of = Vec::new();
            let (mut now, mut sent) = (Nanos::ZERO, [0_i32; 3]);
            while now < Nanos::from_secs(2) {
                for flow in 0..3 {
                    let flow = FlowId(flow);
                    let queued = queue.flow_backlog(flow).map_or(0, |backlog| backlog.packets);
                    for _ in queued..3 {
                        let handle = flow_of.len() as u32 % 8_192;
                        flow_of.push(flow);
                        queue
                            .enqueue(now, flow, Packet::new(handle, 1_000), &mut |_: Packet, _| ())
                            .unwrap();
                    }
                }
                while let Some(packet) = queue.dequeue(now, &mut |_: Packet, _| ()) {
                    sent[flow_of[packet.handle as usize].index()] += 1;
                }
                now = queue.poll_at(now).unwrap();
            }
            let off = (0..3).map(|flow| (sent[flow] - expected[flow]).abs()).max();
            assert!(off <= Some(16), "{mode}: {sent:?}");
            assert_eq!(queue.recount(), Ok(()));
        }
    }
}
