/*
 * A poll-mode loop: bursts of 32 packets in and out, each packet on the heap.
 *
 * Every packet comes back once: sent, dropped, or refused. What is lost is found by valgrind and the
 * address sanitizer as a leak, and what comes back twice as a double free.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <freeboard.h>

#define BURST 32
#define ROUNDS 2000

static unsigned dropped_packets;

static void dropped(void *user, void *cookie, uint32_t reason)
{
    (void)user;
    (void)reason;
    dropped_packets++;
    free(cookie);
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* A small generator of random numbers. */
static uint32_t below(uint32_t bound)
{
    static uint32_t state = 1;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state % bound;
}

/* Fills in a packet of a random flow: IPv4 and UDP. Some are longer than the queue takes. */
static void receive(fb_packet *packet)
{
    uint8_t *bytes = calloc(1, 64);
    if (bytes == NULL)
        fail("calloc", "out of memory");
    bytes[0] = 0x45, bytes[1] = 2, bytes[3] = 60, bytes[9] = 17; /* ECT(0) */
    bytes[12] = 10, bytes[15] = (uint8_t)below(4);
    bytes[16] = 192, bytes[21] = (uint8_t)below(8);
    packet->cookie = bytes;
    packet->bytes = bytes, packet->bytes_len = 64;
    packet->len = below(100) == 0 ? 2000 : 64 + below(1400);
    packet->mark = 0, packet->labels = NULL;
}

int main(void)
{
    fb_config config = {0};
    config.size = sizeof config;
    config.queues = 64, config.hosts = 16, config.packets = 128;
    config.layer = FB_IP;
    config.settings = "bandwidth 100mbit rtt 5ms diffserv3";
    config.tins = 3;
    config.drop = dropped;
    /* Exactly as long as it has to be. */
    size_t len = fb_bytes(&config);
    void *block = malloc(len);
    fb_queue *queue;
    fb_error error;
    if (block == NULL || len > FB_BYTES(64, 16, 3, 128))
        fail("block", "too long");
    if (fb_init(block, len, &config, &queue, &error) != FB_OK)
        fail("fb_init", error.text);

    uint64_t now = 0;
    unsigned received = 0, refused = 0, sent = 0, marked = 0;
    for (int round = 0; round < ROUNDS; round++) {
        fb_packet packets[BURST];
        size_t count = below(BURST + 1), done = 0;
        for (size_t i = 0; i < count; i++)
            receive(&packets[i]);
        received += (unsigned)count;
        while (done < count) {
            size_t taken;
            int32_t code = fb_enqueue_burst(queue, now, packets + done, count - done, &taken);
            done += taken;
            if (code != FB_OK) { /* this one stays ours; the others follow */
                free(packets[done++].cookie);
                refused++;
            }
        }
        fb_departure departures[BURST];
        int32_t found = fb_dequeue_burst(queue, now, departures, BURST);
        if (found < 0)
            fail("fb_dequeue_burst", fb_error_text(found));
        for (int32_t i = 0; i < found; i++) {
            uint8_t *bytes = departures[i].cookie;
            if (departures[i].mark_ce)
                marked += (unsigned)fb_mark_ce(FB_IP, bytes, 64);
            free(bytes);
        }
        sent += (unsigned)found;
        /* A rate that changes, as that of a radio does. */
        if (round % 100 == 0 && fb_set_rate(queue, now, 50000000 + below(100000000)) != FB_OK)
            fail("fb_set_rate", "refused");
        now += UINT64_C(1000000);
    }

    fb_stats stats = {0};
    stats.size = sizeof stats;
    if (fb_get_stats(queue, &stats) != FB_OK || stats.delivered.packets != sent ||
        stats.rejected.packets != refused || stats.marked != marked)
        fail("fb_get_stats", "not what was counted here");
    fb_drain(queue);
    if (received != refused + sent + dropped_packets || sent < received / 2 || refused == 0)
        fail("packets", "lost or refused");
    printf("%u received, %u refused, %u sent, %u marked, %u dropped\n", received, refused, sent,
           marked, dropped_packets);
    free(block);
    return 0;
}
