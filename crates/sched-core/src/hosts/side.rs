//! The two hosts of a flow.

/// One end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Side {
    /// The sender.
    #[default]
    Source,
    /// The receiver.
    Destination,
}
