"""Runs made again from the log by tasks: by the function, and by `delaymq spark rebuild` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import delaymq
from boundary.test_rebuilding import (
    MESSAGES,
    PIECE,
    SHARED,
    crowded,
    files,
    flip_a_row,
    pending,
    remove,
    taken,
    waiting,
)
from commanding import arguments_of, command, environment
from crafting import flip, runs_of
from delaymq import InvalidArgument, StoreError, WouldVanish
from delaymq.rebuilding import PIECE_SEQUENCES, plan, rebuild_all
from delaymq.spark.jobs import rebuild
from delaymq.spark.jobs.rebuild import Task, _collected, rebuilt
from delaymq.testing import Clock
from end_to_end.test_cli_json import promised, shape
from format_reader.runs import BLOCK_BYTES, SCHEDULE
from format_reader.store import numbered, read_runs
from java import DRIVER_TIMEOUT_SECONDS, kill_driver_when, quick_java
from spark.sources import at_second_attempt
from tables import stores


def planned_of(path: Path) -> Any:
    return plan(path, piece_sequences=PIECE)


def unreadable(path: Path) -> int:
    """What cannot be read of its run, and is in the log."""
    return sum(piece.counts.unreadable for piece in rebuild_all(path, planned_of(path)))


def test_a_whole_store_is_compared_and_can_be_adopted(spark: Any, tmp_path: Path) -> None:
    path = stores.rich(tmp_path / "rich")
    before = pending(path)
    found = rebuild(spark, str(path), planned_of(path))
    assert found.is_clean
    assert len(found.pieces) > 2
    assert found.counts.same == found.counts.pending > 100
    assert (found.examples, found.adopted) == ((), None)
    done = rebuild(spark, str(path), adopts=True)
    assert done.adopted is not None
    assert done.adopted.messages == found.counts.pending
    assert pending(path) == before


def test_a_run_that_is_gone_comes_back_though_each_task_fails_first(spark: Any, tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    remove(path)

    def run(asked: list[int], task: Task) -> list[dict[str, Any]]:
        return _collected(spark, asked, partial(at_second_attempt, task))

    done = rebuilt(str(path), run, planned_of(path), adopts=True)
    assert done.adopted is not None
    assert (done.adopted.runs, done.adopted.messages) == (len(done.pieces), MESSAGES)
    assert done.counts.unreadable == MESSAGES
    assert {one.kind for one in done.examples} == {"unreadable"}
    left = list((path / "loads").iterdir())
    assert len(left) == len(done.pieces), "of the first attempts, for a day"
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_who_opens_the_store_meanwhile_ends_it(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "store"
    waiting(path, Clock())

    def run(asked: list[int], task: Task) -> list[dict[str, Any]]:
        told = _collected(spark, asked, task)
        with delaymq.open(path) as store:
            store.publish("orders", b"later", delay=3_600)
            store.checkpoint()
        return told

    with pytest.raises(StoreError, match="run it again") as caught:
        rebuilt(str(path), run, planned_of(path), adopts=True)
    assert not isinstance(caught.value, InvalidArgument)
    assert list((path / "loads").iterdir()) == []


def nowhere(path: Path) -> Path:
    """A store whose log is retired, and whose run is damaged."""
    with delaymq.open(path, durability="os", segment_bytes=1 << 16, keep_finished=0) as store:
        last = store.publish_many("orders", [b"%d" % number for number in range(100)], 3_600)[-1].sequence
        first = 1
        while first <= last:
            store.cancel_many(store.publish_many("gone", [bytes(2_000)] * 10, 3_600))
            store.checkpoint()
            with delaymq.snapshot(path) as snapshot:
                first = snapshot.first_sequence
    for run in runs_of(path, SCHEDULE):
        flip(run, BLOCK_BYTES + 100)
    return path


def test_what_would_vanish_is_refused_and_nothing_changes(spark: Any, tmp_path: Path) -> None:
    path = nowhere(tmp_path / "store")
    found = rebuild(spark, str(path))
    assert found.counts.vanishing > 0
    assert not found.is_clean
    before = files(path)
    with pytest.raises(WouldVanish, match=str(found.examples[0].sequence)):
        rebuild(spark, str(path), adopts=True)
    assert files(path) == before


def spark_rebuild(path: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    ended = command("spark", "rebuild", "--store", str(path), *words, given=b"", seconds=100, **quick_java({}))
    assert ended.returncode == code, ended.stderr
    return ended


def test_the_verb_compares_adopts_and_writes(tmp_path: Path, connected: str) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    clean = spark_rebuild(path, "--master", connected)
    assert clean.stderr == ""
    head, _, heads, *rows = clean.stdout.splitlines()
    assert head == f"{MESSAGES} pending messages as of checkpoint 1; pieces: 1"
    assert heads.split("  ")[0] == "messages"
    assert {row.split()[0]: int(row.split()[1]) for row in rows if not row.startswith("same")} == dict.fromkeys(
        ("kept", "different", "missing", "unreadable", "vanishing"), 0
    )
    flip_a_row(path)
    broken = unreadable(path)
    place = ("--master", connected, "--piece", str(PIECE))
    told = spark_rebuild(path, *place, "--rows", "1", code=1)
    assert told.stdout.splitlines()[-1] == f"and {broken - 1} more"
    words = ("--json", "--parquet", str(tmp_path / "pieces"))
    [line] = spark_rebuild(path, *place, *words, code=1).stdout.splitlines()
    found = json.loads(line)
    assert shape(found) == promised()["spark rebuild --json"]
    assert shape(found["counts"]) == promised()["counts of spark rebuild"]
    assert {shape(one) for one in found["examples"]} == {promised()["examples of spark rebuild"]}
    assert {shape(one) for one in found["pieces"]} == {promised()["pieces of spark rebuild"]}
    assert (found["counts"]["unreadable"], found["adopted"]) == (broken, None)
    written = pyarrow.parquet.read_table(tmp_path / "pieces").to_pylist()
    assert sum(row["pending"] for row in written) == MESSAGES
    assert sum(row["unreadable"] for row in written) == broken
    assert {one["kind"] for row in written for one in row["examples"]} == {"unreadable"}
    done = spark_rebuild(path, *place, "--adopt")
    assert done.stdout.splitlines()[-1] == f"adopted: {len(written)} runs with {MESSAGES} messages"
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_the_verb_refuses_what_is_open_and_what_would_vanish(tmp_path: Path, connected: str) -> None:
    path = nowhere(tmp_path / "store")
    before = files(path)
    told = spark_rebuild(path, "--adopt", "--master", connected, code=4)
    [line] = told.stderr.splitlines()
    assert "would vanish: sequence " in line
    assert told.stdout == ""
    assert files(path) == before
    waiting(tmp_path / "open", Clock())
    with delaymq.open(tmp_path / "open"):
        assert "open" in spark_rebuild(tmp_path / "open", "--adopt", code=5).stderr
    assert "multiple of 32" in spark_rebuild(path, "--piece", str(PIECE_SEQUENCES + 32), code=2).stderr


def test_the_verb_says_what_it_has_not_looked_at(spark: Any, tmp_path: Path, connected: str) -> None:
    delaymq.open(tmp_path / "new").close()
    told = spark_rebuild(tmp_path / "new", "--master", connected, "--adopt").stdout
    assert told.startswith("the store has no checkpoint: there is nothing in runs")
    assert len(told.splitlines()) == 1
    assert rebuild(spark, str(tmp_path / "new")).checkpoint is None
    path = crowded(tmp_path / "loaded")
    for run in (path / "loads").iterdir():
        run.unlink()
    found = rebuild(spark, str(path))
    assert (found.counts.wrong, found.is_clean) == (0, False), "what was loaded is gone"
    assert f"it is damaged: loads/{run.name}" in spark_rebuild(path, "--master", connected, code=1).stdout


def staged(path: Path) -> int:
    return len([name for name in names(path / "loads") if name.endswith(".run")])


def names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()] if folder.exists() else []


MOMENTS: dict[str, Callable[[Path, int], bool]] = {
    "while pieces are made": lambda path, _: staged(path) > 0,
    # All are there until the first gets its name: whoever did not look meanwhile sees that name.
    "when all are made": lambda path, pieces: staged(path) >= pieces or names(path / "runs") != [],
    "while runs get their names": lambda path, _: names(path / "runs") != [],
    "when they are adopted": lambda path, _: "0000000002.checkpoint" in names(path / "checkpoints"),
}


@pytest.mark.slow
@pytest.mark.timeout(DRIVER_TIMEOUT_SECONDS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_is_killed_in_an_adoption_loses_and_doubles_nothing(
    spark: Any, tmp_path: Path, connected: str, moment: str
) -> None:
    # Its tasks end with it, or are done when it is killed, so that Java need not be started for each.
    master = "local[1]" if moment == "while pieces are made" else connected
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    remove(path)
    pieces = len(plan(path, piece_sequences=32).pieces)
    words = arguments_of("spark", "rebuild", "--adopt", "--piece", "32", "--master", master, "--store", str(path))
    kill_driver_when(
        lambda: MOMENTS[moment](path, pieces), words, tmp_path / "said", environment(**quick_java()), poll_s=0.0005
    )
    done = rebuild(spark, str(path), plan(path, piece_sequences=PIECE), adopts=True)
    assert done.adopted is not None
    assert (done.adopted.messages, done.counts.wrong) in {(MESSAGES, MESSAGES), (MESSAGES, 0)}
    assert taken(path, clock) == dict.fromkeys(bodies, 1)
    with delaymq.open(path, clock=clock, **SHARED) as store:
        for _ in range(3):
            store.publish("orders", b"more", delay=3_600)
            store.checkpoint()
    delaymq.open(path, clock=clock, **SHARED).close()
    assert names(path / "loads") == []
    assert set(numbered(path / "runs", "run")) == set(read_runs(path)), "no run is there that nobody names"
    assert [name for name in files(path) if name.endswith(".tmp")] == []
