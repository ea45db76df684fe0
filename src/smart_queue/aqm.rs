//! The AQMs of a smart queue and their keywords.

use sched_core::{AqmChoice, L4sParams, Nanos};
use shaper::Rate;

use super::Rtt;
use crate::keyword::by_word;

/// The AQM that a [`SmartQueue`](super::SmartQueue) has in each of its queues.
///
/// | keyword | effect | an unresponsive flow |
/// |---|---|---|
/// | `cobalt`, the default | CoDel, and drops packets of a flow that overflows its queue, ECN-capable or not ([`Cobalt`](sched_core::Cobalt)) | is dropped from until its queue is short |
/// | `codel` | marks or drops packets of a standing queue, at an increasing rate | keeps its queue as long as the limits allow |
/// | `pie` | marks or drops arrivals at random, so that the delay approaches its target ([`Pie`](sched_core::Pie)) | has its arrivals dropped until its queue is short |
/// | `pi2` | PIE with a probability of `2p` for ECT(1) and `p²` for others ([`Pi2`](sched_core::Pi2)) | has its arrivals dropped until its queue is short |
/// | `red` | marks or drops arrivals with a probability that grows with the average queue in bytes ([`Red`](sched_core::Red)) | has its arrivals dropped above a threshold |
/// | `blue` | marks or drops arrivals with a probability that rises when packets wait too long or the queue is full ([`Blue`](sched_core::Blue)) | has its arrivals dropped until its packets wait less |
/// | `none` | none: queues are as long as senders and limits make them | no different from others |
///
/// PIE, PI2, RED and BLUE require the feature `aqms`, which is on by default.
///
/// CoDel and COBALT act when packets leave. The others drop arrivals, which
/// [`enqueue`](super::SmartQueue::enqueue) and [`push`](super::SmartQueue::push) report as
/// [`RejectReason::Aqm`](sched_core::RejectReason::Aqm).
///
/// ```
/// use freeboard::shaper::Rate;
/// use freeboard::{AqmKind, SmartQueue};
///
/// let builder = SmartQueue::upload(Rate::megabits_per_second(20)?).aqm("codel".parse()?);
/// let mut queue = builder.descriptors()?;
/// assert_eq!(queue.aqm(), AqmKind::CoDel);
/// queue.set_aqm(AqmKind::default());
/// assert_eq!(queue.aqm().word(), "cobalt");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AqmKind {
    /// No AQM.
    None,
    /// CoDel (RFC 8289).
    CoDel,
    /// COBALT: CoDel and BLUE.
    #[default]
    Cobalt,
    /// PIE (RFC 8033).
    #[cfg(feature = "aqms")]
    Pie,
    /// PI2.
    #[cfg(feature = "aqms")]
    Pi2,
    /// RED, adaptive and gentle.
    #[cfg(feature = "aqms")]
    Red,
    /// BLUE.
    #[cfg(feature = "aqms")]
    Blue,
}

impl AqmKind {
    /// All AQMs with their keywords.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("cobalt", Self::Cobalt),
        ("codel", Self::CoDel),
        #[cfg(feature = "aqms")]
        ("pie", Self::Pie),
        #[cfg(feature = "aqms")]
        ("pi2", Self::Pi2),
        #[cfg(feature = "aqms")]
        ("red", Self::Red),
        #[cfg(feature = "aqms")]
        ("blue", Self::Blue),
        ("none", Self::None),
    ];

    /// Returns its keyword.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CoDel => "codel",
            Self::Cobalt => "cobalt",
            #[cfg(feature = "aqms")]
            Self::Pie => "pie",
            #[cfg(feature = "aqms")]
            Self::Pi2 => "pi2",
            #[cfg(feature = "aqms")]
            Self::Red => "red",
            #[cfg(feature = "aqms")]
            Self::Blue => "blue",
        }
    }

    /// Returns the AQM of these parameters.
    pub(super) const fn of(choice: AqmChoice) -> Self {
        match choice {
            AqmChoice::Cobalt(_) => Self::Cobalt,
            AqmChoice::CoDel(_) => Self::CoDel,
            #[cfg(feature = "aqms")]
            AqmChoice::Pie(_) => Self::Pie,
            #[cfg(feature = "aqms")]
            AqmChoice::Pi2(_) => Self::Pi2,
            #[cfg(feature = "aqms")]
            AqmChoice::Red(_) => Self::Red,
            #[cfg(feature = "aqms")]
            AqmChoice::Blue(_) => Self::Blue,
            _ => Self::None,
        }
    }
}

by_word! {
    AqmKind, word, Self::WORDS.iter().map(|(_, kind)| *kind),
    if cfg!(feature = "aqms") {
        "an AQM must be one of cobalt codel pie pi2 red blue none"
    } else {
        "an AQM must be one of cobalt codel none"
    }
}

impl Rtt {
    /// Returns parameters of this AQM for a link of this rate: [`Rtt::codel`], [`Rtt::cobalt`],
    /// [`Rtt::pie`], [`Rtt::pi2`], [`Rtt::red`] or [`Rtt::blue`].
    #[must_use]
    pub fn aqm(self, kind: AqmKind, rate: Rate, max_len: u32) -> AqmChoice {
        match kind {
            AqmKind::None => AqmChoice::None,
            AqmKind::CoDel => AqmChoice::CoDel(self.codel(rate, max_len)),
            AqmKind::Cobalt => AqmChoice::Cobalt(self.cobalt(rate, max_len)),
            #[cfg(feature = "aqms")]
            AqmKind::Pie => AqmChoice::Pie(self.pie(rate, max_len)),
            #[cfg(feature = "aqms")]
            AqmKind::Pi2 => AqmChoice::Pi2(self.pi2(rate, max_len)),
            #[cfg(feature = "aqms")]
            AqmKind::Red => AqmChoice::Red(self.red(rate, max_len)),
            #[cfg(feature = "aqms")]
            AqmKind::Blue => AqmChoice::Blue(self.blue(rate, max_len)),
        }
    }

    /// Returns the threshold for packets with ECT(1): 1 ms, or the target if that is less, or the
    /// transmission time of two of the longest packets if that is more.
    ///
    /// A scalable sender (RFC 9331) reacts to marks within its own round-trip time and grows its
    /// window little between marks, so the threshold does not depend on the round-trip time. RFC
    /// 9332 §2.4 has about 1 ms.
    ///
    /// ```
    /// use freeboard::Rtt;
    /// use freeboard::sched_core::Nanos;
    /// use freeboard::shaper::Rate;
    ///
    /// let threshold = |rtt: Rtt, rate| rtt.l4s(rate, 1_514).threshold;
    /// assert_eq!(threshold(Rtt::INTERNET, Rate::megabits_per_second(100)?), Nanos::from_millis(1));
    /// assert_eq!(threshold(Rtt::INTERNET, Rate::megabits_per_second(10)?), Nanos(2_422_400));
    /// assert_eq!(threshold(Rtt::LAN, Rate::megabits_per_second(1_000)?), Nanos::from_micros(50));
    /// # Ok::<(), freeboard::sched_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn l4s(self, rate: Rate, max_len: u32) -> L4sParams {
        let two = rate.time_of(max_len.saturating_mul(2));
        let threshold = Nanos::from_millis(1).min(self.target()).max(two);
        L4sParams::new(threshold.min(Nanos(Self::LONGEST))).with_mtu(max_len)
    }
}
