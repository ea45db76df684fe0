use super::super::tin::BEGIN;
use super::*;
use conformance::Xorshift;
use std::vec::Vec;

/// The longest packet.
const L: u32 = 1_000;
/// Nanoseconds that the line takes for a byte: 8 Mbit/s.
const BYTE: u64 = 1_000;

/// Goal: what is moved back in time long before its type ends chooses as before. Method: two choices in step, of which one stands a
/// little before the time from which all is moved back; both under floods, with tins that come and go, changes of rates, and steps of up
/// to hours.
#[test]
fn time_that_is_moved_back_changes_no_choice() {
    let mut random = Xorshift::new(3);
    for history in 0..64_u64 {
        let tins = 2 + random.below(7);
        let rate = |random: &mut Xorshift| {
            TinConfig::by_weight(1).with_rate(1_000_000 + u64::from(random.below(1_000_000)))
        };
        let mut configs: Vec<_> = (0..tins).map(|_| rate(&mut random)).collect();
        let mut young = TinChoice::new(L, AsBooked).unwrap().with_floor(16);
        young.set_tins(&configs, 0).unwrap();
        let mut old = young;
        old.age_by(LATEST - BEGIN - history * (1 << 36));
        let (mut held, mut now, mut before) = (0_u32, 0_u64, old.time.tick());
        let mut has_moved = false;
        for _ in 0..2_000 {
            now += match random.below(64) {
                0 => 1 << random.below(44),
                _ => u64::from(random.below(2_000)) * BYTE,
            };
            let (tin, len) = (random.below(tins), 1 + random.below(L));
            let what = random.below(512);
            if what == 511 {
                configs[tin as usize] = rate(&mut random);
            }
            for choice in [&mut young, &mut old] {
                choice.advance(Nanos(now));
                match what {
                    511 => choice.set_tins(&configs, held).unwrap(),
                    0..128 if held >> tin & 1 == 0 => choice.backlogged(tin),
                    0..64 if held.count_ones() > 1 => choice.emptied(tin),
                    _ if held != 0 => choice.served(len, what == 510),
                    _ => {}
                }
            }
            let front = young.front();
            assert_eq!(front, old.front());
            held = young.backlogged;
            assert_eq!((young.recount(held), old.recount(held)), (Ok(()), Ok(())));
            assert_eq!(
                (young.within, young.tins.map(|tin| tin.served())),
                (old.within, old.tins.map(|tin| tin.served()))
            );
            let time = old.time.tick();
            has_moved |= time < before;
            before = time;
        }
        assert!(has_moved, "history {history} ends at {before}");
    }
}

impl TinChoice {
    /// Makes the choice as old as one that has gone on for `span`.
    fn age_by(&mut self, span: u64) {
        self.time.more += span;
        self.tins.iter_mut().for_each(|tin| tin.clock += span);
        self.clocks.iter_mut().filter(|clock| **clock != NEVER).for_each(|clock| *clock += span);
        self.next_within = LATEST.min(self.next_within + span);
        if self.borrowing_until > 0 {
            self.borrowing_until = LATEST.min(self.borrowing_until + span);
        }
    }
}
