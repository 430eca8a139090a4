"""How the lives of a server end: at a moment, at a failpoint, stopped for a while, stopped and then killed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAILPOINTS = ROOT / "rust" / "core" / "src" / "planted" / "failpoint.rs"
MOMENT, FAILPOINT, STOPPED, KILLED_WHILE_STOPPED = "moment", "failpoint", "stopped", "killed_while_stopped"
CAUSES = (MOMENT, FAILPOINT, STOPPED, KILLED_WHILE_STOPPED)
# A failpoint that is passed at every batch may kill at the n-th; one that comes once in a life at the first.
COUNT_MAX = 60
ONCE_IN_A_LIFE = frozenset(
    {"FoldersSynced", "CheckpointRestored", "EpochRaised", "UnusedRemoved", "RepairCopied", "RepairSealed"}
    | {"RepairRenamed", "Repaired", "LogApplied", "EpochBegins", "EpochBegun", "IdentityWritten", "IdentitySynced"}
    | {"IdentityRenamed", "LaterCleared"}
)
RARE = frozenset(
    {"RollBegins", "SealWritten", "Rolled", "CheckpointUnlinked", "FileUnlinked", "Retired", "RetireBegins"}
    | {"RunWritten", "RunSynced", "RunRenamed", "CheckpointBegins", "CheckpointWritten", "CheckpointSynced"}
    | {"CheckpointRenamed", "CheckpointInstalled"}
    | {"PreparingBegun", "PreparingWritten", "SegmentRenamed", "SegmentInstalled"}
)
WHEN_IDLE = frozenset({"WitnessWritten"})
"""Where a process comes only while little is published: the lives that are to end there have less to do."""


@dataclass(frozen=True)
class Kill:
    """The end of one life."""

    cause: str
    after_seconds: float
    """Since it serves; of a failpoint: until it is killed all the same."""
    failpoint: str = ""
    count: int = 0
    stopped_seconds: float = 0


def failpoints() -> list[str]:
    """The names of all, as the core has them."""
    text = FAILPOINTS.read_text(encoding="utf-8")
    _, _, listed = text.partition("failpoints! {\n")
    body, _, _ = listed.partition("\n}")
    return re.findall(r"^    (\w+),$", body, re.MULTILINE)


def kills(
    chance: random.Random,
    count: int,
    named: list[str],
    *,
    first: int,
    life_seconds: float,
    patience_seconds: float,
    only_there: bool = False,
) -> Iterator[Kill]:
    """So many. With failpoints two of three are at one, each in its turn from place `first` on, or all, the first time
    that it is reached, behind one at a moment, so that somebody gets in; of the others one of three is a stop."""
    place = first
    if only_there:
        yield Kill(MOMENT, life_seconds)
    for _ in range(count):
        after_seconds = life_seconds * chance.uniform(0.2, 1.8)
        if named and (only_there or chance.random() < 2 / 3):
            name = named[place % len(named)]
            place += 1
            most = 1 if only_there or name in ONCE_IN_A_LIFE | WHEN_IDLE else 3 if name in RARE else COUNT_MAX
            yield Kill(FAILPOINT, patience_seconds, name, chance.randint(1, most))
        elif chance.random() < 1 / 3:
            cause = chance.choice((STOPPED, KILLED_WHILE_STOPPED))
            yield Kill(cause, after_seconds, stopped_seconds=chance.uniform(0.02, 0.4))
        else:
            yield Kill(MOMENT, after_seconds)
