"""Interleaving: delaymq and its limit are measured in turns, so that a slow minute affects both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from delaymq.bench.row import Figures, Measurement, Pairs

RUNS = 5
RUNS_QUICK = 1


def runs_of(quick: bool) -> int:
    """The number of runs whose median is reported."""
    return RUNS_QUICK if quick else RUNS


def interleaved(ours: Measurement, limit: Measurement, *, quick: bool) -> Pairs:
    """Runs of both in turns, each in an empty folder that is removed afterwards."""

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
