//! What a history can be played on.

use freeboard::sched_core::{
    Aqm, ClassState, Classes, Classify, ConfigError, DropSink, Fifo, FlowId, FlowQueues,
    FlowRecord, FlowScheduler, LongestFlow, Nanos, QfqConfig, Queue, Scheduler, ShortestFlow, Slot,
    Sqf, SqfFlow, Table, Wf2qConfig,
};
use freeboard::shaper::Shaped;

/// What can be set for a flow, for all disciplines: each takes from it what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The share of the flow.
    pub weight: u32,
    /// The longest packet of the flow, in bytes.
    pub max_len: u32,
}

impl Setting {
    /// The weight as a quantum: 500 bytes each, so that too small a weight makes too small a quantum.
    #[must_use]
    pub const fn quantum(self) -> u32 {
        self.weight.saturating_mul(500)
    }
}

/// The configuration of a discipline, as the history's language has it.
pub trait Dial: Copy {
    /// What `setting` means to the discipline.
    fn of(setting: Setting) -> Self;

    /// What was read back: what governs the flow.
    fn read(self) -> [u32; 2];
}

/// Nothing can be set.
impl Dial for () {
    fn of(_setting: Setting) -> Self {}

    fn read(self) -> [u32; 2] {
        [0; 2]
    }
}

/// The quantum of deficit round robin.
impl Dial for u32 {
    fn of(setting: Setting) -> Self {
        setting.quantum()
    }

    fn read(self) -> [u32; 2] {
        [self, 0]
    }
}

/// Weight and longest packet of quick fair queueing.
impl Dial for QfqConfig {
    fn of(Setting { weight, max_len }: Setting) -> Self {
        Self { weight, max_len }
    }

    fn read(self) -> [u32; 2] {
        [self.weight, self.max_len]
    }
}

/// Weight and longest packet of WF²Q+.
impl Dial for Wf2qConfig {
    fn of(Setting { weight, max_len }: Setting) -> Self {
        Self { weight, max_len }
    }

    fn read(self) -> [u32; 2] {
        [self.weight, self.max_len]
    }
}

/// A scheduler whose flows can be added, changed and removed.
pub trait Contestant: Scheduler {
    /// Adds or changes `flow`.
    ///
    /// # Errors
    /// Those of the discipline.
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError>;

    /// Removes `flow`.
    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink);

    /// What governs `flow`; `None` if it was not added.
    fn setting(&self, flow: FlowId) -> Option<[u32; 2]>;

    /// Whether a handle that is queued already is noticed, whatever flow it is given in for. A history
    /// does not give it in twice where it is not.
    fn notices_used_handles(&self) -> bool {
        true
    }
}

impl<S: Contestant + ?Sized> Contestant for Box<S> {
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
}

impl<S: Contestant> Contestant for Shaped<S> {
    fn configure(&mut self, flow: FlowId, setting: Setting) -> Result<(), ConfigError> {
        self.inner_mut().configure(flow, setting)
    }

    fn remove_flow(&mut self, flow: FlowId, drops: &mut dyn DropSink) {
        self.inner_mut().remove_flow(flow, drops);
    }

    fn setting(&self, flow: FlowId) -> Option<[u32; 2]> {
        self.inner().setting(flow)
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
    B: Table<LongestFlow>,
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

impl<O, Q, S, A, R> Contestant for FlowQueues<O, Q, S, A, R>
where
    O: FlowScheduler,
    O::Config: Dial,
    Q: Table<Queue>,
    S: Table<Slot>,
    A: Aqm,
    R: Table<FlowRecord>,
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
}

/// The labels of SQF have nothing that could be set.
impl<N, Q, S, F, L, V, R> Contestant for Sqf<N, Q, S, F, L, V, R>
where
    N: Table<ShortestFlow>,
    Q: Table<Queue>,
    S: Table<Slot>,
    F: Table<SqfFlow>,
    L: Table<u32>,
    V: Table<u32>,
    R: Table<FlowRecord>,
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

/// A FIFO knows no flows: there is nothing to set and nothing to remove.
impl<S: Table<Slot>> Contestant for Fifo<S> {
    fn configure(&mut self, _flow: FlowId, _setting: Setting) -> Result<(), ConfigError> {
        Ok(())
    }

    fn remove_flow(&mut self, _flow: FlowId, _drops: &mut dyn DropSink) {}

    fn setting(&self, _flow: FlowId) -> Option<[u32; 2]> {
        None
    }
}
