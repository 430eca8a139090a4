"""Entries a second of a list of all that is pending."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.marks import at_least
from delaymq.bench.row import Case
from delaymq.bench.rust import measurement

__all__ = ["ENTRIES_PER_S_LEAST", "cases"]

ENTRIES_PER_S_LEAST = 1_000_000


def cases(quick: bool, scale: int | None = None) -> Sequence[Case]:
    """One row, from Rust: a part of the entries is in memory, the rest in runs that the cache has.

    Args:
        quick: Fewer messages, one run.
        scale: How many are pending.
    """
    pending = scale or (100_000 if quick else 1_000_000)
    return [
        Case(
            bench="listing",
            unit="messages/s",
            durability="os",
            n=pending,
            pairs=interleaved(
                measurement("listing", pending=pending),
                measurement("listing_limit", pending=pending),
                quick=quick or scale is not None,
            ),
            limit_words="rows read from a file, checked, and their keys sorted",
            detail={"pending": pending, "from": "rust"},
            must=at_least(value=ENTRIES_PER_S_LEAST),
        )
    ]
