//! An AVL tree of the backlogged flows, sorted by start, with the earliest finish of every subtree.
//!
//! The nodes are in the caller's table; each stores which flow of its subtree finishes first. So
//! the earliest finish among all starts up to an instant is found on one descent (Stoica and
//! Abdel-Wahab, EEVDF, 1995). With one heap of eligible and one of ineligible flows instead, a
//! single packet might move all flows between heaps: flows of equal weight and packet length become
//! eligible together.
//!
//! Cost: every loop ascends or descends the tree, whose height is at most 1.44 · log2(flows + 2)
//! (Adelson-Velsky and Landis 1962): 29 for 2^20 flows, below 47 for all possible flow numbers.

use super::Wf2qFlow;

/// No flow: no table is that long.
pub(super) const NIL: u32 = u32::MAX;

/// The root; the nodes are in the table passed to every call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    root: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

impl Tree {
    pub(super) const EMPTY: Self = Self { root: NIL };

    pub(super) const fn is_empty(self) -> bool {
        self.root == NIL
    }

    /// Returns the flow that starts first, or [`NIL`] if the tree is empty.
    pub(super) fn first(self, flows: &[Wf2qFlow]) -> u32 {
        leftmost(flows, self.root)
    }

    /// Returns the flow that finishes first of those with `start <= now`, or [`NIL`] if there is
    /// none.
    pub(super) fn earliest_until(self, flows: &[Wf2qFlow], now: u128) -> u32 {
        let (mut best, mut at) = (NIL, self.root);
        while let Some(node) = flows.get(at as usize) {
            crate::steps::step();
            if node.start > now {
                at = node.left;
                continue;
            }
            // The node is eligible, and so is its left subtree.
            best = earlier(flows, best, earlier(flows, earliest(flows, node.left), at));
            at = node.right;
        }
        best
    }

    /// Inserts `flow`, which is in no tree.
    pub(super) fn insert(&mut self, flows: &mut [Wf2qFlow], flow: u32) {
        let start = flows.get(flow as usize).map_or(0, |node| node.start);
        let (mut parent, mut at, mut side) = (NIL, self.root, Side::Left);
        while let Some(node) = flows.get(at as usize) {
            crate::steps::step();
            parent = at;
            // Of equal starts, the lower number comes first.
            let before = start < node.start || (start == node.start && flow < at);
            (side, at) = if before { (Side::Left, node.left) } else { (Side::Right, node.right) };
        }
        if let Some(node) = flows.get_mut(flow as usize) {
            (node.left, node.right, node.parent) = (NIL, NIL, parent);
            (node.earliest, node.height) = (NIL, 0);
        }
        if parent == NIL {
            self.root = flow;
        } else {
            set_child(flows, parent, side, flow);
        }
        self.retrace(flows, flow);
    }

    /// Removes `flow`; until then its start and finish must be those it was inserted with.
    pub(super) fn remove(&mut self, flows: &mut [Wf2qFlow], flow: u32) {
        let Some(node) = flows.get(flow as usize) else { return };
        let (left, right, parent) = (node.left, node.right, node.parent);
        let (height, first) = (node.height, node.earliest);
        if left == NIL || right == NIL {
            let only = if left == NIL { right } else { left };
            self.replace(flows, parent, flow, only);
            self.retrace(flows, parent);
        } else {
            // The leftmost flow of the right subtree starts next; it replaces `flow`.
            let next = leftmost(flows, right);
            let above = parent_of(flows, next);
            if above != flow {
                let behind = child(flows, next, Side::Right);
                set_child(flows, above, Side::Left, behind);
                set_parent(flows, behind, above);
                set_child(flows, next, Side::Right, right);
                set_parent(flows, right, next);
            }
            set_child(flows, next, Side::Left, left);
            set_parent(flows, left, next);
            self.replace(flows, parent, flow, next);
            if let Some(node) = flows.get_mut(next as usize) {
                (node.height, node.earliest) = (height, first);
            }
            if above != flow {
                self.retrace(flows, above);
            }
            // The ascent from `above` may have ended below the new position, whose height and
            // earliest finish are then still the old ones.
            self.retrace(flows, next);
        }
        if let Some(node) = flows.get_mut(flow as usize) {
            node.height = 0;
        }
    }

    /// Updates height, balance and earliest finish from `at` upwards, as far as they change.
    fn retrace(&mut self, flows: &mut [Wf2qFlow], mut at: u32) {
        while let Some(node) = flows.get(at as usize) {
            crate::steps::step();
            let before = (node.height, node.earliest);
            let mut top = at;
            let (left, right) = (flows.get(node.left as usize), flows.get(node.right as usize));
            let of = |child: Option<&Wf2qFlow>| child.map_or(0, |child| child.height);
            if of(left).abs_diff(of(right)) > 1 {
                top = self.balance(flows, at);
            }
            if update(flows, top) == before {
                return;
            }
            at = parent_of(flows, top);
        }
    }

    /// Rotates if the heights of the children of `at` differ by two; returns the flow now in its
    /// position, whose own height and earliest are left to the caller.
    #[inline(never)] // rare
    fn balance(&mut self, flows: &mut [Wf2qFlow], at: u32) -> u32 {
        let of = |side| height(flows, child(flows, at, side));
        let deep = if of(Side::Left) > of(Side::Right) { Side::Left } else { Side::Right };
        let below = child(flows, at, deep);
        let inner = child(flows, below, deep.other());
        if height(flows, inner) > height(flows, child(flows, below, deep)) {
            self.rotate(flows, below, deep);
        }
        self.rotate(flows, at, deep.other())
    }

    /// Rotates `at` down to `side`, and returns its child on the other side, which moves up.
    fn rotate(&mut self, flows: &mut [Wf2qFlow], at: u32, side: Side) -> u32 {
        let rising = child(flows, at, side.other());
        let between = child(flows, rising, side);
        let parent = parent_of(flows, at);
        set_child(flows, at, side.other(), between);
        set_parent(flows, between, at);
        self.replace(flows, parent, at, rising);
        set_child(flows, rising, side, at);
        set_parent(flows, at, rising);
        update(flows, at);
        rising
    }

    /// Replaces the child `old` of `parent` by `new`, or by nothing.
    fn replace(&mut self, flows: &mut [Wf2qFlow], parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else if child(flows, parent, Side::Left) == old {
            set_child(flows, parent, Side::Left, new);
        } else {
            set_child(flows, parent, Side::Right, new);
        }
        set_parent(flows, new, parent);
    }

    /// Returns the next flow after `flow` by start, or [`NIL`] at the end. For tests.
    pub(super) fn after(flows: &[Wf2qFlow], flow: u32) -> u32 {
        let right = child(flows, flow, Side::Right);
        if right != NIL {
            return leftmost(flows, right);
        }
        let (mut below, mut at) = (flow, parent_of(flows, flow));
        while at != NIL && child(flows, at, Side::Right) == below {
            (below, at) = (at, parent_of(flows, at));
        }
        at
    }
}

/// Recomputes height and earliest finish of `at` from its children; returns them.
fn update(flows: &mut [Wf2qFlow], at: u32) -> (u8, u32) {
    let books = books(flows, at);
    if let Some(node) = flows.get_mut(at as usize) {
        (node.height, node.earliest) = books;
    }
    books
}

/// Returns the height and the earliest finish that `at` should have.
pub(super) fn books(flows: &[Wf2qFlow], at: u32) -> (u8, u32) {
    let Some(node) = flows.get(at as usize) else { return (0, NIL) };
    let of = |child: u32| flows.get(child as usize).map_or((0, NIL), |k| (k.height, k.earliest));
    let (left, right) = (of(node.left), of(node.right));
    let first = earlier(flows, at, earlier(flows, left.1, right.1));
    (left.0.max(right.0).saturating_add(1), first)
}

/// Returns true if the children of `at` differ in height by at most one and link to their parent.
/// For tests.
pub(super) fn is_sound(flows: &[Wf2qFlow], at: u32) -> bool {
    let sides = [Side::Left, Side::Right].map(|side| child(flows, at, side));
    let [left, right] = sides.map(|child| height(flows, child));
    let knows = |&child: &u32| child == NIL || parent_of(flows, child) == at;
    left.abs_diff(right) <= 1 && sides.iter().all(knows)
}

fn leftmost(flows: &[Wf2qFlow], mut at: u32) -> u32 {
    loop {
        crate::steps::step();
        let left = child(flows, at, Side::Left);
        if left == NIL {
            return at;
        }
        at = left;
    }
}

/// Returns the flow that finishes first; of equal finishes the one that starts first, then the
/// lower number.
pub(super) fn earlier(flows: &[Wf2qFlow], a: u32, b: u32) -> u32 {
    let (Some(first), Some(second)) = (flows.get(a as usize), flows.get(b as usize)) else {
        return if a == NIL { b } else { a };
    };
    let wins = if first.finish == second.finish {
        (second.start, b) < (first.start, a)
    } else {
        second.finish < first.finish
    };
    if wins { b } else { a }
}

fn child(flows: &[Wf2qFlow], at: u32, side: Side) -> u32 {
    flows.get(at as usize).map_or(NIL, |node| match side {
        Side::Left => node.left,
        Side::Right => node.right,
    })
}

fn set_child(flows: &mut [Wf2qFlow], at: u32, side: Side, child: u32) {
    if let Some(node) = flows.get_mut(at as usize) {
        match side {
            Side::Left => node.left = child,
            Side::Right => node.right = child,
        }
    }
}

fn parent_of(flows: &[Wf2qFlow], at: u32) -> u32 {
    flows.get(at as usize).map_or(NIL, |node| node.parent)
}

fn set_parent(flows: &mut [Wf2qFlow], at: u32, parent: u32) {
    if let Some(node) = flows.get_mut(at as usize) {
        node.parent = parent;
    }
}

fn height(flows: &[Wf2qFlow], at: u32) -> u8 {
    flows.get(at as usize).map_or(0, |node| node.height)
}

fn earliest(flows: &[Wf2qFlow], at: u32) -> u32 {
    flows.get(at as usize).map_or(NIL, |node| node.earliest)
}
