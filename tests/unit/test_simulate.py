"""What `delaymq.simulate` predicts, compared with what can be reckoned by hand; and that the store stays as it is."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
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
from delaymq.simulate import simulate, simulation, store_copy
from delaymq.simulate.consumers import ConsumerModel
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


def test_nothing_due_takes_no_time(folder: Path) -> None:
    found = simulate(folder, start=START + 3 * HOUR, until=START + timedelta(days=3000), rate=1_000)
    assert {one.subject for one in found} == {"burst", "steady", "later"}


class Watch:
    """Real time as a simulation sees it, which passes only while it sleeps."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.longest_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, by_s: float) -> None:
        assert by_s > 0
        self.longest_s = max(self.longest_s, by_s)
        self.now_s += by_s


@pytest.mark.parametrize("speed", [1, 60, 1_000])
def test_a_speed_is_kept_at_every_step(folder: Path, monkeypatch: pytest.MonkeyPatch, speed: float) -> None:
    """Also over times at which nothing is due; and no sleep is longer than a system takes."""
    watch = Watch()
    monkeypatch.setattr(simulation, "time", watch)
    seen: list[tuple[datetime, float]] = []
    simulate(
        folder,
        start=START,
        until=START + timedelta(days=31),
        rate=1_000,
        speed=speed,
        progress=lambda now, _: seen.append((now, watch.now_s - 1_000)),
    )
    assert len(seen) > 60
    for now, passed_s in seen:
        assert passed_s * speed == pytest.approx((now - START) / timedelta(seconds=1), rel=1e-6)
    assert 0 < watch.longest_s <= simulation.SLEEP_MAX_S


def test_a_simulation_that_is_slower_than_its_speed_does_not_sleep(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    monkeypatch.setattr(simulation, "time", watch)

    def busy(_now: datetime, _came: int) -> None:
        watch.now_s += 60

    simulate(folder, start=START, until=START + 2 * HOUR, rate=1_000, speed=1_000, progress=busy)
    assert watch.longest_s == 0


@pytest.fixture
def recurring(tmp_path: Path) -> Path:
    """One series each second, for two groups, one by a pattern, and a message that does not recur."""
    place = tmp_path / "store"
    with open_store(place, Clock(START)) as store:
        store.start_group("second", "a")
        store.start_group("second", "b")
        store.recur("second", b"x" * 100, name="each", every=1)
        store.recur("pattern", b"y", name="each", cron="*/10 * * * * *")
        store.publish("alone", b"z", delay=300)
    return place


def test_what_series_send_is_simulated_for_every_group(recurring: Path) -> None:
    until = START + timedelta(minutes=10)
    found = simulate(recurring, start=START, until=until, rate=1)
    assert {(one.subject, one.group): one.messages for one in found} == {
        ("second", "a"): 600,
        ("second", "b"): 600,
        ("pattern", "simulate"): 60,
        ("alone", "simulate"): 1,
    }
    # The most that may be is what they send: the message that does not recur is not counted.
    assert simulate(recurring, start=START, until=until, rate=1, recurring_max=1_260) == found


def test_series_up_to_the_next_century_are_refused_at_once(recurring: Path) -> None:
    told: list[int] = []
    with pytest.raises(errors.TooLarge, match=r"end earlier.*recurring_max, --recurring-max") as refused:
        simulate(
            recurring,
            start=START,
            until=datetime(2100, 1, 1, tzinfo=UTC),
            rate=1,
            progress=lambda _, came: told.append(came),
        )
    assert (refused.value.argument, refused.value.limit) == ("until", 1_000_000)
    assert int(str(refused.value.found)) > 4_000_000_000
    assert told == [], "before a step was made"
    assert list(recurring.parent.iterdir()) == [recurring], "the copy is gone"


def test_a_pattern_that_sends_too_much_is_refused_when_it_does(recurring: Path) -> None:
    with open_store(recurring, Clock(START)) as store:
        store.end_recurring("second", "each")
    before, seen = contents(recurring), list[datetime]()
    with pytest.raises(errors.TooLarge, match="found 1,001 by 2030-01-01T02:46:50") as refused:
        simulate(
            recurring,
            start=START,
            until=datetime(2100, 1, 1, tzinfo=UTC),
            rate=0.001,
            recurring_max=1_000,
            progress=lambda now, _: seen.append(now),
        )
    assert (refused.value.argument, refused.value.limit) == ("until", 1_000)
    assert seen[-1] < START + timedelta(seconds=10_010)
    assert contents(recurring) == before
    assert list(recurring.parent.iterdir()) == [recurring], "the copy is gone"


def test_a_group_that_is_far_behind_takes_no_memory_for_what_waits() -> None:
    modelled = ConsumerModel("s", "g", 0.001, 0)
    modelled.take(range(0, 10_000_000, 1_000))
    tracemalloc.start()
    modelled.take(range(10_000_000, 20_000_000, 1_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40_000, "a number for each would take twice as much at least"
    assert modelled.predicted(20_000_000).unfinished == 20_000 - 20


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
        ({"recurring_max": -1}, "recurring_max"),
        ({"recurring_max": 1.5}, "recurring_max"),
        ({"recurring_max": True}, "recurring_max"),
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
    piece, source, to = store_copy.PIECE_BYTES, tmp_path / "a", tmp_path / "b"
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
    store_copy._copy(source, to)
    assert to.read_bytes() == b"1" * piece + b"2" * piece + bytes(2 * piece)
    assert len(asked) == 4


def test_holes_are_copied_as_holes_and_what_is_beside_them_whole(tmp_path: Path) -> None:
    """Blocks that are given back in the midst of others, some that are in part zeros, an end that is no whole block."""
    block, source, to = store_copy.BLOCK_BYTES, tmp_path / "a", tmp_path / "b"
    written = (bytes(block - 1) + b"1", bytes(block), b"2" * block, bytes(3 * block), b"3" + bytes(block - 1), b"4" * 7)
    source.write_bytes(b"".join(written) + bytes(2 * store_copy.PIECE_BYTES + 5))
    store_copy._copy(source, to)
    assert to.read_bytes() == source.read_bytes()
    assert to.stat().st_blocks * 512 == 4 * block


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
    modelled = ConsumerModel("s", "g", rate, 0)
    for first in range(0, len(dues), 7):
        modelled.take(dues[first : first + 7])
    found = modelled.predicted(1e12)
    late_ms, waiting = reckoned(dues, 1000 / rate)
    assert abs(found.late_max / timedelta(milliseconds=1) - late_ms) < 0.01
    assert (found.messages, found.unfinished, found.backlog_max) == (len(dues), 0, waiting)
    assert found.late_p50 <= found.late_p99 <= found.late_max
    assert found.worst_due in [moment(due) for due in dues]
