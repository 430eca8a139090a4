"""A served process is killed with SIGKILL while producers publish and consumers acknowledge over TCP, again and again;
a ledger in this process, which knows nothing but what was sent and answered, says what was lost, early or doubled.

The frames are coded by tests/serving.py from the document alone. `make killed-server TIME=600` runs it for long;
tests/crash/test_killed_server.py does for a moment.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from serving import (
    ACKNOWLEDGE,
    CREDIT,
    DELIVER,
    FLUSH,
    ONE_WAY,
    PUBLISH,
    SUBSCRIBE,
    Delivered,
    Peer,
    acknowledge,
    credit,
    deliveries,
    frame,
    number,
    publish,
    serving,
    subscribe,
)

SUBJECT, GROUP = "ledger", "g"
IN_FLIGHT = 64
BATCH_MAX = 20
DELAY_MS_MAX = 400
DRAIN_SECONDS = 60
WAIT_SECONDS = 0.2
CLOCKS_MS = 100  # that the server's trusted clock and this process's may differ


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Ledger:
    """What was sent and answered, by the bodies of messages."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    attempted: dict[bytes, int] = field(default_factory=dict)
    """The delay that each was published with."""
    sent_ms: dict[bytes, int] = field(default_factory=dict)
    """When it was sent: no server can have had it before."""
    published: set[bytes] = field(default_factory=set)
    """Those whose publish was answered."""
    handed: dict[bytes, list[bool]] = field(default_factory=dict)
    """Each time that one came, whether it was marked as redelivered."""
    settled: set[bytes] = field(default_factory=set)
    """Those whose acknowledgement was sent: without an answer nobody knows whether the server had it."""
    finished: set[bytes] = field(default_factory=set)
    """Those whose acknowledgement was answered."""
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    ambiguous: int = 0
    """Publishes that got no answer."""

    def sends(self, bodies: list[bytes], delay_ms: int) -> None:
        with self.lock:
            for body in bodies:
                self.attempted[body] = delay_ms
                self.sent_ms[body] = wall_ms()

    def answered(self, bodies: list[bytes]) -> None:
        with self.lock:
            self.published.update(bodies)

    def came(self, now_ms: int, messages: list[Delivered]) -> None:
        with self.lock:
            for one in messages:
                delay_ms = self.attempted.get(one.body)
                if delay_ms is None:
                    self.wrong.append(f"{one.body!r} was never sent")
                    continue
                if now_ms < one.due_ms:
                    self.wrong.append(f"{one.body!r} came at {now_ms} of the server's clock, due at {one.due_ms}")
                if wall_ms() + CLOCKS_MS < self.sent_ms[one.body] + delay_ms:
                    self.wrong.append(f"{one.body!r} came before its delay of {delay_ms} ms was over")
                if one.body in self.finished:
                    self.wrong.append(f"{one.body!r} came after its acknowledgement was answered")
                before = self.handed.setdefault(one.body, [])
                if before and not (one.redelivered or one.attempt > 1):
                    self.wrong.append(f"{one.body!r} came again and was not marked")
                before.append(one.redelivered)

    def settles(self, messages: list[Delivered]) -> None:
        with self.lock:
            self.settled.update(one.body for one in messages)

    def done(self, messages: list[Delivered]) -> None:
        with self.lock:
            self.finished.update(one.body for one in messages)

    def judge(self, consumers: int) -> list[str]:
        """What is wrong, once everything is drained."""
        with self.lock:
            found = list(self.wrong)
            if lost := self.lost():
                found.append(f"{len(lost)} were answered and never came: {sorted(lost)[:5]}")
            doubled = sum(len(times) - 1 for times in self.handed.values())
            # What was in flight, in each consumer, at each kill; consumers come back with new connections.
            doubled_max = (self.kills + 1) * consumers * IN_FLIGHT
            if doubled > doubled_max:
                found.append(f"{doubled} came again, {doubled_max} may")
            return found

    def lost(self) -> set[bytes]:
        """Those that were answered, and of which nobody sent an acknowledgement."""
        return self.published - self.settled

    def told(self) -> str:
        doubled = sum(len(times) - 1 for times in self.handed.values())
        doubtful = f"{self.ambiguous} publishes and {len(self.settled - self.finished)} acknowledgements in doubt"
        counts = f"{len(self.published)} published, {len(self.finished)} finished, {doubtful}"
        return f"{self.kills} kills: {counts}, {doubled} came again"


@dataclass
class World:
    """What the threads share."""

    ledger: Ledger
    random: random.Random
    address: str = ""
    is_publishing: bool = True
    is_over: bool = False

    def connect(self) -> Peer:
        host, _, port = self.address.rpartition(":")
        peer = Peer(socket.create_connection((host, int(port)), timeout=5))
        peer.socket.settimeout(WAIT_SECONDS)
        return peer


def again(world: World, work: Callable[[World, Peer], None]) -> None:
    """Connects and works until all is over; a connection that is lost is made again."""
    while not world.is_over:
        try:
            with world.connect() as peer:
                work(world, peer)
        except OSError:
            time.sleep(0.01)
        except Exception as error:  # noqa: BLE001 - a thread that ends says why
            world.ledger.wrong.append(f"{work.__name__}: {error!r}")
            return


def produce(world: World, peer: Peer) -> None:
    ledger = world.ledger
    peer.socket.settimeout(10)
    while world.is_publishing:
        delay_ms = world.random.choice([0, 0, 20, world.random.randrange(DELAY_MS_MAX)])
        bodies = [world.random.randbytes(8).hex().encode() for _ in range(world.random.randint(1, BATCH_MAX))]
        ledger.sends(bodies, delay_ms)
        try:
            code, _ = peer.ask(PUBLISH, publish(SUBJECT, bodies, delay_ms))
        except OSError:
            ledger.ambiguous += 1
            raise
        assert code == 0, code
        ledger.answered(bodies)
    while not world.is_over:
        time.sleep(WAIT_SECONDS)


def consume(world: World, peer: Peer) -> None:
    peer.socket.settimeout(10)
    waiting: list[Delivered] = []
    peer.send(frame(SUBSCRIBE, subscribe(1, SUBJECT, GROUP, IN_FLIGHT, IN_FLIGHT)))
    opaque = 100
    flushing: dict[int, list[Delivered]] = {}
    while not world.is_over:
        code, answered, flags, body = peer.receive()
        if code == DELIVER and flags == ONE_WAY:
            now_ms, messages = deliveries(body)
            world.ledger.came(now_ms, messages)
            waiting += messages
            opaque += 1
            flushing[opaque], waiting = waiting, []
            world.ledger.settles(flushing[opaque])
            settled = frame(ACKNOWLEDGE, acknowledge(1, flushing[opaque]), flags=ONE_WAY)
            more = frame(CREDIT, credit(1, len(flushing[opaque])), flags=ONE_WAY)
            peer.send(settled + frame(FLUSH, number(1), opaque=opaque) + more)
        else:
            assert code == 0, (code, body)
            world.ledger.done(flushing.pop(answered, []))


def run(folder: Path, seconds: float, kills: int, seed: int, *, durability: str, workers: int = 2) -> Ledger:
    """Publishes, consumes and kills; then drains, with nobody killed, and returns the ledger."""
    world = World(Ledger(), random.Random(seed))
    port = 0
    threads: list[threading.Thread] = []
    for life in range(kills + 1):
        ports = ("--set", f"server.port={port}", "--set", "http.port=0")
        with serving(folder, "--set", f"store.durability={durability}", ports=ports) as served:
            world.address = served.address
            port = int(served.address.rpartition(":")[2])
            if not threads:
                works = [produce, consume] * workers
                threads = [threading.Thread(target=again, args=(world, work), daemon=True) for work in works]
                for thread in threads:
                    thread.start()
            if life < kills:
                time.sleep(seconds / kills * world.random.uniform(0.5, 1.5))
                world.ledger.kills += 1
                served.process.kill()
                served.process.wait()
                continue
            world.is_publishing = False
            drained(world.ledger)
            world.is_over = True
            served.process.terminate()
            served.process.wait(DRAIN_SECONDS)
    for thread in threads:
        thread.join(DRAIN_SECONDS)
    return world.ledger


def drained(ledger: Ledger) -> None:
    end = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < end:
        with ledger.lock:
            if not ledger.lost():
                return
        time.sleep(0.05)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = options.parse_args(arguments)
    end = time.monotonic() + chosen.seconds
    seed = chosen.seed
    while time.monotonic() < end:
        for durability in ("disk", "os"):
            with tempfile.TemporaryDirectory() as folder:
                ledger = run(Path(folder) / "store", 10, 12, seed, durability=durability)
            wrong = ledger.judge(2)
            print(f"seed {seed}, {durability}: {ledger.told()}", flush=True)
            if wrong:
                print("\n".join(wrong))
                return 1
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
