//! Another configuration while frames are queued.

use freeboard::sched_core::Nanos;

use super::{Gateway, clock, plan};
use crate::config::memory;
use crate::forward::direction::Hosts;
use crate::forward::queue::Heading;
use crate::io::sys;
use crate::log::say;

impl Gateway {
    /// Reads the configuration again, and says what has changed.
    pub(super) fn configure_anew(&mut self) {
        let Some(read) = self.source.read_again() else {
            say("nothing to read again: there was no --config");
            return;
        };
        let said = read.and_then(|new| {
            let mut config = self.config.clone();
            let said = config.take_over(new);
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
            // Nothing fails from here on: until now nothing has changed.
            for (direction, limits) in self.directions.iter_mut().zip(limits) {
                direction.set_limits(limits, &mut self.pool);
            }
            self.pool.resize(descriptors);
            let now = clock();
            for ((direction, built), hosts) in self.directions.iter_mut().zip(built).zip(hosts) {
                direction.change(now, built, config.link, hosts, &mut self.pool);
            }
            if self.pool.settle() {
                sys::give_back_memory();
            }
            self.config = config;
            self.next_report = Nanos::ZERO;
            Ok(said)
        });
        self.reloads.count(said.is_ok());
        match said {
            Ok(said) if said.is_empty() => say("configuration read, nothing has changed"),
            Ok(said) => said.iter().for_each(|line| say(line)),
            Err(why) => say(&format!("configuration kept as it was: {why}")),
        }
    }
}
