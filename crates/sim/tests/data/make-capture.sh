#!/usr/bin/env bash
# Creates kernel.pcap and kernel.pcapng beside this script: see README.md. Needs root, iproute2,
# ethtool, tcpdump, editcap and mergecap (wireshark-common), ping and python3.
set -eu
cd "$(dirname "$0")"
near=freeboard-near far=freeboard-far
scratch=$(mktemp -d)
clean() {
    ip netns del $near 2>/dev/null || true
    ip netns del $far 2>/dev/null || true
    rm -r "$scratch"
}
trap clean EXIT

ip netns add $near
ip netns add $far
ip -n $near link add line type veth peer name line netns $far
for side in "$near 1" "$far 2"; do
    set -- $side
    # Offloads off, so that what is captured are packets and not 64-KB segments of them.
    ip netns exec $1 ethtool -K line tso off gso off gro off tx off >/dev/null
    # The addresses of documentation: RFC 5737, RFC 3849. No duplicate address detection to wait for.
    ip -n $1 addr add 192.0.2.$2/24 dev line
    ip -n $1 addr add 2001:db8::$2/64 dev line nodad
    ip -n $1 link set line up
done
# 10 Mbit/s towards the far end, so that arrivals are spaced as on a real link.
ip netns exec $near tc qdisc add dev line root tbf rate 10mbit burst 3200 limit 60000

for side in $near $far; do
    ip netns exec $side tcpdump -q -i line -s 96 --time-stamp-precision=nano -w "$scratch/$side.pcap" 2>/dev/null &
done
sleep 1

ip netns exec $far python3 - <<'PY' &
import selectors, socket, time
waiting = selectors.DefaultSelector()
for family, address in ((socket.AF_INET, "192.0.2.2"), (socket.AF_INET6, "2001:db8::2")):
    listener = socket.create_server((address, 5001), family=family)
    waiting.register(listener, selectors.EVENT_READ, True)
    sink = socket.socket(family, socket.SOCK_DGRAM)
    sink.bind((address, 5004))
    waiting.register(sink, selectors.EVENT_READ, False)
end = time.monotonic() + 3
while time.monotonic() < end:
    for key, _ in waiting.select(0.1):
        if key.data:
            waiting.register(key.fileobj.accept()[0], selectors.EVENT_READ, False)
        elif not key.fileobj.recv(1 << 16) and key.fileobj.type == socket.SOCK_STREAM:
            waiting.unregister(key.fileobj)
PY
sleep 0.5
ip netns exec $near ping -q -i 0.2 -c 4 192.0.2.2 >/dev/null &
ip netns exec $near ping -q -i 0.2 -c 4 2001:db8::2 >/dev/null &
ip netns exec $near python3 - <<'PY'
import socket, threading, time
begin = time.monotonic()
def upload(address, start, end):
    time.sleep(start)
    with socket.create_connection((address, 5001)) as flow:
        flow.settimeout(0.2)
        while time.monotonic() < begin + end:
            try: flow.send(bytes(16384))
            except TimeoutError: pass
def call(family, address, size, period, end):
    with socket.socket(family, socket.SOCK_DGRAM) as flow:
        for packet in range(int(end / period)):
            time.sleep(max(0, begin + packet * period - time.monotonic()))
            flow.sendto(bytes(size), (address, 5004))
v4, v6 = "192.0.2.2", "2001:db8::2"
jobs = [(upload, v4, 0.05, 0.7), (upload, v4, 0.1, 0.7), (upload, v4, 0.3, 0.6), (upload, v6, 0.2, 0.7),
        (call, socket.AF_INET, v4, 172, 0.02, 0.7), (call, socket.AF_INET6, v6, 1000, 0.02, 0.7)]
threads = [threading.Thread(target=job[0], args=job[1:]) for job in jobs]
for thread in threads: thread.start()
for thread in threads: thread.join()
PY
sleep 1
# Only the jobs of this script, by their ids.
kill $(jobs -p) 2>/dev/null || true
wait

cp "$scratch/$near.pcap" kernel.pcap
# The first packets of both ends in one file with two interfaces, one of them in microseconds.
editcap -r "$scratch/$near.pcap" "$scratch/a.pcap" 1-150
editcap -F pcap -r "$scratch/$far.pcap" "$scratch/b.pcap" 1-150
mergecap -F pcapng -w kernel.pcapng "$scratch/a.pcap" "$scratch/b.pcap"
# Blanks out the kernel build, which identifies the machine; the length stays equal.
release=$(uname -r)
sed -i "s/$release/$(printf '%-*s' ${#release} "${release%%-*}")/" kernel.pcapng
