"""No thread of the store needs Python: a busy interpreter makes no message late."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from delaymq import _core

HELD = 40_000_000  # numbers whose sum takes half a second, in which no other thread has the interpreter
P50_MS_MAX = 100.0  # far over what is reached on a busy machine, under half of what waiting for it would cost


@contextlib.contextmanager
def held_interpreter() -> Iterator[None]:
    """A thread that holds the interpreter for half a second at a time: no switch interval takes it away."""
    stop = threading.Event()

    def holding() -> None:
        while not stop.is_set():
            sum(range(HELD))

    thread = threading.Thread(target=holding)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_a_thread_that_computes_makes_no_message_late(tmp_path: Path) -> None:
    numbers = {"rate_per_s": 1000, "milliseconds": 2000, "lead_ms": 300, "pending": 0, "disk": 0}
    with held_interpreter():
        figures = _core.measure("lateness", str(tmp_path / "store"), numbers)
    assert figures["count"] == 2000
    assert figures["early"] == 0
    assert figures["p50_ms"] < P50_MS_MAX


def test_an_unknown_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no measurement"):
        _core.measure("nothing", str(tmp_path), {})
    with pytest.raises(RuntimeError, match="rate_per_s is missing"):
        _core.measure("lateness", str(tmp_path), {})
