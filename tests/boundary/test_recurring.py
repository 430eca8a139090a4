"""Messages that recur, in every face: one pending at a time, at the times of its rule, listed, cancelled and ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import InvalidArgument, Outcome, Recurring, TooLarge, WrongType
from delaymq.testing import Clock
from faces import Face

START = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(params=Face.NAMES)
def face(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Face]:
    face = Face(tmp_path / "data", request.param)
    yield face
    face.close()


def begun(face: Face, **how: Any) -> Recurring:
    chosen = {"name": "hourly", **({} if "cron" in how else {"every": HOUR}), **how}
    found: Recurring = face.call(lambda: face.store.recur("consumed", b"again", **chosen))
    return found


def listed(face: Face, *subject: str) -> list[Recurring]:
    found: list[Recurring] = face.call(lambda: face.store.recurring(*subject))
    return found


def test_one_is_pending_and_listed_as_any_other(face: Face) -> None:
    first = begun(face)
    assert (first.subject, first.name, first.every, first.cron, first.zone) == ("consumed", "hourly", HOUR, None, "UTC")
    assert first.receipt is not None
    assert (first.due, first.catch_up) == (first.receipt.due, "one")
    assert face.call(face.store.status).pending == 1
    assert listed(face) == listed(face, "consumed") == [first]
    assert face.call(lambda: face.store.cancel(first.receipt)) == Outcome.DONE
    # The next one is a whole interval later, whenever the one before went.
    until(face, lambda: listed(face)[0].receipt not in {None, first.receipt})
    [second] = listed(face)
    assert second.due == (first.due or START) + HOUR
    moved = face.call(lambda: face.store.move(second.receipt, delay=2 * HOUR))
    assert listed(face)[0].receipt == moved.receipt
    assert face.call(lambda: face.store.end_recurring("consumed", "hourly")) is True
    assert face.call(lambda: face.store.end_recurring("consumed", "hourly")) is False
    assert (listed(face), face.call(face.store.status).pending) == ([], 0)


def until(face: Face, condition: Any) -> None:
    """Waits for what the store does by itself; a limit of the test runner ends it where it does not."""
    while not condition():
        face.call(face.store.status)


def test_a_pattern_has_a_zone(face: Face) -> None:
    daily = begun(face, name="daily", cron="30 9 * * mon-fri", zone="Europe/Berlin", catch_up="skip")
    assert (daily.every, daily.cron, daily.zone, daily.catch_up) == (None, "30 9 * * mon-fri", "Europe/Berlin", "skip")
    assert daily.due is not None
    assert (daily.due.minute, daily.due.second, daily.due.hour in {7, 8}) == (30, 0, True)
    start = datetime.now(UTC).replace(microsecond=0) + 30 * 24 * HOUR
    later = begun(face, name="later", start=start.astimezone(timezone(timedelta(hours=5))))
    assert later.due == start
    assert [one.name for one in listed(face)] == ["daily", "later"]


def test_a_pattern_is_written_as_people_write_it(face: Face) -> None:
    midnight = begun(face, name="midnight", cron="@daily")
    assert midnight.due is not None
    assert (midnight.every, midnight.cron, midnight.due.hour, midnight.due.minute) == (None, "@daily", 0, 0)
    soon = begun(face, name="soon", cron="@every 5m")
    again = begun(face, name="again", every=timedelta(minutes=5))
    assert soon.due is not None
    assert again.due is not None
    assert abs(again.due - soon.due) < timedelta(minutes=1)
    wrapped = begun(face, name="wrapped", cron="0 12 * * fri-mon")
    assert wrapped.due is not None
    assert wrapped.due.strftime("%a") in {"Fri", "Sat", "Sun", "Mon"}


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("60 * * * *", 'expected minute 0 to 59, found 60 in "60 * * * *"'),
        ("0 0 * * fri-man", 'expected weekday 0 to 7 or sun to sat, found man in "0 0 * * fri-man"'),
        ("@every 5", 'expected @every with 1 second to 10 years, such as 5m or 1h30m, found "@every 5"'),
        ("@reboot", "@daily"),
    ],
)
def test_a_refused_pattern_names_the_field_its_range_and_the_value(face: Face, pattern: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        begun(face, cron=pattern)
    assert words in str(refused.value)


def test_a_name_is_taken_kept_or_replaced(face: Face) -> None:
    first = begun(face)
    with pytest.raises(InvalidArgument) as refused:
        begun(face)
    assert refused.value.argument == "name"
    assert begun(face, every=5, if_exists="keep") == first
    second = begun(face, every=timedelta(hours=5), if_exists="replace")
    assert second.every == timedelta(hours=5)
    fate = face.call(lambda: face.store.look_up(first.receipt)).fate
    assert (fate, face.call(face.store.status).pending) == (delaymq.Fate.CANCELLED, 1)


@pytest.mark.parametrize(
    ("argument", "how"),
    [
        ("every", {"every": 0.5}),
        ("every", {"every": -1}),
        ("every", {"every": timedelta(days=10_000)}),
        ("every", {"every": None}),
        ("every", {"every": 1, "cron": "* * * * *"}),
        ("cron", {"cron": "* * * *"}),
        ("cron", {"cron": "0 0 30 2 *"}),
        ("cron", {"cron": "every 5000ms"}),
        ("cron", {"cron": "\ud800 * * * *"}),
        ("cron", {"cron": "*" * 100_000}),
        ("zone", {"cron": "0 0 * * *", "zone": "Mars/Base"}),
        ("zone", {"cron": "0 0 * * *", "zone": ""}),
        ("zone", {"zone": "Europe/Berlin"}),
        ("name", {"name": "a b"}),
        ("name", {"name": "\ud800"}),
        ("start", {"start": datetime(2000, 1, 1)}),  # noqa: DTZ001 - that it is naive is the point
        ("start", {"start": datetime(9999, 1, 1, tzinfo=UTC)}),
        ("catch_up", {"catch_up": "none"}),
        ("if_exists", {"if_exists": "ignore"}),
        ("tags", {"tags": [""]}),
        ("attributes", {"attributes": {"": "x"}}),
        ("attributes", {"attributes": {"recurring": "another"}}),
    ],
)
def test_what_cannot_be_is_refused_by_name(face: Face, argument: str, how: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        begun(face, **how)
    assert refused.value.argument == argument
    assert (listed(face), face.call(face.store.status).pending) == ([], 0)


@pytest.mark.parametrize(
    ("argument", "how"),
    [
        ("every", {"every": "1h"}),
        ("cron", {"cron": 5}),
        ("zone", {"zone": None}),
        ("name", {"name": 5}),
        ("start", {"start": 5}),
        ("catch_up", {"catch_up": 1}),
        ("if_exists", {"if_exists": None}),
        ("attributes", {"attributes": 5}),
    ],
)
def test_what_has_the_wrong_type_is_refused_by_name(face: Face, argument: str, how: dict[str, Any]) -> None:
    with pytest.raises(WrongType) as refused:
        begun(face, **how)
    assert refused.value.argument == argument
    assert listed(face) == []


def test_what_is_too_large_and_what_is_no_body_is_refused(face: Face) -> None:
    with pytest.raises(TooLarge) as refused:
        face.call(lambda: face.store.recur("consumed", bytes(70_000), name="a", every=1))
    assert (refused.value.argument, refused.value.limit) == ("body", 65_536)
    for body in ("text", 5):
        with pytest.raises(WrongType):
            face.call(lambda: face.store.recur("consumed", body, name="a", every=1))  # noqa: B023 - called at once
    for subject in ("a b", ""):
        with pytest.raises(InvalidArgument):
            face.call(lambda: face.store.recur(subject, b"", name="a", every=1))  # noqa: B023 - called at once
    with pytest.raises(InvalidArgument):
        listed(face, "unknown")
    made = face.call(lambda: face.store.recur("consumed", memoryview(b"view"), name="a", every=1))
    assert made.every == timedelta(seconds=1)


def test_they_come_and_say_whose_they_are(face: Face) -> None:
    begun(face, name="second", every=1, tags=["t"], attributes={"colour": "red"})
    message = face.call(lambda: face.messages.get(30))
    assert (message.body, message.tags) == (b"again", ("t",))
    assert message.attributes == {"recurring": "second", "colour": "red"}
    again = face.call(lambda: face.messages.get(30))
    assert again.due - message.due in {timedelta(seconds=count) for count in range(1, 30)}, "at a time of its rule"


def test_a_clock_that_is_turned_stops_at_each_of_them(tmp_path: Path) -> None:
    clock = Clock(START)
    with delaymq.open(tmp_path, clock=clock, durability="os") as store:
        store.recur("jobs", b"x", name="hourly", every=HOUR)
        store.recur("jobs", b"x", name="daily", cron="0 12 * * *")
        with store.subscribe("jobs", group="g") as messages:
            clock.advance(timedelta(days=2))
            found = list(iter(lambda: messages.get(timeout=0), None))
            assert len(found) == 50
            assert {message.due.minute for message in found} == {0}
            messages.ack(found)
            messages.flush()
            assert [one.due for one in store.recurring()] == [START + 49 * HOUR, START + 60 * HOUR]


def test_what_was_missed_while_the_store_was_closed_happens_as_was_asked(tmp_path: Path) -> None:
    clock = Clock(START)
    with delaymq.open(tmp_path, clock=clock, durability="os") as store:
        for catch_up in ("one", "skip", "all"):
            store.recur("jobs", catch_up.encode(), name=catch_up, every=HOUR, catch_up=catch_up)
    clock.advance(timedelta(hours=5, minutes=30))
    with delaymq.open(tmp_path, clock=clock, durability="os") as store, store.subscribe("jobs", group="g") as messages:
        clock.advance(0)
        found = [message.body for message in iter(lambda: messages.get(timeout=0), None)]
        # The one that was pending comes, and what of the four behind it was asked for.
        assert sorted(found) == [b"all"] * 5 + [b"one"] * 2 + [b"skip"]
        assert {one.due for one in store.recurring()} == {START + 6 * HOUR}
