/* Schedulers under test, each behind the same four calls. */
#ifndef ENGINE_H
#define ENGINE_H

#include "traffic.h"

#include <rte_mbuf.h>
#include <stdint.h>

/* Packets per call at most. */
#define BURST 32

struct engine;

/* Dropped packets, which the caller frees. */
struct drops {
    unsigned count;
    struct rte_mbuf *packets[MOST_PACKETS];
};

struct engine_type {
    const char *name;
    /* Creates an engine for a link of `rate` bits per second. Returns NULL if that fails. */
    struct engine *(*create)(uint64_t rate);
    /* Takes over all packets. Dropped ones are in `drops` or, if `frees_drops`, freed. */
    void (*enqueue)(struct engine *engine, uint64_t now, struct rte_mbuf **packets, unsigned count,
                    struct drops *drops);
    unsigned (*dequeue)(struct engine *engine, uint64_t now, struct rte_mbuf **packets,
                        unsigned count, struct drops *drops);
    /* Returns the time of the next departure, or `UINT64_MAX`. NULL: the engine cannot tell. */
    uint64_t (*poll_at)(struct engine *engine, uint64_t now);
    /* Frees the engine and all queued packets. */
    void (*destroy)(struct engine *engine);
    /* True if the engine frees the packets that it drops without a word. */
    int frees_drops;
};

/* Freeboard's C library: hosts isolated by source address, COBALT, shaped. */
extern const struct engine_type freeboard_cobalt;
/* The same without an AQM. */
extern const struct engine_type freeboard_plain;
/* `rte_sched`: one pipe per host with an equal part of the rate. */
extern const struct engine_type sched_divided;
/* `rte_sched`: each pipe may send at the rate of the link, with oversubscription enabled. */
extern const struct engine_type sched_oversubscribed;
/* `rte_sched` with rates that no loop reaches: what its calls cost at least. Its clock is the
 * processor's, so that it cannot be shaped in virtual time.
 */
extern const struct engine_type sched_unlimited;

#endif
