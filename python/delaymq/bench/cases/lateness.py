"""Lateness: the time from the due time until the consumer's code has the message."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from delaymq.bench.cases.listing import ENTRIES_PER_S_LEAST
from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import Mark, at_least, at_most
from delaymq.bench.row import Case, Figures, Measurement
from delaymq.bench.rust import measurement, own_process
from delaymq.bench.served import Served, on_server

CASES = ((1000, "nothing"), (20_000, "nothing"), (1000, "python"), (1000, "publishing"))
SERVED_RATE_PER_S = 1000
RATE_AT_SCALE_PER_S = 20_000
LISTED_PENDING = 1_000_000  # messages due much later, which are listed repeatedly during the deliveries
LISTED_PENDING_QUICK = 100_000
MS_MOST = {  # maximum of p50, p99 and p99.9, by rate and other load
    (1000, "nothing"): (1, 5, 20),
    (1000, "python"): (1, 5, 20),
    (1000, "publishing"): (1, 8, 40),
}
MS_AT_SCALE_MOST = (1.5, 10)
MS_SERVED_MOST = (1.5, 8, 30)


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """1,000/s and 20,000/s alone, with a busy Python thread, with publishing, with a list, and over TCP.

    Args:
        quick: Fewer messages, one run.
        scale: Instead of these: 20,000/s with this many messages pending that are due much later.
    """
    if scale:
        return [_case(RATE_AT_SCALE_PER_S, "nothing", quick=quick, pending=scale)]
    return [
        *(_case(rate_per_s, beside, quick=quick) for rate_per_s, beside in CASES),
        *(_beside_listing(rate_per_s, quick=quick) for rate_per_s in (1000, 20_000)),
        _served(quick=quick),
    ]


def _numbers(rate_per_s: int, *, quick: bool) -> dict[str, int]:
    lead_ms = 200 if quick else 700  # between the last publish and the first due time
    return {"rate_per_s": rate_per_s, "milliseconds": 200 if quick else 10_000, "lead_ms": lead_ms, "disk": 1}


def _case(rate_per_s: int, beside: str, *, quick: bool, pending: int = 0) -> Case:
    numbers = _numbers(rate_per_s, quick=quick)
    alone = measurement("lateness", beside_publishing=int(beside == "publishing"), pending=pending, **numbers)

    def ours(folder: Path) -> Figures:
        if beside != "python":
            return alone(folder)
        with computing():
            return alone(folder)

    named: dict[str, object] = {"beside": beside, "pending": pending} if pending else {"beside": beside}
    must = _must(MS_AT_SCALE_MOST if pending else MS_MOST.get((rate_per_s, beside), ()))
    return _beside_its_limit(ours, numbers, named, quick=quick or pending > 0, must=must)


def _beside_listing(rate_per_s: int, *, quick: bool) -> Case:
    """Two stores in turn with the same number of pending messages: one is listed continuously, the other is not."""
    numbers = _numbers(rate_per_s, quick=quick)
    pending = LISTED_PENDING_QUICK if quick else LISTED_PENDING
    alone = measurement("lateness", pending=pending, **numbers)
    listed = measurement("lateness", pending=pending, beside_listing=1, **numbers)

    def ours(folder: Path) -> Figures:
        without = alone(folder / "alone")
        return {
            **listed(folder / "listed"),
            **{f"alone_{name}": without[name] for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")},
        }

    must = _must(MS_AT_SCALE_MOST) + at_least(listed_per_s=ENTRIES_PER_S_LEAST)
    named: dict[str, object] = {"beside": "listing", "listed": pending}
    return _beside_its_limit(ours, numbers, named, quick=quick, must=must)


def _must(ms_most: Sequence[float]) -> tuple[Mark, ...]:
    return at_most(**dict(zip(("p50_ms", "p99_ms", "p999_ms"), ms_most, strict=False)))


def _served(*, quick: bool) -> Case:
    """From a server to a consuming process."""
    numbers = _numbers(SERVED_RATE_PER_S, quick=quick)

    def ours(server: Served, folder: Path) -> Figures:
        return own_process("served_lateness", folder, port=server.port, **numbers)

    must, measured = _must(MS_SERVED_MOST), on_server(ours, settled=not quick)
    return replace(_beside_its_limit(measured, numbers, {"over": "tcp"}, quick=quick, must=must), is_served=True)


def _beside_its_limit(
    ours: Measurement, numbers: dict[str, int], named: Mapping[str, object], *, quick: bool, must: tuple[Mark, ...]
) -> Case:
    return Case(
        bench="lateness",
        unit="ms",
        durability="disk",
        n=numbers["rate_per_s"] * numbers["milliseconds"] // 1000,
        pairs=interleaved(ours, measurement("lateness_limit", **numbers), quick=quick),
        limit_words="clock_nanosleep to each due millisecond, pwrite, fdatasync; nothing beside it",
        higher_is_better=False,
        plain_words="clock_nanosleep alone: p99 of how late it wakes, of the ticks to which it could sleep",
        detail={"rate_per_s": numbers["rate_per_s"], **named, "figure": "p99_ms", "from": "rust"},
        must=must,
    )


@contextmanager
def computing() -> Iterator[None]:
    """Runs a Python thread that never releases the interpreter by itself."""
    stop = threading.Event()

    def compute() -> None:
        number = 0
        while not stop.is_set():
            number = (number * 31 + 7) % 1_000_003

    thread = threading.Thread(target=compute, name="delaymq-bench-computing")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
