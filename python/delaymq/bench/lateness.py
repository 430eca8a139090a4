"""How long after the due time the consumer's own code has the message."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import measurement

__all__ = ["cases"]

CASES = ((1000, "nothing"), (20_000, "nothing"), (1000, "python"), (1000, "publishing"))


def cases(quick: bool) -> Sequence[Case]:
    """1,000/s and 20,000/s alone, and 1,000/s beside a busy Python thread and beside publishing."""
    return [_case(rate_per_s, beside, quick=quick) for rate_per_s, beside in CASES]


def _case(rate_per_s: int, beside: str, *, quick: bool) -> Case:
    milliseconds = 200 if quick else 10_000
    lead_ms = 200 if quick else 700  # between the last publish and the first due time
    numbers = {"rate_per_s": rate_per_s, "milliseconds": milliseconds, "lead_ms": lead_ms, "disk": 1}
    alone = measurement("lateness", beside_publishing=int(beside == "publishing"), **numbers)

    def ours(folder: Path) -> Figures:
        if beside != "python":
            return alone(folder)
        with computing():
            return alone(folder)

    return Case(
        bench="lateness",
        unit="ms",
        durability="disk",
        n=rate_per_s * milliseconds // 1000,
        pairs=interleaved(ours, measurement("lateness_limit", **numbers), quick=quick),
        limit_words="clock_nanosleep to each due millisecond, pwrite, fdatasync; nothing beside it",
        higher_is_better=False,
        plain_words="clock_nanosleep alone: p99 of how late it wakes, of the ticks to which it could sleep",
        detail={"rate_per_s": rate_per_s, "beside": beside, "figure": "p99_ms", "from": "rust"},
    )


@contextmanager
def computing() -> Iterator[None]:
    """A Python thread that never lets the interpreter go by itself."""
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
