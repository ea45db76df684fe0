//! Plans of tins, and configuration strings.

use core::hint::black_box;

use freeboard::shaper::Rate;
use freeboard::{
    Dscp, LinkLayer, QueueSettings, SmartQueue, Tin, TinMode, TinName, TinPlan, TinShare,
};

use super::{any, one_of, seen};

#[unsafe(no_mangle)]
static TINS: &[fn()] = &[plans, settings];

fn plans() {
    let word = *black_box(&"diffserv4");
    let Ok(name) = word.parse::<TinName>() else { return };
    let share = TinShare::new(any(), any()).or(word.parse()).unwrap_or(TinShare::ALL);
    let tin = Tin::new(name, share).with_weight(any() as u16).unwrap_or(Tin::new(name, share));
    let made = TinPlan::new(black_box(&[tin, tin][..]));
    let plan = made.unwrap_or(word.parse::<TinMode>().unwrap_or_default().plan());
    let dscp = word.parse().unwrap_or(Dscp::EF);
    let plan = plan.with(dscp, word).and_then(|plan| plan.with_default(word)).unwrap_or(plan);
    let (number, line) =
        (any() as u8, Rate::bits_per_second(any().into()).unwrap_or(Rate::UNLIMITED));
    one_of!(plan;
        plan.of_marked(any(), dscp);
        plan.of_dscp(dscp);
        (plan.threshold(number, line), plan.promised(number, line));
        plan.rate(number, line);
        plan.quantum(number, line, any());
        share.of(any().into());
        plan.shown().len();
    );
}

fn settings() {
    let Ok(settings) = QueueSettings::from_words(black_box("diffserv4")) else { return };
    let settings = settings.and(black_box(QueueSettings::NONE));
    let builder = SmartQueue::upload(Rate::UNLIMITED).settings(black_box(&settings));
    black_box(builder.rate(Rate::STOPPED));
    seen((settings.overhead(*black_box(&LinkLayer::RawIp)), settings.rate));
}
