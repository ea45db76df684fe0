//! Which host holds the most: a tree of maxima.
//!
//! Hosts are the leaves of a binary tree in which each node holds what the larger of its children holds.
//! Of `n` hosts, host `h` is node `n + h`, the parent of a node is half its number, and the root is node 1.
//! Siblings lie side by side, so a change reads one element a level. A change ends below the first node whose value
//! stays the same because its other child holds as much.
//!
//! Cost: at most `⌈log2 n⌉ + 1` steps, mostly one or two. Memory: 8 bytes a host.

use crate::Imbalance;

/// Room for what one host holds, of [`LongestHostDrop`](super::LongestHostDrop): 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestHost {
    /// Element `p` of a table: what the nodes `2p` and `2p + 1` hold. Node 0 is a sentinel beside the root, node 1:
    /// it holds more than any host can, so that a change ends at the root.
    nodes: [u32; 2],
}

impl LongestHost {
    /// A host that holds nothing.
    pub const EMPTY: Self = Self { nodes: [0; 2] };

    /// No host of the table holds anything.
    pub(super) fn clear(hosts: &mut [Self]) {
        hosts.fill(Self::EMPTY);
        if let Some(first) = hosts.first_mut() {
            first.nodes = [u32::MAX, 0];
        }
    }

    /// What `host` holds; 0 if there is no such host.
    pub(super) fn bytes(hosts: &[Self], host: u32) -> u32 {
        Self::node(hosts, hosts.len().wrapping_add(host as usize))
    }

    fn node(hosts: &[Self], node: usize) -> u32 {
        let pair = hosts.get(node >> 1);
        pair.and_then(|pair| pair.nodes.get(node & 1)).copied().unwrap_or(0)
    }

    #[inline]
    fn node_mut(hosts: &mut [Self], node: usize) -> Option<&mut u32> {
        hosts.get_mut(node >> 1)?.nodes.get_mut(node & 1)
    }

    /// `host` holds `more` bytes more than before. No sum overflows: all hosts together hold at most
    /// `Limits::MAX_BYTES` and a packet. At most 33 steps: the node number halves, and node 0 ends the walk.
    #[inline]
    pub(super) fn raise(hosts: &mut [Self], host: u32, more: u32) {
        let mut node = hosts.len().wrapping_add(host as usize);
        let Some(leaf) = Self::node_mut(hosts, node) else { return };
        *leaf = leaf.wrapping_add(more);
        let most = *leaf;
        loop {
            crate::steps::step();
            node >>= 1;
            match Self::node_mut(hosts, node) {
                Some(place) if *place < most => *place = most,
                _ => break,
            }
        }
    }

    /// `host` holds `less` bytes less than before. At most 32 steps: the node number halves.
    #[inline]
    pub(super) fn lower(hosts: &mut [Self], host: u32, less: u32) {
        let mut node = hosts.len().wrapping_add(host as usize);
        let before = Self::node(hosts, node);
        let mut most = before.wrapping_sub(less);
        while let Some(Self { nodes }) = hosts.get_mut(node >> 1) {
            crate::steps::step();
            let sibling = nodes.get(node & 1 ^ 1).copied().unwrap_or(u32::MAX);
            if let Some(place) = nodes.get_mut(node & 1) {
                *place = most;
            }
            if sibling >= before {
                break;
            }
            most = most.max(sibling);
            node >>= 1;
        }
    }

    /// The host that holds the most, if any holds something.
    pub(super) fn first(hosts: &[Self]) -> Option<u32> {
        let mut node = 1;
        if Self::node(hosts, node) == 0 {
            return None;
        }
        // At most 32 steps: hosts are numbered by `u32`, and the node doubles.
        while node < hosts.len() {
            crate::steps::step();
            let [left, right] = hosts.get(node)?.nodes;
            node = 2 * node + usize::from(right > left);
        }
        u32::try_from(node.wrapping_sub(hosts.len())).ok()
    }

    /// Compares what each host holds with `truth`, and each node with its children. O(hosts).
    pub(super) fn recount(hosts: &[Self], truth: &dyn Fn(u32) -> u32) -> Result<(), Imbalance> {
        let above = hosts.first().map_or(u32::MAX, |&Self { nodes: [above, _] }| above);
        Imbalance::check("what bounds the tree of hosts", 0, u32::MAX.into(), above.into())?;
        for (at, _) in (0_u32..).zip(hosts) {
            let (booked, counted) = (Self::bytes(hosts, at), truth(at));
            Imbalance::check("bytes of a host", at, booked.into(), counted.into())?;
        }
        for (at, &Self { nodes: [left, right] }) in (0_u32..).zip(hosts).skip(1) {
            let (booked, counted) = (Self::node(hosts, at as usize), left.max(right));
            Imbalance::check("the most below a node", at, booked.into(), counted.into())?;
        }
        Ok(())
    }
}

impl Default for LongestHost {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::Xorshift;
    use std::vec;

    /// Goal: after every change the host named is the one a scan finds, ties included, whatever the number
    /// of hosts. Method: 20,000 random changes for each of ten sizes, powers of two and not, of so few bytes
    /// that most comparisons are ties, or of all magnitudes.
    #[test]
    fn the_host_named_is_the_one_a_scan_finds_after_every_change() {
        for (count, bits) in
            [(1, 2), (2, 2), (3, 1), (3, 24), (5, 2), (7, 1), (8, 1), (8, 24), (85, 3), (256, 2)]
        {
            let mut hosts = vec![LongestHost::EMPTY; count];
            LongestHost::clear(&mut hosts);
            let (mut held, mut random) = (vec![0_u32; count], Xorshift::new(count as u64));
            for step in 0..20_000 {
                let at = random.below(count as u32);
                let bytes = &mut held[at as usize];
                let amount = random.magnitude(bits);
                // Filling and emptying in turn.
                if random.below(8) < [6, 2][step / 256 % 2] {
                    *bytes += amount;
                    LongestHost::raise(&mut hosts, at, amount);
                } else {
                    let less = amount.min(*bytes);
                    *bytes -= less;
                    LongestHost::lower(&mut hosts, at, less);
                }
                let first = count.next_power_of_two() - count;
                let nth = |at: usize| (at + count - first) % count;
                let scanned = (0..count).filter(|&at| held[at] > 0);
                let scanned = scanned.min_by_key(|&at| (!held[at], nth(at)));
                let named = LongestHost::first(&hosts);
                assert_eq!(named.map(|at| at as usize), scanned, "{count} hosts, step {step}");
                if step % 500 == 0 {
                    assert_eq!(LongestHost::recount(&hosts, &|at| held[at as usize]), Ok(()));
                }
            }
        }
    }
}
