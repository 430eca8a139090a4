"""Messages a second that a program in Rust stores in the log and the schedule."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_least
from delaymq.bench.row import Case
from delaymq.bench.rust import measurement

__all__ = ["COPIED", "cases"]

BODY_BYTES = 256
BATCH = 1000
RECORDS_PER_S_LEAST = {False: 3_000_000, True: 2_000_000}  # near, and far
COPIED = "the same bytes copied in memory"


def cases(quick: bool) -> Sequence[Case]:
    """One row within the window, in which a checkpoint copies nothing, and one beyond it."""
    messages = 200_000 if quick else 1_000_000
    return [_case(messages, far=far, quick=quick) for far in (False, True)]


def _case(messages: int, *, far: bool, quick: bool) -> Case:
    numbers = {
        "messages": messages,
        "body_bytes": BODY_BYTES,
        "batch": BATCH,
        "far": int(far),
        "settle": int(not quick),
    }
    return Case(
        bench="append",
        unit="records/s",
        durability="os",
        n=messages,
        pairs=interleaved(measurement("append", **numbers), measurement("append_limit", **numbers), quick=quick),
        limit_words="pwrite of the same batches into a prepared file"
        + (", pwrite of a run with the same payloads, one fdatasync" if far else ""),
        plain_words=COPIED,
        detail={"where": "beyond" if far else "window", "batch": BATCH, "body_bytes": BODY_BYTES, "from": "rust"},
        must=at_least(value=RECORDS_PER_S_LEAST[far]),
    )
