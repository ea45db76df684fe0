//! What a history can be played on.

use crate::catalog::{ByNumber, Dial, Setting};
use freeboard::flowhash::TagLine;
use freeboard::sched_core::{
    AgeDrr, Aqm, Arrival, Ceiling, CeilingFlow, CeilingReturn, Ceilings, ClassState, Classes,
    Classify, CommittedFlow, CommittedRate, CommittedRates, CommittedReturn, ConfigError,
    Descriptor, DropPolicy, DropSink, Drr, DualPi2, Fifo, FlowDirectory, FlowId, FlowQueues,
    FlowRecord, FlowScheduler, HostDrr, HostDrrFlow, HostRing, Hosted, LengthFlow, LoadDrr,
    LoadDrrFlow, LoadDrrHost, LongestClass, Metered, Nanos, Qfq, QfqPlus, Queue, RoundList,
    Scheduler, ShortestQueue, Sides, Sqf, SqfFlow, Table, TinConfig, TinDrr, TinFlow, WaitingFlow,
    Wf2q, WfiFlow, WireLength,
};
use freeboard::shaper::Shaped;
use freeboard::{Descriptors, Hashed, Isolated, LabelledScheduler, SmartQueue, Storage};

/// What is known of hosts under a number, which is that of a flow and that of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBooks {
    /// The hosts of the flow: one, or source and destination.
    pub of_flow: [Option<u32>; 2],
    /// How many flows of the host are backlogged, on either side.
    pub backlogged: [u32; 2],
    /// What governs the host.
    pub setting: Option<[u32; 2]>,
    /// The rate of the host.
    pub rate: Option<CommittedRate>,
    /// Whether the host is backlogged in excess of its committed rate.
    pub borrows: bool,
    /// The ceiling of the host.
    pub ceiling: Option<Ceiling>,
    /// Whether the host is backlogged and waits because of it.
    pub waits: bool,
}

/// What a flow scheduler may know of hosts above its flows. Unless it says otherwise it takes everything
/// and knows nothing.
pub trait Housing {
    /// Hosts are numbered below this, on either side; 0 if it knows none.
    fn hosts(&self) -> u32 {
        0
    }

    /// Gives `flow` its hosts.
    ///
    /// # Errors
    /// Those of the flow scheduler.
    fn assign(&mut self, flow: FlowId, source: u32, destination: u32) -> Result<(), ConfigError> {
        let _ = (flow, source, destination);
        Ok(())
    }

    /// Changes `host`.
    ///
    /// # Errors
    /// Those of the flow scheduler.
    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        let _ = (host, setting);
        Ok(())
    }

    /// Gives `host` a committed rate, or none.
    ///
    /// # Errors
    /// Those of the flow scheduler.
    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        let _ = (host, rate);
        Ok(())
    }

    /// Gives `host` a ceiling, or none.
    ///
    /// # Errors
    /// Those of the flow scheduler.
    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        let _ = (host, ceiling);
        Ok(())
    }

    /// Changes which sides count.
    fn count(&mut self, sides: Sides) {
        let _ = sides;
    }

    /// What is known under `number`.
    fn books(&self, number: u32) -> HostBooks {
        let _ = number;
        HostBooks::default()
    }
}

impl<N> Housing for AgeDrr<N> {}
impl<N> Housing for Drr<N> {}

/// A tin counts as a host.
impl<N: Table<TinFlow>, L: WireLength> Housing for TinDrr<N, L> {
    fn hosts(&self) -> u32 {
        self.tins()
    }

    fn assign(&mut self, flow: FlowId, tin: u32, _destination: u32) -> Result<(), ConfigError> {
        self.assign(flow, tin)
    }

    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        set_tin(self, host, |tin| tin.weight = setting.weight)
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        set_tin(self, host, |tin| tin.bits_per_second = rate.map(|rate| rate.bits_per_second()))
    }

    fn books(&self, number: u32) -> HostBooks {
        let setting = |tin: TinConfig| [tin.weight, tin.bits_per_second.unwrap_or(0) as u32];
        HostBooks {
            of_flow: [self.tin_of(FlowId(number)), None],
            setting: self.tin(number).map(setting),
            ..HostBooks::default()
        }
    }
}

/// Changes one tin among the others.
fn set_tin<N: Table<TinFlow>, L: WireLength>(
    tins: &mut TinDrr<N, L>,
    tin: u32,
    change: impl FnOnce(&mut TinConfig),
) -> Result<(), ConfigError> {
    let mut all: Vec<_> = (0..tins.tins()).filter_map(|tin| tins.tin(tin)).collect();
    let hosts = tins.tins();
    change(all.get_mut(tin as usize).ok_or(ConfigError::UnknownHost { host: tin, hosts })?);
    tins.set_tins(&all)
}

impl<N> Housing for Qfq<N> {}
impl<N, A, G> Housing for QfqPlus<N, A, G> {}
impl<N> Housing for Wf2q<N> {}
impl<N, W, C, const S: u32> Housing for ShortestQueue<N, W, C, S> {}

/// A flow that can have a rate counts as a host.
impl<O, C, W, B> Housing for CommittedRates<O, C, W, B>
where
    O: FlowScheduler,
    C: Table<CommittedFlow>,
    W: Table<CommittedReturn>,
    B: FlowScheduler<Config = O::Config>,
{
    fn hosts(&self) -> u32 {
        self.room()
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.set_rate(FlowId(host), rate)
    }

    fn books(&self, number: u32) -> HostBooks {
        let flow = FlowId(number);
        let (rate, borrows) = (CommittedRates::rate(self, flow), self.is_excess(flow));
        HostBooks { rate, borrows, ..HostBooks::default() }
    }
}

/// A flow that can have a ceiling counts as a host.
impl<O, C, W> Housing for Ceilings<O, C, W>
where
    O: FlowScheduler + Housing,
    C: Table<CeilingFlow>,
    W: Table<CeilingReturn>,
{
    fn hosts(&self) -> u32 {
        self.room()
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.scheduler_mut().rate(host, rate)
    }

    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        self.set_ceiling(FlowId(host), ceiling)
    }

    fn books(&self, number: u32) -> HostBooks {
        let flow = FlowId(number);
        let (ceiling, waits) = (Ceilings::ceiling(self, flow), self.is_waiting(flow));
        HostBooks { ceiling, waits, ..self.scheduler().books(number) }
    }
}

impl<O, N, G> Housing for HostDrr<O, N, G>
where
    O: FlowScheduler + Housing,
    O::Config: Dial,
    N: Table<HostDrrFlow>,
    G: Table<HostRing>,
{
    fn hosts(&self) -> u32 {
        Hosted::hosts(self)
    }

    fn assign(&mut self, flow: FlowId, host: u32, _destination: u32) -> Result<(), ConfigError> {
        self.assign(flow, host)
    }

    fn configure_host(&mut self, host: u32, setting: Setting) -> Result<(), ConfigError> {
        self.configure_host(host, O::Config::of(setting))
    }

    fn books(&self, number: u32) -> HostBooks {
        HostBooks {
            of_flow: [self.host_of(FlowId(number)), None],
            backlogged: [self.flows_of(number), 0],
            setting: self.host_config(number).map(Dial::read),
            ..self.scheduler().books(number)
        }
    }

    fn rate(&mut self, host: u32, rate: Option<CommittedRate>) -> Result<(), ConfigError> {
        self.scheduler_mut().rate(host, rate)
    }

    fn ceiling(&mut self, host: u32, ceiling: Option<Ceiling>) -> Result<(), ConfigError> {
        self.scheduler_mut().ceiling(host, ceiling)
    }
}

impl<N, S, D, W> Housing for LoadDrr<N, S, D, W>
where
    N: Table<LoadDrrFlow>,
    S: Table<LoadDrrHost>,
    D: Table<LoadDrrHost>,
    W: Table<RoundList>,
{
    fn hosts(&self) -> u32 {
        Hosted::hosts(self)
    }

    fn assign(&mut self, flow: FlowId, source: u32, destination: u32) -> Result<(), ConfigError> {
        self.assign(flow, source, destination)
    }

    fn count(&mut self, sides: Sides) {
        self.set_mode(sides);
    }

    fn books(&self, number: u32) -> HostBooks {
        let hosts = self.assigned(FlowId(number));
        HostBooks {
            of_flow: [hosts.map(|hosts| hosts.0), hosts.map(|hosts| hosts.1)],
            backlogged: [self.flows_of_source(number), self.flows_of_destination(number)],
            ..HostBooks::default()
        }
    }
}

/// Which packets leave in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those of a flow.
    #[default]
    OfFlow,
    /// The scalable packets of a flow (ECT(1) and CE), and its other packets.
    OfFlowAndKind,
    /// None for sure: a flow may come to another queue.
    Free,
}

/// A scheduler whose flows can be added, changed and removed.
pub trait Contestant: Scheduler {
    /// What it knows of hosts, if anything.
    fn housing(&self) -> Option<&dyn Housing> {
        None
    }

    /// The same, to be changed.
    fn housing_mut(&mut self) -> Option<&mut dyn Housing> {
        None
    }

    /// Adds or changes `flow`.
    ///
    /// # Errors
    /// Those of the discipline.
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError>;

    /// Removes `flow`.
    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink);

    /// What governs `flow`; `None` if it was not added.
    fn setting(&self, flow: FlowId) -> Option<[u32; 2]>;

    /// Takes the packet of `flow` that `younger` others came after out of its queue. `None` if it has no such operation, else
    /// whether there was one.
    fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> Option<bool> {
        let _ = (flow, younger, drops);
        None
    }

    /// Whether there are hosts.
    fn has_hosts(&self) -> bool {
        self.housing().is_some_and(|housing| housing.hosts() > 0)
    }

    /// Whether a handle that is queued already is noticed, whatever flow it is given in for. A history
    /// does not give it in twice where it is not.
    fn notices_used_handles(&self) -> bool {
        true
    }

    /// Which packets must not overtake each other.
    fn order(&self) -> Order {
        Order::OfFlow
    }
}

/// A contestant and the one it is compared with, of any types: what plays histories on them is compiled once.
pub type Pair = (Box<dyn Contestant + Send>, Box<dyn Contestant + Send>);

/// Both sides without their types.
pub fn pair<S, T>((subject, twin): (S, T)) -> Pair
where
    S: Contestant + Send + 'static,
    T: Contestant + Send + 'static,
{
    (Box::new(subject), Box::new(twin))
}

impl<S: Contestant + ?Sized> Contestant for Box<S> {
    fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> Option<bool> {
        (**self).filter_out(flow, younger, drops)
    }

    fn housing(&self) -> Option<&dyn Housing> {
        (**self).housing()
    }

    fn housing_mut(&mut self) -> Option<&mut dyn Housing> {
        (**self).housing_mut()
    }

    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        (**self).configure(flow, setting)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        (**self).remove_flow(flow, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        (**self).setting(flow)
    }

    fn notices_used_handles(&self) -> bool {
        (**self).notices_used_handles()
    }

    fn order(&self) -> Order {
        (**self).order()
    }
}

impl<S: Contestant> Contestant for Shaped<S> {
    fn housing(&self) -> Option<&dyn Housing> {
        self.inner().housing()
    }

    fn housing_mut(&mut self) -> Option<&mut dyn Housing> {
        self.inner_mut().housing_mut()
    }

    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        self.inner_mut().configure(flow, setting)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.inner_mut().remove_flow(flow, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.inner().setting(flow)
    }

    fn order(&self) -> Order {
        self.inner().order()
    }
}

/// A flow is added with its class, after it, and removed with it, before it. Changes count as made at
/// time 0.
impl<O, S, C, R, W, B> Contestant for Classes<O, S, C, R, W, B>
where
    O: FlowScheduler,
    O::Config: Dial,
    S: Contestant,
    C: Table<S>,
    R: Classify,
    W: Table<ClassState>,
    B: Table<LongestClass>,
{
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        let flows = self.classifier().flows(self.count());
        let unknown = || ConfigError::UnknownFlow { flow, flows };
        let member = self.classifier().classify(flow).ok_or_else(unknown)?;
        self.with_class(Nanos(0), member.class, &mut |_, _| (), |class, _| {
            class.configure(member.flow, setting)
        })
        .ok_or_else(unknown)??;
        self.configure(member.class, O::Config::of(setting))
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        let Some(member) = self.classifier().classify(flow) else { return };
        self.with_class(Nanos(0), member.class, drops, |class, drops| {
            class.remove_flow(member.flow, drops);
        });
        self.remove_class(member.class, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        let member = self.classifier().classify(flow)?;
        self.config(member.class).map(Dial::read)
    }

    fn notices_used_handles(&self) -> bool {
        false
    }
}

impl<O, Q, S, A, R, D, T> Contestant for FlowQueues<O, Q, S, A, R, D, T>
where
    O: FlowScheduler + Housing,
    O::Config: Dial,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    A: Aqm,
    R: Table<FlowRecord>,
    D: DropPolicy<O>,
    T: FlowDirectory<O>,
{
    fn housing(&self) -> Option<&dyn Housing> {
        Some(self.scheduler())
    }

    fn housing_mut(&mut self) -> Option<&mut dyn Housing> {
        Some(self.scheduler_mut())
    }

    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        self.configure(flow, O::Config::of(setting))
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.remove_flow(flow, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.config(flow).map(Dial::read)
    }

    fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> Option<bool> {
        Some(FlowQueues::filter_out(self, flow, younger, drops))
    }
}

/// The labels of SQF have nothing that could be set.
impl<N, Q, S, F, L, V, R, W> Contestant for Sqf<N, Q, S, F, L, V, R, W>
where
    N: Table<LengthFlow>,
    Q: Table<Queue>,
    S: Table<Descriptor>,
    F: Table<SqfFlow>,
    L: Table<u32>,
    V: Table<u32>,
    R: Table<FlowRecord>,
    W: Table<WaitingFlow>,
{
    fn configure(&mut self, flow: FlowId, _setting: Setting) -> Result<(), ConfigError> {
        self.add_flow(flow)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.remove_flow(flow, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.has_flow(flow).then_some([0; 2])
    }
}

/// What knows no flows, or meets them when their packets come: there is nothing to set and nothing to remove.
macro_rules! nothing_to_set {
    ($order:ident: <$($parameter:ident: $bound:path),*> $contestant:ty) => {
        impl <$($parameter: $bound),*> $crate::history::Contestant for $contestant {
            fn configure(&mut self, _flow: FlowId, _setting: Setting) -> Result<(), ConfigError> {
                Ok(())
            }

            fn remove_flow(&mut self, _flow: FlowId, _drops: &mut dyn DropSink) {}

            fn setting(&self, _flow: FlowId) -> Option<[u32; 2]> {
                None
            }

            fn order(&self) -> $crate::history::Order {
                $crate::history::Order::$order
            }
        }
    };
}
pub(crate) use nothing_to_set;

nothing_to_set!(OfFlow: <S: Table<Descriptor>> Fifo<S>);
nothing_to_set!(OfFlowAndKind: <S: Table<Descriptor>> DualPi2<S>);
nothing_to_set!(OfFlow: <S: Scheduler, N: Table<WfiFlow>, P: Table<Arrival>> Metered<S, N, P>);
nothing_to_set!(
    Free: <
        O: FlowScheduler,
        L: Table<TagLine>,
        Q: Table<Queue>,
        S: Table<Descriptor>,
        A: Aqm,
        R: Table<FlowRecord>,
        D: DropPolicy<O>
    > Hashed<O, L, Q, S, A, R, D>
);
nothing_to_set!(Free: <S: Storage, A: Aqm> Isolated<S, A>);
nothing_to_set!(Free: <S: Storage> SmartQueue<S, Descriptors>);
nothing_to_set!(Free: <Q: LabelledScheduler> ByNumber<Q>);
