//! Speed of the simulator on one core: `cargo bench --bench simulator`.
//!
//! - *open loop*: packets through flow hash, `SmartQueue` and shaper of `TcpNetwork`, from 100
//!   sources of constant rate at 90 % of 1 Gbit/s; packets per second of time
//! - *100 TCP flows*: data and acknowledgements of 100 CUBIC uploads at 1 Gbit/s; departures per
//!   second of time
//! - *RRUL*: flent's test for 60 s on 20/100 Mbit/s, 5 s before it and a queue's length after it;
//!   the time of a run

use core::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::scenario::{Queues, Sweep, run};

const OPEN_LOOP: &str = r#"
duration = "1s"
warm-up = "0s"
queue = "smart"
[link]
up = "1gbit"
round-trip = "10ms"
[cbr.many]
direction = "up"
count = 100
rate = "9mbit"
size = 1200
"#;

const TCP: &str = r#"
duration = "2s"
warm-up = "1s"
queue = "smart"
[link]
up = "1gbit"
round-trip = "20ms"
[bulk.many]
direction = "up"
count = 100
"#;

const RRUL: &str = r#"
duration = "60s"
warm-up = "5s"
queue = "smart"
[link]
up = "20mbit"
down = "100mbit"
round-trip = "40ms"
[rrul.test]
"#;

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulator");
    group.sample_size(10);
    for (name, file) in [("open loop", OPEN_LOOP), ("100 TCP flows", TCP), ("RRUL", RRUL)] {
        let sweep = Sweep::read(file, Path::new(""), Queues::new()).expect("a valid file");
        let run = || run::run(&sweep.all()[0].scenario, sweep.queues(), 1);
        group.throughput(Throughput::Elements(run().packets));
        group.bench_function(name, |bencher| bencher.iter(|| black_box(run())));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
