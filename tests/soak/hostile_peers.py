"""What a hostile peer costs the others: the 99th percentile of an honest producer's durable publishes, alone, beside
one and two processes that are busy and ask the server nothing, and beside each kind of hostile peer.

Run it on a quiet machine: `make hostile-peers`. It ends with 1 where a hostile peer more than doubled what the others
wait for beside nobody, or beside one busy process that asks nothing: a hostile peer is that, too, and elsewhere it were
on another machine. What two busy processes cost is shown beside it: on two processors that is not little.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serving import HELLO, MAGIC, PING, PUBLISH, QMQ_PULL, Peer, Served, frame, hello, publish, qmq_pull, serving

TOKEN = "a token of this run"
RATIO_MAX = 2.0
PAUSE_SECONDS = 0.001


def connected(address: str, *, known: bool, source: str) -> Peer:
    """A connection; hostile ones come from an address of their own, since wrong tokens are counted by it."""
    host, _, port = address.rpartition(":")
    peer = Peer(socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0)))
    if known:
        assert peer.ask(HELLO, hello(TOKEN))[0] == 0
    return peer


Connect = Callable[[bool], Peer]
"""Makes a connection, with or without the token."""


def busy(_connect: Connect) -> None:
    """Uses a processor and asks nothing."""
    for _ in itertools.count():
        pass


def garbage(connect: Connect) -> None:
    """Sends what is no request, again and again."""
    while True:
        with connect(False) as peer:
            peer.send(os.urandom(4_096))
            peer.is_closed()


def wrong_tokens(connect: Connect) -> None:
    """Guesses tokens as fast as it is answered."""
    guess = frame(HELLO, hello("a guess")) * 64
    while True:
        with connect(False) as peer:
            peer.send(guess)
            for _ in range(64):
                peer.receive()


def strangers(connect: Connect) -> None:
    """As many connections as it is given, each sending a byte now and then."""
    request = frame(PING)
    while True:
        peers = [connect(False) for _ in range(300)]
        for byte in request:
            for peer in peers:
                peer.send(bytes([byte]))
        for peer in peers:
            peer.socket.close()


def flood(connect: Connect) -> None:
    """Asks without waiting for answers, and reads them."""
    peer = connect(True)
    threading.Thread(target=peer.is_closed, daemon=True).start()
    requests = frame(PING, b"x" * 16) * 256
    while True:
        peer.send(requests)


def deaf(connect: Connect) -> None:
    """Asks and never reads."""
    requests = frame(PING, b"x" * 1_024) * 64
    while True:
        with connect(True) as peer:
            peer.socket.settimeout(5)
            for _ in range(10_000):
                peer.send(requests)


def deaf_pulls(connect: Connect) -> None:
    """Holds pulls of many groups, has messages sent to all of them, and never reads."""
    names = [f"group-{number}" for number in range(200)]
    pulls = b"".join(frame(QMQ_PULL, qmq_pull("hostile", name, "deaf", 300_000), version=9) for name in names)
    message = frame(PUBLISH, publish("hostile", [b"x" * (256 << 10)], 0))
    while True:
        with connect(True) as deaf, connect(True) as producer:
            deaf.send(pulls)
            for _ in range(20):
                producer.send(message)
                producer.receive()
                time.sleep(0.1)


def halves(connect: Connect) -> None:
    """Begins large requests and goes."""
    half = struct.pack(">ihIhhiih", (8 << 20) - 4, 18, MAGIC, PUBLISH, 1, 7, 0, 0) + bytes(4 << 20)
    while True:
        with connect(True) as peer:
            peer.send(half)


def wholes(connect: Connect) -> None:
    """Sends large requests that say nothing, and reads the answers."""
    peer = connect(True)
    threading.Thread(target=peer.is_closed, daemon=True).start()
    whole = frame(PING, bytes((8 << 20) - 24))
    while True:
        peer.send(whole)


KINDS: dict[str, Callable[[Connect], None]] = {
    kind.__name__: kind for kind in (busy, garbage, wrong_tokens, strangers, flood, deaf, deaf_pulls, halves, wholes)
}


BASES = ("nobody", "one busy")
SHOWN = "two busy"
NEIGHBOURS: dict[str, list[str]] = {"nobody": [], "one busy": ["busy"], "two busy": ["busy", "busy"]}
NEIGHBOURS |= {kind: [kind] for kind in KINDS if kind != "busy"}


def attack(kind: str, address: str) -> None:
    """Is hostile until it is killed; a connection that is closed is the beginning of the next."""
    if kind != "busy":
        # As on another machine: it takes what the server and the honest leave of this one's processors.
        os.nice(19)
    source = f"127.0.1.{1 + list(KINDS).index(kind)}"
    while True:
        with contextlib.suppress(OSError):
            KINDS[kind](lambda known: connected(address, known=known, source=source))


@contextmanager
def beside(name: str, address: str) -> Iterator[None]:
    command = [sys.executable, __file__, "--address", address, "--be"]
    processes = [subprocess.Popen([*command, kind]) for kind in NEIGHBOURS[name]]
    try:
        time.sleep(0.4)
        assert all(process.poll() is None for process in processes), f"{name} has ended"
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def waited_ms(served: Served, samples: int) -> list[float]:
    """How long each of so many publishes took."""
    request = frame(PUBLISH, publish("honest", [b"x" * 100], 3_600_000))
    found = []
    with connected(served.address, known=True, source="127.0.0.1") as peer:
        for _ in range(samples):
            before = time.perf_counter()
            peer.send(request)
            assert peer.receive()[0] == 0
            found.append((time.perf_counter() - before) * 1_000)
            time.sleep(PAUSE_SECONDS)
    return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--be", choices=KINDS)
    options.add_argument("--address")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--samples", type=int, default=500)
    chosen = options.parse_args(arguments)
    if chosen.be is not None:
        attack(chosen.be, chosen.address)
    hashed = "sha256:" + hashlib.sha256(TOKEN.encode()).hexdigest()
    figures: dict[str, list[list[float]]] = {name: [] for name in NEIGHBOURS}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "store", "--set", f"server.token_hash={hashed}") as served,
    ):
        for _ in range(chosen.rounds):
            for name in NEIGHBOURS:
                with beside(name, served.address):
                    figures[name].append(waited_ms(served, chosen.samples))
    whole = {name: statistics.median(percentile(one, 0.99) for one in each) for name, each in figures.items()}
    base = max(whole[name] for name in BASES)
    print(f"{'beside':14}{'p50 ms':>8}{'p99 ms':>8}{'/ alone':>9}{'/ busy':>9}")
    for name in NEIGHBOURS:
        middle = statistics.median(percentile(one, 0.5) for one in figures[name])
        print(f"{name:14}{middle:8.2f}{whole[name]:8.2f}{whole[name] / whole['nobody']:9.2f}{whole[name] / base:9.2f}")
    return 1 if max(p99 for name, p99 in whole.items() if name != SHOWN) > RATIO_MAX * base else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
