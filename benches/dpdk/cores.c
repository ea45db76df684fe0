#include "bench.h"

#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_thash.h>
#include <stdio.h>
#include <string.h>

#define RSS_KEY_BYTES 40

enum spread { BY_FLOW, BY_HOST };

/* Assigns flows to queues as a network card does: with Toeplitz's hash and a random key. */
static void spread_flows(uint8_t *queues, unsigned count, enum spread spread, uint64_t *random) {
    uint8_t key[RSS_KEY_BYTES];
    for (unsigned at = 0; at < sizeof key; at += sizeof(uint64_t)) {
        uint64_t word = random_next(random);
        memcpy(key + at, &word, sizeof word);
    }
    for (unsigned flow = 0; flow < FLOWS; flow++) {
        struct flow_key tuple = key_of(flow, HOSTS);
        uint32_t words[] = {tuple.source, tuple.destination,
                            (uint32_t)tuple.source_port << 16 | tuple.destination_port};
        uint32_t hash = rte_softrss(words, spread == BY_HOST ? 1 : RTE_DIM(words), key);
        queues[flow] = (uint8_t)(hash % count);
    }
}

/* Lowest, highest and mean of one figure over all keys. */
struct range {
    double least, most, sum;
};

static void range_add(struct range *range, double value, bool first) {
    range->least = first ? value : RTE_MIN(range->least, value);
    range->most = first ? value : RTE_MAX(range->most, value);
    range->sum += value;
}

/* Runs all queues in virtual time, one after another, and adds the bytes of each host. */
static void run_queues(const struct bench *bench, const uint8_t *queues, unsigned count,
                       uint64_t *host_bytes) {
    uint64_t warm_up = bench->quick ? 50000000 : 250000000;
    for (unsigned queue = 0; queue < count; queue++) {
        struct setup setup = setup_on(bench, &freeboard_cobalt, 0);
        setup.rate = RATE / count;
        setup.queues = queues;
        setup.queue = (uint8_t)queue;
        setup.burst = 1;
        struct world *world = world_create(&setup);
        world_run(world, warm_up);
        tally_clear(&world->tally);
        world_run(world, 3 * warm_up);
        for (unsigned host = 0; host < HOSTS; host++)
            host_bytes[host] += world->tally.host_bytes[host];
        world_destroy(world);
    }
}

static void measure_fairness(const struct bench *bench, unsigned count, enum spread spread) {
    unsigned keys = count == 1 ? 1 : bench->quick ? 2 : 32;
    double link = (double)RATE / 8e9 * (bench->quick ? 1e8 : 5e8);
    struct range least = {0}, most = {0}, jain = {0}, use = {0};
    uint64_t random = 0x2545f4914f6cdd1d;
    for (unsigned key = 0; key < keys; key++) {
        uint8_t queues[FLOWS];
        uint64_t host_bytes[HOSTS] = {0}, low = UINT64_MAX, high = 0, total = 0;
        spread_flows(queues, count, spread, &random);
        run_queues(bench, queues, count, host_bytes);
        for (unsigned host = 0; host < HOSTS; host++) {
            low = RTE_MIN(low, host_bytes[host]);
            high = RTE_MAX(high, host_bytes[host]);
            total += host_bytes[host];
        }
        range_add(&least, (double)low * HOSTS / link, key == 0);
        range_add(&most, (double)high * HOSTS / link, key == 0);
        range_add(&jain, tally_jain(host_bytes), key == 0);
        range_add(&use, (double)total / link, key == 0);
    }
    printf("%6u %-6s %5u %8.2f %8.2f %8.2f %8.2f %8.3f %8.3f %8.2f %8.2f\n", count,
           count == 1 ? "" : spread == BY_HOST ? "host" : "flow", keys, least.sum / keys,
           least.least, most.sum / keys, most.most, jain.sum / keys, jain.least, use.sum / keys,
           use.least);
    if (count == 1 && least.least < 0.95)
        fatal("one queue: a host got %.2f of an equal share (expected 0.95 or more)", least.least);
}

/* What one lcore does: sends its part of the traffic in virtual time. */
struct part {
    const struct bench *bench;
    const struct engine_type *type;
    const uint8_t *queues;
    unsigned index, count;
    uint64_t host_bytes[HOSTS];
    /* Per packet, in the round with the fewest. */
    double cycles;
};

static int run_part(void *argument) {
    struct part *part = argument;
    struct setup setup = setup_on(part->bench, part->type, part->index);
    setup.rate = RATE / part->count;
    setup.queues = part->count > 1 ? part->queues : NULL;
    setup.queue = (uint8_t)part->index;
    unsigned rounds = part->bench->quick ? 3 : 21;
    unsigned packets = part->bench->quick ? 2000 : 50000;
    struct world *world = world_create(&setup);
    memset(part->host_bytes, 0, sizeof part->host_bytes);
    for (unsigned round = 0; round < rounds; round++) {
        struct tally *tally = &world->tally;
        tally_clear(tally);
        while (tally->sent < packets)
            world_step(world);
        double cycles = (double)tally->enqueue_cycles / (double)tally->enqueued +
                        (double)tally->dequeue_cycles / (double)tally->sent;
        part->cycles = round == 0 ? cycles : RTE_MIN(part->cycles, cycles);
        for (unsigned host = 0; host < HOSTS; host++)
            part->host_bytes[host] += tally->host_bytes[host];
    }
    world_destroy(world);
    return 0;
}

/* Compares two lcores at once with one, which runs both parts one after the other. */
static void measure_cycles(const struct bench *bench, const struct engine_type *type) {
    uint8_t queues[FLOWS];
    uint64_t random = 0x2545f4914f6cdd1d;
    spread_flows(queues, MOST_LCORES, BY_FLOW, &random);
    struct part whole = {.bench = bench, .type = type, .count = 1};
    struct part alone[MOST_LCORES], both[MOST_LCORES];
    run_part(&whole);
    for (unsigned at = 0; at < MOST_LCORES; at++) {
        alone[at] = (struct part){bench, type, queues, at, MOST_LCORES, {0}, 0};
        both[at] = alone[at];
        run_part(&alone[at]);
    }
    rte_eal_remote_launch(run_part, &both[1], bench->lcores[1]);
    run_part(&both[0]);
    rte_eal_wait_lcore(bench->lcores[1]);
    double in_turn = (alone[0].cycles + alone[1].cycles) / 2;
    double at_once = (both[0].cycles + both[1].cycles) / 2;
    printf("%-28s %10.0f %10.0f %10.0f %10.2f %10.3f\n", type->name, whole.cycles, in_turn, at_once,
           MOST_LCORES * whole.cycles / at_once, tally_jain(whole.host_bytes));
    /* Time is virtual: so the same packets leave, on whichever core a queue is. */
    for (unsigned at = 0; at < MOST_LCORES && type == &freeboard_cobalt; at++)
        if (memcmp(alone[at].host_bytes, both[at].host_bytes, sizeof both[at].host_bytes) != 0)
            fatal("queue %u sent other bytes on its own core (expected the same)", at);
}

void measure_cores(const struct bench *bench) {
    printf("\nOne queue of freeboard per core, with an equal part of the rate, in virtual time.\n"
           "Shares of hosts relative to an equal one; mean and worst of random RSS keys\n"
           "%21s %15s %17s %17s %17s\n%6s %-6s %5s",
           "", "least share", "largest share", "Jain's index", "link use", "queues", "hash",
           "keys");
    for (unsigned figure = 0; figure < 4; figure++)
        printf(" %8s %8s", "mean", "worst");
    printf("\n");
    measure_fairness(bench, 1, BY_FLOW);
    for (unsigned count = 2; count <= 4; count *= 2) {
        measure_fairness(bench, count, BY_FLOW);
        measure_fairness(bench, count, BY_HOST);
    }
    if (bench->lcore_count < MOST_LCORES) {
        printf("\nTwo cores: not measured, as there is one\n");
        return;
    }
    printf("\nTSC cycles per packet without pauses, least of all rounds: one queue; two on one\n"
           "core in turn; two on two cores at once\n");
    printf("%-28s %10s %10s %10s %10s %10s\n", "", "one", "in turn", "at once", "speed-up",
           "Jain, one");
    measure_cycles(bench, &sched_unlimited);
    measure_cycles(bench, &freeboard_cobalt);
    pool_expect(bench->pool, 0, "after cores");
}
