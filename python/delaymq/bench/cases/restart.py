"""Seconds until a store is usable again, after a SIGKILL with many pending messages and cold files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from delaymq import _core
from delaymq.bench.interleaving import runs_of
from delaymq.bench.marks import at_most
from delaymq.bench.row import Case, Figures, Pairs
from delaymq.bench.rust import killed_afterwards

PENDING = (1_000_000, 10_000_000)
PENDING_QUICK = (200_000,)
BODY_BYTES = 64
DUE_PAUSE_S = 0.1  # until the last message is due
MOMENTS = {"publish": "publish_s", "delivery": "delivery_s"}
SECONDS_MOST = 2.0
MEMORY_BYTES_MOST = 1 << 30
TOLD = ("open_s", "read_bytes", "facts", "memory_bytes")


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """For each number of pending messages, one row for each moment, from the same restarts.

    Args:
        quick: Fewer messages, one run.
        scale: The number of pending messages, which overrides `quick`.
    """
    found: list[Case] = []
    for pending in (scale,) if scale else PENDING_QUICK if quick else PENDING:
        restarts = Restarts(pending, runs_of(quick))
        found += [_case(restarts, moment) for moment in MOMENTS]
    return found


class Restarts:
    """Restarts of one store that is filled once and killed after each, measured on first use."""

    def __init__(self, pending: int, runs: int) -> None:
        self.pending = pending
        self._runs = runs
        self._found: list[tuple[Figures, Figures]] = []

    def of(self, moment: str) -> Pairs:
        """The runs with one of the moments as the value."""

        def pairs(folder: Path) -> Sequence[tuple[Figures, Figures]]:
            if not self._found:
                self._measure(folder / "store")
            return [
                ({"value": ours[MOMENTS[moment]], **{name: ours[name] for name in TOLD}}, limit)
                for ours, limit in self._found
            ]

        return pairs

    def _measure(self, store: Path) -> None:
        killed_afterwards("restart_fill", store, pending=self.pending, body_bytes=BODY_BYTES)
        for _ in range(self._runs):
            time.sleep(DUE_PAUSE_S)
            _core.measure("restart_forget", str(store), {})
            ours = killed_afterwards("restart", store)
            _core.measure("restart_forget", str(store), {})
            limit = _core.measure("restart_limit", str(store), {"read_bytes": ours["read_bytes"]})
            self._found.append((ours, limit))


def _case(restarts: Restarts, moment: str) -> Case:
    return Case(
        bench="restart",
        unit="s",
        durability="os",
        n=restarts.pending,
        pairs=restarts.of(moment),
        limit_words="reading as many bytes of the same files, newest first, as cold",
        higher_is_better=False,
        detail={"pending": restarts.pending, "moment": moment, "body_bytes": BODY_BYTES, "from": "rust"},
        must=at_most(value=SECONDS_MOST, memory_bytes=MEMORY_BYTES_MOST),
    )
