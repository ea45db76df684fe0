//! Rules for single hosts of a smart queue with frames, and the labels of a frame.

use core::borrow::Borrow;

use flowhash::{FlowHasher, HostIdentity, HostKey, Labeller, LinkHeader, Nat, Parsed, SipHash13};
use sched_core::{Side, TokenBucket};

use super::reader::{FrameRead, FrameReader};
use crate::isolation::Isolation;
use crate::labels::{Identified, Labelled};

/// Weight, committed rate and ceiling of one host. The default is that of every host without rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HostTerms {
    /// The quantum in bytes, which is the weight of the host relative to the quanta of the others.
    /// `None` is the quantum of the queue. A value out of range counts as the nearest in range;
    /// the minimum is the longest packet, so to give a host half a share, give the others twice
    /// the longest packet. [`Isolated::host_quantum`](crate::Isolated::host_quantum) returns the
    /// value in force.
    pub quantum: Option<u32>,
    /// The committed rate: above it the host is served only while no other backlogged host
    /// conforms to its committed rate or has none ([`TokenBucket`]). Ignored if the tables have no
    /// [rates](crate::IsolatedMemory::with_rates), as in a queue built with
    /// [`frames`](crate::SmartQueueBuilder::frames). A burst below the longest packet counts as
    /// one longest packet.
    ///
    /// A host that returns to its entry finds its token bucket as it left it. Until that bucket is
    /// full, other hosts claim the entry only if every other way of the set is taken and no host
    /// of their tin has an entry there. A host without such an entry starts with a full bucket,
    /// and so does one whose label has another key since. Hosts that share an entry share the rate
    /// of the first. With several tins, the rate holds over all of them together, and traffic in
    /// excess of it is served after all tins.
    pub committed_rate: Option<TokenBucket>,
    /// The ceiling: above it the host is not served, even if the link is idle and whatever its
    /// committed rate. It holds over all tins together. Otherwise like the committed rate.
    pub ceiling: Option<TokenBucket>,
}

/// Rules that say what each host gets in a [`SmartQueue`](crate::SmartQueue) with frames:
/// [`with_host_rules`](crate::SmartQueue::with_host_rules). Implemented for functions from
/// [`HostKey`] to [`HostTerms`].
///
/// The host is the one that the isolation distinguishes: the source in `dual-srchost`, the
/// destination in `dual-dsthost`, after translation ([`with_nat`](crate::SmartQueue::with_nat)).
/// For a packet in a tunnel it is the end of the tunnel. On the local side it is an address, or
/// what the [identity of hosts](crate::SmartQueue::with_host_identity) maps it to: a prefix, a MAC
/// address, a VLAN, a list.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use freeboard::flowhash::HostKey;
/// use freeboard::sched_core::Nanos;
/// use freeboard::shaper::Rate;
/// use freeboard::{HostRules, HostTerms, SmartQueue};
///
/// /// Weights of some hosts; the others have 1.
/// struct Weights(BTreeMap<[u8; 4], u32>);
///
/// impl HostRules for Weights {
///     fn terms(&self, host: HostKey) -> HostTerms {
///         let HostKey::V4(address) = host else { return HostTerms::default() };
///         let quantum = self.0.get(&address).map(|weight| weight * 1_522);
///         HostTerms { quantum, ..HostTerms::default() }
///     }
/// }
///
/// let server = [192, 168, 1, 9];
/// let queue = SmartQueue::upload(Rate::megabits_per_second(20)?).frames([42; 16])?;
/// let mut queue = queue.with_host_rules(Weights(BTreeMap::from([(server, 3)])));
/// queue.push(Nanos(0), &[0; 60])?;
/// // Later: another weight, applied at once if the host is backlogged.
/// queue.host_rules_mut().0.insert(server, 4);
/// queue.update_host(Nanos(0), HostKey::V4(server));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait HostRules {
    /// Returns the terms of `host`. Called up to three times when the host becomes backlogged; the
    /// cost is that of the rules.
    fn terms(&self, host: HostKey) -> HostTerms;
}

impl<F: Fn(HostKey) -> HostTerms> HostRules for F {
    #[inline]
    fn terms(&self, host: HostKey) -> HostTerms {
        self(host)
    }
}

/// Rules that give every host the default terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllAlike;

impl HostRules for AllAlike {
    #[inline(always)]
    fn terms(&self, _host: HostKey) -> HostTerms {
        HostTerms::default()
    }
}

/// The labels of a frame, with the terms of its host.
pub(super) struct FrameLabels<'a, P, N, R, I> {
    pub(super) parsed: P,
    pub(super) link: Option<LinkHeader>,
    pub(super) tin: u8,
    pub(super) labeller: Labeller<&'a SipHash13, &'a N>,
    pub(super) reader: &'a FrameReader<I>,
    pub(super) rules: &'a R,
    pub(super) isolation: Isolation,
}

impl<'a, P, N, R, I> FrameLabels<'a, P, N, R, I>
where
    P: Borrow<Parsed>,
    N: Nat,
    R: HostRules,
    I: HostIdentity,
{
    #[inline(always)]
    fn labels(&self) -> Identified<'_, &'a SipHash13, I, &'a N> {
        let (parsed, link) = (self.parsed.borrow(), self.link);
        self.reader.labels(&FrameRead { parsed, link, tin: self.tin }, &self.labeller)
    }
}

impl<P, N, R, I> Labelled for FrameLabels<'_, P, N, R, I>
where
    P: Borrow<Parsed>,
    N: Nat,
    R: HostRules,
    I: HostIdentity,
{
    #[inline]
    fn flow(&self) -> u32 {
        self.labels().flow()
    }

    #[inline]
    fn source(&self) -> u32 {
        self.labels().source()
    }

    #[inline]
    fn destination(&self) -> u32 {
        self.labels().destination()
    }

    #[inline]
    fn tin(&self) -> u8 {
        self.tin
    }

    fn host_terms(&self) -> HostTerms {
        self.rules.terms(self.labels().host(match self.isolation {
            Isolation::DualDstHost => Side::Destination,
            _ => Side::Source,
        }))
    }
}

/// A host of either side, with its terms.
pub(super) struct OneHost {
    label: u32,
    terms: HostTerms,
}

impl OneHost {
    pub(super) fn new(host: HostKey, hasher: &impl FlowHasher, rules: &impl HostRules) -> Self {
        Self { label: host.label(hasher), terms: rules.terms(host) }
    }
}

impl Labelled for OneHost {
    fn flow(&self) -> u32 {
        self.label
    }

    fn source(&self) -> u32 {
        self.label
    }

    fn destination(&self) -> u32 {
        self.label
    }

    fn host_terms(&self) -> HostTerms {
        self.terms
    }
}
