//! Labels with a tin.

use super::Labelled;
use crate::HostTerms;

/// Labels together with the tin of the packet: [`Labelled::tin`].
///
/// ```
/// use freeboard::flowhash::Labels;
/// use freeboard::{InTin, Labelled};
///
/// let labels = Labels { flow: 7, src_host: 1, dst_host: 2 };
/// let voice = InTin { labels, tin: 3 };
/// assert_eq!((voice.flow(), voice.tin(), labels.tin()), (7, 3, 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InTin<L> {
    /// All labels but the tin.
    pub labels: L,
    /// The tin.
    pub tin: u8,
}

impl<L: Labelled> Labelled for InTin<L> {
    #[inline]
    fn flow(&self) -> u32 {
        self.labels.flow()
    }

    #[inline]
    fn source(&self) -> u32 {
        self.labels.source()
    }

    #[inline]
    fn destination(&self) -> u32 {
        self.labels.destination()
    }

    #[inline]
    fn host_pair(&self) -> u32 {
        self.labels.host_pair()
    }

    #[inline]
    fn tin(&self) -> u8 {
        self.tin
    }

    #[inline]
    fn host_terms(&self) -> HostTerms {
        self.labels.host_terms()
    }
}
