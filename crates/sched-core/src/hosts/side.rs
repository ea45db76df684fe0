//! The two hosts of a flow.

/// One side of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Side {
    /// Where it comes from.
    #[default]
    Source,
    /// Where it goes.
    Destination,
}
