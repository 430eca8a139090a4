"""Histograms of durations: percentiles, and bars for a terminal."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

__all__ = ["EDGES_MS", "bars", "percentile"]

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
