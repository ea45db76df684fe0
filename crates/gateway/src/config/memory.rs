//! Memory that a configuration needs, and the maximum that is accepted.

use freeboard::sched_core::Limits;

use crate::config::handling::Treatment;
use crate::config::keywords::{HostMode, Words as _};
use crate::config::{Config, Sharing};
use crate::forward::direction::Direction;
use crate::forward::nat;
use crate::forward::queue::{
    Heading, bytes_of_descriptor, bytes_of_tables, limits, max_descriptors,
};
use crate::io::frame::Pool;
use crate::io::sys::BATCH;
use crate::io::uncut::LONGEST;

/// Maximum for both directions in bytes; half of the memory on machines with less than twice as
/// much.
const MOST: u64 = 2 << 30;

/// Returns the number of frames for both directions with these limits and for batches at the
/// devices.
pub(crate) fn frames_for(limits: [Limits; 2]) -> u32 {
    let [up, down] = limits.map(|limits| limits.packets + BATCH as u32);
    up + down
}

/// Returns the queue limits for upload and download.
pub(crate) fn limits_of(config: &Config, mtu: usize) -> [Limits; 2] {
    treatments(config).map(|treatment| limits(&config.share, &treatment, mtu))
}

fn treatments(config: &Config) -> [Treatment; 2] {
    [(Heading::Up, config.up), (Heading::Down, config.down)]
        .map(|(heading, rate)| config.treatment(heading, rate))
}

/// Rejects a configuration that takes too much memory; the error names the accepted range.
pub(crate) fn check(config: &Config, mtu: usize) -> Result<(), String> {
    let each = Pool::bytes_of_frame(mtu);
    let least = treatments(config).into_iter().filter_map(|of| of.memory_limit).min();
    if let Some(least) = least
        && (least as usize) < each
    {
        return Err(config.places.of("--memory-limit")(format!(
            "--memory-limit {least}: less than one frame with an MTU of {mtu} \
             (expected at least {each})"
        )));
    }
    let most = of_machine().map_or(MOST, |all| MOST.min(all / 2));
    check_against(config.share, frames_for(limits_of(config, mtu)), mtu, most)
        .map_err(config.places.of("--limit"))
}

fn check_against(share: Sharing, frames: u32, mtu: usize, most: u64) -> Result<(), String> {
    let (each, places) =
        (bytes_of_frame(share.hosts, mtu), u64::from(max_descriptors(share.hosts)));
    let (frames, tables) = (u64::from(frames), tables(&share));
    if tables > most / 2 {
        return Err(too_many_hosts(share, most));
    }
    let needed = frames * each + tables;
    if needed <= most && frames <= places {
        return Ok(());
    }
    let packets =
        ((most.saturating_sub(tables) / each).min(places) / 2).saturating_sub(BATCH as u64);
    let (limit, hosts) = (share.limit.word(), share.hosts.word());
    let why = if needed > most {
        let [needed, most] = [needed.div_ceil(1_000_000), most / 1_000_000];
        format!(
            "takes {needed} MB with an MTU of {mtu} and --hosts {hosts}, more than the {most} MB allowed \
             on this machine"
        )
    } else {
        format!("is more than --hosts {hosts} supports")
    };
    Err(format!("--limit {limit}: {why} (expected 1p to {packets}p)"))
}

/// Returns the error for queue and host tables that take more than half of the memory.
fn too_many_hosts(share: Sharing, most: u64) -> String {
    let mut fits = share.max_hosts;
    while fits > 1 && tables(&Sharing { max_hosts: fits, ..share }) > most / 2 {
        fits /= 2;
    }
    let [needed, most] = [tables(&share).div_ceil(1_000_000), most / 2_000_000];
    let hosts = share.max_hosts;
    format!(
        "--max-hosts {hosts}: takes {needed} MB, more than the {most} MB allowed on this machine \
         (expected 1 to {fits})"
    )
}

/// Returns the maximum memory of frames and queues of both directions in bytes.
pub(crate) fn of_all(config: &Config, mtu: usize) -> u64 {
    let (share, frames) = (&config.share, frames_for(limits_of(config, mtu)));
    let translations = if config.nat { nat::BYTES } else { 0 };
    let uncut = if config.cuts() { (BATCH * LONGEST) as u64 } else { 0 };
    u64::from(frames) * bytes_of_frame(share.hosts, mtu) + tables(share) + translations + uncut
}

/// Returns the size of the tables of both directions.
fn tables(share: &Sharing) -> u64 {
    2 * bytes_of_tables(share) as u64
}

/// Returns the size of a frame in the pool and of its per-direction data.
fn bytes_of_frame(hosts: HostMode, mtu: usize) -> u64 {
    (Pool::bytes_of_frame(mtu) + 2 * (Direction::BYTES_OF_DESCRIPTOR + bytes_of_descriptor(hosts)))
        as u64
}

/// Returns the memory of this machine in bytes, if known.
fn of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DEFAULT_MAX_HOSTS;
    use crate::config::keywords::{Limit, QueueKind};
    use freeboard::AqmKind;

    fn check_against(share: Sharing, mtu: usize, most: u64) -> Result<(), String> {
        let frames = frames_for([limits(&share, &Treatment::default(), mtu); 2]);
        super::check_against(share, frames, mtu, most)
    }

    fn share(limit: Limit) -> Sharing {
        Sharing {
            kind: QueueKind::Drr,
            hosts: HostMode::Lan,
            max_hosts: DEFAULT_MAX_HOSTS,
            limit,
            flush_unserved: None,
            aqm: AqmKind::CoDel,
            l4s: true,
            rtt: freeboard::Rtt::INTERNET,
        }
    }

    #[test]
    fn what_is_accepted_of_a_refused_limit_is_accepted() {
        let kinds = [(QueueKind::Drr, HostMode::Lan), (QueueKind::Sqf, HostMode::UsersSqf)];
        for ((kind, hosts), mtu) in
            kinds.into_iter().flat_map(|of| [68, 1_500, 9_000, 65_535].map(|mtu| (of, mtu)))
        {
            for most in [20_000_000, MOST] {
                let max_hosts = DEFAULT_MAX_HOSTS;
                let share = |limit| Sharing { kind, hosts, max_hosts, ..share(limit) };
                let check = |packets| check_against(share(Limit::Packets(packets)), mtu, most);
                let refused = check(20_000_000).unwrap_err();
                let (_, range) = refused.rsplit_once("1p to ").unwrap();
                let largest: u32 = range.strip_suffix("p)").unwrap().parse().unwrap();
                assert_eq!(check(largest), Ok(()), "{refused}");
                assert!(check(largest + 1).unwrap_err().ends_with(range));
            }
        }
    }

    #[test]
    fn the_range_of_the_option_fits_an_mtu_of_1500_and_the_default_any() {
        let most = Limit::Packets(Limit::MAX_PACKETS);
        assert_eq!(check_against(share(most), 1_500, MOST), Ok(()));
        let refused = check_against(share(most), 9_000, MOST).unwrap_err();
        assert!(refused.starts_with("--limit 500000 packets: takes 9"), "{refused}");
        assert_eq!(check_against(share(Limit::ByRate), 65_535, MOST), Ok(()));
    }

    #[test]
    fn hosts_have_half_of_the_memory() {
        let hosts = |max_hosts, most| {
            check_against(Sharing { max_hosts, ..share(Limit::Packets(100)) }, 1_500, most)
        };
        assert_eq!(hosts(8_192, MOST), Ok(()));
        let refused = hosts(8_192, 20_000_000).unwrap_err();
        assert!(refused.starts_with("--max-hosts 8192: takes 33 MB"), "{refused}");
        assert!(
            refused.ends_with("the 10 MB allowed on this machine (expected 1 to 2048)"),
            "{refused}"
        );
        assert_eq!(hosts(2_048, 20_000_000), Ok(()));
    }

    /// Goal: the error names the accepted range, whichever of the two limits is exceeded first.
    #[test]
    fn users_have_places_for_so_many() {
        let users = |packets| {
            let share = share(Limit::Packets(packets));
            let share = Sharing { kind: QueueKind::Sqf, hosts: HostMode::UsersSqf, ..share };
            check_against(share, 1_500, MOST)
        };
        assert_eq!(users(65_504), Ok(()));
        for (packets, why) in [(65_505, "is more than"), (500_000, "takes ")] {
            let refused = users(packets).unwrap_err();
            assert!(refused.starts_with(&format!("--limit {packets} packets: {why}")), "{refused}");
            assert!(refused.ends_with(" (expected 1p to 65504p)"), "{refused}");
        }
    }

    #[test]
    fn users_have_places_for_every_frame_each() {
        let with = |hosts| bytes_of_frame(hosts, 1_500);
        assert!(with(HostMode::UsersSqf) > with(HostMode::Lan) + 64 * 16 * 2 - 64);
    }

    #[test]
    fn the_machine_says_how_much_it_has() {
        assert!(of_machine() > Some(16 << 20));
    }
}
