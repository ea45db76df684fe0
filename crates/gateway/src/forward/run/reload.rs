//! Applies another configuration while frames are queued.

use freeboard::Fwmark;
use freeboard::sched_core::Nanos;

use super::{Gateway, clock, plan, uncut_frames};
use crate::config::memory;
use crate::forward::direction::Hosts;
use crate::forward::queue::Heading;
use crate::io::device::Device;
use crate::io::sys;
use crate::log::say;

/// Hint for autorate in a gateway that was started without it.
const ASKING_NEEDS_A_RESTART: &str = "autorate: pinging reflectors needs a restart; off until then";

/// Hint for `--nat` in a gateway that was started without it.
const TRANSLATIONS_NEED_A_RESTART: &str =
    "nat: reading connection tracking needs a restart; off until then";

/// Hint for `--fwmark` in a gateway that was started without it.
const MARKS_NEED_A_RESTART: &str = "fwmark: receiving marks needs a restart; off until then";

impl Gateway {
    /// Reads the configuration again and logs the changes.
    pub(super) fn configure_anew(&mut self) {
        let Some(read) = self.source.read_again() else {
            say("SIGHUP ignored: started without --config");
            return;
        };
        let said = read.and_then(|mut new| {
            let mut config = self.config.clone();
            // ICMP sockets can only be opened before privileges are dropped.
            let lacks_sockets = !new.follow.reflectors.is_empty() && !self.following.has_sockets();
            if lacks_sockets {
                new.follow.reflectors.clear();
                new.follow.by_delay = [None, None];
            }
            let lacks_connections = new.nat && !self.nat.is_open();
            new.nat &= self.nat.is_open();
            let lacks_marks = new.handling.fwmark != Fwmark::NONE
                && !self.devices.iter().all(Device::tells_marks);
            if lacks_marks {
                new.handling.fwmark = Fwmark::NONE;
            }
            let mut said = config.take_over(new);
            said.extend(lacks_marks.then(|| MARKS_NEED_A_RESTART.to_owned()));
            said.extend(lacks_sockets.then(|| ASKING_NEEDS_A_RESTART.to_owned()));
            said.extend(lacks_connections.then(|| TRANSLATIONS_NEED_A_RESTART.to_owned()));
            memory::check(&config, self.pool.mtu())?;
            let limits = memory::limits_of(&config, self.pool.mtu());
            let descriptors = memory::frames_for(limits);
            let max_len = self.pool.longest() as u32;
            let [up, down] = [Heading::Up, Heading::Down]
                .map(|heading| plan(&config, heading, descriptors, max_len));
            let built = [
                (up, self.directions[0].build_another(&up).map_err(config.places.of("--queue"))?),
                (
                    down,
                    self.directions[1].build_another(&down).map_err(config.places.of("--queue"))?,
                ),
            ];
            let hosts = [Hosts::new(&config, max_len)?, Hosts::new(&config, max_len)?];
            // From here on nothing fails; so far nothing has changed.
            for (direction, limits) in self.directions.iter_mut().zip(limits) {
                direction.set_limits(limits, &mut self.pool);
            }
            self.pool.resize(descriptors);
            let now = clock();
            for ((direction, built), hosts) in self.directions.iter_mut().zip(built).zip(hosts) {
                direction.change(now, built, config.framing, hosts, &mut self.pool);
            }
            self.following.set(config.follow.clone(), now);
            self.nat.set(config.nat, now);
            self.directions[1].watch_arrivals(config.follow.by_arrivals.is_some());
            for (at, direction) in self.directions.iter_mut().enumerate() {
                if let Some(rate) = self.following.rate(at) {
                    direction.set_rate(now, rate);
                }
            }
            if self.pool.settle() {
                sys::give_back_memory();
            }
            if config.cuts() != self.config.cuts() {
                self.uncut = uncut_frames(&config);
                self.look_soon(now);
            }
            self.config = config;
            self.next_report = Nanos::ZERO;
            Ok(said)
        });
        self.reloads.count(said.is_ok());
        match said {
            Ok(said) if said.is_empty() => say("configuration read again, no changes"),
            Ok(said) => said.iter().for_each(|line| say(line)),
            Err(why) => say(&format!("configuration not changed: {why}")),
        }
    }
}
