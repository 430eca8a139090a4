"""Anonymous memory of a pending message, compared with the empty store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from delaymq.bench.interleaving import interleaved
from delaymq.bench.row import Case, Figures
from delaymq.bench.rust import own_process

__all__ = ["cases"]

CHECKPOINT_FACTS = 1_048_576  # facts after which a checkpoint is taken, docs/limits.md


def cases(quick: bool) -> Sequence[Case]:
    """Within the window and beyond it, both after a checkpoint, and before one."""
    each = [_case(where, 100_000 if quick else 1_000_000, quick=quick) for where in ("window", "beyond")]
    return [*each, _recent(100_000 if quick else 5_000_000, quick=quick)]


def _case(where: str, messages: int, *, quick: bool) -> Case:
    def ours(folder: Path) -> Figures:
        return own_process("memory", folder, messages=messages, beyond=int(where == "beyond"))

    def limit(folder: Path) -> Figures:
        return own_process("memory_limit", folder, messages=messages, beyond=int(where == "beyond"))

    return Case(
        bench="memory",
        unit="bytes/message",
        durability="os",
        n=messages,
        pairs=interleaved(ours, limit, quick=quick),
        limit_words="8 bytes each in one array" if where == "window" else "two bits each in one array",
        higher_is_better=False,
        detail={"where": where, "pending": messages, "from": "rust"},
    )


def _recent(messages: int, *, quick: bool) -> Case:
    """Recent entries: the maximum of memory while a store fills faster than checkpoints are taken."""

    def ours(folder: Path) -> Figures:
        return own_process("memory_recent", folder, messages=messages)

    def limit(folder: Path) -> Figures:
        return own_process("memory_recent_limit", folder, messages=messages, recent_max=CHECKPOINT_FACTS)

    return Case(
        bench="memory",
        unit="MiB",
        durability="os",
        n=messages,
        pairs=interleaved(ours, limit, quick=quick),
        limit_words="32 bytes each in one array, of as many as a checkpoint waits for",
        higher_is_better=False,
        detail={"where": "recent", "pending": messages, "from": "rust"},
    )
