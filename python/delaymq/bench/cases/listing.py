"""Entries a second of a list of all pending messages, in the core, in Python and over TCP, and forecasts a second."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_least, at_most
from delaymq.bench.row import Case, Figures, Measurement
from delaymq.bench.rust import measurement
from delaymq.bench.served import served
from delaymq.client.threads.client import connect
from delaymq.store import Store

ENTRIES_PER_S_LEAST = 1_000_000
SUBJECT_MS_MOST = 50.0
TOTALS_MS_MOST = 1.0
SUBJECT = "bench.listed"
BODY = bytes(64)
BATCH = 10_000
DELAY_S = 7 * 86_400
LIMIT_WORDS = "rows read from a file, checked, and their keys sorted"


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """A row from Rust, and two from Python: some entries are in memory, the rest in cached runs.

    Args:
        quick: Fewer messages, one run.
        scale: The number of pending messages, for the row from Rust only.
    """
    pending = scale or (100_000 if quick else 1_000_000)
    few = quick or scale is not None
    core = _case("core", pending, measurement("listing", pending=pending), quick=few, must=True)
    if scale is not None:
        return [core]
    fewer = 20_000 if quick else 200_000

    def embedded(folder: Path) -> Figures:
        with _filled(folder / "store", fewer) as store:
            return _listed(store.pending(prefix=""), fewer)

    def over_tcp(folder: Path) -> Figures:
        _filled(folder / "store", fewer).close()
        with served(folder / "store", "os") as server, connect(f"delaymq://127.0.0.1:{server.port}") as client:
            return _listed(client.pending(prefix=""), fewer)

    return [core, _case("python", fewer, embedded, quick=quick), _case("client", fewer, over_tcp, quick=quick)]


def _case(call: str, pending: int, ours: Measurement, *, quick: bool, must: bool = False) -> Case:
    return Case(
        bench="listing",
        unit="messages/s",
        durability="os",
        n=pending,
        pairs=interleaved(ours, measurement("listing_limit", pending=pending), quick=quick),
        limit_words=LIMIT_WORDS,
        detail={"pending": pending, "call": call, "from": "rust" if must else "python"},
        is_served=call == "client",
        must=at_least(value=ENTRIES_PER_S_LEAST) if must else (),
    )


def _filled(folder: Path, pending: int) -> Store:
    """A store with this many pending messages, half of them in a run."""
    store = Store.open(folder, durability="os")
    for number in range(0, pending, BATCH):
        if number == pending // 2:
            store.checkpoint()
        store.publish_many(SUBJECT, [BODY] * BATCH, DELAY_S)
    return store


def _listed(entries: Iterable[object], pending: int) -> Figures:
    started = time.perf_counter()
    count = sum(1 for _ in entries)
    passed = time.perf_counter() - started
    if count != pending:
        raise RuntimeError(f"{count} of {pending} were listed")
    return {"value": pending / passed}


def cases_forecast(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """Forecasts of one subject: one row, from Rust; some messages are in memory, the rest in cached runs.

    In addition to the subject and the totals it reports the subject after a quarter was cancelled: immediately
    (``cancelled_ms``), and when the store is idle again (``rested_ms``, after ``rest_s``).

    Args:
        quick: Fewer messages, one run.
        scale: The number of pending messages.
    """
    pending = scale or (100_000 if quick else 1_000_000)
    ours, limit = (measurement(name, pending=pending) for name in ("forecast", "forecast_limit"))
    return [
        Case(
            bench="forecast",
            unit="forecasts/s",
            durability="os",
            n=pending,
            pairs=interleaved(ours, limit, quick=quick or scale is not None),
            limit_words="cells read from a file, checked, and added up by minute",
            detail={"pending": pending, "from": "rust"},
            must=at_most(subject_ms=SUBJECT_MS_MOST, totals_ms=TOTALS_MS_MOST, rested_ms=SUBJECT_MS_MOST),
        )
    ]
