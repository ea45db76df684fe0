//! Settings of a whole queue as a configuration string with the keywords of `tc`: `bandwidth 20mbit
//! diffserv4 dual-srchost nat wash rtt 30ms pppoe-ptm`.

#[cfg(feature = "serde")]
mod as_text;
mod display;
mod error;
mod parse;
mod units;
mod vocabulary;

use core::str::FromStr;

use shaper::{Overhead, Rate};

use crate::ack_filter::AckFilter;
use crate::isolation::Isolation;
use crate::smart_queue::{AqmKind, LinkLayer, MemoryLimit, Rtt};
use crate::tins::{TinBy, TinPlan};

pub use error::{SettingsError, SettingsProblem};

/// The settings of a queue. A field that is `None` leaves a builder or a queue unchanged.
///
/// The keywords are those of `tc` for CAKE, so that its configuration can be pasted here, and some
/// additional ones. They are applied from left to right; if two contradict each other, the later
/// one holds.
///
/// | keywords | field |
/// |---|---|
/// | `bandwidth 20mbit`, `unlimited`, `bandwidth stopped` | [`rate`](Self::rate) |
/// | `besteffort`, `precedence`, `diffserv3`, `diffserv4`, `diffserv8` | [`tins`](Self::tins), by [`TinMode`](crate::TinMode) |
/// | `tin calls share 1/4 weight 256`, the lowest tin first | [`tins`](Self::tins) of your own; the share defaults to 1, the weight to one in proportion to the share |
/// | `map EF,VA,40 calls`, `default-tin rest` | code points of either kind of plan, by name or number ([`Dscp`](crate::Dscp)) |
/// | `tin-by dscp`, `tin-by inner-dscp`, `tin-by priority` | [`tin_by`](Self::tin_by) |
/// | `fwmark 0xff` | [`fwmark`](Self::fwmark); `0` for none |
/// | `flows`, `srchost`, `dsthost`, `hosts`, `dual-srchost`, `dual-dsthost`, `triple-isolate` | [`isolation`](Self::isolation) |
/// | `hosts-across-tins`, `hosts-in-each-tin` | [`hosts_across_tins`](Self::hosts_across_tins) |
/// | `nat`, `nonat` | [`nat`](Self::nat) |
/// | `wash`, `nowash` | [`wash`](Self::wash) |
/// | `ack-filter`, `ack-filter-aggressive`, `no-ack-filter` | [`ack_filter`](Self::ack_filter) |
/// | `ingress`, `egress` | [`ingress`](Self::ingress) |
/// | `autorate-ingress`, `no-autorate-ingress` | [`autorate`](Self::autorate) |
/// | `rtt 30ms`; `datacentre`, `lan`, `metro`, `regional`, `internet`, `oceanic`, `satellite` | [`rtt`](Self::rtt) |
/// | `cobalt`, `codel`, `pie`, `pi2`, `red`, `blue`, `no-aqm` | [`aqm`](Self::aqm) |
/// | `l4s`, `no-l4s` | [`l4s`](Self::l4s) |
/// | `memlimit 4mb`, `memlimit by-rate` | [`memory_limit`](Self::memory_limit) |
/// | `split-gso`, `no-split-gso` | [`split_gso`](Self::split_gso) |
/// | `overhead 44 mpu 96 atm`, `wireguard pppoe-ptm ether-vlan` | [`framing`](Self::framing), by [`Overhead::from_keywords`] |
///
/// The first line that `tc -s qdisc` prints for a CAKE queue can be pasted whole: the part before
/// the settings (`qdisc cake 8001: root refcnt 2`) is skipped.
///
/// Two keywords of `tc` are known but not supported ([`SettingsProblem::NotOffered`]): `flowblind`,
/// which isolates no flows, and `interplanetary`, which exceeds the longest [`Rtt`].
///
/// [`SmartQueueBuilder::settings`](crate::SmartQueueBuilder::settings) applies settings to a queue,
/// and [`SmartQueue::settings`](crate::SmartQueue::settings) returns those of a queue.
///
/// The printed form parses to equal settings:
///
/// ```
/// use freeboard::QueueSettings;
///
/// let words = "bandwidth 20mbit diffserv4 map NQB voice nat wash rtt 30ms pppoe-ptm ether-vlan";
/// let settings = QueueSettings::from_words(words)?;
/// assert_eq!(settings.wash, Some(true));
/// assert_eq!(
///     settings.to_string(),
///     "bandwidth 20mbit diffserv4 map NQB voice nat wash regional overhead 34 ptm",
/// );
/// assert_eq!(settings.to_string().parse(), Ok(settings));
/// # Ok::<(), freeboard::SettingsError>(())
/// ```
///
/// With the feature `serde`, settings are (de)serialized as a string of these keywords.
///
/// An error points at the wrong word and says what was expected:
///
/// ```
/// use freeboard::QueueSettings;
///
/// let error = QueueSettings::from_words("bandwidth 20mbit difserv4").unwrap_err();
/// assert_eq!((error.offset, error.word.as_str()), (17, "difserv4"));
/// assert!(
///     error
///         .to_string()
///         .starts_with("at byte 17, `difserv4`: no such word; did you mean `diffserv4`?")
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct QueueSettings {
    /// The rate of the link.
    pub rate: Option<Rate>,
    /// The tins, and the mapping of packets to them.
    pub tins: Option<TinPlan>,
    /// The header that selects the tin of a packet.
    pub tin_by: Option<TinBy>,
    /// The bits of the caller's mark that select a tin ([`Fwmark`](crate::Fwmark)); 0 for none.
    pub fwmark: Option<u32>,
    /// The isolation of hosts and flows.
    pub isolation: Option<Isolation>,
    /// True for one share per host in all tins together, false for one in each tin.
    pub hosts_across_tins: Option<bool>,
    /// True if flows and hosts are those behind an address translation. Left to the caller, who
    /// has the table ([`with_nat`](crate::SmartQueue::with_nat)).
    pub nat: Option<bool>,
    /// True if frames leave with their code point cleared.
    pub wash: Option<bool>,
    /// The filter for queued acknowledgements.
    pub ack_filter: Option<AckFilter>,
    /// True if the queue is behind the bottleneck, so that packets dropped here have crossed the
    /// link too.
    pub ingress: Option<bool>,
    /// True for autorate, which follows the rate of arrivals. Left to the caller, who has the
    /// clock.
    pub autorate: Option<bool>,
    /// The round-trip time that the AQM is set for.
    pub rtt: Option<Rtt>,
    /// The AQM.
    pub aqm: Option<AqmKind>,
    /// True if packets with ECT(1) are marked above a shallow threshold.
    pub l4s: Option<bool>,
    /// The limit on the memory of queued packets; `by-rate` is [CAKE's rule](MemoryLimit::ByRate).
    /// `tc` applies that rule by default; here there is no such limit by default.
    pub memory_limit: Option<MemoryLimit>,
    /// True if super-packets are to be segmented. Left to the caller, who has the bytes.
    pub split_gso: Option<bool>,
    /// The framing of the link, for lengths of Ethernet frames and of IP packets.
    pub framing: Option<(Overhead, Overhead)>,
}

impl QueueSettings {
    /// No setting at all.
    pub const NONE: Self = Self {
        rate: None,
        tins: None,
        tin_by: None,
        fwmark: None,
        isolation: None,
        hosts_across_tins: None,
        nat: None,
        wash: None,
        ack_filter: None,
        ingress: None,
        autorate: None,
        rtt: None,
        aqm: None,
        l4s: None,
        memory_limit: None,
        split_gso: None,
        framing: None,
    };

    /// Parses settings from keywords separated by white space.
    ///
    /// Cost: linear in the length; for set-up, not for packets.
    ///
    /// # Errors
    /// [`SettingsError`] points at the first unknown keyword or wrong value.
    pub fn from_words(words: &str) -> Result<Self, SettingsError> {
        parse::parse(words)
    }

    /// Returns these settings, overridden by those of `later`.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            rate: later.rate.or(self.rate),
            tins: later.tins.or(self.tins),
            tin_by: later.tin_by.or(self.tin_by),
            fwmark: later.fwmark.or(self.fwmark),
            isolation: later.isolation.or(self.isolation),
            hosts_across_tins: later.hosts_across_tins.or(self.hosts_across_tins),
            nat: later.nat.or(self.nat),
            wash: later.wash.or(self.wash),
            ack_filter: later.ack_filter.or(self.ack_filter),
            ingress: later.ingress.or(self.ingress),
            autorate: later.autorate.or(self.autorate),
            rtt: later.rtt.or(self.rtt),
            aqm: later.aqm.or(self.aqm),
            l4s: later.l4s.or(self.l4s),
            memory_limit: later.memory_limit.or(self.memory_limit),
            split_gso: later.split_gso.or(self.split_gso),
            framing: later.framing.or(self.framing),
        }
    }

    /// Returns the framing of the link for packet lengths that begin with a header of this layer.
    #[must_use]
    pub fn overhead(&self, layer: LinkLayer) -> Option<Overhead> {
        self.framing.map(|(of_frames, of_packets)| match layer {
            LinkLayer::Ethernet => of_frames,
            LinkLayer::RawIp => of_packets,
        })
    }
}

/// Parses with [`QueueSettings::from_words`].
impl FromStr for QueueSettings {
    type Err = SettingsError;

    fn from_str(words: &str) -> Result<Self, SettingsError> {
        Self::from_words(words)
    }
}
