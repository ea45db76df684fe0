//! The event loop: one thread that sleeps until a frame, a timer, a signal or a client wakes it.

mod receive;
mod reload;
mod trouble;

use std::os::fd::{AsFd, OwnedFd};

use freeboard::Fwmark;
use freeboard::sched_core::Nanos;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::config::Config;
use crate::config::keywords::{Io, Words as _, rate_word};
use crate::config::memory;
use crate::config::options::Source;
use crate::forward::direction::{Direction, Hosts};
use crate::forward::follow::Following;
use crate::forward::nat::Nat;
use crate::forward::queue::{Heading, Plan};
use crate::io::device::{Device, is_same};
use crate::io::frame::{Frame, Pool};
use crate::io::ping::Pinger;
use crate::io::privileges::Runner;
use crate::io::stack::{Use, uses};
use crate::io::sys::{self, BATCH};
use crate::log::{print, say};
use crate::setup::Place;
use crate::stats::flow_stats::Watched;
use crate::stats::host_terms::HostTerms;
use crate::stats::metrics::metrics;
use crate::stats::report::{Reloads, Report};
use crate::stats::serve::{Exhausted, Metrics, Stats};
use trouble::Notices;

/// Signals that the gateway handles.
const SIGNALS: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1];

/// Pause before accepting clients again after `EMFILE` or `ENFILE`.
const ACCEPT_BACKOFF: Nanos = Nanos(1_000_000_000);

/// Failure to start or to go on, with its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Code 1: a failure while forwarding, after which statistics have been printed.
    Broken(String),
    /// Code 2: invalid options or file; trying again cannot help. Nothing was changed.
    Refused(String),
    /// Code 3: the system lacks or refuses a device or another resource. Nothing was changed.
    Missing(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// Source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Token {
    Lan,
    Wan,
    Timer,
    Signal,
    Stats,
    Metrics,
    Links,
    Answers,
    Connections,
}

impl Token {
    const ALL: [Self; 9] = [
        Self::Lan,
        Self::Wan,
        Self::Timer,
        Self::Signal,
        Self::Stats,
        Self::Metrics,
        Self::Links,
        Self::Answers,
        Self::Connections,
    ];
}

/// The running gateway with everything that it has open.
#[derive(Debug)]
struct Gateway {
    config: Config,
    source: Source,
    /// LAN and WAN device; frames of the first are uploads.
    devices: [Device; 2],
    /// Upload and download.
    directions: [Direction; 2],
    following: Following,
    nat: Nat,
    overruns: [u64; 2],
    said: [Notices; 2],
    /// Times of the last and the next check of the devices.
    looked_at: Nanos,
    look_at: Option<Nanos>,
    reloads: Reloads,
    pool: Pool,
    spares: Vec<Frame>,
    /// Buffers for unsegmented frames, one per spare, if frames are segmented.
    uncut: Vec<Frame>,
    /// Number of frames received at once from each device.
    widths: [usize; 2],
    stats: Option<Stats>,
    metrics: Option<Metrics>,
    /// Netlink socket that becomes readable when any interface changes or disappears.
    links: OwnedFd,
    epoll: Epoll,
    timer: TimerFd,
    /// Expiry of the timer, not later than the next deadline.
    armed: Option<Nanos>,
    /// Time at which clients are accepted again after the process ran out of descriptors.
    listen_at: Option<Nanos>,
    signals: SignalFd,
    started: Nanos,
    next_report: Nanos,
}

/// Reads the monotonic clock.
fn clock() -> Nanos {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    time.map_or(Nanos::ZERO, |time| {
        let nanos = i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
        Nanos(u64::try_from(nanos).unwrap_or(0))
    })
}

/// Forwards until a signal or the loss of a device.
pub(crate) fn run(source: &Source) -> Result<(), Failure> {
    // Blocked, so that a signal during startup waits instead of ending the program.
    let early = SigSet::from_iter([Signal::SIGHUP, Signal::SIGUSR1]).thread_block();
    early.map_err(|error| missing("signals", error))?;
    let config = source.read()?;
    let runner = Runner::named(&config.user).map_err(config.places.of("--user"))?;
    let mut gateway = Gateway::open(config, source.clone())?;
    gateway.look_first();
    runner.take_over().map_err(Failure::Missing)?;
    let config = &gateway.config;
    say(&format!(
        "{} up {} to {}, down {}, {} {}; frames and queues use at most {} MB",
        config.lan,
        rate_word(config.up),
        config.wan,
        rate_word(config.down),
        config.share.kind.word(),
        config.share.hosts.word(),
        memory::of_all(config, gateway.pool.mtu()).div_ceil(1_000_000),
    ));
    gateway.say_first();
    gateway.config.hints.iter().for_each(|hint| say(hint));
    let ended = gateway.forward();
    print(&gateway.report(clock()).to_json());
    ended.map_err(Failure::Broken)
}

/// Returns the reason why a device in use by this machine cannot be forwarded, with the commands
/// that help.
fn refusal(name: &str, io: Io, place: &Place) -> Option<String> {
    // The other end of a TAP device is for this machine to use.
    let index = sys::index(name).ok().filter(|_| io == Io::Packet)?;
    let of = uses(index).ok()?.into_iter().next()?;
    let stop = of.stop();
    Some(match &of {
        Use::Address { on, .. } => {
            let which = if on == name { String::new() } else { format!("{on} on top of it ") };
            format!(
                "{which}{of}, so this machine's own packets would bypass the gateway (expected a device without \
                 addresses); on a router run: {}, then start the gateway with {}; elsewhere run: {stop}",
                place.command(),
                place.options(),
            )
        }
        Use::Port { on, master, .. } => {
            let which = if on == name { String::new() } else { format!("{on} on top of it ") };
            format!(
                "{which}{of}, which forwards its frames too (expected a device that is not a port); run: {stop}, or use \
                 {master}"
            )
        }
    })
}

/// Returns the plan for the queue of one direction.
pub(crate) fn plan(config: &Config, heading: Heading, descriptors: u32, max_len: u32) -> Plan {
    let rate = match heading {
        Heading::Up => config.up,
        Heading::Down => config.down,
    };
    let treatment = config.treatment(heading, rate);
    Plan { share: config.share, heading, descriptors, max_len, rate, treatment }
}

/// Returns buffers for unsegmented frames, if frames are segmented.
fn uncut_frames(config: &Config) -> Vec<Frame> {
    let count = if config.cuts() { BATCH } else { 0 };
    (0..count).map(|_| Frame::for_uncut()).collect()
}

fn failed(what: &str, error: impl core::fmt::Display) -> String {
    format!("{what}: {error}")
}

/// Formats an error about a resource that the system refused at startup.
fn missing(what: &str, error: impl core::fmt::Display) -> Failure {
    Failure::Missing(failed(what, error))
}

impl Gateway {
    fn open(config: Config, source: Source) -> Result<Self, Failure> {
        let place = Place { lan: config.lan.clone(), wan: config.wan.clone(), nat: config.nat };
        let open = |option: &str, name: &str| {
            if let Some(why) = refusal(name, config.io, &place) {
                let why = config.places.of(option)(format!("{option} {name}: {why}"));
                return Err(Failure::Missing(why));
            }
            let opened = Device::open(name, config.io, config.handling.splits_gso);
            let named = |refused| config.places.of(option)(format!("{option} {refused}"));
            opened.map_err(|refused| Failure::Missing(named(refused)))
        };
        // Opened before the devices, so that no notification about them is missed.
        let links = sys::link_news().map_err(|error| missing("link notifications", error))?;
        if is_same(&config.lan, &config.wan) {
            let wan = &config.wan;
            let why = format!(
                "--wan {wan:?}: same device as --lan under another name (expected another one)"
            );
            return Err(Failure::Refused(config.places.of("--wan")(why)));
        }
        let mut devices = [open("--lan", &config.lan)?, open("--wan", &config.wan)?];
        if config.handling.fwmark != Fwmark::NONE {
            let named = |why| config.places.of("--fwmark")(format!("--fwmark: {why}"));
            for device in &mut devices {
                device.tell_marks().map_err(|why| Failure::Missing(named(why)))?;
            }
        }
        let mtu = devices.iter().map(Device::mtu).max().unwrap_or(0);
        memory::check(&config, mtu)?;
        let pool = Pool::new(memory::frames_for(memory::limits_of(&config, mtu)), mtu);
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| missing("no random numbers", error))?;
        let watched = match (&config.stats, &config.metrics) {
            (Some(_), _) => Some(Watched::Each),
            (None, Some(_)) => Some(Watched::All),
            (None, None) => None,
        };
        let direction = |heading| {
            let plan = plan(&config, heading, pool.count(), pool.longest() as u32);
            let hosts = Hosts::new(&config, plan.max_len)?;
            Direction::new(plan, config.framing, hosts, secret, watched)
                .map_err(config.places.of("--queue"))
        };
        let mut directions = [direction(Heading::Up)?, direction(Heading::Down)?];
        directions[1].watch_arrivals(config.follow.by_arrivals.is_some());
        let pinger = match config.follow.reflectors.is_empty() {
            true => None,
            false => {
                let mut secret = [0; 10];
                getrandom::fill(&mut secret)
                    .map_err(|error| missing("no random numbers", error))?;
                let named = |why| config.places.of("--autorate")(format!("--autorate: {why}"));
                Some(Pinger::open(secret).map_err(|why| Failure::Missing(named(why)))?)
            }
        };
        let following = Following::new(config.follow.clone(), pinger, clock());
        let named = |why| config.places.of("--nat")(format!("--nat: {why}"));
        let nat = Nat::open(config.nat).map_err(|why| Failure::Missing(named(why)))?;
        let stats = config.stats.as_deref().map(Stats::listen).transpose();
        let stats = stats.map_err(config.places.of("--stats")).map_err(Failure::Missing)?;
        let metrics = config.metrics.map(Metrics::listen).transpose();
        let metrics = metrics.map_err(config.places.of("--metrics")).map_err(Failure::Missing)?;
        let signals = SigSet::from_iter(SIGNALS);
        signals.thread_block().map_err(|error| missing("signals", error))?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals =
            SignalFd::with_flags(&signals, flags).map_err(|error| missing("signals", error))?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags);
        let timer = timer.map_err(|error| missing("timer", error))?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let epoll = epoll.map_err(|error| missing("epoll", error))?;
        let spares = (0..BATCH).map(|_| pool.spare()).collect();
        let uncut = uncut_frames(&config);
        let started = clock();
        let gateway = Self {
            config,
            source,
            devices,
            directions,
            following,
            nat,
            overruns: [0; 2],
            said: [Notices::default(), Notices::default()],
            looked_at: Nanos::ZERO,
            look_at: None,
            reloads: Reloads::new(),
            pool,
            spares,
            uncut,
            widths: [BATCH; 2],
            stats,
            metrics,
            links,
            epoll,
            timer,
            armed: None,
            listen_at: None,
            signals,
            started,
            next_report: Nanos::ZERO,
        };
        gateway.watch_all().map_err(|error| missing("epoll", error))?;
        Ok(gateway)
    }

    fn watch_all(&self) -> nix::Result<()> {
        let add = |fd: &dyn AsFd, token: Token, flags| {
            self.epoll.add(fd.as_fd(), EpollEvent::new(flags, token as u64))
        };
        let readable = EpollFlags::EPOLLIN;
        add(&self.devices[0], Token::Lan, readable)?;
        add(&self.devices[1], Token::Wan, readable)?;
        // Edge-triggered: setting the timer again clears an expiry that was not read.
        add(&self.timer, Token::Timer, readable | EpollFlags::EPOLLET)?;
        add(&self.signals, Token::Signal, readable)?;
        add(&self.links, Token::Links, readable)?;
        for socket in self.following.pinger().into_iter().flat_map(Pinger::sockets) {
            add(&socket, Token::Answers, readable)?;
        }
        if let Some(events) = self.nat.events() {
            add(events, Token::Connections, readable)?;
        }
        if let Some(stats) = &self.stats {
            add(stats, Token::Stats, readable)?;
        }
        if let Some(metrics) = &self.metrics {
            add(metrics, Token::Metrics, readable)?;
        }
        Ok(())
    }

    /// Runs the loop until a signal ends it.
    fn forward(&mut self) -> Result<(), String> {
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let now = clock();
            self.following.follow(now, &mut self.directions);
            self.nat.read(now);
            self.send_due(now).map_err(|error| failed("epoll", error))?;
            self.say_troubles(now);
            self.look_if_due(now);
            self.report_if_due(now);
            if self.listen_at.is_some_and(|at| at <= now) {
                self.listen_at = None;
                self.listen(EpollFlags::EPOLLIN).map_err(|error| failed("epoll", error))?;
            }
            let timeout = self.arm(now)?;
            let woken = match self.epoll.wait(&mut events, timeout) {
                Ok(woken) => woken,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(error) => return Err(failed("epoll", error)),
            };
            for event in &events[..woken] {
                let Some(&token) = Token::ALL.get(event.data() as usize) else { continue };
                if self.woken(token, event.events())? {
                    return Ok(());
                }
            }
        }
    }

    /// Sends what may leave at `now`, in both directions.
    fn send_due(&mut self, now: Nanos) -> nix::Result<()> {
        for at in 0..2 {
            let was_blocked = self.directions[at].is_blocked;
            self.directions[at].forward(now, &mut self.devices[1 - at], &mut self.pool);
            if self.directions[at].is_blocked != was_blocked {
                self.watch_for_room(at)?;
            }
        }
        Ok(())
    }

    /// Also waits for writability of a device whose direction is blocked.
    fn watch_for_room(&self, direction: usize) -> nix::Result<()> {
        let device = 1 - direction;
        let token = [Token::Lan, Token::Wan][device];
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, self.directions[direction].is_blocked);
        self.epoll.modify(&self.devices[device], &mut EpollEvent::new(flags, token as u64))
    }

    /// Sets the timer to the next deadline; returns the timeout for epoll.
    fn arm(&mut self, now: Nanos) -> Result<EpollTimeout, String> {
        let report =
            self.stats.as_ref().filter(|stats| stats.has_clients()).map(|_| self.next_report);
        let due = self.directions.iter().filter_map(|direction| direction.poll_at(now));
        let due = due.chain(report).chain(self.listen_at).chain(self.troubles_at());
        let due = due.chain(self.following.poll_at()).chain(self.nat.poll_at()).min();
        if due.is_some_and(|due| due <= now) {
            return Ok(EpollTimeout::ZERO);
        }
        // An earlier expiry stays set. It causes one wakeup without effect, which costs less than
        // setting the timer for each frame.
        if let Some(Nanos(at)) = due
            && self.armed.is_none_or(|armed| at < armed.0)
        {
            let time = TimeSpec::from_duration(core::time::Duration::from_nanos(at));
            let set =
                self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
            set.map_err(|error| failed("timer", error))?;
            self.armed = due;
        }
        Ok(EpollTimeout::NONE)
    }

    /// Handles an event; returns true if the loop is to end.
    fn woken(&mut self, token: Token, flags: EpollFlags) -> Result<bool, String> {
        match token {
            Token::Lan | Token::Wan => self.device_woke(token as usize, flags)?,
            Token::Timer => self.armed = None,
            Token::Signal => return Ok(self.signalled()),
            // Read at the start of the next iteration.
            Token::Connections => {}
            Token::Answers => self.following.hear(clock(), &self.directions),
            Token::Stats => {
                if let Some(stats) = &mut self.stats {
                    let accepted = stats.accept();
                    self.deaf_if(accepted)?;
                }
            }
            Token::Metrics => {
                let accepted = self.answer_metrics();
                self.deaf_if(accepted)?;
            }
            // Looks the devices up: one that was down sends no other event when it disappears.
            Token::Links => {
                let (mut changed, is_all) = sys::changed_links(self.links.as_fd());
                if !is_all {
                    let now = |device: &Device| sys::link(device.index(), None).ok();
                    changed.extend(self.devices.iter().filter_map(now));
                }
                changed.iter().for_each(|link| self.say_change(link));
                self.is_there(0)?;
                self.is_there(1)?;
                self.look_soon(clock());
            }
        }
        Ok(false)
    }

    /// Sets the events that wake the listening sockets.
    fn listen(&self, flags: EpollFlags) -> nix::Result<()> {
        let set = |listener: &dyn AsFd, token: Token| {
            self.epoll.modify(listener.as_fd(), &mut EpollEvent::new(flags, token as u64))
        };
        self.stats.iter().try_for_each(|stats| set(stats, Token::Stats))?;
        self.metrics.iter().try_for_each(|metrics| set(metrics, Token::Metrics))
    }

    /// Stops accepting clients for a while if no descriptor is left for them.
    fn deaf_if(&mut self, accepted: Result<(), Exhausted>) -> Result<(), String> {
        if accepted.is_ok() {
            return Ok(());
        }
        self.listen_at = Some(clock().plus(ACCEPT_BACKOFF));
        self.listen(EpollFlags::empty()).map_err(|error| failed("epoll", error))
    }

    fn device_woke(&mut self, at: usize, flags: EpollFlags) -> Result<(), String> {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.directions[1 - at].is_blocked = false;
            self.watch_for_room(1 - at).map_err(|error| failed("epoll", error))?;
        }
        let gone = self.receive(at);
        let is_troubled =
            gone.is_err() || flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        if is_troubled {
            self.is_there(at)?;
        }
        gone.map_err(|error| failed(self.devices[at].name(), error))
    }

    /// Returns an error if the device has disappeared.
    fn is_there(&mut self, at: usize) -> Result<(), String> {
        if self.devices[at].exists(self.links.as_fd()) {
            return Ok(());
        }
        self.directions[1 - at].give_up(&mut self.pool);
        Err(format!("{}: the device has disappeared", self.devices[at].name()))
    }

    /// Handles signals; returns true if the loop is to end.
    fn signalled(&mut self) -> bool {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo.cast_signed()) {
                Ok(Signal::SIGHUP) => self.configure_anew(),
                Ok(Signal::SIGUSR1) => print(&self.report(clock()).to_json()),
                _ => return true,
            }
        }
        false
    }

    fn report(&mut self, now: Nanos) -> Report {
        self.count_overruns();
        let [up, down] = &self.directions;
        let directions = [(up, self.overruns[0]), (down, self.overruns[1])];
        let nat = self.nat.connections();
        let since = now.since(self.started);
        let report = Report::new(since, &self.reloads, &directions, &self.following, nat);
        Report { host_terms: HostTerms::all(&self.config), ..report }
    }

    fn count_overruns(&mut self) {
        for (overruns, device) in self.overruns.iter_mut().zip(&self.devices) {
            *overruns += u64::from(device.overruns());
        }
    }

    /// Sends a report to all clients at each interval. A new client gets one at once, which does
    /// not reset the recent counters that the others see.
    fn report_if_due(&mut self, now: Nanos) {
        if !self.stats.as_ref().is_some_and(Stats::has_clients) {
            return;
        }
        if now < self.next_report {
            if self.stats.as_ref().is_some_and(Stats::has_newcomers) {
                let line = self.report(now).to_json();
                self.stats.iter_mut().for_each(|stats| stats.greet(&line));
            }
            return;
        }
        let line = self.report(now).to_json();
        for direction in &mut self.directions {
            if let Some(watch) = direction.watch_mut() {
                watch.looked(now);
            }
        }
        if let Some(stats) = &mut self.stats {
            stats.tell(&line);
        }
        self.next_report = now.plus(Nanos::from_secs(self.config.stats_interval));
    }

    fn answer_metrics(&mut self) -> Result<(), Exhausted> {
        self.count_overruns();
        let up_for = clock().since(self.started);
        let Self {
            metrics: Some(serving),
            directions,
            following,
            nat,
            overruns,
            epoll,
            reloads,
            ..
        } = self
        else {
            return Ok(());
        };
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        let accepted = serving.accept(|client| {
            // A client that cannot be watched is answered along with the next one that can.
            let _ = epoll.add(client, EpollEvent::new(flags, Token::Metrics as u64));
        });
        let [up, down] = directions;
        let directions = [(&*up, overruns[0]), (&*down, overruns[1])];
        serving.answer(|| metrics(up_for, reloads, &directions, following, nat.connections()));
        accepted
    }
}
