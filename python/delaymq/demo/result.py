"""The result of a run of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from delaymq.demo.ledger import Kill, Verdict
from delaymq.demo.settings import Settings


@dataclass
class Result:
    """The result of a run.

    Attributes:
        settings: The settings.
        verdict: The counts and the broken promises.
        kills: The messages in flight at each kill that counts.
        lives: For each life of the killed process: milliseconds of its open, facts applied, and seconds from the call
            of open to the first answered publish (None without one).
        lateness_ms: Sorted lateness of messages that were due while the store was open.
        lateness_after_restart_ms: Sorted lateness of messages that were due while it was not.
        published_s: Seconds from the first publish to the last answer, with the restarts.
        seconds: Duration of the run.
        left: Messages in the store that are pending or unfinished.
        failures: Errors of the demo itself, as text.
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
        """The broken promises, and other reasons why the run does not count."""
        broken = [*self.verdict.broken, *self.failures]
        if self.left:
            broken.append(f"{self.left:,} messages left unfinished in the store")
        counted = sum(kill.counts for kill in self.kills)
        if counted < self.settings.kills:
            broken.append(f"only {counted} of {self.settings.kills} kills met enough in flight")
        return broken

    @property
    def kept(self) -> bool:
        """True if every promise was kept."""
        return not self.broken
