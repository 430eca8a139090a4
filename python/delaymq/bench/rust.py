"""Measurements made in Rust, in this process or in one of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from delaymq import _core
from delaymq.bench.row import Figures, Measurement

__all__ = ["killed_afterwards", "measurement", "own_process"]


def measurement(name: str, **numbers: float) -> Measurement:
    """A measurement of the `benches` crate, as a function of its folder."""

    def measure(folder: Path) -> Figures:
        return _core.measure(name, str(folder), numbers)

    return measure


def own_process(name: str, folder: Path, **numbers: float) -> Figures:
    """One measurement in a fresh process, which ends in order."""
    return _child(name, folder, numbers, kill=False)


def killed_afterwards(name: str, folder: Path, **numbers: float) -> Figures:
    """One measurement in a fresh process, which then kills itself with -9."""
    return _child(name, folder, numbers, kill=True)


def _child(name: str, folder: Path, numbers: dict[str, float], *, kill: bool) -> Figures:
    orders = json.dumps({"name": name, "folder": str(folder), "numbers": numbers, "kill": kill})
    ended = subprocess.run(
        [sys.executable, "-m", "delaymq.bench.child", orders], stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode != (-signal.SIGKILL if kill else 0):
        raise RuntimeError(f"{name} ended with {ended.returncode}")
    figures: dict[str, float] = json.loads(ended.stdout)
    return figures
