//! A deterministic simulator for freeboard's queues, and the experiments that reproduce published
//! results.
//!
//! The simulator uses the crates through their public API only, so a device can do everything that
//! is done here. Time comes from the simulator's own clock ([`event`]) and all randomness from
//! [`conformance::rng`]: a run is a function of its seed, and equal seeds give equal bytes.
//!
//! # Where to start
//!
//! - `cargo run --release -p sim -- reproduce --list` lists the experiments, `reproduce NAME` runs
//!   one: it prints the assumptions, a table and checks with their results, and writes charts.
//! - `cargo run --release -p sim -- replay FILE --rate 10mbit --scheduler drr` sends a recorded
//!   capture through a queue and prints loss, share and delay of each flow.
//! - `cargo run --release -p sim -- run my.toml` runs an experiment of your own; `run --template`
//!   prints an annotated file.
//! - To simulate more in Rust, choose the kind of traffic: [`network`] connects TCP/IP hosts
//!   (smoltcp) over a bottleneck, [`tcp`] has fast models of TCP senders, and [`path`] sends
//!   open-loop sources over a chain of links.
//!
//! # Modules
//!
//! In the order in which a packet meets them:
//!
//! - [`event`]: event queue and clock; simultaneous events leave in insertion order
//! - [`source`]: open-loop sources: constant rate, Poisson, on–off, speech, video, traces
//! - [`sizes`]: flow sizes: web search, data mining, Pareto
//! - [`capture`]: recorded traffic: pcap and pcapng
//! - [`app`]: applications: file transfers, web pages, calls and video
//! - [`host`]: TCP/IP hosts, with smoltcp inside
//! - [`discipline`]: queueing disciplines by name, behind a shaper
//! - [`link`]: one direction of a link: buffers, flow hash, queue, rate and delay
//! - [`network`]: hosts on both sides of a bottleneck
//! - [`tcp`]: model TCP: NewReno, CUBIC, Prague-like and BBR-like senders, and receivers;
//!   [`tcp::traffic`]: pages, peer-to-peer, RRUL, arriving flows, the profiles of RFC 7928
//! - [`path`]: sources without hosts over a chain of links
//! - [`flow_level`]: flows under a flow scheduler alone, without packets lost and round-trip times
//! - [`replay`]: a capture through flow hash, scheduler and shaper
//! - [`attack`]: a victim host and open-loop attackers in front of a bare queue
//! - [`reserved`]: flows with reserved rates across routers
//! - [`experiments`]: complete experiments, for `sim reproduce`
//! - [`scenario`]: experiments of your own, in a TOML file
//! - [`aqm`]: AQMs driven packet by packet, without a link
//! - [`measure`]: delay, loss, jitter, goodput, fairness, and call quality
//! - [`plot`]: tables as text, for diffs; charts as SVG
//! - [`command_line`]: the program `sim`
//! - [`notation`]: parsers for command-line values
//! - [`progress`]: progress and remaining time of long runs
//!
//! [`network`], [`tcp`] and [`path`] share one event loop (the private module `links`).

pub mod app;
pub mod aqm;
pub mod attack;
pub mod capture;
pub mod command_line;
pub mod discipline;
pub mod event;
pub mod experiments;
pub mod flow_level;
pub mod host;
pub mod link;
mod links;
pub mod measure;
pub mod network;
pub mod notation;
pub mod path;
pub mod plot;
pub mod progress;
pub mod replay;
pub mod reserved;
pub mod scenario;
pub mod sizes;
pub mod source;
pub mod tcp;
