"""The demo's result, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delaymq.demo.ledger import Kill, Verdict
from delaymq.histogram import bars, percentile

if TYPE_CHECKING:
    from delaymq.demo.conductor import Settings

__all__ = ["Result", "lines"]


@dataclass
class Result:
    """Everything that a run found.

    Attributes:
        settings: How it ran.
        verdict: The counts and the promises broken.
        kills: What was in flight at each kill that counts.
        lives: For each life of the child: milliseconds of its open, facts applied, and seconds from
            the call of open to the first publish answered (None where there was none).
        lateness_ms: Sorted; of what was due while a child had the store open.
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


def lines(result: Result) -> Iterator[str]:
    """The result, line by line."""
    verdict = result.verdict
    for number, kill in enumerate(result.kills, 1):
        yield (
            f"kill {number}: {kill.publishes} publishes under way ({kill.messages:,} messages), "
            f"{kill.unacknowledged:,} messages unacknowledged"
        )
    for open_ms, facts, first_answer_s in result.lives[1:]:
        answered = "none" if first_answer_s is None else f"{first_answer_s * 1000:,.0f} ms"
        yield f"recovered in {open_ms:,.0f} ms ({facts:,} facts applied); first publish answered after {answered}"
    bound = f"allowed: {verdict.duplicates_allowed:,}; sent again after an unanswered publish: {verdict.resent:,}"
    rows = (
        ("published", f"{verdict.published:,}"),
        ("cancelled", f"{verdict.cancelled:,}"),
        ("delivered", f"{verdict.delivered:,}"),
        ("lost", f"{verdict.lost:,}"),
        ("early", f"{verdict.early:,}"),
        ("duplicated", f"{verdict.duplicated:,}  ({bound})"),
        ("left", f"{result.left:,}"),
        ("lateness", _percentiles(result.lateness_ms)),
        ("", f"and {_percentiles(result.lateness_after_restart_ms)} of what was due while it was down"),
        ("rate", f"{_rate(verdict.published, result.published_s)} published durably, restarts included"),
        ("", f"{_rate(verdict.delivered, result.seconds)} from the first line to the last"),
    )
    for name, value in rows:
        yield f"{name:<12}{value}"
    yield from bars(result.lateness_ms)
    yield f"{result.seconds:.1f} s in all"
    yield from (f"BROKEN: {line}" for line in result.broken)
    yield "every promise kept" if result.kept else "promises broken"


def _percentiles(ordered: Sequence[float]) -> str:
    if not ordered:
        return "none"
    shares = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
    figures = ", ".join(f"{name} {percentile(ordered, share):.2f} ms" for name, share in shares)
    return f"{figures}  (n {len(ordered):,})"


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} messages/s" if seconds > 0 else "no rate"
