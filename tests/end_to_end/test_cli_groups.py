"""groups and dead, over a real store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import delaymq
from commanding import command, refused
from crafting import drain, publish_all


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
        store.subscribe("b", group="quick").close()
    return path


def listed(folder: Path, *arguments: str) -> dict[tuple[str, str], int]:
    ended = command("groups", "list", "--json", *arguments, "--store", folder)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return {(one["subject"], one["name"]): one["lag"] for one in found}


def test_groups_are_listed_also_while_the_store_is_open(folder: Path) -> None:
    expected = {("a", "quick"): 1, ("a", "slow"): 1, ("b", "quick"): 1}
    assert listed(folder) == expected
    assert listed(folder, "--subject", "b") == {("b", "quick"): 1}
    with delaymq.open(folder):
        assert listed(folder) == expected
    shown = command("groups", "list", "--store", folder).stdout.splitlines()
    assert shown[0].split()[:3] == ["group", "subject", "lag"]
    assert len(shown) == 4


def test_groups_are_started_reset_and_removed(folder: Path) -> None:
    assert command("groups", "start", "a", "new", "--start", "latest", "--store", folder).returncode == 0
    assert listed(folder)["a", "new"] == 0
    refused(2, "groups", "start", "a", "new", "--store", folder)
    assert command("groups", "reset", "a", "quick", "--start", "latest", "--store", folder).returncode == 0
    assert listed(folder)["a", "quick"] == 0
    assert command("groups", "remove", "a", "new", "--store", folder).returncode == 0
    assert ("a", "new") not in listed(folder)
    refused(2, "groups", "remove", "a", "new", "--store", folder)


def test_dead_letters_are_listed_and_moved_back(folder: Path) -> None:
    with delaymq.open(folder) as store, store.subscribe("b", group="quick") as messages:
        message = messages.get(5)
        assert message is not None
        message.dead_letter("no such order")
        messages.flush(5)
    ended = command("dead", "list", "b", "quick", "--json", "--store", folder)
    [line] = ended.stdout.splitlines()
    assert (json.loads(line)["body"], json.loads(line)["reason"]) == ("5", "no such order")
    ended = command("dead", "redrive", "b", "quick", "--json", "--store", folder)
    assert json.loads(ended.stdout) == {"redriven": 1}
    ended = command("consume", "b", "--group", "quick", "--count", "1", "--timeout", "5s", "--store", folder)
    assert ended.stdout == "5\n"
