"""recur, over a real store and a served one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from places import PLACES, Place, place_over


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    delaymq.open(path).close()
    return path


@pytest.fixture(params=PLACES)
def place(folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_over(folder, request.param) as found:
        yield found


DAILY = ("recur", "add", "reports", "sales", "--name", "daily", "--cron", "30 9 * * mon-fri", "--zone", "Europe/Berlin")


def test_what_recurs_is_added_listed_and_ended(place: Place) -> None:
    added = command("recur", "add", "checks", "disks", "--name", "disks", "--every", "15m", *place)
    assert added.returncode == 0, added.stderr
    receipt = added.stdout.strip()
    [said] = [json.loads(line) for line in command(*DAILY, "--catch-up", "skip", "--json", *place).stdout.splitlines()]
    assert (said["cron"], said["zone"], said["catch_up"]) == ("30 9 * * mon-fri", "Europe/Berlin", "skip")
    told = [json.loads(line) for line in command("recur", "list", "--json", *place).stdout.splitlines()]
    assert [(one["name"], one["every_ms"]) for one in told] == [("disks", 900_000), ("daily", None)]
    assert (told[0]["receipt"], told[1]) == (receipt, said)
    shown = command("recur", "list", "--subject", "checks", *place).stdout.splitlines()
    assert len(shown) == 2
    assert "every 0:15:00" in shown[1]
    assert command("look-up", receipt, *place).stdout.splitlines()[1].startswith("pending")
    assert command("recur", "end", "checks", "disks", *place).stdout == "ended  disks\n"
    again = command("recur", "end", "checks", "disks", *place)
    assert (again.returncode, again.stdout) == (7, "not_found  disks\n")
    command("recur", "end", "reports", "daily", *place)
    assert command("recur", "list", *place).stdout == "nothing recurs\n"


def test_tags_and_attributes_go_along_with_each_message(place: Place) -> None:
    with_it = ("--tag", "red", "--attribute", "shop=7", "--attribute", "note=a=b")
    added = command("recur", "add", "a", "x", "--name", "n", "--every", "1s", *with_it, *place)
    assert added.returncode == 0, added.stderr
    out = command("consume", "a", "--group", "g", "--count", "2", "--timeout", "30s", "--jsonl", *place)
    for line in out.stdout.splitlines():
        said = json.loads(line)
        assert said["tags"] == ["red"]
        assert said["attributes"] == {"recurring": "n", "shop": "7", "note": "a=b"}
    assert out.stdout.count("\n") == 2


def test_what_cannot_be_is_refused(place: Place) -> None:
    command(*DAILY, *place)
    assert "reports" in refused(2, *DAILY, *place)
    assert command(*DAILY, "--if-exists", "replace", *place).returncode == 0
    added = ("recur", "add", "a", "x", "--name", "n")
    assert "cron" in refused(2, *added, "--cron", "0 0 30 2 *", *place)
    assert "zone" in refused(2, *added, "--cron", "0 0 * * *", "--zone", "Mars", *place)
    assert "every" in refused(2, *added, "--every", "10ms", *place)
    assert "--every" in refused(2, *added, *place)
    assert "found 'shop'" in refused(2, *added, "--every", "1h", "--attribute", "shop", *place)
    assert "recurring" in refused(2, *added, "--every", "1h", "--attribute", "recurring=m", *place)
    assert "no unit" in refused(2, *added, "--every", "15", *place)
    assert "a subject of this store" in refused(2, "recur", "list", "--subject", "unknown", *place)
