"""All benches by name, and the function that runs them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from delaymq.bench.cases import (
    asyncio_client,
    backlog,
    burst,
    changes,
    clients,
    commit,
    copies,
    event_loop,
    filters,
    lateness,
    listing,
    loopback,
    replay,
    restart,
    standing,
    wheel,
)
from delaymq.bench.machine import Moment, meanwhile
from delaymq.bench.row import Case, Row, summary

BENCHES: dict[str, Callable[[bool], Sequence[Case]]] = {
    "append": commit.cases_append,
    "commit": commit.cases,
    "publish": commit.cases_one,
    "publish_many": commit.cases_many,
    "wheel": wheel.cases,
    "lateness": lateness.cases,
    "restart": restart.cases,
    "listing": listing.cases,
    "forecast": listing.cases_forecast,
    "changes": changes.cases,
    "room": changes.cases_room,
    "memory": wheel.cases_memory,
    "burst": burst.cases,
    "hour": burst.cases_hour,
    "asyncio": event_loop.cases,
    "subjects": burst.cases_subjects,
    "backlog": backlog.cases,
    "replay": replay.cases,
    "filters": filters.cases,
    "loopback": loopback.cases,
    "connections": loopback.cases_of_connections,
    "clients": clients.cases,
    "asyncio_client": asyncio_client.cases,
    "held_pulls": standing.cases_held,
    "idle": standing.cases_idle,
    "ready": standing.cases_ready,
    "neighbour": standing.cases_neighbour,
    "failover": copies.cases_failover,
    "copies": copies.cases,
    "catch_up": copies.cases_catch_up,
}


SCALED: dict[str, Callable[[bool, int | None], Sequence[Case]]] = {
    "lateness": lateness.cases,
    "restart": restart.cases,
    "listing": listing.cases,
    "forecast": listing.cases_forecast,
    "changes": changes.cases,
    "room": changes.cases_room,
    "burst": burst.cases,
    "hour": burst.cases_hour,
    "backlog": backlog.cases,
    "replay": replay.cases,
}
"""The benches that run at any size."""


def planned(names: Sequence[str], *, quick: bool, served: bool = False, scale: int | None = None) -> list[Case]:
    """The cases of the named benches, or of all, in order of measurement.

    Args:
        names: Names of `BENCHES`; none means all.
        quick: Fewer messages and runs, without marks.
        served: Only cases that use a server.
        scale: The number of messages that are pending, ready or due at once, for benches of `SCALED`; None for the
            default.
    """

    def cases_of(name: str) -> Sequence[Case]:
        return SCALED[name](quick, scale) if scale is not None else BENCHES[name](quick)

    cases = (case for name in names or BENCHES for case in cases_of(name))
    chosen = [case for case in cases if case.is_served or not served]
    # Marks are for a warm store and many messages.
    return [replace(case, must=()) for case in chosen] if quick else chosen


def run(cases: Iterable[Case], *, quick: bool, folder: Path | None = None) -> Iterator[Row]:
    """Measures, row by row.

    Args:
        cases: The result of `planned`.
        quick: As for `planned`; it is noted in the rows.
        folder: Where the stores are created, on the disk to measure; None for a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="delaymq-bench-", dir=folder) as temporary:
        for case in cases:
            yield _measured(case, Path(temporary), quick=quick)


def _measured(case: Case, folder: Path, *, quick: bool) -> Row:
    before = Moment.now()
    own = folder / "case"
    own.mkdir()
    try:
        pairs = list(case.pairs(own))
    finally:
        shutil.rmtree(own)
    machine: dict[str, object] = {**meanwhile(before, Moment.now())}
    if quick:
        machine["quick"] = True
    return summary(case, [ours for ours, _ in pairs], [limit for _, limit in pairs], machine)
