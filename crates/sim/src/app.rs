//! What runs on hosts: file transfers, web pages, calls and video.
//!
//! Closed-loop traffic, which listens to the network and adapts, lives here together with the
//! packets of open-loop traffic ([`crate::source`]). Everything is measured where it is received.

mod bulk;
mod bulk_or_media;
mod media;
mod web;

pub use bulk::{BulkReceiver, BulkSender};
pub use bulk_or_media::BulkOrMedia;
pub use media::{Media, Packetised};
pub use web::{Browser, Load, Page, WebServer};
