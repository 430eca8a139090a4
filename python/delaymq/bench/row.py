"""One row of a bench: what was reached, what the machine allows, and how that was measured."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delaymq.bench.marks import Judged, Mark

__all__ = ["Case", "Row", "case_words", "summary"]

Figures = Mapping[str, float]
"""What one measurement found; `value` is what the row is about."""

Measurement = Callable[[Path], Figures]
"""Measures once, in a folder of its own."""

Pairs = Callable[[Path], Iterable[tuple[Figures, Figures]]]
"""Measures delaymq and its limit by turns, in a folder: the figures of both, run by run."""

PEAKS = ("memory_growth_bytes",)  # figures of which the greatest is told, not the median
COUNTED = ("early",)  # figures of which the sum over the runs is told, not the median

NAMING = (
    "where",
    "rate_per_s",
    "beside",
    "over",
    "consumer",
    "connections",
    "pulls",
    "in_flight",
    "batch",
    "subjects",
    "pending",
    "ready",
    "moment",
    "call",
)  # the details that tell one case of a bench from another
NAMED_BY_VALUE = ("where", "call")  # those whose value says it all


@dataclass(frozen=True)
class Case:
    """One row to be measured.

    Attributes:
        bench: The name of the bench.
        unit: The unit of value and limit.
        durability: `"disk"`, `"os"` or `"none"`.
        n: How many messages one run handles.
        pairs: Measures delaymq, and the same system calls and bytes with no logic.
        limit_words: What the limit does.
        higher_is_better: True for rates, False for times and sizes.
        plain_words: What the second limit does, which a run of the limit tells as `plain`; None
            where there is none that would say something.
        detail: What names the case: rate_per_s, in_flight, …
        is_served: True where it goes through a server in a process of its own.
        must: What its figures must reach at this size on any machine; none where nobody said so.
    """

    bench: str
    unit: str
    durability: str
    n: int
    pairs: Pairs
    limit_words: str
    higher_is_better: bool = True
    plain_words: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    is_served: bool = False
    must: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Row:
    """What is printed."""

    bench: str
    unit: str
    value: float
    limit: float
    ratio: float
    durability: str
    n: int
    detail: Mapping[str, Any]
    must: tuple[Judged, ...] = ()

    @property
    def missed(self) -> tuple[Judged, ...]:
        """The marks that were not reached."""
        return tuple(judged for judged in self.must if not judged.is_met)

    def to_json(self) -> str:
        """One JSON object, on one line; the marks stand in its detail, where there are any."""
        detail = {name: _significant(value) for name, value in self.detail.items()}
        if self.must:
            detail["must"] = [judged.told() for judged in self.must]
        return json.dumps(
            {
                "bench": self.bench,
                "unit": self.unit,
                "value": _significant(self.value),
                "limit": _significant(self.limit),
                "ratio": _significant(self.ratio),
                "durability": self.durability,
                "n": self.n,
                "detail": detail,
            }
        )


def summary(case: Case, ours: Sequence[Figures], limits: Sequence[Figures], machine: Mapping[str, Any]) -> Row:
    """The row of a case: medians, with their spread.

    Args:
        case: What was measured.
        ours: The figures of each run of delaymq.
        limits: The figures of each run of the limit, interleaved with those.
        machine: What the machine was doing meanwhile.
    """
    value = statistics.median(figures["value"] for figures in ours)
    limit = statistics.median(figures["value"] for figures in limits)
    above, below = (value, limit) if case.higher_is_better else (limit, value)
    ratio = above / below if below else math.inf
    detail: dict[str, Any] = dict(case.detail)
    for name in ours[0]:
        if name != "value":
            values = [figures[name] for figures in ours]
            told = sum if name in COUNTED else max if name in PEAKS else statistics.median
            detail[name] = told(values)
    detail["runs"] = len(ours)
    detail["spread"] = _spread([figures["value"] for figures in ours])
    detail["limit_spread"] = _spread([figures["value"] for figures in limits])
    for name in limits[0]:
        if name in ("p50_ms", "p999_ms", "max_ms"):
            detail[f"limit_{name}"] = statistics.median(figures[name] for figures in limits)
    detail["limit_is"] = case.limit_words
    if case.plain_words is not None:
        detail["limit_plain"] = statistics.median(figures["plain"] for figures in limits)
        detail["limit_plain_is"] = case.plain_words
    detail.update(machine)
    judged = tuple(mark.judged({**detail, "value": value}) for mark in case.must)
    return Row(case.bench, case.unit, value, limit, ratio, case.durability, case.n, detail, judged)


def _spread(values: Sequence[float]) -> list[float]:
    """The least and the greatest."""
    return [_significant(min(values)), _significant(max(values))]


def _significant(value: Any) -> Any:  # noqa: ANN401 - details are of any kind
    """A float with four significant digits; everything else as it is."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def case_words(detail: Mapping[str, Any]) -> str:
    """What tells a case from the others of its bench, in words: near, batch 1,000."""
    named = [(name, detail[name]) for name in NAMING if name in detail]
    return ", ".join(
        str(value) if name in NAMED_BY_VALUE else f"{name.replace('_', ' ')} {_counted(value)}" for name, value in named
    )


def _counted(value: Any) -> str:  # noqa: ANN401 - details are of any kind
    return f"{value:,}" if isinstance(value, int) else str(value)
