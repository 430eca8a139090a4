"""Messages a second over many subjects in turn, from the publish until all are acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import measurement, own_process

__all__ = ["cases"]

SUBJECTS = (1, 100, 1000, 10_000)
SUBJECTS_QUICK = (1, 1000)
BODY_BYTES = 64
BATCH = 1000


def cases(quick: bool) -> Sequence[Case]:
    """A row for each number of subjects with the same traffic; one thread consumes for all their groups."""
    return [_case(subjects, quick=quick) for subjects in (SUBJECTS_QUICK if quick else SUBJECTS)]


def _case(subjects: int, *, quick: bool) -> Case:
    messages = 50_000 if quick else 1_000_000
    numbers = {"messages": messages, "subjects": subjects, "body_bytes": BODY_BYTES, "batch": BATCH, "disk": 1}

    def ours(folder: Path) -> Figures:
        return own_process("subjects", folder, **numbers)

    return Case(
        bench="subjects",
        unit="messages/s",
        durability="disk",
        n=messages,
        pairs=interleaved(ours, measurement("subjects_limit", **numbers), quick=quick),
        limit_words="the messages of each batch written with a sync and read once, then as many assignments "
        "and acknowledgements written with a sync",
        detail={"subjects": subjects, "batch": BATCH, "body_bytes": BODY_BYTES, "from": "rust"},
    )
