"""Which writes of a recorded disk belong to which stage of a store: its first start, a roll, a checkpoint, retirement.

A stage is seen from outside, by the names in the store's folder and the first bytes behind a segment's header. Each
look at them knows how many writes and flushes the disk had taken by then, so that a change between two looks lies
between two places of the record. The file system writes names down later than it shows them: a stage ends with the
second flush behind the look that saw its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STAGES = ("first start", "roll", "checkpoint", "retire")
SEGMENT_HEADER_BYTES = 4_096
FOLDERS = ("log", "runs", "checkpoints")
UNFINISHED = ".tmp"
Span = tuple[int, int]


@dataclass(frozen=True)
class Picture:
    """What a store's folder shows."""

    has_identity: bool = False
    used: frozenset[str] = frozenset()
    """Segments with a batch."""
    names: frozenset[str] = frozenset()
    """Every file of the log, the runs and the checkpoints."""

    @property
    def unfinished(self) -> frozenset[str]:
        """Runs and checkpoints that are being written."""
        return frozenset(name for name in self.names if name.endswith(UNFINISHED) and not name.startswith("log/"))

    @property
    def finished(self) -> frozenset[str]:
        return frozenset(name for name in self.names if not name.endswith(UNFINISHED))


NOTHING = Picture()


def picture(store: Path) -> Picture:
    """Looks at a folder while its store works; what goes meanwhile is not there."""
    names: set[str] = set()
    used: set[str] = set()
    for folder in FOLDERS:
        try:
            found = [path for path in (store / folder).iterdir() if path.is_file()]
        except OSError:
            continue
        names.update(f"{folder}/{path.name}" for path in found)
        if folder == "log":
            used.update(path.name for path in found if path.suffix == ".segment" and _has_batch(path))
    return Picture((store / "identity").exists(), frozenset(used), frozenset(names))


def _has_batch(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(SEGMENT_HEADER_BYTES)
            return any(file.read(8))
    except OSError:
        return False


def spans(pictures: Sequence[tuple[int, Picture]], flushes: Sequence[int]) -> dict[str, list[Span]]:
    """Where each stage lies: `pictures` in order, each with the events before it; `flushes` are places of events."""
    found: dict[str, list[Span]] = {stage: [] for stage in STAGES}
    began_at, before = 0, NOTHING
    checkpoint_from: int | None = None
    for event, now in pictures:
        if now.used and not before.used:
            found["first start"].append((0, event))
        elif len(now.used - before.used) > 0:
            found["roll"].append((began_at, event))
        if checkpoint_from is None and (now.unfinished - before.unfinished or _new_run(before, now)):
            checkpoint_from = began_at
        if any(name.startswith("checkpoints/") for name in now.finished - before.finished):
            found["checkpoint"].append((began_at if checkpoint_from is None else checkpoint_from, event))
            checkpoint_from = None
        if before.finished - now.finished:
            found["retire"].append((began_at, event))
        began_at, before = event, now
    return {stage: [(start, _settled(end, flushes)) for start, end in of_it] for stage, of_it in found.items()}


def _new_run(before: Picture, now: Picture) -> bool:
    return any(name.startswith("runs/") for name in now.finished - before.finished)


def _settled(end: int, flushes: Sequence[int]) -> int:
    """The place behind the second flush from `end` on, or the last there is."""
    later = [at for at in flushes if at >= end][:2]
    return later[-1] + 1 if later else end
