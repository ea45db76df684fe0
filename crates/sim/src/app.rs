//! Applications that run on hosts: file transfers, web pages, calls and video.
//!
//! Closed-loop applications adapt to the network. Calls and video are open-loop: they packetize a
//! [`crate::source`]. Everything is measured at the receiver.

mod bulk;
mod bulk_pairs;
mod media;
mod transfers;
mod web;

pub use bulk::{BulkReceiver, BulkSender};
pub use bulk_pairs::BulkPairs;
pub use media::{Media, Packetised};
pub use transfers::Transfers;
pub use web::{Browser, Load, Page, PageKind, WebServer};
