"""What the strategies make is what a store accepts, and reaches its limits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import delaymq
from delaymq.durations import Duration, delay_ms
from delaymq.testing import Clock, open_store, ready
from delaymq.testing.strategies import bodies, delays, publishes, subjects


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[delaymq.Store]:
    with open_store(tmp_path_factory.mktemp("strategies") / "store", clock) as opened:
        yield opened


@settings(deadline=None)
@given(batch=st.lists(publishes(), max_size=10))
def test_every_message_is_accepted(store: delaymq.Store, batch: list[delaymq.Publish]) -> None:
    assert len(store.publish_many(batch)) == len(batch)


@settings(deadline=None, max_examples=30)
@given(subject=subjects(), body=bodies(), delay=delays(timedelta(days=30)))
def test_a_message_is_ready_when_its_delay_has_passed(
    store: delaymq.Store, clock: Clock, subject: str, body: bytes, delay: Duration
) -> None:
    before = len(ready(store, subject))
    store.publish(subject, body, delay=delay)
    if delay_ms(delay) > 0:
        clock.advance((delay_ms(delay) - 1) / 1000)
        assert len(ready(store, subject)) == before
        clock.advance(0.001)
    assert ready(store, subject)[-1].body == body


def test_the_limits_are_reached() -> None:
    assert find(subjects(), lambda name: len(name) == 1)
    assert find(subjects(), lambda name: not name.isascii())
    assert find(bodies(max_size=3), lambda body: len(body) == 3)
    assert find(delays(), lambda delay: isinstance(delay, timedelta) and delay > timedelta(days=3000))
    assert find(delays(), lambda delay: isinstance(delay, float) and delay > 0)
    made = find(publishes(subject=st.just("jobs"), body=st.just(b"x"), delay=st.just(5)), lambda _made: True)
    assert made == delaymq.Publish("jobs", b"x", 5)


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)


def test_hypothesis_is_imported_for_strategies_only_and_its_absence_is_told(tmp_path: Path) -> None:
    told = python("import sys, delaymq.testing; sys.exit('hypothesis' in sys.modules)", tmp_path)
    assert told.returncode == 0, told.stderr
    told = python("import sys; sys.modules['hypothesis'] = None; import delaymq.testing.strategies", tmp_path)
    assert (
        "ModuleNotFoundError: delaymq.testing.strategies needs hypothesis: pip install 'delaymq[testing]'"
        in told.stderr
    )
