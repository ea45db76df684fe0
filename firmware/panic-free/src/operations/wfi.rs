//! The meters and what they are compared with.

use core::hint::black_box;

use freeboard::sched_core::{
    Arrival, DelayHistogram, Descriptor, DropReason, Fifo, FlowId, Guarantee, Metered, Packet,
    PairMeter, Scheduler, Share, WfiFlow, WfiMeter,
};

use super::schedulers::{limits, now, scheduler, sink};
use super::{any, one_of, seen, sizes};

#[unsafe(no_mangle)]
static METERS: &[fn()] = sizes![meter metered];
#[unsafe(no_mangle)]
static GUARANTEES: &[fn()] = &[guarantee, pair, delays];

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

fn pair() {
    let (Some(a), Some(b)) = (share(), share()) else { return };
    let pair = &mut PairMeter::new((FlowId(any()), a), (FlowId(any()), b));
    one_of!(pair;
        pair.backlogged(FlowId(any()));
        pair.dequeued(FlowId(any()), any());
        pair.emptied(FlowId(any()));
        pair.measured();
    );
}

fn meter<const N: usize>() {
    exercise(&mut WfiMeter::new([WfiFlow::EMPTY; N]));
}

fn exercise<const N: usize>(meter: &mut WfiMeter<[WfiFlow; N]>) {
    let Some(share) = share() else { return };
    let flow = FlowId(any());
    let guarantee = Guarantee { share, latency: any().into(), fairness: any().into() };
    one_of!(meter;
        meter.add(flow, share);
        meter.remove(flow);
        meter.arrived(flow, any());
        meter.dequeued(black_box(Arrival::EMPTY), any());
        meter.lost(flow, any());
        meter.transmitted(any());
        meter.report(flow).map(|report| (report.against(&guarantee), report.fairness_at_most(&report)));
        meter.report(flow).map(|report| report.against(&guarantee).map(|compared| compared.per_mille()));
    );
}

fn metered<const N: usize>() {
    let fifo = Fifo::tail_drop([Descriptor::EMPTY; N], limits());
    let meter = WfiMeter::new([WfiFlow::EMPTY; N]);
    let mut metered = Metered::new(fifo, meter, [Arrival::EMPTY; N]);
    scheduler(&mut metered);
    exercise(black_box(metered.meter_mut()));
    seen(black_box(&mut metered).change(sink!(), |inner, drops| {
        inner.drain(drops);
        inner.backlog()
    }));
}
