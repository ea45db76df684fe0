/* The measurements, each of which prints one table. */
#ifndef BENCH_H
#define BENCH_H

#include "world.h"

#define RATE UINT64_C(1000000000)
#define MOST_LCORES 2

struct bench {
    struct rte_mempool *pool;
    struct schedule schedule;
    /* Ring and null device of each lcore. */
    uint16_t in[MOST_LCORES], out[MOST_LCORES];
    /* Lcores in use; the first is the main one. */
    unsigned lcores[MOST_LCORES], lcore_count;
    /* Short runs, to check function only. */
    bool quick;
};

/* Returns the setup of MIX at `RATE` on the devices of the lcore with this index. */
struct setup setup_on(const struct bench *bench, const struct engine_type *type, unsigned index);

/* Cycles of enqueue and dequeue, engines alternating. */
void measure_cost(const struct bench *bench);
/* Shares of hosts and delays in real time. */
void measure_shares(const struct bench *bench);
/* One queue per core: shares of hosts by how flows are spread, and cost with two cores. */
void measure_cores(const struct bench *bench);
/* Frames through the kernel between two `net_af_packet` devices. */
void check_wire(const struct bench *bench, uint16_t from, uint16_t to);

#endif
