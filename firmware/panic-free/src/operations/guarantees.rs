//! Guarantees of flow schedulers, and delays.

use core::hint::black_box;

use freeboard::sched_core::{DelayHistogram, Guarantee, Share};

use super::schedulers::now;
use super::{any, one_of, seen};

#[unsafe(no_mangle)]
static GUARANTEES: &[fn()] = &[guarantee, delays];

fn share() -> Option<Share> {
    Share::new(any().into(), any().into()).ok()
}

fn delays() {
    let (mut delays, other) = (DelayHistogram::new(), DelayHistogram::new());
    let delays = &mut delays;
    one_of!(delays;
        delays.add(now());
        delays.merge(black_box(&other));
        delays.quantile(any());
        (delays.count(), delays.sum(), delays.longest(), delays.mean());
        seen((delays.buckets().last(), delays.cumulative().last()));
        delays.clear();
    );
}

fn guarantee() {
    let Some(share) = share() else { return };
    let guarantee = Guarantee { share, latency: any().into(), fairness: any().into() };
    one_of!(guarantee;
        guarantee.b_wfi();
        guarantee.b_wfi_at_completion(any());
        guarantee.t_wfi(any());
        share.of_link(any().into());
        share.link_of(any().into());
        (share.numerator(), share.denominator());
    );
}
