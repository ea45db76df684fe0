// A mesh router with 256 message buffers, one of whose children has died: 130 messages for it are
// queued when messages for 20 others arrive. With freeboard, the others lose nothing, and those of
// the dead child make place. Messages are known by their child, not by IP headers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include <freeboard.h>

namespace {

constexpr unsigned buffers = 256;
constexpr unsigned children = 20;
constexpr unsigned dead = 0;

struct message {
    unsigned child;
    std::vector<std::uint8_t> bytes;
};

void require(bool is_true, const char *what)
{
    if (!is_true) {
        std::fprintf(stderr, "%s\n", what);
        std::exit(1);
    }
}

// A queue of messages. They are the queue's while they are in it.
class message_queue {
public:
    message_queue() : block(FB_BYTES(64, 32, 1, buffers))
    {
        fb_config config{};
        config.size = sizeof config;
        config.queues = 64, config.hosts = 32, config.packets = buffers;
        config.direction = FB_DOWNLOAD; // the children share the link
        config.settings = "bandwidth 250kbit rtt 500ms no-aqm";
        config.user = this;
        config.drop = [](void *user, void *cookie, std::uint32_t reason) {
            std::unique_ptr<message> gone(static_cast<message *>(cookie));
            if (reason == FB_DROP_OVERFLOW)
                static_cast<message_queue *>(user)->lost[gone->child]++;
        };
        fb_error error;
        require(fb_init(block.data(), block.size(), &config, &queue, &error) == FB_OK, error.text);
    }

    message_queue(const message_queue &) = delete;
    message_queue &operator=(const message_queue &) = delete;

    ~message_queue() { fb_drain(queue); }

    void push(std::uint64_t now, std::unique_ptr<message> next)
    {
        fb_labels labels{};
        labels.flow = labels.destination = fb_mix(next->child);
        fb_packet packet{};
        packet.cookie = next.get();
        packet.len = static_cast<std::uint32_t>(next->bytes.size());
        packet.labels = &labels;
        const std::int32_t code = fb_enqueue(queue, now, &packet);
        require(code == FB_OK, fb_error_text(code));
        next.release(); // the queue's now
    }

    std::unique_ptr<message> pop(std::uint64_t now)
    {
        fb_departure departure;
        if (fb_dequeue(queue, now, &departure) != 1)
            return nullptr;
        return std::unique_ptr<message>(static_cast<message *>(departure.cookie));
    }

    // Returns when to call pop next, or false.
    bool poll_at(std::uint64_t now, std::uint64_t &at) { return fb_poll_at(queue, now, &at) == 1; }

    unsigned lost[children + 1] = {};

private:
    std::vector<std::uint8_t> block;
    fb_queue *queue = nullptr;
};

// Calls `arrive` with each message: 130 for the dead child, then ten for each of the others.
template <typename Arrive> void offer(Arrive arrive)
{
    for (unsigned number = 0; number < 130; number++)
        arrive(dead);
    for (unsigned number = 0; number < 10; number++)
        for (unsigned child = 1; child <= children; child++)
            arrive(child);
}

} // namespace

int main()
{
    // With a FIFO, the last messages find no buffer.
    std::deque<unsigned> fifo;
    unsigned lost_in_fifo = 0;
    offer([&](unsigned child) {
        if (fifo.size() < buffers)
            fifo.push_back(child);
        else
            lost_in_fifo++;
    });

    message_queue queue;
    offer([&](unsigned child) {
        queue.push(0, std::make_unique<message>(message{child, std::vector<std::uint8_t>(100)}));
    });
    unsigned lost = 0;
    for (unsigned child = 1; child <= children; child++)
        lost += queue.lost[child];

    // All of the others are sent, in their turns: the dead child has one turn as each of them.
    unsigned sent[children + 1] = {};
    unsigned dead_before_last = 0;
    std::uint64_t now = 0;
    while (queue.poll_at(now, now)) {
        const std::unique_ptr<message> next = queue.pop(now);
        if (!next)
            continue;
        sent[next->child]++;
        if (sent[children] < 10)
            dead_before_last = sent[dead];
    }
    for (unsigned child = 1; child <= children; child++)
        require(sent[child] == 10, "a child has not received its ten messages");
    require(lost == 0 && lost_in_fifo == 74, "messages of living children were lost");
    require(queue.lost[dead] == 74, "the dead child did not make place");
    require(sent[dead] == 130 - 74, "a message of the dead child is missing");
    require(dead_before_last <= 20, "the dead child took more than its turns");
    std::printf("living children lose %u of 200 messages with a FIFO, %u with freeboard\n",
                lost_in_fifo, lost);
    return 0;
}
