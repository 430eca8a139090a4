"""What the second reader says of the files of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from format_reader.checkpoints import read_checkpoint
from format_reader.runs import SCHEDULE
from format_reader.segments import read_segment
from format_reader.store import numbered, read_runs
from tables.oracle import Row, moment

HOUR_MS = 3_600_000


def segments(folder: Path) -> list[Row]:
    """The table `segments` of a store that was closed: segments with facts, then runs that a checkpoint names."""
    newest = max(numbered(folder / "checkpoints", "checkpoint").items(), default=None)
    body = read_checkpoint(newest[1].read_bytes())["body"] if newest else {"floor": 1}
    rows = []
    for number, path in numbered(folder / "log", "segment").items():
        segment = read_segment(path.read_bytes())
        if not segment.batches or number < body["floor"]:
            continue
        headers = [batch.header for batch in segment.batches]
        first, end = headers[0]["base_sequence"], segment.batches[-1].next_sequence
        if first < end:
            times = (moment(headers[0]["trusted_ms"]), moment(headers[-1]["trusted_ms"]))
            spans = (first, end)
            rows.append(_file("message", path, spans, end - first, times, is_sealed=segment.is_sealed))
    for number, run in read_runs(folder).items():
        sequences = [row["sequence"] for row in run.rows]
        is_schedule = run.header["kind"] == SCHEDULE
        dues = [row["due_ms"] for row in run.rows]
        last = max(dues) // HOUR_MS * HOUR_MS + HOUR_MS - 1
        of_schedule = (moment(min(dues)), moment(last)) if is_schedule else (None, None)
        log = "schedule" if is_schedule else "dispatch"
        spans = (min(sequences), max(sequences) + 1)
        path = folder / "runs" / f"{number:010d}.run"
        rows.append(_file(log, path, spans, len(run.rows), of_schedule, is_sealed=True))
    return rows


def _file(
    log: str,
    path: Path,
    sequences: tuple[int, int],
    rows: int,
    times: tuple[Any, Any],
    *,
    is_sealed: bool,
) -> Row:
    return {
        "log": log,
        "path": str(path.relative_to(path.parents[1])),
        "number": int(path.stem),
        "base_sequence": sequences[0],
        "end_sequence": sequences[1],
        "rows": rows,
        "bytes": path.stat().st_size,
        "min_time": times[0],
        "max_time": times[1],
        "sealed": is_sealed,
    }
