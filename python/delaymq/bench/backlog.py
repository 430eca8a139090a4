"""Messages a second of a group that starts at the earliest of many that are ready and that nobody has pulled, cold."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from delaymq import _core
from delaymq.bench.interleaving import runs_of
from delaymq.bench.row import Case, Figures, Pairs
from delaymq.bench.rust import own_process

__all__ = ["cases", "disk_bytes"]

READY = 10_000_000
READY_QUICK = 100_000
BODY_BYTES = 64
DISK_BYTES_EACH = 300  # of a message in the log and in a run, with room for what is prepared and merged
DISK_BYTES_PREPARED = 1 << 30


def disk_bytes(ready: int) -> int:
    """The room on the disk that so many messages need, in bytes."""
    return DISK_BYTES_PREPARED + ready * DISK_BYTES_EACH


def cases(quick: bool, messages: int | None = None) -> Sequence[Case]:
    """One row. The store is filled once, with a group for each run; every run is a process of its own.

    Args:
        quick: Fewer messages, one run.
        messages: How many are ready, whatever `quick` says; how far it is, is told on standard error.
    """
    ready = messages or (READY_QUICK if quick else READY)
    return [
        Case(
            bench="backlog",
            unit="messages/s",
            durability="disk",
            n=ready,
            pairs=_drained(ready, runs_of(quick), tells=messages is not None),
            limit_words="every byte of the log and the runs read once, file by file, as cold",
            detail={"ready": ready, "body_bytes": BODY_BYTES, "from": "rust"},
        )
    ]


def _drained(ready: int, runs: int, *, tells: bool) -> Pairs:
    def pairs(folder: Path) -> Iterator[tuple[Figures, Figures]]:
        store, began = folder / "store", time.monotonic()
        fills = {"messages": ready, "groups": runs, "body_bytes": BODY_BYTES, "tells": int(tells)}
        filled = own_process("backlog_fill", store, **fills)
        told = {
            "unpulled_bytes": filled["value"],
            "filling_bytes": filled["memory_growth_bytes"],
            "filling_s": time.monotonic() - began,
            "disk_bytes": float(_allocated_bytes(store)),
        }
        for group in range(runs):
            _core.measure("restart_forget", str(store), {})
            ours = own_process("backlog", store, messages=ready, group=group, disk=1, tells=int(tells))
            _core.measure("restart_forget", str(store), {})
            yield {**ours, **told}, _core.measure("backlog_limit", str(store), {"messages": ready})

    return pairs


def _allocated_bytes(folder: Path) -> int:
    """What the files below a folder take of the disk."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
