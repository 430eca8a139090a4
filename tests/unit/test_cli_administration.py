"""groups and dead, over a store that plays the part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from delaymq.cli import main
from delaymq.cli.verbs import dead, groups
from delaymq.errors import InvalidArgument


@dataclass
class Letter:
    number: int
    body: bytes
    reason: str
    attempt: int
    died: datetime
    damage: str | None = None


class Played:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start_group(self, subject: str, group: str, start: str) -> None:
        self.calls.append(("start", subject, group, start))

    def reset_group(self, subject: str, group: str, start: str) -> None:
        raise InvalidArgument(f"group: expected a group without consumers, found {(subject, group, start)}")

    def remove_group(self, subject: str, group: str) -> None:
        self.calls.append(("remove", subject, group))

    def dead_letters(self, subject: str, group: str, limit: int) -> list[Letter]:
        assert (subject, group) == ("a", "g")
        died = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
        return [Letter(0, b"x" * 60, "no such order", 3, died), Letter(4, b"", "", 1, died, "log/1 is damaged")][:limit]

    def redrive(self, subject: str, group: str, limit: int | None) -> int:
        self.calls.append(("redrive", subject, group, limit))
        return 2


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    store = Played()

    @contextmanager
    def open_queue(_chosen: object) -> Iterator[Played]:
        yield store

    monkeypatch.setattr(groups, "open_queue", open_queue)
    monkeypatch.setattr(dead, "open_queue", open_queue)
    return store


def test_groups_are_started_and_removed(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "start", "a", "g", "--start", "latest", "--store", "x"]) == 0
    assert main(["groups", "remove", "a", "g", "--store", "x"]) == 0
    assert played.calls == [("start", "a", "g", "latest"), ("remove", "a", "g")]
    assert capsys.readouterr().out == "group g of a begins at the next message\ngroup g of a is removed\n"


def test_what_is_refused_is_one_line(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "reset", "a", "g", "--start", "earliest", "--store", "x"]) == 2
    assert (
        capsys.readouterr().err == "delaymq: group: expected a group without consumers, found ('a', 'g', 'earliest')\n"
    )
    assert played.calls == []
    with pytest.raises(SystemExit) as caught:
        main(["groups", "reset", "a", "g", "--store", "x"])
    assert caught.value.code == 2
    assert "--start" in capsys.readouterr().err


def test_dead_letters_are_listed(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead", "list", "a", "g", "--store", "x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["number", "died", "(UTC)", "attempt", "reason", "body"]
    assert "no such order" in lines[1]
    assert lines[1].endswith("x…")
    assert lines[2].endswith("DAMAGED: log/1 is damaged")
    assert main(["dead", "list", "a", "g", "--json", "--limit", "1", "--store", "x"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "number": 0,
        "body": "x" * 60,
        "reason": "no such order",
        "attempt": 3,
        "died": "2030-01-02T03:04:05+00:00",
        "damage": None,
    }
    assert played.calls == []


def test_dead_letters_are_moved_back(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead", "redrive", "a", "g", "--store", "x"]) == 0
    assert main(["dead", "redrive", "a", "g", "--limit", "5", "--json", "--store", "x"]) == 0
    assert played.calls == [("redrive", "a", "g", None), ("redrive", "a", "g", 5)]
    first, second = capsys.readouterr().out.splitlines()
    assert first == "2 dead letters were moved back to group g of a"
    assert json.loads(second) == {"redriven": 2}
