#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_ROUNDS 21

static const struct engine_type *const ENGINES[] = {&sched_divided, &sched_oversubscribed,
                                                    &freeboard_plain, &freeboard_cobalt};
#define ENGINE_COUNT RTE_DIM(ENGINES)

struct cost {
    double enqueue[MOST_ROUNDS], dequeue[MOST_ROUNDS], both[MOST_ROUNDS], ratio[MOST_ROUNDS];
};

static int by_value(const void *left, const void *right) {
    double one = *(const double *)left, other = *(const double *)right;
    return one < other ? -1 : one > other;
}

static double median(double *values, unsigned count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* Sends `packets` and stores the cycles per packet. */
static void measure(struct world *world, unsigned packets, struct cost *cost, unsigned round) {
    tally_clear(&world->tally);
    world_resume(world);
    while (world->tally.sent < packets)
        world_step(world);
    const struct tally *tally = &world->tally;
    cost->enqueue[round] = (double)tally->enqueue_cycles / (double)tally->enqueued;
    cost->dequeue[round] = (double)tally->dequeue_cycles / (double)tally->sent;
    cost->both[round] = cost->enqueue[round] + cost->dequeue[round];
}

void measure_cost(const struct bench *bench) {
    static struct cost costs[ENGINE_COUNT];
    unsigned rounds = bench->quick ? 3 : MOST_ROUNDS;
    unsigned packets = bench->quick ? 1000 : 10000;
    struct world *worlds[ENGINE_COUNT];
    for (unsigned at = 0; at < ENGINE_COUNT; at++) {
        struct setup setup = setup_on(bench, ENGINES[at], 0);
        setup.real_time = true;
        /* Bursts that are seldom full: so the rate limits, and not the loop. */
        setup.pause = 3 * BURST / 4 * LONGEST_FRAME * UINT64_C(8000000000) / RATE;
        worlds[at] = world_create(&setup);
        measure(worlds[at], 10 * packets, &costs[at], 0);
    }
    uint64_t dropped[ENGINE_COUNT] = {0};
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned at = 0; at < ENGINE_COUNT; at++) {
            measure(worlds[at], packets, &costs[at], round);
            costs[at].ratio[round] = costs[at].both[round] / costs[0].both[round];
            dropped[at] += worlds[at]->tally.dropped;
        }

    printf("\nTSC cycles per packet in bursts of %u, median of %u rounds of %u packets\n", BURST,
           rounds, packets);
    printf("%-28s %8s %8s %8s %8s %8s %8s\n", "", "enqueue", "dequeue", "both", "ratio", "queued",
           "dropped");
    uint64_t queued = 0;
    for (unsigned at = 0; at < ENGINE_COUNT; at++) {
        struct cost *cost = &costs[at];
        printf("%-28s %8.0f %8.0f %8.0f %8.2f %8" PRIu64 " %7.2f%%\n", ENGINES[at]->name,
               median(cost->enqueue, rounds), median(cost->dequeue, rounds),
               median(cost->both, rounds), median(cost->ratio, rounds), world_queued(worlds[at]),
               100.0 * (double)dropped[at] / ((double)rounds * packets + (double)dropped[at]));
        queued += world_queued(worlds[at]);
    }
    pool_expect(bench->pool, queued, "cost");
    for (unsigned at = 0; at < ENGINE_COUNT; at++)
        world_destroy(worlds[at]);
    pool_expect(bench->pool, 0, "after cost");
}
