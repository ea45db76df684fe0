#include "bench.h"

#include <rte_ethdev.h>
#include <stdio.h>

#define WIRE_RATE UINT64_C(20000000)
/* Time to wait for the last frames. */
#define PATIENCE UINT64_C(5000000000)

struct received {
    uint64_t frames, bytes;
    uint32_t next[FLOWS];
    uint64_t host_bytes[HOSTS];
};

/* Receives what has arrived. Frames of the kernel itself have other addresses and are ignored. */
static void receive(uint16_t port, struct received *received) {
    struct rte_mbuf *packets[BURST];
    unsigned count = rte_eth_rx_burst(port, 0, packets, BURST);
    for (unsigned i = 0; i < count; i++) {
        struct rte_mbuf *packet = packets[i];
        struct label label = {.flow = FLOWS};
        if (rte_pktmbuf_data_len(packet) >= 80)
            label = frame_label(packet);
        if (label.flow < FLOWS && frame_is_of(packet, key_of(label.flow, HOSTS))) {
            if (label.sequence < received->next[label.flow])
                fatal("frame %u of flow %u came late (expected %u or later)", label.sequence,
                      label.flow, received->next[label.flow]);
            received->next[label.flow] = label.sequence + 1;
            received->frames++;
            received->bytes += packet->pkt_len;
            received->host_bytes[host_of(label.flow, HOSTS)] += packet->pkt_len;
        }
        rte_pktmbuf_free(packet);
    }
}

void check_wire(const struct bench *bench, uint16_t from, uint16_t to) {
    static struct received received;
    struct setup setup = setup_on(bench, &freeboard_cobalt, 0);
    setup.out = from;
    setup.rate = WIRE_RATE;
    setup.real_time = true;
    struct world *world = world_create(&setup);
    uint64_t begin = world->now, duration = bench->quick ? 500000000 : 4000000000;
    while (world->now < begin + duration) {
        world_step(world);
        receive(to, &received);
    }
    const struct tally *tally = &world->tally;
    uint64_t end = world->now;
    while (received.frames < tally->sent && clock_nanos() < end + PATIENCE)
        receive(to, &received);
    uint64_t most = (end - begin) * (WIRE_RATE / 8000) / 1000000 + 2 * LONGEST_FRAME;
    printf("\nBetween two af_packet devices: %" PRIu64 " frames sent, %" PRIu64 " received, "
           "%.2f Mbit/s of %.2f, Jain's index of hosts %.4f\n",
           tally->sent, received.frames, (double)received.bytes * 8e3 / (double)(end - begin),
           (double)WIRE_RATE / 1e6, tally_jain(received.host_bytes));
    if (received.frames != tally->sent || received.frames == 0)
        fatal("%" PRIu64 " frames received (expected %" PRIu64 ")", received.frames, tally->sent);
    if (tally->bytes > most)
        fatal("%" PRIu64 " bytes sent (expected at most %" PRIu64 ")", tally->bytes, most);
    world_destroy(world);
}
