/* DPDK's hierarchical scheduler with one pipe per host, all packets in the best-effort class. */
#include "engine.h"

#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_sched.h>
#include <rte_udp.h>
#include <stdbool.h>

/* Packets in each queue at most: so many that the windows of a host's three bulk flows fit into one
 * queue. A full queue drops every arrival, and sparse flows would get nothing.
 */
#define QUEUE_PACKETS 256
/* Periods of the token buckets of the subport and of pipes in ms, as in DPDK's `qos_sched`. */
#define SUBPORT_PERIOD 10
#define PIPE_PERIOD 40
/* A rate in bytes per second that no loop reaches. */
#define UNLIMITED 100000000000

struct engine {
    struct rte_sched_port *port;
    unsigned queued;
    /* Pipe by the last byte of the source address: `rte_sched` has to be told each host. */
    uint8_t pipes[256];
};

static void set_rates(uint64_t *rates, uint64_t rate) {
    for (unsigned class = 0; class < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; class++)
        rates[class] = rate;
}

/* Both rates are in bytes per second. */
static struct engine *create(uint64_t rate, uint64_t pipe_rate, bool oversubscribed) {
    struct rte_sched_pipe_params pipe = {
        .tb_rate = pipe_rate,
        .tb_size = RTE_MAX(pipe_rate * PIPE_PERIOD / 1000, LONGEST_FRAME),
        .tc_period = PIPE_PERIOD,
        .tc_ov_weight = 1,
        .wrr_weights = {1, 1, 1, 1},
    };
    set_rates(pipe.tc_rate, pipe_rate);
    struct rte_sched_subport_profile_params profile = {
        .tb_rate = rate,
        .tb_size = rate * SUBPORT_PERIOD / 1000,
        .tc_period = SUBPORT_PERIOD,
    };
    set_rates(profile.tc_rate, rate);
    struct rte_sched_port_params port = {
        .name = "port",
        .socket = (int)rte_socket_id(),
        .rate = rate,
        .mtu = LONGEST_FRAME,
        .frame_overhead = 0,
        .n_subports_per_port = 1,
        .subport_profiles = &profile,
        .n_subport_profiles = 1,
        .n_max_subport_profiles = 1,
        .n_pipes_per_subport = HOSTS,
    };
    struct rte_sched_subport_params subport = {
        .n_pipes_per_subport_enabled = HOSTS,
        .pipe_profiles = &pipe,
        .n_pipe_profiles = 1,
        .n_max_pipe_profiles = 1,
    };
    for (unsigned class = 0; class < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; class++)
        subport.qsize[class] = QUEUE_PACKETS;

    struct engine *engine = rte_zmalloc("engine", sizeof *engine, 0);
    if (engine == NULL)
        return NULL;
    for (unsigned host = 0; host < HOSTS; host++)
        engine->pipes[address_of(host) & 255] = (uint8_t)host;
    engine->port = rte_sched_port_config(&port);
    int failed = engine->port == NULL;
    failed = failed || rte_sched_subport_config(engine->port, 0, &subport, 0);
    if (oversubscribed)
        failed = failed || rte_sched_subport_tc_ov_config(engine->port, 0, true);
    for (unsigned host = 0; host < HOSTS && !failed; host++)
        failed = rte_sched_pipe_config(engine->port, 0, host, 0);
    if (failed) {
        rte_sched_port_free(engine->port);
        rte_free(engine);
        return NULL;
    }
    return engine;
}

static struct engine *create_divided(uint64_t rate) {
    return create(rate / 8, rate / 8 / HOSTS, false);
}

static struct engine *create_oversubscribed(uint64_t rate) {
    return create(rate / 8, rate / 8, true);
}

static struct engine *create_unlimited(uint64_t rate) {
    (void)rate;
    return create(UNLIMITED, UNLIMITED, false);
}

/* Writes the packet's pipe, from its source address, and its queue, from the hash of its flow. */
static inline void classify(struct engine *engine, struct rte_mbuf *packet) {
    const struct rte_ipv4_hdr *ip =
        rte_pktmbuf_mtod_offset(packet, const struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);
    const struct rte_udp_hdr *udp = (const struct rte_udp_hdr *)(ip + 1);
    uint32_t ports = (uint32_t)udp->src_port << 16 | udp->dst_port;
    uint32_t hash = rte_jhash_3words(ip->src_addr, ip->dst_addr, ports, 0);
    uint32_t pipe = engine->pipes[rte_be_to_cpu_32(ip->src_addr) & 255];
    rte_sched_port_pkt_write(engine->port, packet, 0, pipe, RTE_SCHED_TRAFFIC_CLASS_BE,
                             hash % RTE_SCHED_BE_QUEUES_PER_PIPE, RTE_COLOR_GREEN);
}

static void enqueue(struct engine *engine, uint64_t now, struct rte_mbuf **packets, unsigned count,
                    struct drops *drops) {
    (void)now;
    (void)drops;
    for (unsigned i = 0; i < count; i++)
        classify(engine, packets[i]);
    engine->queued += (unsigned)rte_sched_port_enqueue(engine->port, packets, count);
}

static unsigned dequeue(struct engine *engine, uint64_t now, struct rte_mbuf **packets,
                        unsigned count, struct drops *drops) {
    (void)now;
    (void)drops;
    unsigned sent = (unsigned)rte_sched_port_dequeue(engine->port, packets, count);
    engine->queued -= sent;
    return sent;
}

/* Empties the queues first: `rte_sched_port_free` of DPDK 22.11 takes a full queue for empty and
 * loses its packets.
 */
static void destroy(struct engine *engine) {
    struct rte_mbuf *packets[BURST];
    while (engine->queued > 0)
        rte_pktmbuf_free_bulk(packets, dequeue(engine, 0, packets, BURST, NULL));
    rte_sched_port_free(engine->port);
    rte_free(engine);
}

#define SCHED(symbol, title, creates)                                                              \
    const struct engine_type symbol = {                                                            \
        .name = title,                                                                             \
        .create = creates,                                                                         \
        .enqueue = enqueue,                                                                        \
        .dequeue = dequeue,                                                                        \
        .destroy = destroy,                                                                        \
        .frees_drops = 1,                                                                          \
    }

SCHED(sched_divided, "rte_sched, rate divided", create_divided);
SCHED(sched_oversubscribed, "rte_sched, oversubscribed", create_oversubscribed);
SCHED(sched_unlimited, "rte_sched, unlimited", create_unlimited);
