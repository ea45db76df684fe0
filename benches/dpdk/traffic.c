#include "traffic.h"

#include <math.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <stdlib.h>
#include <string.h>

/* Lowest destination address: 203.0.113.1. */
#define FIRST_SERVER UINT32_C(0xcb007101)
#define SPARSE_PART 0.15
#define SHORTEST_SPARSE 80.0
#define LONGEST_SPARSE 1200.0
#define BURST_PACKETS 3
/* Packets between two of a burst, in packet times of the link. */
#define SPACING 8.0
#define ARRIVALS (1 << 15)

#define LABEL_OFFSET (sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + \
                      sizeof(struct rte_udp_hdr))

uint64_t random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Returns a number from 0 to less than 1. */
static double uniform(uint64_t *state) {
    return (double)(random_next(state) >> 11) / (double)(UINT64_C(1) << 53);
}

unsigned host_of(unsigned flow, unsigned bulk_hosts) {
    return flow % (flow < BULK_FLOWS ? bulk_hosts : HOSTS);
}

uint32_t address_of(unsigned host) {
    /* Leases of a DHCP server: no pattern that a linear hash would spread evenly or not at all. */
    static const uint8_t last_bytes[HOSTS] = {23, 58, 101, 104, 147, 166, 202, 241};
    return NETWORK + last_bytes[host];
}

struct flow_key key_of(unsigned flow, unsigned bulk_hosts) {
    return (struct flow_key){
        .source = address_of(host_of(flow, bulk_hosts)),
        .destination = FIRST_SERVER + flow % 250,
        .source_port = (uint16_t)(49152 + flow * 37),
        .destination_port = 443,
    };
}

static int by_time(const void *left, const void *right) {
    const struct arrival *one = left, *other = right;
    if (one->at != other->at)
        return one->at < other->at ? -1 : 1;
    return one->flow < other->flow ? -1 : one->flow > other->flow;
}

bool schedule_create(struct schedule *schedule, uint64_t rate) {
    double ratio = LONGEST_SPARSE / SHORTEST_SPARSE;
    double sparse_length = SHORTEST_SPARSE * (ratio - 1) / log(ratio);
    double length = SPARSE_PART * sparse_length + (1 - SPARSE_PART) * LONGEST_FRAME;
    double packet_time = length * 8e9 / (double)rate;
    double shares[SPARSE_FLOWS], total = 0;
    for (unsigned rank = 0; rank < SPARSE_FLOWS; rank++)
        shares[rank] = total += pow(rank + 1, -0.8);

    schedule->arrivals = calloc(ARRIVALS, sizeof *schedule->arrivals);
    if (schedule->arrivals == NULL)
        return false;
    uint64_t random = 0x9e3779b97f4a7c15;
    double at = 0, gap = packet_time / SPARSE_PART * (1 + BURST_PACKETS) / 2;
    for (schedule->count = 0; schedule->count + BURST_PACKETS <= ARRIVALS;) {
        at -= log(1 - uniform(&random)) * gap;
        double wanted = uniform(&random) * total;
        unsigned rank = 0;
        while (rank < SPARSE_FLOWS - 1 && shares[rank] <= wanted)
            rank++;
        uint32_t bytes = (uint32_t)(SHORTEST_SPARSE * pow(ratio, uniform(&random)));
        unsigned packets = 1 + (unsigned)(uniform(&random) * BURST_PACKETS);
        for (unsigned packet = 0; packet < packets; packet++)
            schedule->arrivals[schedule->count++] = (struct arrival){
                .at = (uint64_t)(at + packet * SPACING * packet_time),
                .flow = BULK_FLOWS + rank,
                .length = bytes,
            };
    }
    qsort(schedule->arrivals, schedule->count, sizeof *schedule->arrivals, by_time);
    schedule->period = schedule->arrivals[schedule->count - 1].at + 1;
    return true;
}

void schedule_destroy(struct schedule *schedule) {
    free(schedule->arrivals);
}

void frame_write(struct rte_mbuf *packet, struct flow_key key, uint32_t length,
                 const struct label *label) {
    uint8_t *frame = rte_pktmbuf_mtod(packet, uint8_t *);
    struct rte_ether_hdr ether = {
        .dst_addr.addr_bytes = {2, 0, 0, 0, 0, 1},
        .src_addr.addr_bytes = {2, 0, 0, 0, 0, 2},
        .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4),
    };
    uint16_t ip_length = (uint16_t)(length - sizeof ether);
    struct rte_ipv4_hdr ip = {
        .version_ihl = RTE_IPV4_VHL_DEF,
        .total_length = rte_cpu_to_be_16(ip_length),
        .time_to_live = 64,
        .next_proto_id = IPPROTO_UDP,
        .src_addr = rte_cpu_to_be_32(key.source),
        .dst_addr = rte_cpu_to_be_32(key.destination),
    };
    ip.hdr_checksum = rte_ipv4_cksum(&ip);
    struct rte_udp_hdr udp = {
        .src_port = rte_cpu_to_be_16(key.source_port),
        .dst_port = rte_cpu_to_be_16(key.destination_port),
        .dgram_len = rte_cpu_to_be_16((uint16_t)(ip_length - sizeof ip)),
    };
    memcpy(frame, &ether, sizeof ether);
    memcpy(frame + sizeof ether, &ip, sizeof ip);
    memcpy(frame + sizeof ether + sizeof ip, &udp, sizeof udp);
    memcpy(frame + LABEL_OFFSET, label, sizeof *label);
    packet->data_len = (uint16_t)length;
    packet->pkt_len = length;
}

struct label frame_label(const struct rte_mbuf *packet) {
    struct label label;
    memcpy(&label, rte_pktmbuf_mtod(packet, const uint8_t *) + LABEL_OFFSET, sizeof label);
    return label;
}

bool frame_is_of(const struct rte_mbuf *packet, struct flow_key key) {
    const uint8_t *frame = rte_pktmbuf_mtod(packet, const uint8_t *);
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
    memcpy(&ip, frame + sizeof(struct rte_ether_hdr), sizeof ip);
    memcpy(&udp, frame + sizeof(struct rte_ether_hdr) + sizeof ip, sizeof udp);
    uint16_t checksum = ip.hdr_checksum;
    ip.hdr_checksum = 0;
    return checksum == rte_ipv4_cksum(&ip) && ip.src_addr == rte_cpu_to_be_32(key.source) &&
           ip.dst_addr == rte_cpu_to_be_32(key.destination) &&
           udp.src_port == rte_cpu_to_be_16(key.source_port) &&
           udp.dst_port == rte_cpu_to_be_16(key.destination_port);
}
