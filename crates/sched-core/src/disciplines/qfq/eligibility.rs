//! The four sets of groups, one word each, and the moves between them (QFQ §IV-3, §IV-A.3).
//!
//! A group is *eligible* if `S_i ≤ V`, and *blocked* if an eligible, ready group of higher index
//! has a lower `F`. Within each set the index orders the groups by `F`, and within `IR` and `IB`
//! also by `S`: the lowest bit of a set is its smallest.

/// The four sets; a backlogged group is in exactly one, an idle group in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sets {
    /// `ER`: eligible and ready. Not empty if and only if a flow is backlogged.
    pub(super) ready: u32,
    /// `EB`: eligible and blocked.
    pub(super) blocked: u32,
    /// `IR`: ineligible and ready.
    pub(super) ineligible_ready: u32,
    /// `IB`: ineligible and blocked.
    pub(super) ineligible_blocked: u32,
}

/// Returns the set of group `i` alone.
pub(super) const fn bit(i: u32) -> u32 {
    1 << (i % 32)
}

/// Returns the set of the groups below `i`.
const fn below(i: u32) -> u32 {
    bit(i).wrapping_sub(1)
}

/// Returns the lowest index in `set`.
const fn lowest(set: u32) -> Option<u32> {
    if set == 0 { None } else { Some(set.trailing_zeros()) }
}

impl Sets {
    /// Returns the group to serve: of `ER`, the one with the smallest `F`.
    pub(super) const fn first_ready(&self) -> Option<u32> {
        lowest(self.ready)
    }

    /// Returns the group of `ER` above `i` with the smallest `F`: the one that can block `i`.
    pub(super) const fn first_ready_above(&self, i: u32) -> Option<u32> {
        lowest(self.ready & !(bit(i) | below(i)))
    }

    /// Returns the groups that are backlogged, but not eligible.
    pub(super) const fn ineligible(&self) -> u32 {
        self.ineligible_ready | self.ineligible_blocked
    }

    /// Returns the ineligible group with the smallest `S`.
    pub(super) const fn first_ineligible(&self) -> Option<u32> {
        lowest(self.ineligible())
    }

    /// Inserts group `i`, which is in no set, into the set for its state.
    pub(super) const fn insert(&mut self, i: u32, eligible: bool, blocked: bool) {
        let set = match (eligible, blocked) {
            (true, false) => &mut self.ready,
            (true, true) => &mut self.blocked,
            (false, false) => &mut self.ineligible_ready,
            (false, true) => &mut self.ineligible_blocked,
        };
        *set |= bit(i);
    }

    /// Removes group `i` from its set.
    pub(super) const fn remove(&mut self, i: u32) {
        let others = !bit(i);
        self.ready &= others;
        self.blocked &= others;
        self.ineligible_ready &= others;
        self.ineligible_blocked &= others;
    }

    /// Moves `IR` to `ER` and `IB` to `EB`, for every group in which the advance of `V` has entered
    /// a slot (`make_eligible()`, Fig. 5).
    ///
    /// An ineligible group has `S_i = ⌊V⌋ + σ_i` (Theorem 1), so it becomes eligible exactly when
    /// `V` enters a new slot of its width; `entered` is the set of groups in which `V` has done so.
    pub(super) const fn make_eligible(&mut self, entered: u32) {
        // Seldom true: V enters a slot of group 0 with most packets, but one of a waiting group
        // with few.
        if (self.ineligible_ready | self.ineligible_blocked) & entered != 0 {
            self.ready |= self.ineligible_ready & entered;
            self.ineligible_ready &= !entered;
            self.blocked |= self.ineligible_blocked & entered;
            self.ineligible_blocked &= !entered;
        }
    }

    /// Makes the groups ready that group `i` blocked, `EB` to `ER` and `IB` to `IR`
    /// (`unblock_groups()`, Fig. 5; Theorem 6). Group `i` has left `ER` or has got a later `F`, and
    /// no group above it in `ER` has an `F` as early as its old one.
    ///
    /// These are the groups between `i` and the next group below `i` in `ER`. That next group has
    /// an `F` at most as late, so it blocks all groups below itself that `i` would block. The group
    /// just served has no group of `ER` below it: then the rule is the paper's "all groups below
    /// `i`". The rule is also correct for groups that leave without service. A group `h` between
    /// the two had `S_h ≤ F_i` (the invariant of `recount`), hence `F_h ≤ F_i + 2σ_h ≤ F_i + σ_i`.
    /// The next group above `i` in `ER` has an `F` at least `σ_i` later than `F_i`.
    pub(super) const fn unblock_below(&mut self, i: u32) {
        let ready_below = self.ready & below(i);
        // At most 31: the highest group below another is 30.
        let from = u32::BITS - ready_below.leading_zeros();
        let freed = below(i) & !below(from);
        self.ready |= self.blocked & freed;
        self.blocked &= !freed;
        self.ineligible_ready |= self.ineligible_blocked & freed;
        self.ineligible_blocked &= !freed;
    }
}

#[cfg(test)]
mod tests {
    use super::super::virtual_time::{Virtual, entered};
    use super::*;
    use bitvec::array::BitArray;
    use bitvec::order::Lsb0;
    use conformance::effort::effort;

    type Bits = BitArray<[u32; 1], Lsb0>;

    /// Reference model: the four sets by definition, group by group: ER, EB, IR, IB.
    struct Oracle([Bits; 4]);

    impl Oracle {
        fn of(sets: &Sets) -> Self {
            let words = [sets.ready, sets.blocked, sets.ineligible_ready, sets.ineligible_blocked];
            Self(words.map(|word| BitArray::new([word])))
        }

        fn sets(&self) -> Sets {
            let [ready, blocked, ineligible_ready, ineligible_blocked] =
                self.0.map(|bits| bits.into_inner()[0]);
            Sets { ready, blocked, ineligible_ready, ineligible_blocked }
        }

        fn shift(&mut self, from: usize, to: usize, group: usize) {
            if self.0[from].replace(group, false) {
                self.0[to].set(group, true);
            }
        }
    }

    /// Goal: each word operation moves exactly the groups that its definition names. Method: random
    /// states of the four sets; the reference model walks bit vectors group by group.
    #[test]
    fn word_operations_equal_walks_over_bit_vectors() {
        let mut random = conformance::Xorshift::new(0);
        for _ in 0..effort(10_000, 200_000) {
            let (states, mut sets) = (random.next_u64(), Sets::default());
            for group in 0..32 {
                if random.next_u64() >> 40 & 3 != 0 {
                    let (eligible, blocked) = (states >> group & 1, states >> (32 + group) & 1);
                    sets.insert(group, eligible == 1, blocked == 1);
                }
            }
            let oracle = Oracle::of(&sets);
            assert_eq!(sets.first_ready(), oracle.0[0].first_one().map(|at| at as u32));
            let ineligible = oracle.0[2] | oracle.0[3];
            assert_eq!(sets.first_ineligible(), ineligible.first_one().map(|at| at as u32));
            let group = (random.next_u64() >> 20) as u32 % 32;
            let above = oracle.0[0].iter_ones().find(|&at| at as u32 > group);
            assert_eq!(sets.first_ready_above(group), above.map(|at| at as u32));

            let (mut moved, mut oracle) = (sets, Oracle::of(&sets));
            let old = random.next_u64();
            let new = old.wrapping_add(random.next_u64() >> (random.next_u64() % 64));
            moved.make_eligible(entered(Virtual(old), Virtual(new)));
            // A slot of group i is 2^(15 + i) wide: V has entered another one.
            for i in (0..32).filter(|i| old >> (15 + i) != new >> (15 + i)) {
                oracle.shift(2, 0, i);
                oracle.shift(3, 1, i);
            }
            assert_eq!(moved, oracle.sets(), "V from {old:#x} to {new:#x}");

            let (mut moved, mut oracle) = (sets, Oracle::of(&sets));
            moved.unblock_below(group);
            // A ready group still blocks those below it.
            for i in (0..group as usize).rev().take_while(|i| sets.ready >> i & 1 == 0) {
                oracle.shift(1, 0, i);
                oracle.shift(3, 2, i);
            }
            assert_eq!(moved, oracle.sets(), "unblocked below {group}");

            let (mut moved, mut oracle) = (sets, Oracle::of(&sets));
            moved.remove(group);
            oracle.0.iter_mut().for_each(|bits| bits.set(group as usize, false));
            assert_eq!(moved, oracle.sets(), "removed {group}");
        }
    }

    #[test]
    fn unblocking_stops_at_the_next_ready_group_below() {
        let mut sets = Sets {
            ready: bit(3) | bit(9),
            blocked: bit(1) | bit(5) | bit(12),
            ineligible_ready: 0,
            ineligible_blocked: bit(2) | bit(7) | bit(31),
        };
        sets.unblock_below(9);
        assert_eq!(sets.ready, bit(3) | bit(5) | bit(9));
        assert_eq!(sets.blocked, bit(1) | bit(12));
        assert_eq!(sets.ineligible_ready, bit(7));
        assert_eq!(sets.ineligible_blocked, bit(2) | bit(31));
        sets.unblock_below(0);
        sets.remove(3);
        sets.unblock_below(31);
        assert_eq!((sets.ready, sets.blocked), (bit(5) | bit(9) | bit(12), bit(1)));
    }

    #[test]
    fn an_advance_past_the_last_group_makes_every_group_eligible() {
        let mut sets = Sets { ineligible_ready: u32::MAX, ..Sets::default() };
        sets.make_eligible(entered(Virtual(0), Virtual(1 << 60)));
        assert_eq!(sets, Sets { ready: u32::MAX, ..Sets::default() });
    }

    #[test]
    fn no_group_is_above_the_last_group() {
        let sets = Sets { ready: u32::MAX, ..Sets::default() };
        assert_eq!(sets.first_ready_above(31), None);
        assert_eq!(sets.first_ready_above(30), Some(31));
    }
}
