"""A row of a bench: the figure of delaymq, the limit of the machine, and the details of the measurement."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delaymq.bench.marks import Judged, Mark

Figures = Mapping[str, float]
"""The figures of one measurement; `value` is the row's main figure."""

Measurement = Callable[[Path], Figures]
"""Measures once, in a folder of its own."""

Pairs = Callable[[Path], Iterable[tuple[Figures, Figures]]]
"""Measures delaymq and its limit in turns, in a folder: the figures of both, run by run."""

PEAKS = ("memory_growth_bytes",)  # figures that are reported as the maximum of all runs, not the median
COUNTED = ("early",)  # figures that are reported as the sum of all runs, not the median

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
    "delay_ms_max",
    "moment",
    "call",
)  # the details that distinguish the cases of a bench
NAMED_BY_VALUE = ("where", "call")  # details that are shown without their name


@dataclass(frozen=True)
class Case:
    """One row to be measured.

    Attributes:
        bench: The name of the bench.
        unit: The unit of value and limit.
        durability: `"disk"`, `"os"` or `"none"`.
        n: The number of messages that one run handles.
        pairs: Measures delaymq, and the same system calls and bytes without any logic.
        limit_words: A description of the limit.
        higher_is_better: True for rates, False for times and sizes.
        plain_words: A description of the second limit, which a run of the limit returns as `plain`; None if there is
            none.
        detail: The name of the case: rate_per_s, in_flight, …
        is_served: True if it uses a server in a process of its own.
        must: The marks that its figures must reach at this size on any machine, if any.
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
    """The row that is printed."""

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
        """One JSON object on one line; its detail has the marks, if any."""
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
    """The row of a case: medians with their spread.

    Args:
        case: The case.
        ours: The figures of each run of delaymq.
        limits: The figures of each run of the limit, interleaved with those.
        machine: The load of the machine meanwhile.
    """
    value = statistics.median(figures["value"] for figures in ours)
    limit = statistics.median(figures["value"] for figures in limits)
    above, below = (value, limit) if case.higher_is_better else (limit, value)
    ratio = above / below if below else math.inf
    detail: dict[str, Any] = dict(case.detail)
    for name in ours[0]:
        if name != "value":
            values = [figures[name] for figures in ours]
            reduce = sum if name in COUNTED else max if name in PEAKS else statistics.median
            detail[name] = reduce(values)
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
    judged = tuple(mark.judged({**detail, "value": value, "ratio": ratio}) for mark in case.must)
    return Row(case.bench, case.unit, value, limit, ratio, case.durability, case.n, detail, judged)


def _spread(values: Sequence[float]) -> list[float]:
    """The minimum and the maximum."""
    return [_significant(min(values)), _significant(max(values))]


def _significant(value: Any) -> Any:  # noqa: ANN401 - details are of any kind
    """A float with four significant digits; other values are not changed."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def case_words(detail: Mapping[str, Any]) -> str:
    """The details that distinguish a case, in words: near, batch 1,000."""
    named = [(name, detail[name]) for name in NAMING if name in detail]
    return ", ".join(
        str(value) if name in NAMED_BY_VALUE else f"{name.replace('_', ' ')} {_counted(value)}" for name, value in named
    )


def _counted(value: Any) -> str:  # noqa: ANN401 - details are of any kind
    return f"{value:,}" if isinstance(value, int) else str(value)
