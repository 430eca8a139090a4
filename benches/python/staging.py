"""Messages of a table that become staged runs, beside their bytes alone: `make bench-load`.

The figure is rows a second from record batches in memory to runs that are synced, in one process. The limit writes the
same bytes into as many files, which it syncs too, and does nothing else: it encodes, checks and sorts nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow

import delaymq
from delaymq.bench.machine import Moment, meanwhile
from delaymq.bench.row import Case, Figures, summary
from delaymq.loading import StagedRun, Stager, discard

BODY_BYTES = 160  # with the rest of its record 244, as where the budgets were measured
SUBJECTS = 10
BATCH = 8_192
RUNS = 5
STRIDE = 7_919  # a prime: neighbours in the table are not neighbours in time
SPREAD_S = 86_400


def main() -> None:
    """Stages a table again and again, and prints a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args()
    batches = table(chosen.messages).to_batches(max_chunksize=BATCH)
    with tempfile.TemporaryDirectory(prefix="delaymq-bench-") as temporary:
        store = Path(temporary) / "store"
        delaymq.open(store).close()
        before = Moment.now()
        discard(store, staged(store, batches)[1])  # what is loaded and allocated once is no part of it
        pairs = [pair(store, batches, chosen.messages) for _ in range(chosen.runs)]
        print(row(pairs, chosen.messages, before))


def table(messages: int) -> pyarrow.Table:
    """Messages of ten subjects, due within a day in no order."""
    first = datetime.now(UTC) + timedelta(days=1)
    numbers = pyarrow.array(range(messages), pyarrow.int64())
    offsets_us = [place * STRIDE % SPREAD_S * 1_000_000 for place in range(messages)]
    due = pyarrow.array([round(first.timestamp()) * 1_000_000 + offset for offset in offsets_us], pyarrow.int64())
    bodies = [number.to_bytes(8, "big") * (BODY_BYTES // 8) for number in numbers.to_pylist()]
    return pyarrow.table(
        {
            "subject": pyarrow.array([f"subject.{place % SUBJECTS}" for place in range(messages)]),
            "due": due.cast(pyarrow.timestamp("us", tz="UTC")),
            "body": pyarrow.array(bodies, pyarrow.binary()),
        }
    )


def pair(store: Path, batches: list[pyarrow.RecordBatch], messages: int) -> tuple[Figures, Figures]:
    """One run of each."""
    ours_s, runs = staged(store, batches)
    limit_s = written(store, runs)
    discard(store, runs)
    return {"value": messages / ours_s}, {"value": messages / limit_s}


def staged(store: Path, batches: list[pyarrow.RecordBatch]) -> tuple[float, tuple[StagedRun, ...]]:
    """Seconds of staging, and what it wrote."""
    begun = time.perf_counter()
    with Stager(store) as stager:
        for batch in batches:
            stager.add(batch)
        runs = stager.finish()
    return time.perf_counter() - begun, runs


def written(store: Path, runs: tuple[StagedRun, ...]) -> float:
    """Seconds of writing the same bytes."""
    whole = [(store / "loads" / run.name).read_bytes() for run in runs]
    folder = store.parent / "limit"
    folder.mkdir(exist_ok=True)
    begun = time.perf_counter()
    for number, content in enumerate(whole):
        with (folder / str(number)).open("wb", buffering=0) as file:
            view = memoryview(content)
            for at in range(0, len(view), 1 << 20):
                file.write(view[at : at + (1 << 20)])
            os.fdatasync(file.fileno())
    took = time.perf_counter() - begun
    for path in folder.iterdir():
        path.unlink()
    return took


def row(pairs: list[tuple[Figures, Figures]], messages: int, before: Moment) -> str:
    """Medians of both, with the spread and the load."""
    case = Case(
        bench="staging",
        unit="msg/s",
        durability="disk",
        n=messages,
        pairs=lambda _: pairs,
        limit_words="the same bytes written to as many files and synced",
        detail={"body_bytes": BODY_BYTES, "subjects": SUBJECTS, "batch": BATCH},
    )
    ours, limits = [mine for mine, _ in pairs], [limit for _, limit in pairs]
    return summary(case, ours, limits, meanwhile(before, Moment.now())).to_json()


if __name__ == "__main__":
    main()
