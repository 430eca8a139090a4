"""The cost of a pending message: nanoseconds in the timing wheel, and anonymous memory beside the empty store."""

from __future__ import annotations

from collections.abc import Sequence

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case
from delaymq.bench.rust import in_process, measurement

EACH = "bytes each in one array"
CHECKPOINT_FACTS = 1_048_576  # facts after which a checkpoint is taken, docs/limits.md


def cases(quick: bool) -> Sequence[Case]:
    """One row, for insertion and expiry. The limit is the standard library's heap, so the ratio may exceed 1."""
    pending = 200_000 if quick else 1_000_000
    ours, limit = (measurement(name, pending=pending) for name in ("wheel", "wheel_limit"))
    return [
        Case(
            bench="wheel",
            unit="ns",
            durability="none",
            n=pending,
            pairs=interleaved(ours, limit, quick=quick),
            limit_words="std::collections::BinaryHeap of 16-byte entries",
            higher_is_better=False,
            detail={"pending": pending, "from": "rust"},
        )
    ]


def cases_memory(quick: bool) -> Sequence[Case]:
    """Within the window and beyond it, both after a checkpoint, and recent entries.

    For recent entries, it is the maximum while a store fills faster than checkpoints are taken.
    """
    few, many = (100_000, 100_000) if quick else (1_000_000, 5_000_000)
    rows: tuple[tuple[str, str, int, dict[str, int], str, str], ...] = (
        ("window", "memory", few, {"beyond": 0}, "bytes/message", f"8 {EACH}"),
        ("beyond", "memory", few, {"beyond": 1}, "bytes/message", "two bits each in one array"),
        ("recent", "memory_recent", many, {}, "MiB", f"32 {EACH}, of as many as a checkpoint waits for"),
    )
    return [
        Case(
            bench="memory",
            unit=unit,
            durability="os",
            n=messages,
            pairs=interleaved(
                in_process(name, messages=messages, **numbers),
                in_process(f"{name}_limit", messages=messages, **(numbers or {"recent_max": CHECKPOINT_FACTS})),
                quick=quick,
            ),
            limit_words=words,
            higher_is_better=False,
            detail={"where": where, "pending": messages, "from": "rust"},
        )
        for where, name, messages, numbers, unit, words in rows
    ]
