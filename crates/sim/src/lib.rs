//! The simulator: does the library keep its promises?
//!
//! A user of the crates through their public API only; what it cannot do, a device could not do
//! either. It owns the only clock ([`event`]), the only randomness ([`rng`]) and the only floats of
//! the workspace, so that a run is a function of its seed: same seed, same bytes.
//!
//! In the order a packet meets them:
//!
//! - [`event`]: what happens next; equal times leave in insertion order
//! - [`rng`]: one seed, one named stream per source
//! - [`source`]: what sends without listening: constant rate, calls, on–off
//! - [`capture`]: what sent once and was recorded: pcap and pcapng
//! - [`app`]: what listens: file transfers, web pages; and the packets of calls and video
//! - [`host`]: TCP/IP hosts, with smoltcp inside
//! - [`discipline`]: the schedulers by name, behind a line
//! - [`link`]: buffers, hash, queue, rate and delay of one direction of a line
//! - [`network`]: hosts on both sides of a line, and the loop that moves time
//! - [`path`]: sources without hosts over links one after another, and the same loop
//! - [`replay`]: a capture through hash, scheduler and shaper
//! - [`scenario`]: whole experiments
//! - [`experiments`]: the figures of the papers, made again: `sim reproduce`
//! - [`measure`]: delay, loss, jitter, goodput, fairness, and what a caller hears
//! - [`figure`]: a table as text, for the diff; a chart as SVG, for the eye
//! - [`notation`]: how rates are written on a command line
//!
//! Beside them, what judges the disciplines:
//!
//! - [`reference`](mod@reference): each discipline's naive twin, written from its definition
//! - [`guarantee`]: histories made to exceed the proven bounds, and meters that tell
//! - [`history`]: one language of operations, and a match of two sides that must agree

pub mod app;
pub mod capture;
#[cfg(feature = "steps")]
pub mod cost;
pub mod discipline;
pub mod event;
pub mod experiments;
pub mod guarantee;
pub mod history;
pub mod host;
pub mod link;
pub mod measure;
pub mod network;
pub mod notation;
pub mod path;
pub mod plot;
pub mod reference;
pub mod replay;
pub mod rng;
pub mod scenario;
pub mod source;
