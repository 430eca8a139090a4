"""What `delaymq.simulate` predicts, compared with what can be reckoned by hand; and that the store stays as it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import delaymq
from delaymq import errors
from delaymq.durations import moment
from delaymq.simulate import copying, simulate
from delaymq.simulate.consumers import Modelled
from delaymq.testing import Clock, open_store

START = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of three subjects, one has much at once, one a steady rate with a group that is behind, and one nothing to do."""
    place = tmp_path / "store"
    with open_store(place, Clock(START)) as store:
        store.publish_many("burst", [b"x"] * 3_000, [3_600] * 3_000)
        store.start_group("steady", "billing")
        store.publish_many("steady", [b"y"] * 100, [0] * 100)
        delays = [3_600 + number / 10 for number in range(600)]
        store.publish_many("steady", [b"z"] * 600, delays)
        receipts = store.publish_many("steady", [b"gone"] * 50, [3_600] * 50)
        store.cancel_many(list(receipts))
        store.publish("later", b"", delay=timedelta(days=30))
        store.checkpoint()
    return place


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "LOCK")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_it_says_who_will_be_late_and_by_how_much_and_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    told: list[tuple[datetime, int]] = []
    found = simulate(
        folder,
        start=START,
        until=START + 2 * HOUR,
        rate=10,
        rates={"burst": 100},
        progress=lambda now, came: told.append((now, came)),
    )
    assert contents(folder) == before
    assert list(folder.parent.iterdir()) == [folder], "the copy is gone"
    burst, steady = found
    due = START + HOUR
    assert (burst.subject, burst.group, burst.rate_per_s, burst.messages) == ("burst", "simulate", 100, 3_000)
    assert burst.late_max == timedelta(milliseconds=29_990)
    assert timedelta(seconds=14) < burst.late_p50 < timedelta(seconds=16)
    assert timedelta(seconds=29) < burst.late_p99 <= burst.late_max
    assert (burst.backlog_max, burst.backlog_max_at, burst.worst_due) == (3_000, due, due)
    assert burst.unfinished == steady.unfinished == 0
    # A hundred are ready at the start, and what comes then comes as quickly as it is handled.
    assert (steady.subject, steady.group, steady.messages) == ("steady", "billing", 700)
    assert steady.late_max == timedelta(milliseconds=9_900)
    assert steady.backlog_max == 100
    assert told[0] == (START, 100)
    assert told[-1] == (START + 2 * HOUR, 3_700)


def test_what_is_not_begun_with_by_the_end_is_counted(folder: Path) -> None:
    [burst, _] = simulate(folder, start=START, until=START + HOUR + timedelta(seconds=10), rate=10)
    assert (burst.subject, burst.messages, burst.unfinished) == ("burst", 3_000, 2_900)


def test_nothing_due_takes_no_time_and_a_speed_is_kept(folder: Path) -> None:
    found = simulate(folder, start=START + 3 * HOUR, until=START + timedelta(days=3000), rate=1_000)
    assert {one.subject for one in found} == {"burst", "steady", "later"}
    began = datetime.now(UTC)
    simulate(folder, start=START, until=START + timedelta(seconds=2), rate=1_000, speed=10)
    assert datetime.now(UTC) - began >= timedelta(seconds=0.2)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"until": START}, "until"),
        ({"until": START - HOUR}, "until"),
        ({"until": START.replace(tzinfo=None)}, "until"),
        ({"rate": 0}, "rate"),
        ({"rate": -1}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"rate": True}, "rate"),
        ({"rates": {"burst": 0}}, "rates['burst']"),
        ({"rates": {"nowhere": 5}}, "rates['nowhere']"),
        ({"speed": 0}, "speed"),
        ({"step": 0}, "step"),
        ({"start": START - timedelta(days=1)}, "clock"),
    ],
)
def test_what_cannot_be_is_refused_by_name(folder: Path, given: dict[str, Any], argument: str) -> None:
    chosen: dict[str, Any] = {"start": START, "until": START + HOUR, "rate": 1, **given}
    with pytest.raises((errors.InvalidArgument, errors.WrongType)) as refused:
        simulate(folder, **chosen)
    assert refused.value.argument == argument
    assert list(folder.parent.iterdir()) == [folder]


def test_a_store_that_is_open_is_simulated_and_goes_on(folder: Path) -> None:
    """The copy is of the moment; what comes later is in the store, and no file and no pin is left behind."""
    with open_store(folder, Clock(START)) as store:
        receipt = store.publish("burst", b"not in any checkpoint", delay=HOUR)
        [burst, _] = simulate(folder, start=START, until=START + 2 * HOUR, rate=10)
        assert burst.messages == 3_001
        assert store.cancel(receipt) is delaymq.Outcome.DONE
        assert not list((folder / "pins").iterdir())
        assert list(folder.parent.iterdir()) == [folder], "the copy is gone"
        [burst, _] = simulate(folder, start=START, until=START + 2 * HOUR, rate=10)
        assert burst.messages == 3_000
    with open_store(folder, Clock(START)) as store:
        assert store.pending_counts()["burst"] == 3_000


def test_an_open_store_that_no_pin_can_be_left_in_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delaymq.tables.Snapshot.pinned_until", None)
    with open_store(folder, Clock(START)), pytest.raises(errors.Locked, match="a snapshot of the disk"):
        simulate(folder, start=START, until=START + HOUR, rate=1)
    assert list(folder.parent.iterdir()) == [folder]


def test_a_segment_is_copied_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes to it in the midst leaves nothing in the copy whose beginning is not in it."""
    piece, source, to = copying.PIECE_BYTES, tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"1" * piece + bytes(3 * piece))
    read, asked = os.pread, list[int]()

    def written_meanwhile(descriptor: int, size: int, start: int) -> bytes:
        found = read(descriptor, size, start)
        asked.append(start)
        if len(asked) == 2:
            with source.open("r+b") as file:
                file.seek(piece)
                file.write(b"2" * (3 * piece))
        return found

    monkeypatch.setattr(os, "pread", written_meanwhile)
    copying._copy(source, to)
    assert to.read_bytes() == b"1" * piece + b"2" * piece + bytes(2 * piece)
    assert len(asked) == 4


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(errors.NotAStore):
        simulate(tmp_path / "other", start=START, until=START + HOUR, rate=1)


def reckoned(dues_ms: Sequence[int], each_ms: float) -> tuple[float, int]:
    """How late the latest is, and how many wait at most, one by one."""
    begins: list[float] = []
    free = 0.0
    for due in dues_ms:
        begins.append(max(due, free))
        free = begins[-1] + each_ms
    late = max(begin - due for begin, due in zip(begins, dues_ms, strict=True))
    waiting = [sum(begin >= due for begin in begins[: place + 1]) for place, due in enumerate(dues_ms)]
    return late, max(waiting)


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=60), st.sampled_from([1.0, 7.0, 100.0, 1_000.0]))
def test_a_model_says_what_reckoning_each_message_says(dues: list[int], rate: float) -> None:
    dues.sort()
    modelled = Modelled("s", "g", rate, 0)
    for first in range(0, len(dues), 7):
        modelled.take(dues[first : first + 7])
    found = modelled.predicted(1e12)
    late_ms, waiting = reckoned(dues, 1000 / rate)
    assert abs(found.late_max / timedelta(milliseconds=1) - late_ms) < 0.01
    assert (found.messages, found.unfinished, found.backlog_max) == (len(dues), 0, waiting)
    assert found.late_p50 <= found.late_p99 <= found.late_max
    assert found.worst_due in [moment(due) for due in dues]
