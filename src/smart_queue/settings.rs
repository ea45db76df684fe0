//! Building a queue from settings, and reading and changing the settings of a running queue.

use sched_core::{DropSink, Nanos, Packet};
use shaper::{Overhead, Rate};

use super::memory_limit::Memory;
use super::{Descriptors, Frames, LinkLayer, SmartQueue, SmartQueueBuilder, SmartQueueError};
use crate::labels::Labelled;
use crate::settings::QueueSettings;
use crate::storage::Storage;
use crate::tins::{Fwmark, TinBy};

impl SmartQueueBuilder {
    /// Applies all settings that are set; the others stay.
    ///
    /// Three of them are left to the caller and have no effect here: `nat` requires
    /// [`with_nat`](SmartQueue::with_nat), `autorate` a clock and [`SmartQueue::set_rate`],
    /// `split_gso` the bytes of super-packets. By descriptor this also holds for `wash`, `tin_by`
    /// and `fwmark`, which need the bytes and the marks ([`TinBy`](crate::TinBy), [`Fwmark`]).
    ///
    /// ```
    /// use freeboard::shaper::Rate;
    /// use freeboard::{QueueSettings, SmartQueue};
    ///
    /// let words = "bandwidth 20mbit diffserv4 dual-srchost regional ack-filter pppoe-ptm ether-vlan";
    /// let settings = QueueSettings::from_words(words)?;
    /// let queue = SmartQueue::upload(Rate::UNLIMITED).settings(&settings).frames([42; 16])?;
    /// assert_eq!(queue.line().rate(), Rate::megabits_per_second(20)?);
    /// assert_eq!(
    ///     queue.settings().to_string(),
    ///     "bandwidth 20mbit diffserv4 dual-srchost nowash ack-filter egress regional cobalt l4s overhead 34 ptm",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn settings(self, settings: &QueueSettings) -> Self {
        let mut builder = self;
        if let Some(rate) = settings.rate {
            builder = builder.rate(rate);
        }
        if let Some(plan) = settings.tins {
            builder = builder.tins(plan);
        }
        if let Some(isolation) = settings.isolation {
            builder = builder.isolation(isolation);
        }
        if let Some(on) = settings.hosts_across_tins {
            builder = builder.hosts_across_tins(on);
        }
        if let Some(on) = settings.wash {
            builder = builder.wash(on);
        }
        if let Some(filter) = settings.ack_filter {
            builder = builder.ack_filter(filter);
        }
        if let Some(on) = settings.ingress {
            builder = builder.ingress(on);
        }
        if let Some(rtt) = settings.rtt {
            builder = builder.rtt(rtt);
        }
        if let Some(kind) = settings.aqm {
            builder = builder.aqm(kind);
        }
        if let Some(on) = settings.l4s {
            builder = builder.l4s(on);
        }
        if let Some(limit) = settings.memory_limit {
            builder = builder.memory_limit(limit);
        }
        if let Some(framing) = settings.framing {
            builder.framing = framing;
        }
        if let Some(tin_by) = settings.tin_by {
            builder = builder.tin_by(tin_by);
        }
        if let Some(mask) = settings.fwmark {
            builder = builder.fwmark(Fwmark::new(mask));
        }
        builder
    }

    /// Replaces the rate that the builder was created with.
    ///
    /// ```
    /// use freeboard::SmartQueue;
    /// use freeboard::shaper::Rate;
    ///
    /// let queue = SmartQueue::upload(Rate::UNLIMITED).rate(Rate::STOPPED).descriptors()?;
    /// assert_eq!(queue.line().rate(), Rate::STOPPED);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }
}

/// Settings of a queue with descriptors.
impl<S: Storage> SmartQueue<S, Descriptors> {
    /// Returns the settings in force. Their text parses to equal settings, and a queue of this
    /// direction and link layer built with [`SmartQueueBuilder::settings`] has them too. Cost:
    /// O(1).
    ///
    /// `None` where the queue does not know: the settings left to the caller; `wash`, since the
    /// caller has the bytes; and the framing if no keywords express it, as for an [`Overhead`]
    /// whose [header](Overhead::header) is not that of the queue's packets. Not included:
    /// [limits](Self::limits), [AQM parameters](Self::set_aqm_params) set by the caller, and a
    /// [catch-up or burst](Self::line).
    #[must_use]
    pub fn settings(&self) -> QueueSettings {
        self.common_settings()
    }

    /// Applies all settings that are set to the running queue; the others stay, and so do all
    /// packets except those above a lower memory limit, which go to `drops`. If isolation or tins
    /// change, `labels_of` is called for queued packets and returns their labels under the new
    /// settings ([`set_tins`](Self::set_tins)). Settings left to the caller have no effect, as in
    /// [`SmartQueueBuilder::settings`].
    ///
    /// # Errors
    /// [`SmartQueueError`] for a memory limit below the longest packet, and for isolation and tins
    /// that the tables do not support. Then nothing has changed.
    ///
    /// ```
    /// use freeboard::flowhash::{Labels, mix};
    /// use freeboard::sched_core::{Nanos, Packet};
    /// use freeboard::shaper::Rate;
    /// use freeboard::{Isolation, QueueSettings, SmartQueue};
    ///
    /// let mut queue = SmartQueue::upload(Rate::megabits_per_second(20)?).descriptors()?;
    /// let settings = QueueSettings::from_words("bandwidth 5mbit flows no-aqm")?;
    /// let labels_of = |packet: Packet| {
    ///     let flow = mix(packet.handle);
    ///     Labels { flow, src_host: flow, dst_host: 0 }
    /// };
    /// queue.apply(Nanos(0), &settings, labels_of, &mut |_: Packet, _| {})?;
    /// assert_eq!(queue.isolation(), Isolation::Flows);
    /// assert!(queue.settings().to_string().starts_with("bandwidth 5mbit"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply<L: Labelled>(
        &mut self,
        now: Nanos,
        settings: &QueueSettings,
        labels_of: impl FnMut(Packet) -> L,
        drops: &mut dyn DropSink,
    ) -> Result<(), SmartQueueError> {
        // All that can fail comes first.
        let rate = settings.rate.unwrap_or(self.line().rate());
        let rtt = settings.rtt.unwrap_or(self.rtt());
        if let Some(limit) = settings.memory_limit {
            let sizes = (self.outlet.buffer, self.outlet.max_len);
            let checked = Memory::new(limit, (rate, rtt), sizes, self.limits());
            checked.map_err(SmartQueueError::MemoryLimit)?;
        }
        let isolation = settings.isolation.filter(|&mode| mode != self.isolation());
        match (isolation, settings.tins) {
            (None, None) => {}
            (Some(isolation), None) => self.set_isolation(isolation, labels_of)?,
            (isolation, Some(plan)) => self.set_isolation_and_tins(isolation, plan, labels_of)?,
        }
        if let Some(link) = settings.overhead(self.outlet.layer) {
            self.set_overhead(link);
        }
        if let Some(rate) = settings.rate {
            self.set_rate(now, rate);
        }
        if let Some(rtt) = settings.rtt {
            self.set_rtt(rtt);
        }
        if let Some(kind) = settings.aqm {
            self.set_aqm(kind);
        }
        if let Some(on) = settings.l4s {
            self.set_l4s(on);
        }
        if let Some(filter) = settings.ack_filter {
            self.set_ack_filter(filter);
        }
        if let Some(on) = settings.ingress {
            self.set_ingress(on);
        }
        if let Some(on) = settings.hosts_across_tins {
            self.set_hosts_across_tins(on);
        }
        match settings.memory_limit {
            None => Ok(()),
            limit => self.set_memory_limit(limit, drops).map_err(SmartQueueError::MemoryLimit),
        }
    }
}

/// Settings of a queue with frames.
impl<S: Storage, N, R, I> SmartQueue<S, Frames<S, N, R, I>> {
    /// Returns the settings in force. Their text parses to equal settings, and a queue of this
    /// direction and link layer built with [`SmartQueueBuilder::settings`] has them too. Cost:
    /// O(1).
    ///
    /// `tin_by` and `fwmark` are `None` if they have their defaults. Also `None` where the queue
    /// does not know: the settings left to the caller, and the framing if no keywords express it,
    /// as for an [`Overhead`] whose [header](Overhead::header) is not that of the queue's frames.
    /// Not included: [limits](Self::limits), [AQM parameters](Self::set_aqm_params) set by the
    /// caller, and a [catch-up or burst](Self::line).
    #[must_use]
    pub fn settings(&self) -> QueueSettings {
        let (tin_by, fwmark) = self.packets.names_of_tins();
        QueueSettings {
            wash: Some(self.packets.is_washed()),
            tin_by: Some(tin_by).filter(|&tin_by| tin_by != TinBy::default()),
            fwmark: Some(fwmark).filter(|&fwmark| fwmark != Fwmark::ALL).map(Fwmark::mask),
            ..self.common_settings()
        }
    }
}

impl<S: Storage, P> SmartQueue<S, P> {
    fn common_settings(&self) -> QueueSettings {
        QueueSettings {
            rate: Some(self.line().rate()),
            tins: Some(*self.tins()),
            isolation: Some(self.isolation()),
            hosts_across_tins: self.hosts_across_tins().then_some(true),
            ack_filter: Some(self.outlet.ack_filter),
            ingress: Some(self.is_ingress()),
            rtt: Some(self.outlet.rtt),
            aqm: Some(self.aqm()),
            l4s: Some(self.is_l4s()),
            memory_limit: self.outlet.memory.map(|memory| memory.setting),
            framing: framing_of(self.overhead(), self.outlet.layer),
            ..QueueSettings::NONE
        }
    }
}

/// Returns `link`, for packets of `layer`, as keywords would set it for frames and for packets.
fn framing_of(link: Overhead, layer: LinkLayer) -> Option<(Overhead, Overhead)> {
    let header = match layer {
        LinkLayer::Ethernet => Overhead::ETHERNET_HEADER,
        LinkLayer::RawIp => 0,
    };
    if link.is_raw() {
        return Some((link, link));
    }
    let pair = (link.for_frames(Overhead::ETHERNET_HEADER), link.for_frames(0));
    (link.header() == header).then_some(pair)
}
