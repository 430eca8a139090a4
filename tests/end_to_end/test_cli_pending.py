"""look-up and pending, over a real store and a served one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from commanding import command
from places import PLACES, Place, place_over

HOUR = timedelta(hours=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with delaymq.open(path) as store:
        store.publish_many("orders", [b"first", b"second", b"third"], [HOUR, 2 * HOUR, 3 * HOUR])
        store.publish("mail", b"x", delay=4 * HOUR)
    return path


@pytest.fixture(params=PLACES)
def place(folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_over(folder, request.param) as found:
        yield found


def lines(*arguments: str) -> list[dict[str, Any]]:
    ended = command(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_list_goes_on_where_it_was_told_to(place: Place) -> None:
    whole = lines("pending", *place)
    assert [one["subject"] for one in whole] == ["orders", "orders", "orders", "mail"]
    assert [set(one) for one in whole] == [{"subject", "due", "attempt", "sequence", "receipt"}] * 4
    assert lines("pending", "mail", *place) == whole[3:]
    assert lines("pending", "--prefix", "or", "--due-from", whole[1]["due"], *place) == whole[1:3]
    cut = command("pending", "--limit", "3", *place)
    assert len(cut.stdout.splitlines()) == 4
    cursor = cut.stderr.split("--after ")[1].strip()
    assert lines("pending", "--after", cursor, *place) == whole[3:]
    assert command("pending", "nothing.here", *place).stdout.strip() == "nothing is pending"


def test_counts_are_by_subject(place: Place) -> None:
    assert lines("pending", "--counts", *place) == [
        {"subject": "mail", "pending": 1},
        {"subject": "orders", "pending": 3},
    ]
    assert command("pending", "orders", "--counts", *place).stdout.split() == ["subject", "pending", "orders", "3"]


def test_a_receipt_of_a_list_is_looked_up_and_cancelled(place: Place) -> None:
    (receipt,) = (one["receipt"] for one in lines("pending", "mail", *place))
    (found,) = lines("look-up", receipt, *place)
    assert (found["fate"], found["subject"], found["size"]) == ("pending", "mail", None)
    assert command("cancel", receipt, *place).returncode == 0
    shown = command("look-up", receipt, *place)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[1].split()[0] == "cancelled"
