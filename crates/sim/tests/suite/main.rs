//! Tests of the simulator against known results, of the guarantees under random loads, and of the
//! figures in documents.

mod age_based;
mod aqm_linux;
mod attacks;
mod autorate;
mod autorate_arrivals;
mod cake;
mod capture;
mod codel_rfc;
mod documents;
mod guarantees;
mod home_gateway;
mod host_rates;
mod isolation;
mod l4s;
mod narrow_uplink;
mod network;
mod qfq_fig7;
mod replay;
mod small_windows;
mod sparse;
mod sqf_adsl;
mod sqf_video;
mod tcp_speed;
mod users_sqf;
