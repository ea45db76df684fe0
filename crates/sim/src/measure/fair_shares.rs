//! Shares of a link by the rule of an isolation mode.

use freeboard::Isolation;

use super::estimate::mean;

/// Backlogged flows between hosts, and the isolation mode by which they share a link; `None` is
/// fair queueing of flows, without hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShares<const N: usize> {
    mode: Option<Isolation>,
    /// Source and destination of each flow.
    ends: [(u8, u8); N],
}

impl<const N: usize> FairShares<N> {
    /// Creates the rule of a mode for flows with these sources and destinations.
    #[must_use]
    pub const fn new(mode: Option<Isolation>, ends: [(u8, u8); N]) -> Self {
        Self { mode, ends }
    }

    /// Returns the share of each flow: its quantum is divided by its load.
    #[must_use]
    pub fn expected(&self) -> [f64; N] {
        parts_of_the_whole(self.ends.map(|ends| 1.0 / self.load(ends) as f64))
    }

    /// Returns, for each flow, the sum of `shares` over all flows in its queue.
    #[must_use]
    pub fn of_queues(&self, shares: [f64; N]) -> [f64; N] {
        core::array::from_fn(|flow| {
            let together = (0..N).filter(|&other| self.queue(other) == self.queue(flow));
            together.map(|other| shares[other]).sum()
        })
    }

    /// Returns true if there are flows that share a queue.
    #[must_use]
    pub fn has_shared_queues(&self) -> bool {
        (0..N).any(|flow| (0..flow).any(|other| self.queue(other) == self.queue(flow)))
    }

    /// Returns the maximum relative error in any of these runs: of a flow, and of the flows of a
    /// queue together.
    #[must_use]
    pub fn off_in_a_run(&self, runs: &[[f64; N]]) -> [f64; 2] {
        let (flows, queues) = (self.expected(), self.of_queues(self.expected()));
        runs.iter().fold([0.0; 2], |[flow, queue], &run| {
            let of_queues = farthest(self.of_queues(run), queues);
            [farthest(run, flows).max(flow), of_queues.max(queue)]
        })
    }

    /// Returns the number of flows by which the rule divides the quantum of such a flow.
    fn load(&self, (source, destination): (u8, u8)) -> usize {
        let flows = |alike: &dyn Fn(u8, u8) -> bool| {
            self.ends.into_iter().filter(|&(from, to)| alike(from, to)).count()
        };
        let from = flows(&|other, _| other == source);
        let to = flows(&|_, other| other == destination);
        match self.mode {
            Some(Isolation::SrcHost | Isolation::DualSrcHost) => from,
            Some(Isolation::DstHost | Isolation::DualDstHost) => to,
            Some(Isolation::Hosts) => flows(&|a, b| (a, b) == (source, destination)),
            Some(Isolation::TripleIsolate) => from.max(to),
            _ => 1,
        }
    }

    /// Identifies the queue of a flow.
    fn queue(&self, flow: usize) -> (usize, u8, u8) {
        let (source, destination) = self.ends[flow];
        match self.mode {
            Some(Isolation::SrcHost) => (0, source, 0),
            Some(Isolation::DstHost) => (0, 0, destination),
            Some(Isolation::Hosts) => (0, source, destination),
            _ => (flow, 0, 0),
        }
    }
}

/// Returns each part as a fraction of the sum.
#[must_use]
pub fn parts_of_the_whole<const N: usize>(parts: [f64; N]) -> [f64; N] {
    let whole: f64 = parts.iter().sum();
    parts.map(|part| part / whole)
}

/// Returns the mean share of each flow.
///
/// # Panics
/// If there are no runs.
#[must_use]
pub fn means<const N: usize>(runs: &[[f64; N]]) -> [f64; N] {
    core::array::from_fn(|flow| {
        let values: Vec<f64> = runs.iter().map(|run| run[flow]).collect();
        mean(&values).expect("there are runs")
    })
}

/// Returns the maximum relative error of a share.
#[must_use]
pub fn farthest<const N: usize>(shares: [f64; N], expected: [f64; N]) -> f64 {
    let off =
        shares.into_iter().zip(expected).map(|(share, expected)| (share / expected - 1.0).abs());
    off.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated manually from the flows of CAKE Fig. 3.
    #[test]
    fn the_rule_gives_the_shares_of_the_figure() {
        let ends = [(0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 3)];
        for (isolation, expected) in [
            (None, [1.0 / 6.0; 6]),
            (Some(Isolation::DualDstHost), [0.25, 0.25, 1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0, 0.25]),
            (Some(Isolation::DualSrcHost), [0.125, 0.125, 0.125, 0.125, 0.25, 0.25]),
            (Some(Isolation::Hosts), [0.2, 0.2, 0.1, 0.1, 0.2, 0.2]),
            // Quanta ¼ ¼ ¼ ¼ ⅓ ½ of a sum of 11/6
            (Some(Isolation::TripleIsolate), [0.1364, 0.1364, 0.1364, 0.1364, 0.1818, 0.2727]),
        ] {
            let off = farthest(FairShares::new(isolation, ends).expected(), expected);
            assert!(off < 0.000_5, "{isolation:?}: {off}");
        }
    }

    #[test]
    fn flows_of_a_host_or_a_pair_share_a_queue_in_modes_without_queues_of_flows() {
        let ends = [(0, 0), (0, 1), (0, 1), (1, 1)];
        let shares = [0.1, 0.2, 0.3, 0.4];
        for (isolation, together) in [
            (None, shares),
            (Some(Isolation::TripleIsolate), shares),
            (Some(Isolation::SrcHost), [0.6, 0.6, 0.6, 0.4]),
            (Some(Isolation::DstHost), [0.1, 0.9, 0.9, 0.9]),
            (Some(Isolation::Hosts), [0.1, 0.5, 0.5, 0.4]),
        ] {
            let rule = FairShares::new(isolation, ends);
            assert!(farthest(rule.of_queues(shares), together) < 1e-9, "{isolation:?}");
            assert_eq!(rule.has_shared_queues(), together != shares, "{isolation:?}");
            assert_eq!(rule.off_in_a_run(&[rule.expected()]), [0.0, 0.0], "{isolation:?}");
        }
    }
}
