"""Tables of stores whose oldest files are gone, against all that their logs ever had."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings

import delaymq
from format_reader.store import numbered
from tables import oracle
from tables.oracle_deliveries import UNFINISHED, Deliveries
from tables.worlds import Step, World, histories

Row = dict[str, Any]

TAKES: list[Step] = [("ack", which, 2) for which in (0, 3, 1, 4, 2, 5)] * 2
# What lets the oldest files go: all that is due soon is taken, and what a checkpoint puts into runs is due later.
LETS_GO: list[Step] = [
    ("publish", 0, 299),
    ("advance", 12, 0),
    *TAKES,
    ("checkpoint", 0, 0),
    ("reopen", 0, 0),
    ("checkpoint", 0, 0),
]
FAR: list[Step] = [
    ("publish", 0, 250),
    ("publish", 1, 120),
    ("publish", 2, 90),
    ("move", 3, 2),
    ("cancel", 5, 3),
    ("advance", 12, 0),
    ("nack", 0, 2),
    *TAKES,
    ("checkpoint", 0, 0),
    ("reopen", 0, 0),
    *LETS_GO,
    ("advance", 38, 0),
    ("ack", 0, 0),
    ("nack", 3, 0),
    ("bury", 1, 0),
    ("cancel", 4, 2),
    ("reopen", 0, 0),
    ("checkpoint", 0, 0),
]


class Remembered(World):
    """A store whose files are linked elsewhere before they can go."""

    def __init__(self, folder: Path, everything: Path) -> None:
        (everything / "log").mkdir(parents=True)
        self._everything = everything
        super().__init__(folder, timedelta(0))

    def tell(self, history: list[Step]) -> None:
        for step in history:
            # Under a pin nothing goes while the step makes files, but for what a checkpoint lets go at its end.
            with delaymq.snapshot(self.folder) if step[0] != "checkpoint" else tempfile.TemporaryDirectory():
                getattr(self, f"_{step[0]}")(*step[1:])
                self._link()
        self.store.close()
        self._link()
        shutil.copytree(self.folder / "checkpoints", self._everything / "checkpoints")

    def _link(self) -> None:
        for path in (self.folder / "log").glob("*.segment"):
            there = self._everything / "log" / path.name
            if not there.exists() or not there.samefile(path):
                # One that was prepared and not used comes again with another open.
                there.unlink(missing_ok=True)
                os.link(path, there)


@contextmanager
def remembered(history: list[Step]) -> Iterator[tuple[Path, Path]]:
    """A store that has let go of files, and a folder with all segments that it ever had."""
    with tempfile.TemporaryDirectory() as folder:
        store, everything = Path(folder, "store"), Path(folder, "everything")
        Remembered(store, everything).tell(history)
        assert list(numbered(everything / "log", "segment")) == list(
            range(1, 1 + len(list((everything / "log").iterdir())))
        )
        yield store, everything


def check(history: list[Step]) -> int:
    """Compares the tables of a store with what its whole log says, and returns how many facts are gone."""
    with remembered(history) as (store, everything), delaymq.snapshot(store) as snapshot:
        whole, first = Deliveries(everything), snapshot.first_sequence
        found = oracle.plain(snapshot.to_arrow_batches("deliveries"))
        ranges = snapshot.plan("deliveries", split_bytes=1)
        assert [row for one in ranges for row in oracle.plain(snapshot.read(one))] == found
        check_deliveries(whole, first, found)
        check_ready(whole, first, oracle.plain(snapshot.to_arrow_batches("ready")))
        ranges = snapshot.plan("ready", split_bytes=1)
        split = [row for one in ranges for row in oracle.plain(snapshot.read(one))]
        assert split == oracle.plain(snapshot.to_arrow_batches("ready"))
        return first - 1


def check_ready(whole: Deliveries, first: int, found: list[Row]) -> None:
    behind = [row for row in whole.ready if row["ready_sequence"] >= first]
    older, rest = found[: len(found) - len(behind)], found[len(found) - len(behind) :]
    for mine, theirs in zip(rest, behind, strict=True):
        assert mine in (theirs, theirs | {"published_sequence": None})
        # Of a message that was moved the fact that published it may be gone though the one that moved it is there.
        assert mine == theirs or theirs["published_sequence"] < first
    all_ready = {(row["subject"], row["number"]): row for row in whole.ready}
    for row in older:
        assert row["ready"] is None
        assert agrees(row, all_ready[row["subject"], row["number"]])
    unfinished = {
        (whole.names[subject], number)
        for (subject, number) in whole.entry_at
        if number >= whole.finished.get(subject, 0)
        and all_ready[whole.names[subject], number]["ready_sequence"] < first
    }
    assert {(row["subject"], row["number"]) for row in older} == unfinished


def agrees(mine: Row, theirs: Row) -> bool:
    """What a row says is so; what it does not say is not known any more."""
    return all(value is None or value == theirs[name] for name, value in mine.items())


def check_deliveries(whole: Deliveries, first: int, found: list[Row]) -> None:
    expected = whole.rows()
    assert [row for row in found if (row["entry_sequence"] or 0) >= first and (row["sequence"] or 0) >= first] == [
        row for row in expected if row["sequence"] >= first
    ]
    by_entry = {(row["entry_sequence"], row["group_number"]): row for row in expected}
    by_message = {(row["sequence"], row["group_number"]): row for row in expected}
    told = set()
    for row in found:
        if row["sequence"] is not None and row["sequence"] >= first:
            continue
        if row["subject"].startswith("%"):
            continue  # an entry that was given back before the log begins stands for itself
        if row["entry_sequence"] is None:  # it was given before the log begins, and given back since
            theirs = by_message[row["sequence"], row["group_number"]]
        else:
            theirs = by_entry[row["entry_sequence"], row["group_number"]]
        told.add((theirs["sequence"], row["group_number"]))
        gaps = {"attempts", "outcome", "ended", "acknowledged"} if row["outcome"] == "finished" else {"attempts"}
        if row["ready"] is None:  # what was given before the log begins may be given again
            gaps |= {"delivered", "lateness_ms"}
        assert agrees({name: value for name, value in row.items() if name not in gaps}, theirs), (row, theirs)
        assert (row["attempts"] or 0) <= (theirs["attempts"] or 0)
        assert theirs["outcome"] not in UNFINISHED or row["outcome"] == theirs["outcome"]
    waiting = {
        (row["sequence"], row["group_number"])
        for row in expected
        if row["sequence"] < first and row["outcome"] in {"pending", "ready", "in_flight"}
    }
    assert waiting <= told


def test_what_is_gone_is_not_made_up_and_what_waits_is_there() -> None:
    assert check(FAR) > 300


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example([("publish", 0, 5), ("reopen", 0, 120), ("move", 0, 0), ("recur", 0, 0)])
@given(histories())
def test_any_history_of_which_a_part_is_gone(history: list[Step]) -> None:
    check([*history, *LETS_GO * 2])
