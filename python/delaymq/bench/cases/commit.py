"""Durable acknowledgements a second, by the number of publishes in flight from one submitter."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case
from delaymq.bench.rust import measurement

__all__ = ["cases"]

BODY_BYTES = 256
BATCH = 1  # messages in each publish; the store commits all that are in flight together
IN_FLIGHT = (1, 16, 64, 256, 1024)
COMMITS = 2000  # approximate number of syncs of a run
COMMITS_QUICK = 300
MESSAGES_MAX = 500_000


def cases(quick: bool) -> Sequence[Case]:
    """One row for each number in flight."""
    return [_case(in_flight, quick=quick) for in_flight in IN_FLIGHT]


def _case(in_flight: int, *, quick: bool) -> Case:
    messages = min(MESSAGES_MAX, in_flight * (COMMITS_QUICK if quick else COMMITS))
    numbers = {
        "messages": messages,
        "in_flight": in_flight,
        "body_bytes": BODY_BYTES,
        "disk": 1,
        "settle": int(not quick),
    }
    return Case(
        bench="commit",
        unit="acks/s",
        durability="disk",
        n=messages,
        pairs=interleaved(measurement("commit", **numbers), measurement("commit_limit", **numbers), quick=quick),
        limit_words="pwrite of as many records, fdatasync, again and again, into a prepared file",
        detail={"in_flight": in_flight, "batch": BATCH, "body_bytes": BODY_BYTES, "from": "rust"},
    )
