"""What is due when, on every face."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import Forecast, InvalidArgument, Publish, WrongType
from faces import Face
from serving import serving

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
DAY = datetime(2035, 1, 1, tzinfo=UTC)


def told(face: Face, *asked: Any, **options: Any) -> Forecast:
    found = face.call(lambda: face.store.forecast(*asked, **options))
    assert isinstance(found, Forecast)
    return found


def rows(found: Forecast) -> list[tuple[timedelta, int, int]]:
    return [(slot.start - DAY, slot.messages, slot.bytes) for slot in found.slots]


def publish(face: Face) -> list[Any]:
    """Ten messages of two subjects, of ten different sizes, two to a minute."""
    messages = [
        Publish(("orders", "mail")[at % 2], b"x" * at, at=DAY + at // 2 * MINUTE + timedelta(seconds=at))
        for at in range(10)
    ]
    return list(face.call(lambda: face.store.publish_many(messages)))


def test_each_minute_has_its_messages_and_bytes(face: Face) -> None:
    publish(face)
    assert rows(told(face)) == [(at * MINUTE, 2, 4 * at + 1) for at in range(5)]
    assert rows(told(face, "orders")) == [(at * MINUTE, 1, 2 * at) for at in range(5)]
    assert rows(told(face, subject="mail")) == [(at * MINUTE, 1, 2 * at + 1) for at in range(5)]
    found = told(face)
    assert (found.messages, found.bytes, found.width, found.hidden_rows) == (10, 45, MINUTE, 0)
    assert (found.busiest, found.slots[-1].bytes, len(found.slots[1:3])) == (found.slots[0], 17, 2)
    assert found == told(face)
    assert found.messages == face.call(face.store.status).pending


def test_a_range_is_of_whole_minutes(face: Face) -> None:
    publish(face)
    some = told(face, due_from=DAY + timedelta(seconds=119), due_before=DAY + timedelta(seconds=181))
    assert [start for start, _, _ in rows(some)] == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    assert rows(told(face, "mail", due_before=DAY + MINUTE)) == [(timedelta(0), 1, 1)]
    assert rows(told(face, due_from=DAY + HOUR)) == []
    assert told(face, due_from=DAY + HOUR).busiest is None


@pytest.mark.parametrize("subject", [None, "mail"])
@pytest.mark.parametrize("seconds", [False, True])
def test_an_empty_range_has_nothing_as_a_list_of_it_has(face: Face, subject: str | None, seconds: bool) -> None:
    publish(face)
    at = DAY + timedelta(seconds=1)
    assert rows(told(face, subject, due_from=at, due_before=at, seconds=seconds)) == []


def test_a_range_upside_down_is_told_in_utc(face: Face) -> None:
    publish(face)
    with pytest.raises(InvalidArgument) as caught:
        told(face, due_from=DAY, due_before=DAY - HOUR)
    assert caught.value.expected == f"a time not before {DAY:%Y-%m-%dT%H:%M:%SZ}"
    assert caught.value.found == f"{DAY - HOUR:%Y-%m-%dT%H:%M:%SZ}"


def test_what_is_cancelled_moved_or_handed_over_is_not_told(face: Face) -> None:
    receipts = publish(face)
    face.call(lambda: face.store.cancel(receipts[0]))
    moved = face.call(lambda: face.store.move(receipts[9], at=DAY + HOUR))
    assert moved.receipt is not None
    assert rows(told(face))[0] == (timedelta(0), 1, 1)
    assert rows(told(face, "mail"))[-1] == (HOUR, 1, 9)
    if not face.is_remote:
        face.call(face.store.checkpoint)
        face.call(lambda: face.store.cancel(moved.receipt))
        face.call(lambda: face.store.cancel(receipts[8]))
        assert rows(told(face)) == [(timedelta(0), 1, 1), *((at * MINUTE, 2, 4 * at + 1) for at in range(1, 4))]
        assert [messages for _, messages, _ in rows(told(face, "orders"))] == [1, 1, 1]


def test_seconds_are_of_one_hour(face: Face) -> None:
    publish(face)
    found = told(face, due_from=DAY, due_before=DAY + HOUR, seconds=True)
    starts = [at // 2 * MINUTE + timedelta(seconds=at) for at in range(10)]
    assert rows(found) == [(start, 1, at) for at, start in enumerate(starts)]
    assert found.width == timedelta(seconds=1)
    assert rows(told(face, "mail", due_from=DAY, seconds=True)) == rows(found)[1::2]
    assert rows(told(face, seconds=True)) == []
    face.call(lambda: face.store.publish("orders", b"soon", delay=timedelta(minutes=30)))
    assert (told(face, seconds=True).messages, told(face, seconds=True).bytes) == (1, 4)


@pytest.mark.parametrize(
    ("asked", "argument", "kind"),
    [
        ({"subject": "nobody.knows"}, "subject", InvalidArgument),
        ({"subject": ""}, "subject", InvalidArgument),
        ({"subject": 5}, "subject", WrongType),
        ({"subject": "nobody.knows", "seconds": True}, "subject", InvalidArgument),
        ({"due_from": DAY, "due_before": DAY - HOUR}, "due_before", InvalidArgument),
        ({"due_from": DAY, "due_before": DAY + HOUR + MINUTE, "seconds": True}, "due_before", InvalidArgument),
        ({"due_before": DAY, "seconds": True}, "due_before", InvalidArgument),
        ({"due_from": datetime(2035, 1, 1)}, "due_from", InvalidArgument),  # noqa: DTZ001 - it is refused for that
        ({"due_before": 5}, "due_before", WrongType),
        ({"seconds": 1}, "seconds", WrongType),
    ],
)
def test_what_is_wrong_is_named(face: Face, asked: dict[str, Any], argument: str, kind: type[Exception]) -> None:
    with pytest.raises(delaymq.DelaymqError) as caught:
        told(face, **asked)
    assert type(caught.value) is kind
    assert vars(caught.value)["argument"] == argument


def test_more_than_one_answer_takes_comes_in_pieces(tmp_path: Path) -> None:
    face = Face(tmp_path / "pieces", "client")
    try:
        for first in range(0, 40_000, 10_000):
            delays = [HOUR + (first + at) * MINUTE for at in range(10_000)]
            face.store.publish_many("wide", [b"ab"] * 10_000, delays)
        found = told(face, "wide")
        assert (len(found.slots), found.messages, found.bytes) == (40_000, 40_000, 80_000)
        assert found == told(face)
    finally:
        face.close()


def test_a_server_counts_the_minutes_with_too_many(tmp_path: Path) -> None:
    with serving(tmp_path / "hot", "--set", "store.hot_minute_messages=100") as served:
        with delaymq.connect(served.url) as client:
            assert served.metric("hot_minutes") == 0
            receipts = client.publish_many([Publish("a", b"", at=DAY)] * 101)
            assert served.metric("hot_minutes") == client.status().hot_minutes == 1
            client.cancel_many(receipts[:1])
            assert served.metric("hot_minutes") == client.status().hot_minutes == 0
        words = f"101 messages and more are due within the minute from {DAY:%Y-%m-%dT%H:%M:00Z} on"
        assert words in served.said()


def test_what_is_told_is_never_printed_by_the_library(tmp_path: Path) -> None:
    program = """
import logging, sys, time, delaymq
with delaymq.open(sys.argv[1], durability="os", hot_minute_messages=1) as store:
    store.publish_many("a", [b""] * 5, 3_600)
    end = time.monotonic() + 20
    while not logging.getLogger("delaymq").handlers and time.monotonic() < end:
        time.sleep(0.02)
print(len(logging.getLogger("delaymq").handlers))
"""
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path / "hot")], capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"1\n", b"")


def test_a_minute_with_too_many_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def words() -> list[str]:
        return [record.message for record in caplog.records if "are due within the minute" in record.message]

    with delaymq.open(tmp_path / "hot", durability="os", hot_minute_messages=100) as store:
        store.publish_many("a", [b""] * 200, HOUR)
        store.publish_many("a", [b""] * 200, HOUR)
        end = time.monotonic() + 20
        while not words() and time.monotonic() < end:
            time.sleep(0.02)
    assert len(words()) in (1, 2), "one minute, or two where it turned between the calls"
    with pytest.raises(WrongType):
        delaymq.open(tmp_path / "hot", hot_minute_messages=1.5)  # type: ignore[arg-type]
