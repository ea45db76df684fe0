/*
 * A driver's transmit queue: freeboard in place of a FIFO.
 *
 * For four seconds, a heavy host offers 8 Mbit/s and a light host 20 kbit/s to a card that sends
 * 1 Mbit/s. Both have to share 64 buffers. With the FIFO, the light host waits behind the heavy one
 * and loses packets; with freeboard, it does neither.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <freeboard.h>

#define BUFFERS 64
#define LONGEST 1514
#define MS UINT64_C(1000000)
#define SECONDS 4

/* A buffer of the driver, with a packet or free. */
typedef struct buffer {
    struct buffer *next; /* the next free buffer */
    uint64_t received;   /* when it was received */
    uint32_t len;
    int is_light; /* of the light host */
    uint8_t bytes[LONGEST];
} buffer;

/* The driver: its buffers, and either kind of queue. */
typedef struct driver {
    buffer buffers[BUFFERS];
    buffer *free;
    fb_queue *queue; /* or NULL for the FIFO */
    buffer *fifo[BUFFERS];
    unsigned head, waiting;
    uint64_t idle_at; /* when the card has sent what it was given */
    unsigned offered[2], sent[2], lost[2];
    uint64_t longest_wait; /* of the light host */
} driver;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void give_back(driver *d, buffer *b)
{
    b->next = d->free;
    d->free = b;
}

/* freeboard dropped a packet that it had taken. */
static void dropped(void *user, void *cookie, uint32_t reason)
{
    driver *d = user;
    buffer *b = cookie;
    (void)reason; /* fb_drop_text(reason) names it */
    d->lost[b->is_light]++;
    give_back(d, b);
}

/* A packet was received: `len` bytes of UDP from one of the two hosts. */
static void received(driver *d, uint64_t now, int is_light, uint32_t len)
{
    static const uint8_t headers[42] = {
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0,                       /* Ethernet */
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 0, 192, 0, 2, 1, /* IPv4 */
        0x13, 0x88, 0x01, 0xbb, 0, 0, 0, 0};                            /* UDP */
    buffer *b;
    d->offered[is_light]++;
    if (d->free == NULL && d->queue != NULL)
        fb_evict(d->queue); /* one of the host with the longest backlog */
    b = d->free;
    if (b == NULL) {
        d->lost[is_light]++;
        return;
    }
    d->free = b->next;
    memcpy(b->bytes, headers, sizeof headers);
    b->bytes[6 + 5] = b->bytes[29] = (uint8_t)(1 + is_light);
    b->len = len, b->received = now, b->is_light = is_light;
    if (d->queue == NULL) {
        d->fifo[(d->head + d->waiting++) % BUFFERS] = b;
        return;
    }
    fb_packet packet = {0};
    packet.cookie = b;
    packet.bytes = b->bytes, packet.bytes_len = sizeof headers;
    packet.len = len;
    if (fb_enqueue(d->queue, now, &packet) != FB_OK) {
        d->lost[is_light]++; /* the buffer is still ours */
        give_back(d, b);
    }
}

/* Returns the next packet to send, or NULL. */
static buffer *next(driver *d, uint64_t now)
{
    if (d->queue == NULL) {
        if (d->waiting == 0)
            return NULL;
        d->waiting--;
        return d->fifo[d->head++ % BUFFERS];
    }
    fb_departure departure;
    int32_t found = fb_dequeue(d->queue, now, &departure);
    if (found < 0)
        fail("fb_dequeue", fb_error_text(found));
    if (found == 0)
        return NULL;
    buffer *b = departure.cookie;
    if (departure.mark_ce)
        fb_mark_ce(FB_ETHERNET, b->bytes, b->len);
    return b;
}

/* The card is idle: gives it a packet, which it sends at 1 Mbit/s. */
static void transmit(driver *d, uint64_t now)
{
    buffer *b = next(d, now);
    if (b == NULL)
        return;
    d->sent[b->is_light]++;
    if (b->is_light && now - b->received > d->longest_wait)
        d->longest_wait = now - b->received;
    d->idle_at = now + b->len * 8 * UINT64_C(1000);
    give_back(d, b);
}

static void run(driver *d)
{
    for (unsigned i = 0; i < BUFFERS; i++)
        give_back(d, &d->buffers[i]);
    for (uint64_t now = 0; now < SECONDS * 1000 * MS; now += MS / 2) {
        if (now % MS == 0)
            received(d, now, 0, 1000); /* 8 Mbit/s */
        if (now % (40 * MS) == 0)
            received(d, now, 1, 100); /* 20 kbit/s */
        if (now >= d->idle_at)
            transmit(d, now);
    }
}

static void report(const char *name, const driver *d)
{
    printf("%s: heavy %u of %u, light %u of %u, light waits at most %u ms\n", name, d->sent[0],
           d->offered[0], d->sent[1], d->offered[1], (unsigned)(d->longest_wait / MS));
}

int main(void)
{
    static driver with_fifo, with_freeboard;
    static uint8_t block[FB_BYTES(32, 8, 1, BUFFERS)];

    if (fb_abi() != FB_ABI)
        fail("library", "not that of the header");
    fb_config config = {0};
    config.size = sizeof config;
    config.queues = 32, config.hosts = 8, config.packets = BUFFERS;
    config.max_len = LONGEST;
    /* Just below the card's rate, so that packets wait here. */
    config.settings = "bandwidth 950kbit rtt 50ms";
    memcpy(config.key, "from the hardware", sizeof config.key);
    config.user = &with_freeboard, config.drop = dropped;
    fb_error error;
    if (fb_init(block, sizeof block, &config, &with_freeboard.queue, &error) != FB_OK)
        fail("fb_init", error.text);

    run(&with_fifo);
    report("FIFO", &with_fifo);
    run(&with_freeboard);
    report("freeboard", &with_freeboard);

    /* Every buffer comes back. */
    fb_drain(with_freeboard.queue);
    unsigned free = 0;
    for (buffer *b = with_freeboard.free; b != NULL; b = b->next)
        free++;
    if (free != BUFFERS)
        fail("buffers", "not all came back");
    if (with_freeboard.lost[1] != 0 || with_freeboard.longest_wait > 30 * MS)
        fail("light host", "it lost packets or waited long");
    if (with_fifo.sent[1] > 50)
        fail("FIFO", "it lost little of the light host");
    return 0;
}
