//! Which flow is next, and the indices that say so.

pub(crate) mod age;
pub(crate) mod drr;
pub(crate) mod dual_pi2;
pub(crate) mod length_index;
pub(crate) mod qfq;
pub(crate) mod sqf;
pub(crate) mod tin_choice;
pub(crate) mod tournament;
pub(crate) mod wf2q;
