//! Schedulers on which sequences of operations can be played.

use crate::catalog::{ByNumber, Dial, Setting};
use crate::wfi::{Arrival, Metered, WfiFlow};
use freeboard::flowhash::TagLine;
use freeboard::sched_core::{
    Aqm, ClassTables, Classes, Classify, ConfigError, Descriptor, DropPolicy, DropSink, DualPi2,
    Fifo, FlowId, FlowQueues, FlowRecords, FlowScheduler, Nanos, Queue, Scheduler, Table, Tables,
};
use freeboard::shaper::Shaped;
use freeboard::{
    Descriptors, HashDirectory, Hashed, Isolated, LabelledScheduler, SmartQueue, Storage,
};

/// Sets of packets that leave in the order of their arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Packets of one flow.
    #[default]
    OfFlow,
    /// The scalable packets of a flow (ECT(1) and CE), and its other packets.
    OfFlowAndKind,
    /// None: a flow may move to another queue.
    Free,
}

/// A scheduler whose flows can be added, changed and removed.
pub trait ConfigurableScheduler: Scheduler {
    /// Adds or changes `flow`.
    ///
    /// # Errors
    /// Those of the discipline.
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError>;

    /// Removes `flow`.
    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink);

    /// Returns the configuration of `flow` in effect; `None` if it was not added.
    fn setting(&self, flow: FlowId) -> Option<[u32; 2]>;

    /// Removes the packet of `flow` that was followed by `younger` others. Returns true if there
    /// was one, `None` if the scheduler does not support this.
    fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> Option<bool> {
        let _ = (flow, younger, drops);
        None
    }

    /// Returns true if the scheduler rejects a handle that is already queued, whatever flow it is
    /// passed in for. A sequence reuses handles only if this is true.
    fn notices_used_handles(&self) -> bool {
        true
    }

    /// Returns the sets of packets within which order is kept.
    fn order(&self) -> Order {
        Order::OfFlow
    }
}

/// A scheduler under test and its reference, without their types: the code that plays sequences is
/// compiled once.
pub type Pair = (Box<dyn ConfigurableScheduler + Send>, Box<dyn ConfigurableScheduler + Send>);

/// Erases the types of both sides.
pub fn pair<S, T>((subject, twin): (S, T)) -> Pair
where
    S: ConfigurableScheduler + Send + 'static,
    T: ConfigurableScheduler + Send + 'static,
{
    (Box::new(subject), Box::new(twin))
}

impl<S: ConfigurableScheduler + ?Sized> ConfigurableScheduler for Box<S> {
    fn filter_out(&mut self, flow: FlowId, younger: u32, drops: &mut dyn DropSink) -> Option<bool> {
        (**self).filter_out(flow, younger, drops)
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

impl<S: ConfigurableScheduler> ConfigurableScheduler for Shaped<S> {
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

/// A flow is added after its class and removed before it. Changes count as made at time 0.
impl<O, S, R, M> ConfigurableScheduler for Classes<O, S, R, M>
where
    O: FlowScheduler,
    O::Config: Dial,
    S: ConfigurableScheduler,
    R: Classify,
    M: ClassTables<S>,
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

impl<O, M, A, D> ConfigurableScheduler for FlowQueues<O, M, A, D>
where
    O: FlowScheduler,
    O::Config: Dial,
    M: Tables<O>,
    A: Aqm,
    D: DropPolicy<O>,
{
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

/// Implements [`ConfigurableScheduler`] for schedulers without flows, or with flows created by
/// their packets: there is nothing to set or remove.
macro_rules! nothing_to_set {
    ($order:ident: <$($parameter:ident: $bound:path),*> $contestant:ty) => {
        impl <$($parameter: $bound),*> $crate::history::ConfigurableScheduler for $contestant {
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
        Q: Table<Queue>,
        S: Table<Descriptor>,
        R: FlowRecords<O>,
        L: Table<TagLine>,
        A: Aqm,
        D: DropPolicy<O>
    > Hashed<FlowQueues<O, (Q, S, R, HashDirectory<L>), A, D>>
);
nothing_to_set!(Free: <S: Storage, A: Aqm> Isolated<S, A>);
nothing_to_set!(Free: <S: Storage> SmartQueue<S, Descriptors>);
nothing_to_set!(Free: <Q: LabelledScheduler> ByNumber<Q>);
