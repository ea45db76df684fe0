//! Root opens the devices; a user that may do nothing else forwards the frames.

use core::fmt;

use nix::unistd::{Gid, Uid, User, geteuid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// The user that the gateway becomes once the devices are open; none if it stays the user that started it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner(Option<(Uid, Gid)>);

impl Runner {
    /// Looks the user up; one line says what is wrong with the name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Ok(Self(None));
        }
        match User::from_name(name) {
            Ok(Some(user)) => Ok(Self((!user.uid.is_root()).then_some((user.uid, user.gid)))),
            Ok(None) => {
                Err(format!("--user {name:?}: no such user; accepted are those of this system"))
            }
            Err(error) => Err(format!("--user {name:?}: {error}")),
        }
    }

    /// Becomes this user and gives up every capability, for good. There is one thread, whose they are.
    pub(crate) fn take_over(self) -> Result<(), String> {
        if let Some((uid, gid)) = self.0 {
            let dropped = setgroups(&[])
                .and_then(|()| setresgid(gid, gid, gid))
                .and_then(|()| setresuid(uid, uid, uid));
            dropped.map_err(cannot)?;
        }
        // The user that started it may have had some without being root, and root has them by the name of root.
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, none).map_err(cannot)
    }
}

fn cannot(error: impl fmt::Display) -> String {
    format!("privileges cannot be dropped: {error}")
}
