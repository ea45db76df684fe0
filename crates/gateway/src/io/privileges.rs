//! Privileges: root opens the devices, and an unprivileged user forwards the frames.

use core::fmt;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, User, geteuid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// User that the gateway switches to once the devices are open; `None` to stay the user that
/// started it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner(Option<(Uid, Gid)>);

impl Runner {
    /// Looks the user up.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Ok(Self(None));
        }
        match User::from_name(name) {
            Ok(Some(user)) => Ok(Self((!user.uid.is_root()).then_some((user.uid, user.gid)))),
            Ok(None) => {
                Err(format!("--user {name:?}: no such user (expected a user of this system)"))
            }
            Err(error) => Err(format!("--user {name:?}: {error}")),
        }
    }

    /// Switches to this user and drops all capabilities permanently. It relies on a single thread:
    /// capabilities belong to threads.
    pub(crate) fn take_over(self) -> Result<(), String> {
        if let Some((uid, gid)) = self.0 {
            let of = |capability: Capability| {
                move |error| match error {
                    Errno::EPERM => cannot(capability.missing()),
                    error => cannot(error),
                }
            };
            let groups = setgroups(&[]).and_then(|()| setresgid(gid, gid, gid));
            groups.map_err(of(Capability::SETGID))?;
            setresuid(uid, uid, uid).map_err(of(Capability::SETUID))?;
        }
        // Covers root's capabilities, and those of a user that started the gateway with some.
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, none).map_err(cannot)
    }
}

/// A capability needed by the gateway or `setup`: name and bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capability(&'static str, CapabilitySet);

impl Capability {
    /// For packet sockets and raw ICMP sockets.
    pub(crate) const NET_RAW: Self = Self("CAP_NET_RAW", CapabilitySet::NET_RAW);
    /// For TAP devices and network configuration.
    pub(crate) const NET_ADMIN: Self = Self("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN);
    /// For files that only root may read.
    pub(crate) const DAC_OVERRIDE: Self = Self("CAP_DAC_OVERRIDE", CapabilitySet::DAC_OVERRIDE);
    /// For switching to another user.
    const SETUID: Self = Self("CAP_SETUID", CapabilitySet::SETUID);
    /// For leaving the groups of root.
    const SETGID: Self = Self("CAP_SETGID", CapabilitySet::SETGID);

    /// Returns the reason for a permission error that this capability would avoid.
    pub(crate) fn missing(self) -> String {
        let is_held = capabilities(None).is_ok_and(|held| held.effective.contains(self.1));
        self.why(is_held)
    }

    fn why(self, is_held: bool) -> String {
        let Self(name, _) = self;
        if is_held {
            format!(
                "not permitted, though this process has {name}: a user namespace or a security module withholds it"
            )
        } else {
            format!("not permitted: {name} is missing; run as root, or grant it")
        }
    }
}

fn cannot(error: impl fmt::Display) -> String {
    format!("privileges cannot be dropped: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_capability_is_named() {
        assert_eq!(
            Capability::NET_RAW.why(false),
            "not permitted: CAP_NET_RAW is missing; run as root, or grant it"
        );
        for capability in [Capability::NET_RAW, Capability::NET_ADMIN, Capability::DAC_OVERRIDE] {
            assert!(capability.why(true).contains(&format!("has {}:", capability.0)));
        }
    }
}
