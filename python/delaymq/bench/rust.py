"""Measurements made in Rust, in this process or in one of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from delaymq import _core
from delaymq.bench.row import Figures, Measurement

PATIENCE_S = 120.0  # timeout of processes that measure together
POLL_S = 0.02
MEETING_S = 20.0  # timeout until a process has told its port
MEETING_POLL_S = 0.001


def measurement(name: str, **numbers: float) -> Measurement:
    """A measurement of the `benches` crate, as a function of its folder."""

    def measure(folder: Path) -> Figures:
        return _core.measure(name, str(folder), numbers)

    return measure


def own_process(name: str, folder: Path, **numbers: float) -> Figures:
    """One measurement in a new process, which exits normally."""
    return _child(name, folder, numbers, kill=False)


def in_process(name: str, **numbers: float) -> Measurement:
    """As `measurement`, in a new process, so that its memory can be measured."""
    return lambda folder: own_process(name, folder, **numbers)


def killed_afterwards(name: str, folder: Path, **numbers: float) -> Figures:
    """One measurement in a new process, which then kills itself with SIGKILL."""
    return _child(name, folder, numbers, kill=True)


def together(folder: Path, orders: Mapping[str, Mapping[str, float]]) -> dict[str, Figures]:
    """Measurements at the same time, each in a new process; if one fails, the others are ended.

    Args:
        folder: The folder of all of them, through which they synchronize.
        orders: The numbers of each, by its name.

    Raises:
        RuntimeError: One of them failed, or they did not end in time.
    """
    with beside(folder, orders) as found:
        pass
    return found


@contextmanager
def beside(folder: Path, orders: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Figures]]:
    """As `together`, during the block; the figures are there after it."""
    found: dict[str, Figures] = {}
    with ExitStack() as running:
        began = {name: running.enter_context(_begun(name, folder, numbers)) for name, numbers in orders.items()}
        yield found
        until = time.monotonic() + PATIENCE_S
        while any(process.poll() is None for process in began.values()):
            failed = [name for name, process in began.items() if process.poll()]
            if failed or time.monotonic() > until:
                raise RuntimeError(f"{' and '.join(failed or began)} did not end well")
            time.sleep(POLL_S)
        failed = [name for name, process in began.items() if process.returncode != 0]
        if failed:
            raise RuntimeError(f"{' and '.join(failed)} did not end well")
        found.update((name, json.loads(process.communicate()[0])) for name, process in began.items())


def relay_port(folder: Path) -> int:
    """The port of the relay that runs in this folder, once it has told it.

    Raises:
        RuntimeError: It has not told it in time.
    """
    until = time.monotonic() + MEETING_S
    while time.monotonic() < until:
        if (folder / "port").exists():
            return int((folder / "port").read_text("utf-8"))
        time.sleep(MEETING_POLL_S)
    raise RuntimeError("the relay did not start")


@contextmanager
def _begun(name: str, folder: Path, numbers: Mapping[str, float]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(_command(name, folder, numbers, kill=False), stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def _command(name: str, folder: Path, numbers: Mapping[str, float], *, kill: bool) -> list[str]:
    orders = json.dumps({"name": name, "folder": str(folder), "numbers": dict(numbers), "kill": kill})
    return [sys.executable, "-m", "delaymq.bench.child", orders]


def _child(name: str, folder: Path, numbers: dict[str, float], *, kill: bool) -> Figures:
    ended = subprocess.run(_command(name, folder, numbers, kill=kill), stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode != (-signal.SIGKILL if kill else 0):
        raise RuntimeError(f"{name} ended with {ended.returncode}")
    figures: dict[str, float] = json.loads(ended.stdout)
    return figures
