//! Time per enqueue and dequeue, including the harness: `cargo bench --bench per_packet`.
//!
//! The line `null` is the empty harness. Compare ratios within one run.

mod workload;

use core::time::Duration;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use workload::{NAMES, Pattern, subject};

/// From one flow to more than the caches hold.
const FLOWS: [usize; 5] = [1, 32, 1_024, 4_096, 65_536];

fn per_packet(criterion: &mut Criterion) {
    for pattern in [Pattern::Full, Pattern::Small] {
        let mut group = criterion.benchmark_group(pattern.name());
        group.throughput(Throughput::Elements(1));
        for flows in FLOWS {
            for name in NAMES {
                let mut subject = subject(name, pattern, flows).expect("a name from the list");
                subject.run(4 * flows.max(10_000));
                group.bench_function(BenchmarkId::new(name, flows), |bencher| {
                    bencher.iter_custom(|pairs| {
                        let start = Instant::now();
                        let done = subject.run(pairs as usize);
                        // Only whole bursts or rounds are run; scale the time to the requested
                        // number.
                        let nanos = start.elapsed().as_nanos() * u128::from(pairs) / done as u128;
                        Duration::from_nanos(nanos as u64)
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = per_packet
}
criterion_main!(benches);
