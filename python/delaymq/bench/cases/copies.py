"""The cost of copies on other nodes, and the time of a failover. All nodes share this machine and its disk."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import delaymq
from delaymq.bench.grouped import Group, await_true, group
from delaymq.bench.interleaving import interleaved, runs_of
from delaymq.bench.marks import at_least, at_most
from delaymq.bench.row import Case, Figures, Measurement, Pairs

SILENCE_S = 3.0  # after which a primary is replaced
FAILOVER_S_MOST = 3.7
FAILOVER_P99_S_MOST = 4.5
KILLS = 4  # of one run
KILLS_QUICK = 1
STEADY_S = 1.0
DUE_S = 0.2
PAUSE_S = 0.005
MOMENTS = ("publish", "delivery")

BODY = bytes(256)
DELAY_S = 600
PUBLISHES = 2000
PUBLISHES_QUICK = 200
BATCHES = 300
BATCHES_QUICK = 30
BATCH = 1000
THROUGHPUT_LEAST = 0.4
MISSED_BYTES = 1 << 30  # the first quarter of a second, in which a node finds the others and gets into the set, counts
MISSED_BYTES_QUICK = 16 << 20
MISSED_BODY_BYTES = 8 << 10
CATCH_UP_LEAST = 0.5
MEANWHILE_LEAST = 0.66  # the limit is a p99: it may be 1.5 times as much meanwhile
AS_LOG, AS_FILES = "by the log", "by a snapshot"
CATCHING_UP, NOTHING, A_COPY = (
    "a node that catches up",
    "nothing",
    "a copy of as many bytes, with fdatasync after each MiB",
)
MEANWHILE = {NOTHING: "p99 of publishes meanwhile", A_COPY: "p99 beside a copy of as much"}
LOOK_AFTER = 50  # publishes
COPIED_PIECE_BYTES = 1 << 20


def cases_failover(quick: bool) -> Sequence[Case]:
    """Seconds from `kill -9` of the primary until clients go on.

    One row for the first publish that is answered, and one for the first delivery of a message that became due later.
    """
    kills = Kills(KILLS_QUICK if quick else KILLS, runs_of(quick))
    return [_failover(kills, moment, quick=quick) for moment in MOMENTS]


class Kills:
    """Kills of primaries of three nodes, measured on first use."""

    def __init__(self, kills: int, runs: int) -> None:
        self.kills = kills
        self._runs = runs
        self._found: list[dict[str, list[float]]] = []

    def of(self, moment: str) -> Pairs:
        """The runs with one of the moments as the value."""

        def pairs(folder: Path) -> Sequence[tuple[Figures, Figures]]:
            if not self._found:
                self._found = [self._measure(folder / f"run{number}") for number in range(self._runs)]
            return [(_of_kills(run[moment]), {"value": SILENCE_S}) for run in self._found]

        return pairs

    def _measure(self, folder: Path) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
        with group(folder, 3, min_copies=2) as nodes, Watched(nodes.url) as watched:
            for _ in range(self.kills):
                primary = nodes.primary(3)
                time.sleep(STEADY_S)
                killed = time.monotonic()
                nodes.kill(primary)
                for moment, waited in watched.after(killed).items():
                    found[moment].append(waited)
                nodes.start(primary)
        shutil.rmtree(folder)
        return found


def _of_kills(waited: Sequence[float]) -> Figures:
    ordered = sorted(waited)
    return {"value": statistics.median(ordered), "p99_s": ordered[math.ceil(0.99 * len(ordered)) - 1]}


class Watched:
    """A client that publishes all the time, and one that consumes. Both note when something was answered or came."""

    def __init__(self, url: str) -> None:
        self._producer, self._consumer = delaymq.connect(url), delaymq.connect(url)
        self._subscription = self._consumer.subscribe("bench", group="bench")
        self._is_over = threading.Event()
        self._answered = 0.0
        self._came: tuple[float, float] = (0.0, 0.0)  # when the newest message was due, and when it came
        self._threads = [threading.Thread(target=self._publish), threading.Thread(target=self._consume)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._is_over.set()
        self._subscription.stop()
        for thread in self._threads:
            thread.join()
        for client in (self._producer, self._consumer):
            # An acknowledgement may have been lost with its connection: that message comes twice.
            with contextlib.suppress(delaymq.AmbiguousError):
                client.close()

    def after(self, killed: float) -> dict[str, float]:
        """Seconds from a moment until clients went on.

        Args:
            killed: The moment, of `time.monotonic`.

        Returns:
            Until a publish was answered, and until a message came that was due after the moment, by `MOMENTS`.
        """
        await_true(lambda: self._answered > killed and self._came[0] > killed)
        return {"publish": self._answered - killed, "delivery": self._came[1] - killed}

    def _publish(self) -> None:
        number = 0
        while not self._is_over.is_set():
            number += 1
            began = time.monotonic()
            body = repr(began + DUE_S).encode()
            try:
                self._producer.publish("bench", body, delay=DUE_S, message_id=f"m{number}", deduplicate=True)
            except delaymq.StoreError:
                continue
            self._answered = time.monotonic()
            time.sleep(PAUSE_S)

    def _consume(self) -> None:
        while (message := self._subscription.get()) is not None:
            due = float(message.body)
            if due > self._came[0]:
                self._came = (due, time.monotonic())
            message.ack()


def _failover(kills: Kills, moment: str, *, quick: bool) -> Case:
    return Case(
        bench="failover",
        unit="s",
        durability="disk",
        n=kills.kills * runs_of(quick),
        pairs=kills.of(moment),
        limit_words="the silence after which a primary is replaced",
        higher_is_better=False,
        is_served=True,
        detail={"moment": moment, "nodes": 3},
        must=at_most(value=FAILOVER_S_MOST, p99_s=FAILOVER_P99_S_MOST),
    )


def cases(quick: bool) -> Sequence[Case]:
    """The cost of a second copy: the time of one publish after the other, and messages a second in batches."""
    return [_latency(quick), _throughput(quick)]


def _latency(quick: bool) -> Case:
    publishes = PUBLISHES_QUICK if quick else PUBLISHES

    def measure(nodes: Group) -> Figures:
        took = []
        with delaymq.connect(nodes.url) as client:
            for _ in range(publishes):
                began = time.perf_counter()
                client.publish("bench", BODY, delay=DELAY_S)
                took.append(time.perf_counter() - began)
        took.sort()
        return {"value": 1000 * statistics.median(took), "p99_ms": 1000 * took[math.ceil(0.99 * len(took)) - 1]}

    return Case(
        bench="copies",
        unit="ms",
        durability="disk",
        n=publishes,
        pairs=interleaved(_on(2, measure), _on(1, measure), quick=quick),
        limit_words="the same publishes to a group of one copy",
        higher_is_better=False,
        is_served=True,
        detail={"call": "publish", "batch": 1, "nodes": 2},
    )


def _throughput(quick: bool) -> Case:
    batches = BATCHES_QUICK if quick else BATCHES
    bodies, delays = [BODY] * BATCH, [float(DELAY_S)] * BATCH

    def measure(nodes: Group) -> Figures:
        with delaymq.connect(nodes.url) as client:
            began = time.perf_counter()
            for _ in range(batches):
                client.publish_many("bench", bodies, delays)
            return {"value": batches * BATCH / (time.perf_counter() - began)}

    return Case(
        bench="copies",
        unit="messages/s",
        durability="disk",
        n=batches * BATCH,
        pairs=interleaved(_on(2, measure), _on(1, measure), quick=quick),
        limit_words="the same batches to a group of one copy",
        is_served=True,
        detail={"call": "publish_many", "batch": BATCH, "nodes": 2},
        must=at_least(ratio=THROUGHPUT_LEAST),
    )


def _on(copies: int, measure: Callable[[Group], Figures]) -> Measurement:
    def measured(folder: Path) -> Figures:
        with group(folder / "group", copies, min_copies=copies) as nodes:
            return measure(nodes)

    return measured


def cases_catch_up(quick: bool) -> Sequence[Case]:
    """Bytes a second that an empty node takes over from a primary that has as many: as log, and as files.

    The last rows are the time of a publish at the primary meanwhile. Their limits are that time while no node
    catches up, and that while another process copies as many bytes: all nodes share one disk and the processors.
    """
    missed = MISSED_BYTES_QUICK if quick else MISSED_BYTES
    rows = [_catch_up(missed, where, quick=quick) for where in (AS_LOG, AS_FILES)]
    return [*rows, *(_publishes_meanwhile(missed, beside, quick=quick) for beside in (NOTHING, A_COPY))]


def _catch_up(missed: int, where: str, *, quick: bool) -> Case:
    def ours(folder: Path) -> Figures:
        with _behind(folder, missed, where) as nodes:
            started = time.perf_counter()
            nodes.start(1)
            # A node answers before it connects to others. The start of a process says nothing about a disk or a link.
            await_true(lambda: nodes.status(1) is not None)
            began = time.perf_counter()
            nodes.primary(2)
            return {"value": missed / (time.perf_counter() - began), "start_s": began - started}

    return Case(
        bench="catch_up",
        unit="bytes/s",
        durability="disk",
        n=missed // MISSED_BODY_BYTES,
        pairs=interleaved(ours, _copied(missed), quick=quick),
        limit_words="the same bytes copied to another file, with fdatasync after each MiB",
        is_served=True,
        detail={"where": where, "body_bytes": MISSED_BODY_BYTES, "nodes": 2, "from": "the first answer of the node"},
        must=at_least(ratio=CATCH_UP_LEAST),
    )


@contextlib.contextmanager
def _behind(folder: Path, missed: int, where: str) -> Iterator[Group]:
    """A group of which one node runs and has so many bytes. It has a checkpoint if they are to be copied as files."""
    batch = [os.urandom(MISSED_BODY_BYTES)] * 100
    delays = [float(DELAY_S)] * len(batch)
    batches = missed // MISSED_BODY_BYTES // len(batch)
    if where == AS_FILES:
        with delaymq.open(folder / "node0") as store:
            for _ in range(batches):
                store.publish_many("bench", batch, delays)
    with Group(folder, 2, 1) as nodes:
        nodes.start(0)
        nodes.primary(1)
        if where == AS_LOG:
            with delaymq.connect(nodes.url) as client:
                for _ in range(batches):
                    client.publish_many("bench", batch, delays)
        yield nodes


def _copied(missed: int) -> Measurement:
    def limit(folder: Path) -> Figures:
        _write_source(folder, missed)
        began = time.perf_counter()
        copy_synced(folder)
        return {"value": missed / (time.perf_counter() - began)}

    return limit


def _write_source(folder: Path, size: int) -> None:
    piece = os.urandom(COPIED_PIECE_BYTES)
    with (folder / "source").open("wb") as source:
        for _ in range(size // COPIED_PIECE_BYTES):
            source.write(piece)
        os.fdatasync(source.fileno())


def copy_synced(folder: Path) -> None:
    """Copies the file `source` of a folder, and syncs each piece."""
    with (folder / "source").open("rb") as source, (folder / "copy").open("wb") as copy:
        while taken := source.read(COPIED_PIECE_BYTES):
            copy.write(taken)
            copy.flush()
            os.fdatasync(copy.fileno())


def _publishes_meanwhile(missed: int, limit: str, *, quick: bool) -> Case:
    publishes = PUBLISHES_QUICK if quick else PUBLISHES

    def measured(beside: str) -> Measurement:
        def measure(folder: Path) -> Figures:
            with _behind(folder, missed, AS_FILES) as nodes, delaymq.connect(nodes.url) as client:
                took: list[float] = []
                with _beside(beside, folder, missed, nodes) as is_over:
                    # So many at least, and until it is over.
                    while len(took) < publishes or not is_over():
                        for _ in range(LOOK_AFTER):
                            began = time.perf_counter()
                            client.publish("bench", BODY, delay=DELAY_S)
                            took.append(time.perf_counter() - began)
                took.sort()
                return {"value": 1000 * took[math.ceil(0.99 * len(took)) - 1], "p50_ms": 1000 * statistics.median(took)}

        return measure

    return Case(
        bench="catch_up",
        unit="ms",
        durability="disk",
        n=publishes,
        pairs=interleaved(measured(CATCHING_UP), measured(limit), quick=quick),
        limit_words=f"p99 of the same publishes next to {limit}",
        higher_is_better=False,
        is_served=True,
        detail={"where": MEANWHILE[limit], "nodes": 2},
        must=at_least(ratio=MEANWHILE_LEAST),
    )


@contextlib.contextmanager
def _beside(what: str, folder: Path, size: int, nodes: Group) -> Iterator[Callable[[], bool]]:
    """Begins something next to the publishes. Gives a function that is true once it is over."""
    if what == NOTHING:
        yield lambda: True
    elif what == CATCHING_UP:
        nodes.start(1)
        yield lambda: nodes.has(2)
    else:
        _write_source(folder, size)
        code = f"import pathlib, {__name__} as copies; copies.copy_synced(pathlib.Path({str(folder)!r}))"
        with subprocess.Popen([sys.executable, "-c", code]) as copying:
            yield lambda: copying.poll() is not None
