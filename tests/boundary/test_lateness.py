"""No thread of the store needs Python: a busy interpreter makes no message late."""

from __future__ import annotations

from pathlib import Path

import pytest

from delaymq import _core
from delaymq.bench.lateness import computing

P99_MS_MAX = 50.0  # far over what is reached, under what waiting for the interpreter each time would cost


@pytest.mark.slow
def test_a_thread_that_computes_makes_no_message_late(tmp_path: Path) -> None:
    numbers = {"rate_per_s": 1000, "milliseconds": 2000, "lead_ms": 300, "disk": 0}
    with computing():
        figures = _core.measure("lateness", str(tmp_path / "store"), numbers)
    assert figures["count"] == 2000
    assert figures["early"] == 0
    assert figures["p50_ms"] < P99_MS_MAX / 5
    assert figures["p99_ms"] < P99_MS_MAX


def test_an_unknown_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no measurement"):
        _core.measure("nothing", str(tmp_path), {})
    with pytest.raises(RuntimeError, match="rate_per_s is missing"):
        _core.measure("lateness", str(tmp_path), {})
