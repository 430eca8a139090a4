"""Messages a second, and memory, for an hour of evenly spread messages that is passed at full speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_most
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import measurement, own_process

__all__ = ["cases"]

MESSAGES = 2_000_000
MESSAGES_QUICK = 50_000
ANONYMOUS_BYTES_MOST = 1 << 30  # of the whole process
BATCH = 1024
IN_FLIGHT_MAX = 16_384


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """One row: published and consumed in Rust, in a process of its own.

    Args:
        quick: Fewer messages, one run.
        scale: The number of messages within the hour, in one run.
    """
    messages = scale or (MESSAGES_QUICK if quick else MESSAGES)
    numbers = {"messages": messages, "disk": 1}
    seconds = measurement("burst_limit", step_messages=IN_FLIGHT_MAX, **numbers)

    def ours(folder: Path) -> Figures:
        return own_process("hour", folder, **numbers)

    def limit(folder: Path) -> Figures:
        return {"value": messages / seconds(folder)["value"]}

    return [
        Case(
            bench="hour",
            unit="messages/s",
            durability="disk",
            n=messages,
            pairs=interleaved(ours, limit, quick=quick or scale is not None),
            limit_words="ready facts and acknowledgements written with a sync for each 16,384, each message read once",
            detail={"pending": messages, "batch": BATCH, "in_flight_max": IN_FLIGHT_MAX, "from": "rust"},
            must=at_most(anonymous_bytes=ANONYMOUS_BYTES_MOST),
        )
    ]
