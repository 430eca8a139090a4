"""Everything that a run of the demo found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delaymq.demo.ledger import Kill, Verdict

if TYPE_CHECKING:
    from delaymq.demo.settings import Settings

__all__ = ["Result"]


@dataclass
class Result:
    """Everything that a run found.

    Attributes:
        settings: How it ran.
        verdict: The counts and the promises broken.
        kills: What was in flight at each kill that counts.
        lives: For each life of what is killed: milliseconds of its open, facts applied, and seconds from
            the call of open to the first publish answered (None where there was none).
        lateness_ms: Sorted; of what was due while the store was open.
        lateness_after_restart_ms: Sorted; of what was due while none had.
        published_s: Seconds from the first publish to the last answer, with the restarts.
        seconds: Of the whole run.
        left: Messages that the store still holds, pending or unfinished.
        failures: What went wrong in the machinery, a text each.
    """

    settings: Settings
    verdict: Verdict
    kills: list[Kill] = field(default_factory=list)
    lives: list[tuple[float, int, float | None]] = field(default_factory=list)
    lateness_ms: Sequence[float] = ()
    lateness_after_restart_ms: Sequence[float] = ()
    published_s: float = 0.0
    seconds: float = 0.0
    left: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def broken(self) -> list[str]:
        """Every promise broken, and whatever else keeps the run from counting."""
        broken = [*self.verdict.broken, *self.failures]
        if self.left:
            broken.append(f"{self.left:,} messages left unfinished in the store")
        counted = sum(kill.counts for kill in self.kills)
        if counted < self.settings.kills:
            broken.append(f"only {counted} of {self.settings.kills} kills met enough in flight")
        return broken

    @property
    def kept(self) -> bool:
        """True where every promise was kept."""
        return not self.broken
