//! Flow schedulers and the indices they select flows with.

pub(crate) mod age;
pub(crate) mod drr;
pub(crate) mod dual_pi2;
pub(crate) mod length_index;
pub(crate) mod qfq;
pub(crate) mod sqf;
pub(crate) mod tin_choice;
pub(crate) mod tournament;
pub(crate) mod wf2q;
