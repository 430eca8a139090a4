"""The result of the demo as text, with percentiles and bars of its durations."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from delaymq.demo.result import Result

EDGES_MS: tuple[float, ...] = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
BAR_CHARACTERS = 40


def percentile(ordered: Sequence[float] | array[float], share: float) -> float:
    """The value that `share` (0 to 1) of a sorted sequence does not exceed; 0.0 of an empty one."""
    if not ordered:
        return 0.0
    rank = max(1, -int(-share * len(ordered) // 1))
    return float(ordered[min(rank, len(ordered)) - 1])


def bars(values_ms: Iterable[float], edges_ms: Sequence[float] = EDGES_MS) -> list[str]:
    """One line for each bucket from the first to the last that is not empty."""
    counts = [0] * (len(edges_ms) + 1)
    for value in values_ms:
        counts[next((at for at, edge in enumerate(edges_ms) if value <= edge), len(edges_ms))] += 1
    filled = [at for at, count in enumerate(counts) if count]
    if not filled:
        return []
    highest = max(counts)
    lines = []
    for at in range(filled[0], filled[-1] + 1):
        label = f"<= {edges_ms[at]:g} ms" if at < len(edges_ms) else f"> {edges_ms[-1]:g} ms"
        bar = "#" * -(-counts[at] * BAR_CHARACTERS // highest)
        lines.append(f"{label:>12}  {counts[at]:>9,}  {bar}")
    return lines


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
