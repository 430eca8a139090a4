"""Messages a second of a group that starts at the earliest of many that are ready and that nobody has pulled, cold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from delaymq import _core
from delaymq.bench.interleaving import runs_of
from delaymq.bench.row import Case, Figures, Pairs
from delaymq.bench.rust import own_process

__all__ = ["cases"]

READY = 10_000_000
READY_QUICK = 100_000
BODY_BYTES = 64


def cases(quick: bool) -> Sequence[Case]:
    """One row. The store is filled once, with a group for each run; every run is a process of its own."""
    ready = READY_QUICK if quick else READY
    return [
        Case(
            bench="backlog",
            unit="messages/s",
            durability="disk",
            n=ready,
            pairs=_drained(ready, runs_of(quick)),
            limit_words="every byte of the log and the runs read once, file by file, as cold",
            detail={"ready": ready, "body_bytes": BODY_BYTES, "from": "rust"},
        )
    ]


def _drained(ready: int, runs: int) -> Pairs:
    def pairs(folder: Path) -> Iterator[tuple[Figures, Figures]]:
        store = folder / "store"
        filled = own_process("backlog_fill", store, messages=ready, groups=runs, body_bytes=BODY_BYTES)
        told = {"unpulled_bytes": filled["value"], "filling_bytes": filled["memory_growth_bytes"]}
        for group in range(runs):
            _core.measure("restart_forget", str(store), {})
            ours = own_process("backlog", store, messages=ready, group=group, disk=1)
            _core.measure("restart_forget", str(store), {})
            yield {**ours, **told}, _core.measure("backlog_limit", str(store), {"messages": ready})

    return pairs
