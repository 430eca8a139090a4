"""forecast, over a real store and a served one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from delaymq import Publish
from places import PLACES, Place, place_over

DAY = datetime(2035, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with delaymq.open(path) as store:
        hours = [0, 0, 0, 1, 5, 30]
        store.publish_many([Publish("orders", b"four", at=DAY + timedelta(hours=one)) for one in hours])
        store.publish("mail", b"x", at=DAY + timedelta(minutes=1))
    return path


@pytest.fixture(params=PLACES)
def place(folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_over(folder, request.param) as found:
        yield found


def test_each_minute_is_an_object(place: Place) -> None:
    ended = command("forecast", "--json", *place)
    assert ended.returncode == 0, ended.stderr
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert told[:2] == [
        {"start": "2035-01-01T00:00:00+00:00", "messages": 3, "bytes": 12},
        {"start": "2035-01-01T00:01:00+00:00", "messages": 1, "bytes": 1},
    ]
    assert sum(one["messages"] for one in told) == 7
    asked = ("--due-from", "2035-01-01T00:00:00Z", "--due-before", "2035-01-01T01:00:00Z", "--seconds")
    ended = command("forecast", "orders", "--json", *asked, *place)
    assert [json.loads(line)["messages"] for line in ended.stdout.splitlines()] == [3]


def test_a_picture_joins_what_it_has_no_lines_for(place: Place) -> None:
    whole = command("forecast", *place).stdout.splitlines()
    assert whole[0] == "7 messages, 25 B; most in the minute of 2035-01-01 00:00:00: 3"
    assert whole[1].endswith("a line is a minute")
    assert len(whole) == 2 + 5
    joined = command("forecast", "--rows", "2", *place).stdout.splitlines()
    assert joined[1].endswith("a line is 6 hours")
    assert [line.split()[2] for line in joined[2:]] == ["6", "1"]
    assert command("forecast", "mail", "--due-from", "2036-01-01T00:00:00Z", *place).stdout == "nothing is due\n"


def test_what_is_not_there_is_refused(place: Place) -> None:
    assert "a subject of this store" in refused(2, "forecast", "nobody.knows", *place)
    assert "--due-from" in refused(2, "forecast", "--due-from", "tomorrow", *place)
