"""Forecasts a second of one subject."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_most
from delaymq.bench.row import Case
from delaymq.bench.rust import measurement

__all__ = ["cases"]

SUBJECT_MS_MOST = 50.0
TOTALS_MS_MOST = 1.0


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """One row, from Rust: some messages are in memory, the rest in cached runs.

    In addition to the subject and the totals it reports the subject after a quarter was cancelled: immediately
    (``cancelled_ms``), and when the store is idle again (``rested_ms``, after ``rest_s``).

    Args:
        quick: Fewer messages, one run.
        scale: The number of pending messages.
    """
    pending = scale or (100_000 if quick else 1_000_000)
    return [
        Case(
            bench="forecast",
            unit="forecasts/s",
            durability="os",
            n=pending,
            pairs=interleaved(
                measurement("forecast", pending=pending),
                measurement("forecast_limit", pending=pending),
                quick=quick or scale is not None,
            ),
            limit_words="cells read from a file, checked, and added up by minute",
            detail={"pending": pending, "from": "rust"},
            must=at_most(subject_ms=SUBJECT_MS_MOST, totals_ms=TOTALS_MS_MOST, rested_ms=SUBJECT_MS_MOST),
        )
    ]
