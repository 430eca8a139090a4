"""delaymq and its limit in turns, so that a slow minute meets both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from delaymq.bench.row import Figures, Measurement, Pairs

__all__ = ["interleaved", "runs_of"]

RUNS = 5
RUNS_QUICK = 1


def runs_of(quick: bool) -> int:
    """How many runs a row is the median of."""
    return RUNS_QUICK if quick else RUNS


def interleaved(ours: Measurement, limit: Measurement, *, quick: bool) -> Pairs:
    """Runs of both by turns, each in an empty folder that is removed after it."""

    def pairs(folder: Path) -> Iterator[tuple[Figures, Figures]]:
        for _ in range(runs_of(quick)):
            yield _once(ours, folder / "ours"), _once(limit, folder / "limit")

    return pairs


def _once(measurement: Measurement, folder: Path) -> Figures:
    folder.mkdir()
    try:
        return measurement(folder)
    finally:
        shutil.rmtree(folder)
