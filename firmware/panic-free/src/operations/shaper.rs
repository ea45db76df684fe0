//! The operations of `shaper` in addition to those of a `Scheduler`, and operations on times.

use core::hint::black_box;
use core::num::NonZeroU32;

use freeboard::sched_core::{Nanos, TickClock};
use freeboard::shaper::{
    ArrivalRate, Autorate, AutorateParams, Framing, Layer, Overhead, Rate, Segments, Shaper,
};

use super::schedulers::now;
use super::{any, one_of, seen};

#[unsafe(no_mangle)]
static SHAPER: [fn(); 6] = [rate, overhead, segments, instant, autorate, arrivals];

fn rate() {
    let number = black_box(0_u64);
    seen(Rate::bits_per_second(number));
    seen(Rate::kilobits_per_second(number));
    seen(Rate::megabits_per_second(number));
    let rate = black_box(Rate::UNLIMITED);
    seen((rate.as_bits_per_second(), rate.time_of(any())));
    line(&mut Shaper::new(rate).with_catch_up(now()));
    line(&mut Shaper::new(rate).with_burst(any()));
}

fn line(line: &mut Shaper) {
    one_of!(line;
        (line.rate(), line.catch_up(), line.due());
        line.is_open(now());
        line.charge(now(), any());
        line.wake(now());
        line.set_rate(now(), black_box(Rate::UNLIMITED));
        line.reset();
    );
}

fn overhead() {
    let framing = black_box(Framing::Atm);
    seen(framing.wire_len(any()));
    seen(Overhead::new(framing, black_box(0_i32), any()));
    let link = black_box(Overhead::RAW).for_frames(black_box(0));
    seen(link.wire_len(any()));
    seen((link.framing(), link.overhead(), link.mpu(), link.header()));
    let words = Overhead::from_keywords(black_box(""), black_box(14));
    seen(words.map_err(|error| (error.word, error.offset_in(black_box("")))));
    let [inside, least, multiple, outside] = [any(), any(), any(), any()];
    seen(
        link.carrying(Layer { inside, least, multiple, outside }).map(|link| link.wire_len(any())),
    );
}

fn segments() {
    let made = Segments::of_offload(any(), any(), any()).or(Segments::new(any(), any(), any()));
    let Ok(segments) = made.or(Segments::one(any())) else { return };
    seen((segments.count(), segments.each(), segments.last(), segments.bytes()));
    seen(black_box(Overhead::RAW).wire_len_of(segments));
}

fn instant() {
    let number = black_box(0);
    seen([Nanos::from_micros(number), Nanos::from_millis(number), Nanos::from_secs(number)]);
    seen((now().since(now()), now().plus(now())));
    if let Some(hz) = NonZeroU32::new(any()) {
        seen(black_box(TickClock::new(hz)).now(any()));
    }
}

fn autorate() {
    let rate = || black_box(Rate::UNLIMITED);
    let Ok(params) = AutorateParams::new(rate(), rate(), rate()) else { return };
    seen(params.with_threshold(now()));
    let mut autorate = Autorate::new(params);
    let autorate = &mut autorate;
    one_of!(autorate;
        autorate.delay_sample(now());
        autorate.update(now(), black_box(0_u64));
        (autorate.rate(), autorate.state(), autorate.baseline(), autorate.params());
        autorate.set_params(params);
        autorate.forget_path();
    );
}

fn arrivals() {
    let mut arrivals = black_box(ArrivalRate::new());
    arrivals.arrived(now(), any());
    seen((arrivals.estimate(), arrivals.rate()));
}
