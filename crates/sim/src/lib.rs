//! The simulator: how does the library behave?
//!
//! A user of the crates through their public API only; what it cannot do, a device could not do
//! either. Time is that of its own clock ([`event`]) and all randomness comes from
//! [`conformance::rng`], so that a run is a function of its seed: same seed, same bytes.
//!
//! In the order a packet meets them:
//!
//! - [`event`]: what happens next; equal times leave in insertion order
//! - [`source`]: what sends without listening: constant rate, calls, on–off
//! - [`capture`]: what sent once and was recorded: pcap and pcapng
//! - [`app`]: what listens: file transfers, web pages; and the packets of calls and video
//! - [`host`]: TCP/IP hosts, with smoltcp inside
//! - [`discipline`]: the schedulers by name, behind a line
//! - [`link`]: buffers, hash, queue, rate and delay of one direction of a line
//! - [`network`]: hosts on both sides of a line, over the one loop that moves time (`lines`)
//! - [`tcp`]: model TCP: NewReno, CUBIC, Prague-like and BBR-like senders, receivers, and the same
//!   loop
//! - [`path`]: sources without hosts over links one after another, and the same loop
//! - [`replay`]: a capture through hash, scheduler and shaper
//! - [`experiments`]: whole experiments, and the figures of the papers, made again: `sim reproduce`
//! - [`measure`]: delay, loss, jitter, goodput, fairness, and what a caller hears
//! - [`plot`]: a table as text, for the diff; a chart as SVG, for the eye
//! - [`notation`]: how rates and numbers are written on a command line
//! - [`progress`]: how far a long run is, and how long it still takes

pub mod app;
pub mod capture;
pub mod discipline;
pub mod event;
pub mod experiments;
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
pub mod source;
pub mod tcp;
