/* One scheduler on one link, with its traffic.
 *
 * Packets come through a receiving device, and leave through a sending one. Only the calls of the
 * scheduler are timed.
 */
#ifndef WORLD_H
#define WORLD_H

#include "engine.h"
#include "traffic.h"

#include <rte_mempool.h>

/* Prints an error and ends the program. */
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns nanoseconds since the first call. */
uint64_t clock_nanos(void);

struct setup {
    const struct engine_type *type;
    const struct schedule *schedule;
    struct rte_mempool *pool;
    /* Devices; what is sent to `in` is received from it. */
    uint16_t in, out;
    /* Rate of the link in bits per second, a divisor of 8e9. */
    uint64_t rate;
    /* Number of hosts that have bulk flows. */
    unsigned bulk_hosts;
    /* Queue of each flow, or NULL; a flow of another queue than `queue` sends nothing. */
    const uint8_t *queues;
    uint8_t queue;
    /* Packets per call at most. */
    unsigned burst;
    /* False: time passes as the link sends. True: time is that of the clock. */
    bool real_time;
    /* Least time between two steps in real time, in ns, during which packets gather. */
    uint64_t pause;
};

/* Counts since the last `tally_clear`. */
struct tally {
    uint64_t sent, bytes, dropped;
    uint64_t host_bytes[HOSTS], flow_bytes[FLOWS];
    uint64_t enqueued, enqueue_cycles, dequeue_cycles;
    /* Queueing delays of sparse packets in ns. */
    uint64_t *waits;
    unsigned wait_count;
};

struct flow {
    struct flow_key key;
    bool takes_part;
    /* True if the window may have room since a departure. */
    bool departed;
    uint32_t queued, window, departures;
    uint32_t next_sequence, next_out;
    /* Time from which a bulk flow without queued packets sends again. */
    uint64_t retry_at;
};

struct world {
    struct setup setup;
    struct engine *engine;
    uint64_t now, nanos_per_byte;
    /* Clock at `now` 0, and the time of the next step, both in real time only. */
    uint64_t clock_offset, next_step;
    /* Next arrival, and the time at which the schedule began. */
    unsigned next;
    uint64_t began;
    struct flow flows[FLOWS];
    struct tally tally;
    struct drops drops;
    /* Arriving packets that are not enqueued yet. */
    unsigned waiting;
    struct rte_mbuf *arrivals[BURST];
};

struct world *world_create(const struct setup *setup);
/* Frees the world, its engine and all queued packets. */
void world_destroy(struct world *world);

/* Enqueues what has arrived, and dequeues at most one burst. Returns the packets sent. */
unsigned world_step(struct world *world);
/* Continues at `now`, as if no time had passed since the last step. */
void world_resume(struct world *world);
/* Runs until `now` is at least `until`. */
void world_run(struct world *world, uint64_t until);

void tally_clear(struct tally *tally);
/* Sorts the waits and returns the one at this percentile in ns, or 0 without waits. */
uint64_t tally_wait(struct tally *tally, unsigned percent);
/* Returns Jain's index of the bytes of hosts. */
double tally_jain(const uint64_t *host_bytes);

uint64_t world_queued(const struct world *world);
/* Ends the program unless `expected` packets of the pool are in use. */
void pool_expect(struct rte_mempool *pool, uint64_t expected, const char *when);

#endif
