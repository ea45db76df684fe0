/*
 * freeboard: a queue for one direction of a link, with fair shares for hosts and flows, active
 * queue management and a shaper, in one block of your memory.
 *
 *     static uint8_t block[FB_BYTES(64, 16, 1, 256)];
 *     fb_config config = {0};
 *     config.size = sizeof config;
 *     config.queues = 64, config.hosts = 16, config.packets = 256;
 *     config.settings = "bandwidth 20mbit pppoe-ptm";
 *     random_bytes(config.key, sizeof config.key);
 *     config.drop = my_drop;
 *     fb_queue *queue;
 *     fb_error error;
 *     if (fb_init(block, sizeof block, &config, &queue, &error) != FB_OK) puts(error.text);
 *
 * A cookie goes in with a packet and comes out once: from fb_dequeue, or to `drop`. A call that
 * returns an error (a negative number) has changed no setting, and its packet stays yours; with
 * FB_E_FULL, other packets may have gone to `drop`. Times are in nanoseconds of one monotonic clock.
 * A queue has no lock: one thread at a time may call it. `drop` and `read` run inside calls; if they
 * call the queue, they get FB_E_BUSY. They must return: no exception of C++, no longjmp.
 */


#ifndef FREEBOARD_H
#define FREEBOARD_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a block: a constant, at least fb_bytes(). */
#define FB_BYTES(queues, hosts, tins, packets) \
    FB_BYTES_WITH_ROUNDS(queues, hosts, tins, packets, 0)
/* Bytes of a block with `rounds`. */
#define FB_BYTES_WITH_ROUNDS(queues, hosts, tins, packets, rounds)                              \
    (FB_BYTES_FIXED + (size_t)(queues) * FB_BYTES_PER_QUEUE +                                   \
     (size_t)(hosts) * (FB_BYTES_PER_HOST + FB_BYTES_PER_HOST_IN_TIN * FB_TINS(tins)) +         \
     FB_TINS(tins) * FB_BYTES_PER_TIN + (size_t)(packets) * FB_BYTES_PER_PACKET +               \
     (size_t)(rounds) * FB_BYTES_PER_ROUND)
/* The number of tins that have tables. */
#define FB_TINS(tins) ((size_t)((tins) <= 1 ? 1 : (tins) <= 2 ? 2 : (tins) <= 4 ? 4 : 8))

// Number of the binary interface; equal to that of `fb_abi()` if header and library fit.
#define FB_ABI 1

// Success.
#define FB_OK 0

// A pointer is NULL, or the packet has neither `bytes` nor `labels`.
#define FB_E_NULL -1

// The call comes from a `drop` or `read` function of this queue.
#define FB_E_BUSY -2

// The field `size` of a struct is not that of the library's version.
#define FB_E_SIZE -3

// The block of memory is too short.
#define FB_E_MEMORY -4

// A number, or a combination of settings, is out of range.
#define FB_E_RANGE -5

// A keyword of the settings is wrong.
#define FB_E_KEYWORD -6

// The packet has no bytes, or more than `max_len`.
#define FB_E_LENGTH -7

// The packet does not fit into the limits, even after drops of others.
#define FB_E_FULL -8

// The AQM has dropped the packet on arrival: its sender should slow down.
#define FB_E_AQM -9

// The settings need a `read` function.
#define FB_E_READ -10

// Reason of a drop: the queue was full, and this was a packet of a host with about the longest
// backlog.
#define FB_DROP_OVERFLOW 0

// Reason of a drop: the AQM.
#define FB_DROP_AQM 1

// Reason of a drop: a limit was set below the backlog.
#define FB_DROP_LIMIT 2

// Reason of a drop: `fb_drain`.
#define FB_DROP_DRAINED 4

// Reason of a drop: an acknowledgement that a later one made redundant.
#define FB_DROP_FILTERED 6

// Number of reasons; others are not used.
#define FB_DROPS 7

// Direction of a queue: the hosts that share the link are the sources of packets.
#define FB_UPLOAD 0

// Direction of a queue: the hosts that share the link are the destinations of packets.
#define FB_DOWNLOAD 1

// Layer of a queue: packets begin with an Ethernet header.
#define FB_ETHERNET 0

// Layer of a queue: packets begin with an IP header.
#define FB_IP 1

// Rate of `fb_set_rate` without a limit.
#define FB_UNLIMITED UINT64_MAX

// Capacity of `fb_set_device` if the device takes every packet.
#define FB_READY UINT32_MAX

// Length of the text of an `fb_error`.
#define FB_TEXT 160

// Bytes of a block, whatever its numbers: see `FB_BYTES`.
#define FB_BYTES_FIXED 2784

// Bytes of a block for each queue.
#define FB_BYTES_PER_QUEUE 84

// Bytes of a block for each host, beside those in each tin.
#define FB_BYTES_PER_HOST 128

// Bytes of a block for each host in each tin.
#define FB_BYTES_PER_HOST_IN_TIN 52

// Bytes of a block for each tin.
#define FB_BYTES_PER_TIN 416

// Bytes of a block for each packet.
#define FB_BYTES_PER_PACKET 32

// Bytes of a block for each round.
#define FB_BYTES_PER_ROUND 9

// A queue, in the block of memory passed to `fb_init`.
typedef struct fb_queue fb_queue;

// Flow, hosts and tin of a packet, for packets that are not IP or that you have identified
// yourself. All bits of a number matter: spread small numbers with `fb_mix`.
typedef struct fb_labels {
    // The flow.
    uint32_t flow;
    // The source host.
    uint32_t source;
    // The destination host.
    uint32_t destination;
    // The tin (traffic class), below the number of tins; the first one if it is not.
    uint8_t tin;
    // The ECN bits of the packet, 0 to 3: 0 if it cannot be marked.
    uint8_t ecn;
} fb_labels;

// A packet that arrives.
typedef struct fb_packet {
    // Yours; comes out once, from `fb_dequeue` or to `drop`.
    void *cookie;
    // The packet, or its headers; read during the call only. NULL with `labels`.
    const uint8_t *bytes;
    // Number of bytes at `bytes`.
    size_t bytes_len;
    // Length of the whole packet in bytes.
    uint32_t len;
    // Mark of a firewall that selects the tin (keyword `fwmark`), or 0.
    uint32_t mark;
    // Flow, hosts and tin; NULL to read them from `bytes`.
    const struct fb_labels *labels;
} fb_packet;

// Configuration of a queue. Set all of it to 0 first, then `size` and what you need.
typedef struct fb_config {
    // `sizeof(fb_config)`.
    uint32_t size;
    // Number of queues, which is that of flows without collisions: a power of two, 8 or more.
    // Queues and hosts together: at most 65,535.
    uint32_t queues;
    // Number of hosts: a power of two, 8 or more.
    uint32_t hosts;
    // Number of packets that can be queued, 1 or more.
    uint32_t packets;
    // Length of the longest packet in bytes, up to 1,048,576; 0 for 1,522 (Ethernet) or 1,500
    // (IP).
    uint32_t max_len;
    // Number of tins that can be set, 1 to 8; 0 for 1.
    uint32_t tins;
    // Rounds of the calendar of `triple-isolate`, 2 for each tin to 4,096; 0 without this mode.
    uint32_t rounds;
    // `FB_UPLOAD` or `FB_DOWNLOAD`.
    uint8_t direction;
    // `FB_ETHERNET` or `FB_IP`.
    uint8_t layer;
    // 16 random bytes, drawn at each start and kept secret: who knows them can force collisions
    // with other flows.
    uint8_t key[16];
    // Keywords of tc for CAKE, as `bandwidth 20mbit diffserv4 pppoe-ptm`; NULL for an unlimited
    // rate and defaults. `nat`, `wash`, `autorate-ingress` and `split-gso` have no effect: they
    // need the bytes, or a clock.
    const char *settings;
    // Passed to `drop` and `read`.
    void *user;
    // Takes back the cookie of a packet that is dropped after it was enqueued. It may not call
    // this queue, and must return: no exception of C++, no `longjmp`.
    void (*drop)(void *user, void *cookie, uint32_t reason);
    // Fills in `bytes`, `bytes_len`, `mark` and `labels` of the packet with this cookie, which is
    // queued or has just been passed to `fb_enqueue`, as at its arrival
    // (`labels` with the tin under the new settings). NULL without the ACK filter, `fb_rekey`,
    // and changes of isolation and tins while packets are queued. It may not call this queue, and
    // must return.
    void (*read)(void *user, void *cookie, struct fb_packet *packet);
} fb_config;

// An error with text.
typedef struct fb_error {
    // `FB_OK`, or the error.
    int32_t code;
    // With `FB_E_KEYWORD`: the offset of the wrong word in the settings, in bytes.
    uint32_t offset;
    // The value and what was expected; empty with `FB_OK`.
    char text[FB_TEXT];
} fb_error;

// A packet that leaves.
typedef struct fb_departure {
    // The cookie that it came with.
    void *cookie;
    // Its length in bytes.
    uint32_t len;
    // 1 if the AQM has marked it: call `fb_mark_ce` before you send it.
    uint32_t mark_ce;
} fb_departure;

// A number of packets and bytes.
typedef struct fb_volume {
    // Packets.
    uint64_t packets;
    // Bytes, by `len`.
    uint64_t bytes;
} fb_volume;

// Statistics since `fb_init`. Set `size` first.
typedef struct fb_stats {
    // `sizeof(fb_stats)`.
    uint32_t size;
    // The number of packets that can be queued.
    uint32_t capacity;
    // Source hosts with queued packets; 0 if sources are not isolated.
    uint32_t sources;
    // Destination hosts with queued packets; 0 if destinations are not isolated.
    uint32_t destinations;
    // The rate in bits per second; `FB_UNLIMITED` without a limit.
    uint64_t rate;
    // Queued now.
    struct fb_volume queued;
    // The largest backlogs; packets and bytes at times of their own.
    struct fb_volume peak;
    // Enqueued.
    struct fb_volume accepted;
    // Not enqueued: `fb_enqueue` returned an error.
    struct fb_volume rejected;
    // Dequeued.
    struct fb_volume delivered;
    // Dropped, by reason.
    struct fb_volume dropped[FB_DROPS];
    // Packets with a congestion mark of the AQM.
    uint64_t marked;
} fb_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns `FB_ABI` of the library; another number than that of the header means that they do not
// fit.
uint32_t fb_abi(void);

// Returns a text for a code, such as "the packet does not fit into the limits".
const char *fb_error_text(int32_t code);

// Returns a text for the reason of a drop, such as "overflow".
const char *fb_drop_text(uint32_t reason);

// Spreads a small number, such as that of a port, for `fb_labels`.
uint32_t fb_mix(uint32_t number);

// Returns how many bytes a block of this configuration takes, at any address; 0 if `config` is
// NULL or of another version.
size_t fb_bytes(const struct fb_config *config);

// Builds a queue in `block`, at any address, and writes a pointer to it to `queue`. The block is
// the queue's until you stop using it; before that, `fb_drain` hands back all packets. `error` may
// be NULL.
int32_t fb_init(void *block,
                size_t len,
                const struct fb_config *config,
                struct fb_queue **queue,
                struct fb_error *error);

// Enqueues a packet at `now`, in nanoseconds of one monotonic clock. With `FB_OK` its cookie is
// the queue's. Packets that are dropped for it go to `drop`; with a full queue, that can be this
// one.
int32_t fb_enqueue(struct fb_queue *queue, uint64_t now, const struct fb_packet *packet);

// Enqueues `count` packets in order, up to the first one that fails, and writes to `taken` how
// many were enqueued. Returns `FB_OK`, or the code of the packet at `taken`. That one and those
// after it stay yours.
int32_t fb_enqueue_burst(struct fb_queue *queue,
                         uint64_t now,
                         const struct fb_packet *packets,
                         size_t count,
                         size_t *taken);

// Takes the next packet that may leave at `now`. Returns 1 if there is one, or 0.
int32_t fb_dequeue(struct fb_queue *queue, uint64_t now, struct fb_departure *departure);

// Takes up to `count` packets that may leave at `now`. Returns their number.
int32_t fb_dequeue_burst(struct fb_queue *queue,
                         uint64_t now,
                         struct fb_departure *departures,
                         uint32_t count);

// Writes to `at` when to call `fb_dequeue` next, and returns 1. Returns 0 if nothing can leave
// before the next call of another function: nothing is queued, or the link is stopped or the
// device is full.
int32_t fb_poll_at(const struct fb_queue *queue, uint64_t now, uint64_t *at);

// Changes the settings that `words` names, while packets stay queued. `error` may be NULL.
int32_t fb_set(struct fb_queue *queue, uint64_t now, const char *words, struct fb_error *error);

// Sets the rate in bits per second, from `now` on: 0 stops the link.
int32_t fb_set_rate(struct fb_queue *queue, uint64_t now, uint64_t rate);

// Sets how many bytes the device behind the queue takes from now on: 0 for none, `FB_READY` for
// any. After less than `FB_READY`, call it again when the device has sent something.
int32_t fb_set_device(struct fb_queue *queue, uint32_t bytes);

// Sets the most packets and bytes that are queued; those above are dropped.
int32_t fb_set_limits(struct fb_queue *queue, uint32_t packets, uint32_t bytes);

// Changes the key of 16 random bytes. Needs `read` while packets are queued.
int32_t fb_rekey(struct fb_queue *queue, const uint8_t *key);

// Drops a packet of a host with about the longest backlog, if your buffers run out before the
// queue is full. Returns 1, or 0 if nothing is queued.
int32_t fb_evict(struct fb_queue *queue);

// Hands all packets back to `drop`. Call it before you reuse the block.
int32_t fb_drain(struct fb_queue *queue);

// Writes the statistics.
int32_t fb_get_stats(const struct fb_queue *queue, struct fb_stats *stats);

// Sets congestion experienced in the IP header of a packet that leaves with `mark_ce`. `layer` is
// that of the queue. Returns 1, or 0 if the packet has no header that can be marked.
int32_t fb_mark_ce(uint8_t layer, uint8_t *bytes, size_t len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FREEBOARD_H */
