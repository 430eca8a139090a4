"""Power cuts of `delaymq serve`: a producer and a consumer over TCP in the document's frames, and their ledger."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from commanding import ANY_PORTS, arguments_of, environment
from power_cuts.cutting import ImageRound
from power_cuts.images import Image
from power_cuts.telling import Ledger
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
    subscribe,
)

SUBJECT, GROUP = "served", "g"
IN_FLIGHT = 64
BATCH_MAX = 12
DELAYS_MS = (0, 0, 30, 400, 1_500)
WORK_MS = (30, 350)
OPENING_MS_MAX = 400
START_SECONDS = 30
ANSWER_SECONDS = 10
DRAIN_SECONDS = 60
QUIET_SECONDS = 1.0
CLOCKS_MS = 100  # that the server's trusted clock and this process's may differ


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


class Life:
    """One process that serves, and who talks to it."""

    def __init__(
        self, ledger: Ledger, store: Path, count: int, seed: int, variables: Mapping[str, str] | None = None
    ) -> None:
        self.ledger, self.count = ledger, count
        self.random = random.Random(f"{seed} {count}")
        small = ("--set", "store.segment_bytes=65536", "--set", "store.keep_finished_hours=0")
        command = arguments_of("serve", "--store", str(store), "--json", *ANY_PORTS, *small)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**(variables or {}))
        )
        self.address: tuple[str, int] | None = None
        self.is_cut = False
        self.is_publishing = True
        self.failed = ""
        self.quiet_since = time.monotonic()
        self.threads: list[threading.Thread] = []

    def await_address(self, seconds: float) -> bool:
        """True once it serves."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return False
        line = self.process.stdout.readline()
        if not line:
            # It has closed its output, and has its exit code a moment later.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ANSWER_SECONDS)
            return False
        host, _, port = json.loads(line)["address"].rpartition(":")
        self.address = (host, int(port))
        self.ledger.tell("start", epoch=self.count)
        return True

    def begin(self, *works: Callable[[Peer], None]) -> None:
        self.threads = [threading.Thread(target=self._work, args=(work,), daemon=True) for work in works]
        for thread in self.threads:
            thread.start()

    def _work(self, work: Callable[[Peer], None]) -> None:
        try:
            assert self.address is not None
            with Peer(socket.create_connection(self.address, timeout=ANSWER_SECONDS)) as peer:
                work(peer)
        except (OSError, AssertionError) as error:
            with self.ledger.lock:
                # After the cut the store is gone, and the server with it.
                if not self.is_cut:
                    self.failed = self.failed or f"{work.__name__}: {error!r}"

    def _result(self) -> str:
        """Of an answer that came just now; the ledger is locked."""
        return "ambiguous" if self.is_cut else "acknowledged"

    def refusal(self, code: int) -> str | None:
        """What came of a publish that was answered with this code, if that is known; the ledger is locked."""
        assert self.is_cut, f"refused with {code}"
        return None

    def produce(self, peer: Peer) -> None:
        published = 0
        while self.is_publishing:
            delay_ms = self.random.choice(DELAYS_MS)
            batch = f"{self.count}-{published}"
            bodies: dict[str, bytes] = {}
            for _ in range(self.random.randint(1, BATCH_MAX)):
                name = f"{self.count}-{published}"
                bodies[name] = f"{name} ".encode() + self.random.randbytes(self.random.randrange(200))
                published += 1
            with self.ledger.lock:
                for name, body in bodies.items():
                    about = {"id": name, "subject": SUBJECT, "digest": digest(body), "batch": batch}
                    self.ledger.tell_held("publish", **about, delay_ms=delay_ms)
            code, _ = peer.ask(PUBLISH, publish(SUBJECT, list(bodies.values()), delay_ms))
            with self.ledger.lock:
                result = self._result() if code == 0 else self.refusal(code)
                for name in bodies if result else ():
                    self.ledger.tell_held("published", id=name, result=result)

    def consume(self, peer: Peer) -> None:
        consumer = f"{self.count}-0"
        peer.send(frame(SUBSCRIBE, subscribe(1, SUBJECT, GROUP, IN_FLIGHT, IN_FLIGHT)))
        flushing: dict[int, list[str]] = {}
        opaque = 100
        while True:
            code, answered, flags, body = peer.receive()
            if code == DELIVER and flags == ONE_WAY:
                _, messages = deliveries(body)
                opaque += 1
                flushing[opaque] = self._came(consumer, messages)
                settled = frame(ACKNOWLEDGE, acknowledge(1, messages), flags=ONE_WAY)
                more = frame(CREDIT, credit(1, len(messages)), flags=ONE_WAY)
                peer.send(settled + frame(FLUSH, number(1), opaque=opaque) + more)
                continue
            with self.ledger.lock:
                if code != 0:
                    self.refusal(code)
                for name in flushing.pop(answered, []) if code == 0 else ():
                    self.ledger.tell_held("acknowledged", id=name, group=GROUP, result=self._result())

    def _came(self, consumer: str, messages: list[Delivered]) -> list[str]:
        names = [one.body.partition(b" ")[0].decode() for one in messages]
        self.quiet_since = time.monotonic()
        with self.ledger.lock:
            for name, one in zip(names, messages, strict=True):
                about = {"id": name, "subject": SUBJECT, "digest": digest(one.body), "group": GROUP}
                marks = {"attempt": one.attempt, "redelivered": one.redelivered}
                self.ledger.tell_held("delivered", **about, **marks, consumer=consumer, epoch=self.count)
            for name in names:
                self.ledger.tell_held("acknowledge", id=name, group=GROUP)
        return names

    def end(self) -> tuple[int | None, str]:
        """Kills it; the exit code that it had before, and what it wrote to standard error."""
        code = self.process.poll()
        self.process.kill()
        _, said = self.process.communicate()
        for thread in self.threads:
            thread.join(ANSWER_SECONDS * 2)
        return code, said.strip()[-400:]


def drained(ledger: Ledger, store: Path, count: int, seed: int) -> str:
    """A last life, in which all that is left is consumed; why it did not come to its end, or nothing."""
    life = Life(ledger, store, count, seed)
    try:
        is_served = life.await_address(START_SECONDS)
        if is_served:
            life.begin(life.consume)
            await_quiet(life)
            with ledger.lock:
                life.is_cut = True
    finally:
        code, said = life.end()
    return "" if is_served and code is None and not life.failed else f"{code}: {life.failed} {said}"


def await_quiet(life: Life) -> None:
    """Until nothing came for a while that is longer than the longest delay."""
    life.quiet_since = time.monotonic()
    wait = max(DELAYS_MS) / 1000 + QUIET_SECONDS
    end = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() - life.quiet_since < wait and time.monotonic() < end and not life.failed:
        time.sleep(0.02)


class ServedRound(ImageRound):
    """Of a store that is served."""

    harness = "power cuts of a server"
    first_life = 1
    """Lives are epochs here."""
    clocks_ms = CLOCKS_MS

    def cut(self, image: Image, ledger: Ledger, life: int) -> bool:
        serving = Life(ledger, image.folder / "store", life, self.seed)
        try:
            return self._worked_and_cut(image, ledger, serving)
        finally:
            serving.end()

    def _worked_and_cut(self, image: Image, ledger: Ledger, life: Life) -> bool:
        # A first life is not cut while it opens: a ledger that saw nothing cannot be judged.
        if life.count > 1 and self.random.randrange(6) == 0:
            time.sleep(self.random.uniform(0, OPENING_MS_MAX) / 1000)
        elif life.await_address(START_SECONDS):
            life.begin(life.produce, life.consume)
            time.sleep(self.random.uniform(*WORK_MS) / 1000)
        elif life.process.poll() is None:
            self.found.add("slow start", f"{self.name}, life {life.count}: {START_SECONDS} s")
            return False
        ended = life.process.poll()
        with ledger.lock:
            life.is_cut = True
            image.cut()
        _, said = life.end()
        with ledger.lock:
            ledger.tell_held("stop", cause="cut", in_flight_max=IN_FLIGHT)
        image.restore()
        self.found.cut(f"{self.kind.name} served")
        self.found.count("restarts")
        if ended is not None or life.failed:
            self.found.add("ended", f"{self.name}, life {life.count}: {ended} before the cut: {life.failed} {said}")
            return False
        return True

    def drain(self, image: Image, ledger: Ledger, life: int) -> bool:
        wrong = drained(ledger, image.folder / "store", life, self.seed)
        self.found.count("restarts")
        if wrong:
            self.found.add("undrained", f"{self.name}: {wrong}")
        return not wrong
