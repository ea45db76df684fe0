#!/usr/bin/env python3
"""Makes the captures beside this file: acknowledgements of Linux TCP, as they leave the receiver of a transfer.

Needs root, ip, ethtool and tcpdump. Two namespaces, and between them this program, which forwards frames from one
packet socket to the other: it loses, delays or marks frames of data by a seeded draw, and sends acknowledgements on as
they come. tcpdump writes what comes from the receiver, the first 128 bytes of each frame.
"""
import os, random, selectors, socket, subprocess, sys, threading, time

def sh(words):
    subprocess.run(words.split(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def inside(ns, words):
    sh(f"ip netns exec {ns} {words}")

def forward(near, far, stop, draw, seed, rate):
    """Frames from `near` (the sender's) to `far` are lost, delayed, doubled or marked; the other way is free."""
    rng = random.Random(seed)
    ends = []
    for name in (near, far):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.bind((name, 0))
        end.setblocking(False)
        ends.append(end)
    later, free, count = [], time.monotonic(), 0
    chosen = selectors.DefaultSelector()
    for end in ends:
        chosen.register(end, selectors.EVENT_READ)
    while not stop.is_set():
        chosen.select(0.0005)
        now = time.monotonic()
        for here, there in ((0, 1), (1, 0)):
            for _ in range(32):
                try:
                    frame, address = ends[here].recvfrom(65535)
                except BlockingIOError:
                    break
                if address[2] == socket.PACKET_OUTGOING:
                    continue
                if here == 1:
                    ends[1 - here].send(frame)
                    continue
                count += 1
                free = max(free, now) + len(frame) * 8 / rate
                fate = rng.random()
                at = free + 0.005
                if len(frame) > 600:
                    if draw == "lose" and fate < 0.03:
                        continue
                    if draw == "reorder" and fate < 0.03:
                        at += 0.012
                    if draw == "double" and fate < 0.04:
                        later.append((at + 0.002, count, frame))
                    if draw == "mark" and (count // 40) % 3 == 1:
                        frame = mark(frame)
                later.append((at, count, frame))
        later.sort()
        while later and later[0][0] <= now:
            try:
                ends[1].send(later.pop(0)[2])
            except (BlockingIOError, OSError):
                pass

def mark(frame):
    """Congestion experienced, in an IPv4 header with ECT; the checksum of the header goes with it."""
    frame = bytearray(frame)
    if frame[12:14] != b"\x08\x00" or frame[15] & 3 == 0:
        return bytes(frame)
    frame[15] |= 3
    frame[24:26] = b"\0\0"
    total = sum(int.from_bytes(frame[at:at + 2], "big") for at in range(14, 34, 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    frame[24:26] = (~total & 0xffff).to_bytes(2, "big")
    return bytes(frame)

def transfer(family, address, port, size, two_way):
    """The receiver's program: connects, asks for `size` bytes, reads them; or both send."""
    code = f"""
import socket, time, threading
s = socket.socket(socket.{family}, socket.SOCK_STREAM)
for _ in range(50):
    try:
        s.connect(({address!r}, {port})); break
    except OSError: time.sleep(0.1)
def talk():
    for _ in range(60):
        try: s.sendall(b'q' * 100); time.sleep(0.004)
        except OSError: return
if {two_way}: threading.Thread(target=talk).start()
left = {size}
while left > 0:
    got = s.recv(65536)
    if not got: break
    left -= len(got)
s.close()
"""
    return ["ip", "netns", "exec", "ackr", sys.executable, "-c", code]

def server(family, address, port, size):
    code = f"""
import socket
s = socket.socket(socket.{family}, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(({address!r}, {port})); s.listen(1)
c, _ = s.accept()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
c.sendall(b'd' * {size})
c.shutdown(socket.SHUT_WR)
while c.recv(65536): pass
"""
    return ["ip", "netns", "exec", "acks", sys.executable, "-c", code]

def scenario(name, draw="", settings=(), family="AF_INET", size=300_000, two_way=False, packets=300):
    for ns in ("acks", "ackr"):
        subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL)
        sh(f"ip netns add {ns}")
    for ns, host, here in (("acks", 1, "fs"), ("ackr", 2, "fr")):
        sh(f"ip link add {here} type veth peer name e0 netns {ns}")
        sh(f"ethtool -K {here} tso off gso off gro off tx off rx off")
        inside(ns, "ethtool -K e0 tso off gso off gro off tx off rx off")
        sh(f"ip link set {here} up promisc on")
        inside(ns, "ip link set e0 up")
        inside(ns, "ip link set lo up")
        inside(ns, f"ip addr add 10.9.0.{host}/24 dev e0")
        inside(ns, f"ip -6 addr add fd09::{host}/64 dev e0 nodad")
        for setting in settings:
            inside(ns, f"sysctl -w {setting}")
    stop = threading.Event()
    forwarder = threading.Thread(target=forward, args=("fs", "fr", stop, draw, 1, 20e6))
    forwarder.start()
    keep = "tcp or (ip6 proto 6)"
    dump = subprocess.Popen(["tcpdump", "-i", "fr", "-Q", "in", "-s", "128", "-c", str(packets), "-w", f"{name}.pcap", "-U", "--immediate-mode", keep], stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    address = "10.9.0.1" if family == "AF_INET" else "fd09::1"
    serving = subprocess.Popen(server(family, address, 5001, size))
    time.sleep(0.3)
    subprocess.run(transfer(family, address, 5001, size, two_way), timeout=60)
    time.sleep(0.3)
    dump.terminate(); dump.wait()
    serving.terminate(); serving.wait()
    stop.set(); forwarder.join()
    for ns in ("acks", "ackr"):
        sh(f"ip netns del {ns}")
    time.sleep(1)
    print(name, os.path.getsize(f"{name}.pcap"))

SCENARIOS = {
    "plain": dict(),
    "loss": dict(draw="lose"),
    "reorder": dict(draw="reorder"),
    "double": dict(draw="double"),
    "ecn": dict(draw="mark", settings=("net.ipv4.tcp_ecn=1",)),
    "no_options": dict(draw="lose", settings=("net.ipv4.tcp_sack=0", "net.ipv4.tcp_timestamps=0")),
    "two_way": dict(two_way=True),
    "ipv6": dict(draw="lose", family="AF_INET6"),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or SCENARIOS:
        scenario(name, **SCENARIOS[name])
