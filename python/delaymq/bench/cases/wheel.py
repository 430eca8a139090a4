"""Nanoseconds for one entry's insertion and expiry together."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case
from delaymq.bench.rust import measurement

__all__ = ["cases"]


def cases(quick: bool) -> Sequence[Case]:
    """One row; the limit is the standard library's heap, so a ratio over 1 is right here."""
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
