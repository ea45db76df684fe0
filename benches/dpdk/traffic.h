/* The workload MIX of the Rust benches: 20 bulk and 200 sparse flows of 8 hosts.
 *
 * A bulk flow keeps a window of packets queued, which grows by one in 64 departures and shrinks by
 * one for each drop. Sparse flows send 15 % of all packets, in bursts of 1 to 3; their shares
 * follow Zipf's law with exponent 0.8.
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#define BULK_FLOWS 20
#define SPARSE_FLOWS 200
#define FLOWS (BULK_FLOWS + SPARSE_FLOWS)
#define HOSTS 8
/* Number of queued packets at which a flow stops sending. */
#define MOST_QUEUED 64
/* Packets of all flows that can be queued. */
#define MOST_PACKETS (FLOWS * MOST_QUEUED)
/* Frames without check sequence. */
#define LONGEST_FRAME 1514
/* Network of the hosts, 192.168.1.0/24. */
#define NETWORK UINT32_C(0xc0a80100)

/* Addresses and ports of a flow in host byte order. */
struct flow_key {
    uint32_t source, destination;
    uint16_t source_port, destination_port;
};

struct arrival {
    /* Nanoseconds since the schedule began. */
    uint64_t at;
    uint32_t flow, length;
};

/* Arrivals of sparse flows; after `period` they repeat. */
struct schedule {
    struct arrival *arrivals;
    unsigned count;
    uint64_t period;
};

/* What a frame carries after its headers. */
struct label {
    uint64_t arrived;
    uint32_t flow, sequence;
};

/* Returns a random number; `state` is not 0. */
uint64_t random_next(uint64_t *state);

/* Returns the host of a flow. Bulk flows belong to the first `bulk_hosts` hosts. */
unsigned host_of(unsigned flow, unsigned bulk_hosts);
uint32_t address_of(unsigned host);
struct flow_key key_of(unsigned flow, unsigned bulk_hosts);

/* Draws the arrivals for a link of `rate` bits per second. Returns false without memory. */
bool schedule_create(struct schedule *schedule, uint64_t rate);
void schedule_destroy(struct schedule *schedule);

/* Writes headers and label into an empty packet. */
void frame_write(struct rte_mbuf *packet, struct flow_key key, uint32_t length,
                 const struct label *label);
struct label frame_label(const struct rte_mbuf *packet);
/* Returns true if the packet has the headers of this flow and a correct checksum. */
bool frame_is_of(const struct rte_mbuf *packet, struct flow_key key);

#endif
