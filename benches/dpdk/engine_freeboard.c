/* The smart queue of freeboard's C library. A packet's cookie is its mbuf. */
#include "engine.h"

#include <freeboard.h>
#include <rte_malloc.h>
#include <stdio.h>
#include <string.h>

/* Twice the hosts and four times the flows of MIX: few flows share a queue. */
#define QUEUES 1024
#define TABLE_HOSTS 16

struct engine {
    fb_queue *queue;
    /* Where dropped packets go; NULL to free them. */
    struct drops *drops;
    void *block;
};

static void dropped(void *user, void *cookie, uint32_t reason) {
    struct drops *drops = ((struct engine *)user)->drops;
    (void)reason;
    if (drops == NULL)
        rte_pktmbuf_free(cookie);
    else
        drops->packets[drops->count++] = cookie;
}

static struct engine *create(uint64_t rate, const char *aqm) {
    struct engine *engine = rte_zmalloc("engine", sizeof *engine, RTE_CACHE_LINE_SIZE);
    if (engine == NULL)
        return NULL;
    char settings[64];
    snprintf(settings, sizeof settings, "bandwidth %" PRIu64 "bit dual-srchost %s", rate,
             aqm);
    fb_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.queues = QUEUES;
    config.hosts = TABLE_HOSTS;
    config.packets = MOST_PACKETS;
    config.direction = FB_UPLOAD;
    config.layer = FB_ETHERNET;
    config.settings = settings;
    config.user = engine;
    config.drop = dropped;
    /* Fixed, so that runs can be compared. A program on a network draws it at each start. */
    memset(config.key, 42, sizeof config.key);
    fb_error error;
    size_t bytes = fb_bytes(&config);
    engine->block = rte_malloc("queue", bytes, RTE_CACHE_LINE_SIZE);
    if (engine->block == NULL ||
        fb_init(engine->block, bytes, &config, &engine->queue, &error) != FB_OK) {
        fprintf(stderr, "fb_init: %s\n", engine->block == NULL ? "no memory" : error.text);
        rte_free(engine->block);
        rte_free(engine);
        return NULL;
    }
    return engine;
}

static struct engine *create_cobalt(uint64_t rate) {
    return create(rate, "cobalt");
}

static struct engine *create_plain(uint64_t rate) {
    return create(rate, "no-aqm");
}

static void enqueue(struct engine *engine, uint64_t now, struct rte_mbuf **packets, unsigned count,
                    struct drops *drops) {
    fb_packet arrivals[BURST];
    memset(arrivals, 0, count * sizeof *arrivals);
    for (unsigned i = 0; i < count; i++) {
        arrivals[i].cookie = packets[i];
        arrivals[i].bytes = rte_pktmbuf_mtod(packets[i], const uint8_t *);
        arrivals[i].bytes_len = rte_pktmbuf_data_len(packets[i]);
        arrivals[i].len = rte_pktmbuf_pkt_len(packets[i]);
    }
    engine->drops = drops;
    /* A packet that is not taken stays ours; those after it are still to be enqueued. */
    for (size_t done = 0, taken; done < count; done += taken) {
        if (fb_enqueue_burst(engine->queue, now, arrivals + done, count - done, &taken) == FB_OK)
            break;
        drops->packets[drops->count++] = packets[done + taken++];
    }
}

static unsigned dequeue(struct engine *engine, uint64_t now, struct rte_mbuf **packets,
                        unsigned count, struct drops *drops) {
    fb_departure departures[BURST];
    engine->drops = drops;
    int sent = fb_dequeue_burst(engine->queue, now, departures, count);
    for (int i = 0; i < sent; i++) {
        packets[i] = departures[i].cookie;
        if (departures[i].mark_ce)
            fb_mark_ce(FB_ETHERNET, rte_pktmbuf_mtod(packets[i], uint8_t *),
                       rte_pktmbuf_data_len(packets[i]));
    }
    return sent < 0 ? 0 : (unsigned)sent;
}

static uint64_t poll_at(struct engine *engine, uint64_t now) {
    uint64_t at;
    return fb_poll_at(engine->queue, now, &at) == 1 ? at : UINT64_MAX;
}

static void destroy(struct engine *engine) {
    engine->drops = NULL;
    fb_drain(engine->queue);
    rte_free(engine->block);
    rte_free(engine);
}

#define FREEBOARD(symbol, title, creates)                                                          \
    const struct engine_type symbol = {                                                            \
        .name = title,                                                                             \
        .create = creates,                                                                         \
        .enqueue = enqueue,                                                                        \
        .dequeue = dequeue,                                                                        \
        .poll_at = poll_at,                                                                        \
        .destroy = destroy,                                                                        \
    }

FREEBOARD(freeboard_cobalt, "freeboard, COBALT", create_cobalt);
FREEBOARD(freeboard_plain, "freeboard, no AQM", create_plain);
