/* Freeboard's C library as the scheduler of a DPDK program, beside `rte_sched`.
 *
 * Usage: freeboard-dpdk [--quick] [--wire INTERFACE INTERFACE]
 *
 * Needs no huge pages and no network card: packets come from a ring device, and leave through a
 * null device or, with `--wire`, through the first of two connected interfaces.
 */
#include "bench.h"

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_PACKETS 32767
#define POOL_CACHE 256
#define DESCRIPTORS 512

struct setup setup_on(const struct bench *bench, const struct engine_type *type, unsigned index) {
    return (struct setup){
        .type = type,
        .schedule = &bench->schedule,
        .pool = bench->pool,
        .in = bench->in[index],
        .out = bench->out[index],
        .rate = RATE,
        .bulk_hosts = HOSTS,
        .burst = BURST,
    };
}

/* Starts the device and returns its port. */
static uint16_t start(const char *name, struct rte_mempool *pool) {
    struct rte_eth_conf conf = {0};
    uint16_t port;
    if (rte_eth_dev_get_port_by_name(name, &port) != 0)
        fatal("%s: no such device", name);
    int failed = rte_eth_dev_configure(port, 1, 1, &conf);
    failed = failed || rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool);
    failed = failed || rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL);
    failed = failed || rte_eth_dev_start(port);
    if (failed)
        fatal("%s: the device did not start", name);
    return port;
}

static void start_eal(char *program, const char *const *wire) {
    char from[64], to[64];
    char *arguments[16] = {program, "--no-huge", "-m", "256", "--no-pci", "--no-shconf",
                           "--no-telemetry", "--log-level=warning", "--vdev=net_ring0",
                           "--vdev=net_ring1", "--vdev=net_null0", "--vdev=net_null1"};
    int count = 12;
    if (wire != NULL) {
        snprintf(from, sizeof from, "--vdev=net_af_packet0,iface=%s", wire[0]);
        snprintf(to, sizeof to, "--vdev=net_af_packet1,iface=%s", wire[1]);
        arguments[count++] = from;
        arguments[count++] = to;
    }
    if (rte_eal_init(count, arguments) < 0)
        fatal("the environment of DPDK did not start");
}

int main(int count, char **arguments) {
    static struct bench bench;
    const char *wire[2] = {NULL, NULL};
    for (int at = 1; at < count; at++) {
        if (strcmp(arguments[at], "--quick") == 0) {
            bench.quick = true;
        } else if (strcmp(arguments[at], "--wire") == 0 && at + 2 < count) {
            wire[0] = arguments[++at];
            wire[1] = arguments[++at];
        } else {
            fatal("unexpected argument %s (expected [--quick] [--wire INTERFACE INTERFACE])",
                  arguments[at]);
        }
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    start_eal(arguments[0], wire[0] == NULL ? NULL : wire);
    bench.lcore_count = RTE_MIN(rte_lcore_count(), (unsigned)MOST_LCORES);
    bench.lcores[0] = rte_get_main_lcore();
    bench.lcores[1] = rte_get_next_lcore(-1, 1, 0);
    bench.pool = rte_pktmbuf_pool_create("packets", POOL_PACKETS, POOL_CACHE, 0,
                                         RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (bench.pool == NULL || !schedule_create(&bench.schedule, RATE))
        fatal("out of memory");
    for (unsigned index = 0; index < MOST_LCORES; index++) {
        char name[16];
        snprintf(name, sizeof name, "net_ring%u", index);
        bench.in[index] = start(name, bench.pool);
        snprintf(name, sizeof name, "net_null%u", index);
        bench.out[index] = start(name, bench.pool);
    }
    printf("%s, TSC at %.0f MHz, %u lcores\n", rte_version(), (double)rte_get_tsc_hz() / 1e6,
           bench.lcore_count);
    measure_cost(&bench);
    measure_shares(&bench);
    measure_cores(&bench);
    if (wire[0] != NULL)
        check_wire(&bench, start("net_af_packet0", bench.pool),
                   start("net_af_packet1", bench.pool));
    pool_expect(bench.pool, 0, "at the end");
    printf("\nAll packets of the pool are back\n");
    schedule_destroy(&bench.schedule);
    return rte_eal_cleanup() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
