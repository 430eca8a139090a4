"""What each verb prints as JSON has exactly the names of the table in docs/cli.md, and so has what lies in it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import delaymq
from commanding import ANY_PORTS, arguments_of, command, environment
from crafting import SEGMENT_BYTES, flip, place_of, publish_all
from delaymq.bench.row import Row
from delaymq.cli.input.settings import KEYS
from delaymq.testing import Clock, open_store, serve
from groups import HERE, Group, in_file
from places import Place, place_over

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
BODIES = {"body", "body_base64"}
MORE = [b"more %03d " % number + b"m" * 500 for number in range(300)]

Shapes = dict[str, frozenset[str]]


def promised() -> Shapes:
    """The table of the page: what is printed, and its names."""
    section = PAGE.split("\n## JSON\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    shapes: Shapes = {}
    for what, names in rows:
        found = frozenset(re.findall(r"`([^`]+)`", names))
        same = names.removeprefix("as `").removesuffix("`")
        shapes[what.replace("`", "")] = shapes.get(same, found)
    return shapes


def shape(said: Mapping[str, Any]) -> frozenset[str]:
    """Its names; of those for a body it has one, and which depends on the body."""
    names = set(said)
    if names & BODIES:
        assert len(names & BODIES) == 1
        names |= BODIES
    return frozenset(names)


class Printed:
    """The shapes that were printed so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place: Place = ("--store", str(folder))
        self.shapes: Shapes = {}

    def run(self, what: str, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """Runs what a row of the table begins with; returns its objects."""
        ended = command(*what.split(), *arguments, *self.place)
        assert (ended.returncode, ended.stderr) == (code, "")
        found = [json.loads(line) for line in ended.stdout.splitlines()]
        self.note(what, found)
        return found

    def note(self, what: str, said: Iterable[Mapping[str, Any]]) -> None:
        """Notes objects, of which there is at least one and which are all of one shape, as those before them."""
        [found] = {shape(one) for one in said}
        assert self.shapes.setdefault(what, found) == found

    def note_parts(self, verb: str, said: Mapping[str, Any], *names: str) -> None:
        """Notes what lies in the lists of an object."""
        for name in names:
            self.note(f"{name} of {verb}", said[name])


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """What the verbs print of a store that has something of everything, and of a damaged one."""
    found = Printed(tmp_path_factory.mktemp("json") / "store")
    with delaymq.open(found.folder, segment_bytes=SEGMENT_BYTES) as store:
        publish_all(store, "a", [b"1", b"\xff", b"3", b"4"])
        with store.subscribe("a", group="g") as messages:
            for _ in range(2):
                message = messages.get(5)
                assert message is not None
                message.dead_letter("no such order")
            messages.flush(5)
            assert messages.get(5) is not None
            store.checkpoint()
            [said] = found.run("inspect --json")
            found.note_parts("inspect", said, "files", "subjects", "groups", "holders", "space")
            [listed] = found.run("groups list --json")
            assert [name for name, _ in listed["consumers"]] == ["1-1"]
    of_a_queue(found)
    with place_over(found.folder, "server") as found.place:
        of_a_queue(found)
        assert found.run("groups list --json")[0]["consumers"] == []
    found.place = ("--store", str(found.folder))
    assert found.run("verify --json")[0]["problems"] == []
    assert found.run("salvage --json")[0]["damage"] == []
    assert found.run("simulate --json", "--rate", "1", "--to", "2100-01-01T00:00:00Z")
    of_damaged(found)
    return found


def of_a_queue(found: Printed) -> None:
    """What every store is asked, in a folder and behind a server; one of its dead letters goes back."""
    [receipt] = found.run("publish --json", "a", "x", "--delay", "1h")
    [moved] = found.run("move --json", receipt["receipt"], "--delay", "2h")
    [known] = found.run("look-up --json", moved["new_receipt"])
    [listed] = found.run("pending --json", "a")
    assert (listed["due"], listed["subject"], known["fate"]) == (known["due"], known["subject"], "pending")
    assert {"subject": "a", "pending": 1} in found.run("pending --counts --json")
    assert [one["messages"] for one in found.run("forecast --json", "a")] == [1]
    found.run("cancel --json", moved["new_receipt"])
    named = ("k", "--subject", "a")
    found.run("publish --json", "a", "x", "--delay", "1h", "--key", "k")
    found.run("move --json --key", *named, "--delay", "2h")
    found.run("look-up --json --key", *named)
    found.run("cancel --json --key", *named)
    every = ("a", "x", "--name", "n", "--every", "1h")
    assert found.run("recur add --json", *every) == found.run("recur list --json")
    found.run("recur end --json", "a", "n")
    found.run("status --json")
    assert found.run("dead list --json", "a", "g")
    found.run("dead redrive --json", "a", "g", "--limit", "1")
    assert found.run("consume --jsonl", "a", "--group", "g", "--count", "1")


def of_damaged(found: Printed) -> None:
    with delaymq.open(found.folder) as store:
        publish_all(store, "more", MORE, 3600)
        store.recur("more", b"again", name="hourly", every=3600)
    for number, before in ((150, 20), (200, 0)):
        path, at = place_of(found.folder, MORE[number])
        flip(path, at - before)
    assert found.run("verify --json", code=1)[0]["problems"]
    [said] = found.run("salvage --json", code=1)
    found.note_parts("salvage", said, "damage", "gaps", "lost", "subjects", "groups", "series")


def configuration(found: Printed) -> None:
    chosen = {"store.path": "x", "store.durability": "os", "store.segment_bytes": 1 << 20, "consume.group": "g"}
    pairs = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    said = json.loads(command("config", "check", "--json", *pairs).stdout)
    assert {name: one["value"] for name, one in said.items()} == chosen
    found.note("a key of config check", said.values())
    listed = [json.loads(line) for line in command("config", "keys", "--json").stdout.splitlines()]
    assert [one["key"] for one in listed] == [key.name for key in KEYS]
    found.note("config keys --json", listed)
    found.note("token --json", [json.loads(command("token", "--json").stdout)])


def serving(found: Printed, folder: Path) -> None:
    whole = arguments_of("serve", "--store", str(folder), "--json", *ANY_PORTS)
    with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        found.note("serve --json", [json.loads(process.stdout.readline())])
        process.terminate()
        assert process.wait(20) == 0


def grouped(found: Printed, folder: Path) -> None:
    """A group of two nodes, as its primary shows it."""
    folder.mkdir()
    with Group(folder, in_file(folder), [HERE] * 2) as group:
        found.note("cluster create --json", [group.create()])
        for node in group.nodes:
            node.start()
        group.await_whole()
        where = f"http://{group.await_primary().http_address}"
        printed = json.loads(command("cluster", "status", "--http", where, "--json").stdout)
        found.note("cluster status --json", [printed])
        status = printed["status"]
        assert printed["register"] == status["register"]
        shown = {"status": [status], **{name: [status[name]] for name in ("register", "primary")}}
        for name, objects in {**shown, **{name: status[name] for name in ("nodes", "copies")}}.items():
            found.note(f"{name} of cluster status", objects)


def stepped(found: Printed, folder: Path) -> None:
    """A clock that holds dispatch, and the acceptance of its step."""
    clock = Clock()
    with open_store(folder, clock) as store, serve(store) as server:
        found.place = ("--server", server.url)
        [free] = found.run("clock status --json")
        clock.step_ahead(3_600)
        [held] = found.run("clock status --json")
        assert (free["held"], held["held"], held["ahead_ms"]) == (False, True, 3_600_000)
        assert found.run("clock accept --json", "--ahead-ms", "3600000") == [{"accepted_ms": 3_600_000}]
        assert found.run("clock status --json")[0]["held"] is False


def test_what_is_printed_has_the_names_of_the_table_and_no_others(printed: Printed, tmp_path: Path) -> None:
    configuration(printed)
    serving(printed, tmp_path / "served")
    grouped(printed, tmp_path / "grouped")
    stepped(printed, tmp_path / "stepped")
    row = Row("append", "messages/s", 2.0, 4.0, 0.5, "os", 7, {"runs": 3})
    printed.note("bench --json", [json.loads(row.to_json())])
    table = promised()
    assert table.pop("config check --json") == frozenset(), "its names are the keys"
    # What Spark's verbs print is compared in tests/spark, where Java is up.
    assert printed.shapes == {what: names for what, names in table.items() if "spark " not in what}
