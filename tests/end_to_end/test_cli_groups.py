"""groups and dead, over a real store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from crafting import drain, publish_all
from places import PLACES, Place, place_over


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with delaymq.open(path) as store:
        publish_all(store, "a", [b"1", b"2", b"3"])
        with store.subscribe("a", group="quick") as messages:
            assert len(drain(messages, 0.2)) == 3
        store.subscribe("a", group="slow", start="latest").close()
        publish_all(store, "a", [b"4"])
        publish_all(store, "b", [b"5"])
        with store.subscribe("b", group="quick") as messages:
            message = messages.get(5)
            assert message is not None
            message.dead_letter("no such order")
        publish_all(store, "b", [b"6"])
    return path


@pytest.fixture(params=PLACES)
def place(folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with place_over(folder, request.param) as found:
        yield found


def listed(place: Place, *arguments: str) -> dict[tuple[str, str], int]:
    ended = command("groups", "list", "--json", *arguments, *place)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return {(one["subject"], one["name"]): one["lag"] for one in found}


EXPECTED = {("a", "quick"): 1, ("a", "slow"): 1, ("b", "quick"): 1}


def test_groups_are_listed(place: Place) -> None:
    assert listed(place) == EXPECTED
    assert listed(place, "--subject", "b") == {("b", "quick"): 1}
    shown = command("groups", "list", *place).stdout.splitlines()
    assert shown[0].split()[:3] == ["group", "subject", "lag"]
    assert len(shown) == 4
    assert shown[3].split() == ["quick", "b", "1", "0", "0", "1", "1"]


def test_groups_are_listed_also_while_the_store_is_open(folder: Path) -> None:
    with delaymq.open(folder):
        assert listed(("--store", str(folder))) == EXPECTED


def test_consumers_are_named_with_what_they_hold(folder: Path) -> None:
    with place_over(folder, "server") as place:
        assert place[0] == "--server"
        with delaymq.connect(place[1]) as client, client.subscribe("a", group="slow") as messages:
            assert messages.get(5) is not None
            said = command("groups", "list", "--subject", "a", "--json", *place)
            quick, slow = (json.loads(line) for line in said.stdout.splitlines())
            assert (quick["consumer_count"], slow["consumer_count"], slow["in_flight"]) == (0, 1, 1)
            assert quick["consumers"] == []
            assert [held for _, held in slow["consumers"]] == [1]
            said = command("groups", "list", "--subject", "a", "--json", "--store", folder)
            known = json.loads(said.stdout.splitlines()[1])
            assert known == slow


def test_groups_are_started_reset_and_removed(place: Place) -> None:
    assert command("groups", "start", "a", "new", "--start", "latest", *place).returncode == 0
    assert listed(place)["a", "new"] == 0
    refused(2, "groups", "start", "a", "new", *place)
    assert command("groups", "reset", "a", "quick", "--start", "latest", *place).returncode == 0
    assert listed(place)["a", "quick"] == 0
    assert command("groups", "remove", "a", "new", *place).returncode == 0
    assert ("a", "new") not in listed(place)
    refused(2, "groups", "remove", "a", "new", *place)


STARTS = {
    "earliest": (["1", "2", "3", "4"], "at the earliest message kept"),
    "unfinished": (["4"], "at the first unfinished message"),
    "latest": ([], "at the next message"),
    "2h": (["1", "2", "3", "4"], "at the first message that became ready within the last 2:00:00"),
    "2020-01-01T00:00Z": (
        ["1", "2", "3", "4"],
        "at the first message that became ready since 2020-01-01 00:00:00+00:00",
    ),
    "published:2h": (["1", "2", "3", "4"], "at the first message published within the last 2:00:00"),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_group_begins_where_it_says(place: Place, start: str) -> None:
    bodies, where = STARTS[start]
    ended = command("groups", "start", "a", "new", "--start", start, *place)
    assert (ended.returncode, ended.stdout) == (0, f"group new of a begins {where}\n")
    # It has consumed nothing yet, so nothing is marked.
    assert consumed(place, "new") == [(body, False) for body in bodies]
    assert consumed(place, "newer", "--start", start) == [(body, False) for body in bodies]
    ended = command("groups", "reset", "a", "quick", "--start", start, *place)
    assert (ended.returncode, ended.stdout) == (0, f"group quick of a begins again {where}\n")
    assert [body for body, _ in consumed(place, "quick")] == bodies


def test_messages_that_a_group_reads_again_are_marked(place: Place) -> None:
    assert [body for body, _ in consumed(place, "quick")] == ["4"]
    assert command("groups", "reset", "a", "quick", "--start", "earliest", *place).returncode == 0
    assert consumed(place, "quick") == [(body, True) for body in ("1", "2", "3", "4")]


def test_a_start_that_is_none_names_those_that_are(place: Place) -> None:
    for verb in (["groups", "start", "a", "g"], ["groups", "reset", "a", "quick"], ["consume", "a", "--group", "g"]):
        said = refused(2, *verb, "--start", "new", *place)
        assert "--start" in said
        assert all(start in said for start in ("earliest", "unfinished", "latest", "2h", "published:2h", "receipt")), (
            said
        )


def test_a_group_begins_at_the_message_of_a_receipt(place: Place) -> None:
    receipt = command("publish", "a", "5", *place).stdout.split()[-1]
    command("publish", "a", "6", *place)
    ended = command("groups", "start", "a", "new", "--start", receipt, *place)
    assert (ended.returncode, ended.stdout) == (0, "group new of a begins at the message of the receipt\n")
    assert consumed(place, "new") == [("5", False), ("6", False)]


def consumed(place: Place, group: str, *options: str) -> list[tuple[str, bool]]:
    """The bodies that the group has left, and whether they are marked."""
    ended = command("consume", "a", "--group", group, "--until-empty", "--jsonl", *options, *place)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return [(one["body"], one["redelivered"]) for one in found]


def test_dead_letters_are_listed_and_moved_back(place: Place) -> None:
    ended = command("dead", "list", "b", "quick", "--json", *place)
    [line] = ended.stdout.splitlines()
    assert (json.loads(line)["body"], json.loads(line)["reason"]) == ("5", "no such order")
    ended = command("dead", "redrive", "b", "quick", "--json", *place)
    assert json.loads(ended.stdout) == {"redriven": 1}
    ended = command("consume", "b", "--group", "quick", "--count", "2", "--timeout", "5s", *place)
    assert sorted(ended.stdout.splitlines()) == ["5", "6"]


def test_the_status_is_told(place: Place) -> None:
    ended = command("status", *place)
    assert (ended.returncode, ended.stderr) == (0, "")
    first, second, third = ended.stdout.splitlines()
    assert first == "0 pending; 3 ready"
    assert second.startswith("durable as ")
    assert third.startswith("time zone rules: 2")
    assert command("publish", "late", "x", "--delay", "1h", *place).returncode == 0
    said = json.loads(command("status", "--json", *place).stdout)
    assert (said["pending"], said["ready"], said["poisoned"]) == (1, 3, None)
