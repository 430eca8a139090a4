"""Messages a second of a group that starts with a large cold backlog; the limit is reading the same files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from delaymq import _core
from delaymq.bench.interleaving import runs_of
from delaymq.bench.row import Case, Figures, Pairs
from delaymq.bench.rust import own_process

READY = 10_000_000
READY_LARGE = 2_000_000
READY_QUICK = 100_000
READY_LARGE_QUICK = 20_000
BODY_BYTES = 64
BODY_BYTES_LARGE = 1_024
CONSUMERS = 2  # consumers of the group: one for each processor of a small machine
IN_FLIGHT_MAX = 65_535
DISK_BYTES_EACH = 300  # space of a message in the log and in a run, with prepared segments and merges
DISK_BYTES_PREPARED = 1 << 30


def disk_bytes(ready: int) -> int:
    """The disk space that this many messages need, in bytes."""
    return DISK_BYTES_PREPARED + ready * DISK_BYTES_EACH


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """Two rows, for small and for large bodies; only the small ones with a `scale`.

    The store is filled once, with groups of their own for each run; each group is drained in a process of its own.

    Args:
        quick: Fewer messages, one run.
        scale: The number of ready messages, which overrides `quick`; progress is printed to standard error.
    """
    small = scale or (READY_QUICK if quick else READY)
    large = READY_LARGE_QUICK if quick else READY_LARGE
    sizes = [(small, BODY_BYTES)] + ([] if scale else [(large, BODY_BYTES_LARGE)])
    return [
        Case(
            bench="backlog",
            unit="messages/s",
            durability="disk",
            n=ready,
            pairs=_drained(ready, body_bytes, runs_of(quick), tells=scale is not None),
            limit_words="every byte of the log and the runs read once, file by file, by as many threads, as cold",
            detail={"ready": ready, "body_bytes": body_bytes, "consumers": CONSUMERS, "from": "rust"},
        )
        for ready, body_bytes in sizes
    ]


def _drained(ready: int, body_bytes: int, runs: int, *, tells: bool) -> Pairs:
    def pairs(folder: Path) -> Iterator[tuple[Figures, Figures]]:
        store, began = folder / "store", time.monotonic()
        fills = {"messages": ready, "groups": 2 * runs, "body_bytes": body_bytes, "tells": int(tells)}
        filled = own_process("backlog_fill", store, **fills)
        extra = {
            "unpulled_bytes": filled["value"],
            "filling_bytes": filled["memory_growth_bytes"],
            "filling_s": time.monotonic() - began,
            "disk_bytes": float(_allocated_bytes(store)),
        }
        drains = {"messages": ready, "disk": 1, "tells": int(tells), "in_flight_max": IN_FLIGHT_MAX}
        for group in range(0, 2 * runs, 2):
            _core.measure("restart_forget", str(store), {})
            ours = own_process("backlog", store, group=group, consumers=CONSUMERS, **drains)
            _core.measure("restart_forget", str(store), {})
            alone = own_process("backlog", store, group=group + 1, consumers=1, **drains)
            extra["of_one_consumer_per_s"] = alone["value"]
            _core.measure("restart_forget", str(store), {})
            limit = {"messages": ready, "consumers": CONSUMERS}
            yield {**ours, **extra}, _core.measure("backlog_limit", str(store), limit)

    return pairs


def _allocated_bytes(folder: Path) -> int:
    """The disk space of the files below a folder."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
