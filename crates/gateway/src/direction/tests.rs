use super::*;
use crate::config::Share;
use crate::words::{Hosts, Limit};
use freeboard::shaper::Rate;

/// Goal: a frame that finds the pool empty is counted, and its buffer is there for the next one.
/// Method: a pool of fewer frames than the queue may hold, which no configuration makes.
#[test]
fn frames_without_a_place_in_the_pool_are_counted() {
    let mut pool = Pool::new(3, 1_500);
    let plan = Plan {
        share: Share { order: Order::Fifo, hosts: Hosts::Lan, limit: Limit::Packets(10) },
        way: Way::Up,
        slots: 10,
        max_len: pool.longest() as u32,
        rate: Rate::UNLIMITED,
        catch_up: Nanos::ZERO,
    };
    let mut direction = Direction::new(plan, Overhead::RAW, ByHost::new(), [0; 16], None).unwrap();
    let mut spare = pool.spare();
    let mut arrive = |len: usize, arrival, direction: &mut Direction| {
        spare.received(len);
        direction.arrive(Nanos(0), arrival, &mut spare, &mut pool);
        assert_eq!(direction.unaccounted(), 0);
        (direction.outside(), direction.held())
    };
    for held in 1..=3 {
        assert_eq!(arrive(100, Arrival::Whole, &mut direction).1, held);
    }
    for no_room in 1..=4 {
        let (outside, held) = arrive(100, Arrival::Whole, &mut direction);
        assert_eq!((outside.received, outside.no_room, held), (3 + no_room, no_room, 3));
    }
    let (outside, held) = arrive(13, Arrival::Whole, &mut direction);
    assert_eq!((outside.too_short, outside.no_room, held), (1, 4, 3));
    arrive(100, Arrival::TooLong, &mut direction);
    let (outside, held) = arrive(100, Arrival::Merged, &mut direction);
    assert_eq!((outside.too_long, outside.merged, outside.no_room, held), (1, 1, 4, 3));
}
