#include "bench.h"

#include <stdio.h>

static const struct engine_type *const ENGINES[] = {&sched_divided, &sched_oversubscribed,
                                                    &freeboard_cobalt};

/* Returns the least bytes of a bulk flow relative to the most of one of the same host. */
static double least_of_most(const struct tally *tally, unsigned bulk_hosts) {
    double worst = 1;
    for (unsigned host = 0; host < bulk_hosts; host++) {
        uint64_t least = UINT64_MAX, most = 0;
        for (unsigned flow = host; flow < BULK_FLOWS; flow += bulk_hosts) {
            least = RTE_MIN(least, tally->flow_bytes[flow]);
            most = RTE_MAX(most, tally->flow_bytes[flow]);
        }
        worst = RTE_MIN(worst, most > 0 ? (double)least / (double)most : 0);
    }
    return worst;
}

static void measure(const struct bench *bench, const struct engine_type *type,
                    unsigned bulk_hosts) {
    struct setup setup = setup_on(bench, type, 0);
    setup.real_time = true;
    setup.bulk_hosts = bulk_hosts;
    uint64_t warm_up = bench->quick ? 50000000 : 1000000000;
    struct world *world = world_create(&setup);
    world_run(world, world->now + warm_up);
    struct tally *tally = &world->tally;
    tally_clear(tally);
    uint64_t begin = world->now;
    world_run(world, begin + 3 * warm_up);
    double nanos = (double)(world->now - begin);
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned host = 0; host < bulk_hosts; host++) {
        least = RTE_MIN(least, tally->host_bytes[host]);
        most = RTE_MAX(most, tally->host_bytes[host]);
    }
    double fair = (double)tally->bytes / bulk_hosts;
    double link = (double)RATE / 8e9 * nanos;
    printf("%5u %-28s %8.1f%% %8.3f %8.3f %8.3f %10.0f %10.0f %7.2f%%\n", bulk_hosts, type->name,
           100 * (double)tally->bytes / link, (double)least / fair, (double)most / fair,
           least_of_most(tally, bulk_hosts), (double)tally_wait(tally, 50) / 1e3,
           (double)tally_wait(tally, 99) / 1e3,
           100.0 * (double)tally->dropped / (double)(tally->dropped + tally->sent));
    pool_expect(bench->pool, world_queued(world), type->name);
    world_destroy(world);
    pool_expect(bench->pool, 0, type->name);
}

void measure_shares(const struct bench *bench) {
    printf("\nReal time, link of %" PRIu64 " Mbit/s; shares of hosts relative to an equal one\n",
           RATE / 1000000);
    printf("%5s %-28s %9s %8s %8s %8s %10s %10s %8s\n", "hosts", "", "link use", "least", "most",
           "flows", "wait50 us", "wait99 us", "dropped");
    for (unsigned bulk_hosts = HOSTS; bulk_hosts >= HOSTS / 2; bulk_hosts /= 2)
        for (unsigned at = 0; at < RTE_DIM(ENGINES); at++)
            measure(bench, ENGINES[at], bulk_hosts);
}
