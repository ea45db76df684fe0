//! Siblings: rows of a table that belong together, such as those of one host in several tins.
//!
//! Siblings are a ring of at most [`MOST`] rows, so that a loop over them is bounded. A row knows the next; one that is alone
//! knows none.

use crate::{ConfigError, FlowId, Imbalance};

/// The most siblings, the row itself included: as many as there may be tins.
pub(crate) const MOST: usize = 8;

/// What a row keeps of its siblings: the number of the next one and 1, or 0 without siblings. So a row of zeros has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextSibling(u32);

impl NextSibling {
    pub(crate) const NONE: Self = Self(0);

    /// The number of the next one.
    #[inline]
    pub(crate) const fn number(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    pub(crate) const fn new(next: Option<u32>) -> Self {
        match next {
            Some(next) => Self(next.wrapping_add(1)),
            None => Self::NONE,
        }
    }
}

/// A row that may have siblings.
pub(crate) trait Sibling {
    /// The number of the next of its siblings.
    fn sibling(&self) -> Option<u32>;

    fn set_sibling(&mut self, next: Option<u32>);
}

/// The next sibling of `flow`; `flow` itself if it has none.
#[inline]
pub(crate) fn next(rows: &[impl Sibling], flow: FlowId) -> FlowId {
    let Some(next) = rows.get(flow.index()).and_then(Sibling::sibling) else { return flow };
    crate::steps::step();
    FlowId(next)
}

/// The siblings of `flow`, in the order of the ring, without itself. At most [`MOST`].
pub(crate) fn others<S: Sibling>(rows: &[S], flow: FlowId) -> impl Iterator<Item = FlowId> {
    let step = move |at: FlowId| Some(next(rows, at)).filter(|next| *next != flow);
    core::iter::successors(step(flow), move |at| step(*at)).take(MOST)
}

/// Whether `flow` is still to become a sibling of `other`: not if they are one row or are siblings already.
///
/// # Errors
/// [`ConfigError::UnknownFlow`] if one of them is not below `known`, and [`ConfigError::OutOfRange`] if `other` has no room in its ring.
pub(crate) fn check_join(
    rows: &[impl Sibling],
    flow: FlowId,
    other: FlowId,
    known: u32,
) -> Result<bool, ConfigError> {
    let flows = known.min(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    if let Some(flow) = [flow, other].into_iter().find(|named| named.0 >= flows) {
        return Err(ConfigError::UnknownFlow { flow, flows });
    }
    if flow == other || others(rows, other).any(|sibling| sibling == flow) {
        return Ok(false);
    }
    let with_flow = others(rows, other).count().wrapping_add(2) as u64;
    ConfigError::check_range("siblings", with_flow, 1, MOST as u64)?;
    Ok(true)
}

/// Whether `flow` is still to become a sibling of `other`, and [may](check_join).
pub(crate) fn may_join(rows: &[impl Sibling], flow: FlowId, other: FlowId) -> bool {
    check_join(rows, flow, other, u32::MAX) == Ok(true)
}

/// Makes `flow`, which leaves the siblings it has, a sibling of `other`, behind it in its ring. Returns whether it
/// [does](check_join); nothing has changed if not.
pub(crate) fn join(rows: &mut [impl Sibling], flow: FlowId, other: FlowId) -> bool {
    if !may_join(rows, flow, other) {
        return false;
    }
    part(rows, flow);
    let behind = next(rows, other);
    if let Some(row) = rows.get_mut(other.index()) {
        row.set_sibling(Some(flow.0));
    }
    if let Some(row) = rows.get_mut(flow.index()) {
        row.set_sibling(Some(behind.0));
    }
    true
}

/// `flow` has no siblings from now on. Returns the one that stood before it.
pub(crate) fn part(rows: &mut [impl Sibling], flow: FlowId) -> Option<FlowId> {
    let before = others(rows, flow).last()?;
    let behind = next(rows, flow);
    if let Some(row) = rows.get_mut(flow.index()) {
        row.set_sibling(None);
    }
    if let Some(row) = rows.get_mut(before.index()) {
        // One that is left alone has no siblings.
        row.set_sibling(Some(behind.0).filter(|_| behind != before));
    }
    Some(before)
}

/// Checks that siblings are rings of two rows at least and [`MOST`] at most. O(rows).
pub(crate) fn recount(rows: &[impl Sibling]) -> Result<(), Imbalance> {
    for (at, row) in (0..).zip(rows) {
        if row.sibling().is_none() {
            continue;
        }
        let count = others(rows, FlowId(at)).count();
        let is_few = (1..MOST).contains(&count);
        Imbalance::check("fewer siblings than tins", at, 1, is_few.into())?;
        let back = others(rows, FlowId(at)).last().map_or(FlowId(at), |last| next(rows, last));
        Imbalance::check("siblings are a ring", at, at.into(), back.0.into())?;
    }
    Ok(())
}
