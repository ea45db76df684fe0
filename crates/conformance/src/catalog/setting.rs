//! Flow settings in one form for all disciplines.

use freeboard::sched_core::{QfqConfig, Wf2qConfig};

/// Settings of a flow; each discipline uses those that it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Share of the flow.
    pub weight: u32,
    /// Longest packet of the flow in bytes.
    pub max_len: u32,
}

impl Setting {
    /// Returns the weight as a quantum of 500 bytes per unit, so that a weight that is too small
    /// becomes a quantum that is too small.
    #[must_use]
    pub const fn quantum(self) -> u32 {
        self.weight.saturating_mul(500)
    }
}

/// The configuration of a discipline, converted from and to a common form.
pub trait Dial: Copy {
    /// Converts `setting` to the discipline's configuration.
    fn of(setting: Setting) -> Self;

    /// Returns the configuration in effect.
    fn read(self) -> [u32; 2];
}

/// Disciplines without settings.
impl Dial for () {
    fn of(_setting: Setting) -> Self {}

    fn read(self) -> [u32; 2] {
        [0; 2]
    }
}

/// Quantum of deficit round robin.
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
