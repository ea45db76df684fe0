//! What can be set for a flow, in one language for all disciplines.

use freeboard::sched_core::{QfqConfig, Wf2qConfig};

/// What can be set for a flow, for all disciplines: each takes from it what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The share of the flow.
    pub weight: u32,
    /// The longest packet of the flow, in bytes.
    pub max_len: u32,
}

impl Setting {
    /// The weight as a quantum: 500 bytes each, so that too small a weight makes too small a
    /// quantum.
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
