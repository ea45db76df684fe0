#include "world.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Initial, minimum and growth of a window, as in the Rust benches. */
#define FIRST_WINDOW 4
#define LEAST_WINDOW 2
#define GROWTH 64
/* Pause of a bulk flow that has lost all its packets, in ns. */
#define RETRY UINT64_C(10000000)
#define MOST_WAITS (1 << 18)

void fatal(const char *format, ...) {
    va_list words;
    va_start(words, format);
    fputs("freeboard-dpdk: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    exit(EXIT_FAILURE);
}

uint64_t clock_nanos(void) {
    static uint64_t began;
    if (began == 0)
        began = rte_rdtsc();
    return (uint64_t)((double)(rte_rdtsc() - began) * 1e9 / (double)rte_get_tsc_hz());
}

static void lose(struct world *world, struct rte_mbuf *packet) {
    struct flow *flow = &world->flows[frame_label(packet).flow];
    flow->queued--;
    flow->window = RTE_MAX(flow->window - 1, (uint32_t)LEAST_WINDOW);
    flow->retry_at = world->now + RETRY;
    world->tally.dropped++;
    rte_pktmbuf_free(packet);
}

static void lose_drops(struct world *world) {
    for (unsigned i = 0; i < world->drops.count; i++)
        lose(world, world->drops.packets[i]);
    world->drops.count = 0;
}

/* Passes the waiting arrivals through the receiving device to the scheduler. */
static void enqueue(struct world *world) {
    unsigned count = world->waiting;
    struct rte_mbuf **packets = world->arrivals;
    uint16_t in = world->setup.in;
    if (count == 0)
        return;
    if (rte_eth_tx_burst(in, 0, packets, (uint16_t)count) != count ||
        rte_eth_rx_burst(in, 0, packets, (uint16_t)count) != count)
        fatal("device %u: lost packets (expected %u)", in, count);
    world->waiting = 0;

    const struct engine_type *type = world->setup.type;
    /* A second reference tells afterwards which packets the scheduler has freed. */
    if (type->frees_drops)
        for (unsigned i = 0; i < count; i++)
            rte_mbuf_refcnt_update(packets[i], 1);
    uint64_t begin = rte_rdtsc();
    type->enqueue(world->engine, world->now, packets, count, &world->drops);
    world->tally.enqueue_cycles += rte_rdtsc() - begin;
    world->tally.enqueued += count;
    if (type->frees_drops)
        for (unsigned i = 0; i < count; i++) {
            if (rte_mbuf_refcnt_read(packets[i]) == 1)
                lose(world, packets[i]);
            else
                rte_mbuf_refcnt_update(packets[i], -1);
        }
    lose_drops(world);
}

static void arrive(struct world *world, unsigned at, uint32_t length) {
    struct flow *flow = &world->flows[at];
    struct label label = {world->now, at, flow->next_sequence++};
    struct rte_mbuf *packet = rte_pktmbuf_alloc(world->setup.pool);
    if (packet == NULL)
        fatal("the pool is empty");
    frame_write(packet, flow->key, length, &label);
    flow->queued++;
    world->arrivals[world->waiting++] = packet;
    if (world->waiting == world->setup.burst)
        enqueue(world);
}

static void arrive_all(struct world *world) {
    for (unsigned at = 0; at < BULK_FLOWS; at++) {
        struct flow *flow = &world->flows[at];
        bool retries = flow->queued == 0 && flow->retry_at <= world->now;
        if (!flow->takes_part || !(flow->departed || retries))
            continue;
        flow->departed = false;
        /* Counted before, so that a drop on arrival does not make the flow send once more. */
        for (uint32_t left = flow->window - RTE_MIN(flow->queued, flow->window); left > 0; left--)
            arrive(world, at, LONGEST_FRAME);
    }
    const struct schedule *schedule = world->setup.schedule;
    for (;;) {
        const struct arrival *next = &schedule->arrivals[world->next];
        if (world->began + next->at > world->now)
            break;
        struct flow *flow = &world->flows[next->flow];
        if (flow->takes_part && flow->queued < MOST_QUEUED)
            arrive(world, next->flow, next->length);
        if (++world->next == schedule->count) {
            world->next = 0;
            world->began += schedule->period;
        }
    }
    enqueue(world);
}

static void depart(struct world *world, struct rte_mbuf *packet) {
    struct label label = frame_label(packet);
    struct flow *flow = &world->flows[label.flow];
    struct tally *tally = &world->tally;
    if (label.sequence < flow->next_out)
        fatal("%s: packet %u of flow %u left late (expected %u or later)", world->setup.type->name,
              label.sequence, label.flow, flow->next_out);
    flow->next_out = label.sequence + 1;
    flow->queued--;
    tally->sent++;
    tally->bytes += packet->pkt_len;
    tally->flow_bytes[label.flow] += packet->pkt_len;
    tally->host_bytes[host_of(label.flow, world->setup.bulk_hosts)] += packet->pkt_len;
    if (label.flow >= BULK_FLOWS) {
        if (tally->wait_count < MOST_WAITS)
            tally->waits[tally->wait_count++] = world->now - label.arrived;
        return;
    }
    flow->departed = true;
    if (++flow->departures == GROWTH) {
        flow->departures = 0;
        flow->window = RTE_MIN(flow->window + 1, (uint32_t)MOST_QUEUED);
    }
}

/* Returns the time of the next event if nothing could be sent at `now`. */
static uint64_t next_event(struct world *world) {
    const struct engine_type *type = world->setup.type;
    uint64_t next = world->began + world->setup.schedule->arrivals[world->next].at;
    if (type->poll_at != NULL)
        next = RTE_MIN(next, type->poll_at(world->engine, world->now));
    return RTE_MAX(next, world->now + 1);
}

unsigned world_step(struct world *world) {
    if (world->setup.real_time) {
        do
            world->now = clock_nanos() - world->clock_offset;
        while (world->now < world->next_step);
        world->next_step = world->now + world->setup.pause;
    }
    arrive_all(world);
    const struct engine_type *type = world->setup.type;
    struct rte_mbuf *packets[BURST];
    uint64_t begin = rte_rdtsc();
    unsigned count = type->dequeue(world->engine, world->now, packets, world->setup.burst,
                                   &world->drops);
    world->tally.dequeue_cycles += rte_rdtsc() - begin;
    uint64_t bytes = world->tally.bytes;
    for (unsigned i = 0; i < count; i++)
        depart(world, packets[i]);
    bytes = world->tally.bytes - bytes;
    for (unsigned sent = 0; sent < count;)
        sent += rte_eth_tx_burst(world->setup.out, 0, packets + sent, (uint16_t)(count - sent));
    lose_drops(world);
    if (!world->setup.real_time)
        world->now = count > 0 ? world->now + bytes * world->nanos_per_byte : next_event(world);
    return count;
}

void world_resume(struct world *world) {
    world->clock_offset = clock_nanos() - world->now;
}

void world_run(struct world *world, uint64_t until) {
    while (world->now < until)
        world_step(world);
}

struct world *world_create(const struct setup *setup) {
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL || (world->tally.waits = calloc(MOST_WAITS, sizeof(uint64_t))) == NULL)
        fatal("out of memory");
    world->setup = *setup;
    world->engine = setup->type->create(setup->rate);
    if (world->engine == NULL)
        fatal("%s: could not be created", setup->type->name);
    world->nanos_per_byte = UINT64_C(8000000000) / setup->rate;
    world_resume(world);
    for (unsigned at = 0; at < FLOWS; at++) {
        world->flows[at].key = key_of(at, setup->bulk_hosts);
        world->flows[at].takes_part = setup->queues == NULL || setup->queues[at] == setup->queue;
        world->flows[at].window = FIRST_WINDOW;
    }
    /* From here on, the link is one burst late, so that the shaper always releases a whole one. */
    if (!setup->real_time && setup->burst > 1) {
        world_step(world);
        world->now += setup->burst * LONGEST_FRAME * world->nanos_per_byte;
    }
    return world;
}

void world_destroy(struct world *world) {
    world->setup.type->destroy(world->engine);
    free(world->tally.waits);
    free(world);
}

void tally_clear(struct tally *tally) {
    *tally = (struct tally){.waits = tally->waits};
}

static int by_size(const void *left, const void *right) {
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return one < other ? -1 : one > other;
}

uint64_t tally_wait(struct tally *tally, unsigned percent) {
    if (tally->wait_count == 0)
        return 0;
    qsort(tally->waits, tally->wait_count, sizeof *tally->waits, by_size);
    return tally->waits[(uint64_t)tally->wait_count * percent / 100];
}

double tally_jain(const uint64_t *host_bytes) {
    double sum = 0, squares = 0;
    for (unsigned host = 0; host < HOSTS; host++) {
        sum += (double)host_bytes[host];
        squares += (double)host_bytes[host] * (double)host_bytes[host];
    }
    return squares > 0 ? sum * sum / (HOSTS * squares) : 0;
}

uint64_t world_queued(const struct world *world) {
    uint64_t queued = 0;
    for (unsigned at = 0; at < FLOWS; at++)
        queued += world->flows[at].queued;
    return queued;
}

void pool_expect(struct rte_mempool *pool, uint64_t expected, const char *when) {
    unsigned used = rte_mempool_in_use_count(pool);
    if (used != expected)
        fatal("%s: %u packets are in use (expected %" PRIu64 ")", when, used, expected);
}
