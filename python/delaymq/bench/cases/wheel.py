"""Nanoseconds for the insertion and expiry of one entry of the timing wheel."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case
from delaymq.bench.rust import measurement

__all__ = ["cases"]


def cases(quick: bool) -> Sequence[Case]:
    """One row. The limit is the standard library's heap, so the ratio may exceed 1."""
    pending = 200_000 if quick else 1_000_000
    return [
        Case(
            bench="wheel",
            unit="ns",
            durability="none",
            n=pending,
            pairs=interleaved(
                measurement("wheel", pending=pending), measurement("wheel_limit", pending=pending), quick=quick
            ),
            limit_words="std::collections::BinaryHeap of 16-byte entries",
            higher_is_better=False,
            detail={"pending": pending, "from": "rust"},
        )
    ]
