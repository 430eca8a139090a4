"""What is done to a store while its runs are made again, or before: nothing of it costs or doubles a message."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import delaymq
from boundary.test_rebuilding import (
    DELAY_S,
    MESSAGES,
    PIECE,
    SHARED,
    adopted,
    compared,
    crowded,
    files,
    flip_a_row,
    pending,
    remove,
    taken,
    waiting,
)
from crafting import contents, flip, place_of, runs_of, verified
from delaymq import Locked, MissingFile
from delaymq.rebuilding import adopt, plan, rebuild_all, refuse_open
from delaymq.testing import Clock
from format_reader.runs import SCHEDULE

LIMITED = """
import resource, sys
from delaymq import StorageError
from delaymq.rebuilding import adopt, plan, rebuild_all
path, limit, value, when = sys.argv[1:]
asked = plan(path, piece_sequences={piece})
which = getattr(resource, limit)
before = resource.getrlimit(which)
def bound():
    resource.setrlimit(which, (int(value), before[1]))
if when == "staging":
    bound()
try:
    told = rebuild_all(path, asked, stage=True)
    bound()
    adopt(path, asked, told)
except StorageError as error:
    print(type(error).__name__)
else:
    print("done")
finally:
    resource.setrlimit(which, before)  # whoever measures what was run writes it at the end
"""


def left(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "loads").iterdir())


def limited(path: Path, limit: str, value: int, when: str) -> str:
    """Rebuilds and adopts in a process that may do less: how it ended."""
    script = LIMITED.format(piece=PIECE)
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path), limit, str(value), when],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr == ""
    return ended.stdout.strip()


def test_a_store_whose_folder_of_runs_is_gone_opens_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    for run in (path / "runs").iterdir():
        run.unlink()
    (path / "runs").rmdir()
    refuse_open(path)
    assert compared(path)[1].unreadable == MESSAGES
    assert adopted(path) == MESSAGES
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_a_loaded_run_that_is_gone_is_told_and_nothing_is_adopted(tmp_path: Path) -> None:
    path = crowded(tmp_path / "store")
    [kept] = plan(path).kept
    assert kept.damage is None
    [run] = (path / "loads").iterdir()
    run.unlink()
    planned = plan(path, piece_sequences=PIECE)
    [kept] = planned.kept
    assert kept.damage is not None
    assert run.name in kept.damage
    before = files(path)
    with pytest.raises(MissingFile, match=run.name):
        adopt(path, planned, rebuild_all(path, planned, stage=True))
    assert files(path) == before


def test_two_rebuilds_at_once_come_to_one_and_leave_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    remove(path)
    planned, again = plan(path, piece_sequences=PIECE), plan(path, piece_sequences=PIECE)
    assert planned == again
    mine, theirs = (rebuild_all(path, each, stage=True) for each in (planned, again))
    assert adopt(path, planned, mine) == adopt(path, again, theirs)
    assert left(path) == []
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_what_is_done_between_a_plan_and_its_adoption_counts(tmp_path: Path) -> None:
    # By the clock of this machine, since what is staged is named by it and goes after a day.
    path, clock = tmp_path / "store", Clock(datetime.now(UTC))
    with delaymq.open(path, clock=clock, **SHARED) as store:
        receipts = store.publish_many("orders", [b"%d" % number for number in range(MESSAGES)], DELAY_S)
        store.checkpoint()
    planned = plan(path, piece_sequences=PIECE)
    told = rebuild_all(path, planned, stage=True)
    with delaymq.open(path, clock=clock, **SHARED) as store:
        store.cancel_many(receipts[::2])
        store.move_many(receipts[1::4], delay=2 * DELAY_S)
        store.publish("orders", b"later", delay=DELAY_S, key="one")
    remove(path)
    assert adopt(path, planned, told).messages == MESSAGES
    bodies = [b"%d" % number for number in range(1, MESSAGES, 2)]
    assert taken(path, clock) == dict.fromkeys([*bodies, b"later"], 1)


@pytest.mark.parametrize(
    ("limit", "value", "when"),
    [("RLIMIT_FSIZE", 4_096, "staging"), ("RLIMIT_FSIZE", 0, "adopting"), ("RLIMIT_NOFILE", 8, "adopting")],
)
def test_where_the_system_gives_no_more_nothing_is_changed_and_nothing_left(
    tmp_path: Path, limit: str, value: int, when: str
) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    remove(path)
    before = files(path)
    assert limited(path, limit, value, when).endswith(("StorageError", "DiskFull"))
    assert left(path) == []
    named = {name: data for name, data in files(path).items() if not name.startswith("runs/") or name in before}
    assert {name: data for name, data in named.items() if not name.endswith(".tmp")} == before
    assert limited(path, "RLIMIT_NOFILE", 500, "adopting") == "done"
    assert taken(path, clock) == dict.fromkeys(bodies, 1)
    for _ in range(2):  # the pin of the plan keeps what is of no use for an hour
        clock.advance(4_000)
        with delaymq.open(path, clock=clock, **SHARED) as store:
            store.checkpoint()
    with delaymq.snapshot(path):
        assert not [name for name in contents(path) if name.endswith(".tmp")]


@pytest.mark.parametrize("name", ["two words", "50%20 äö#?", "-n"])
def test_any_name_of_a_folder_will_do(tmp_path: Path, name: str) -> None:
    path, clock = tmp_path / name, Clock()
    bodies = waiting(path, clock)
    remove(path)
    assert adopted(path) == MESSAGES
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_foreign_files_among_what_is_staged_stay(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    bodies = waiting(path, clock)
    (path / "loads").mkdir(exist_ok=True)
    (path / "loads" / "notes.txt").write_text("notes")
    (path / "loads" / ("0" * 13 + "-" + "0" * 32 + ".run.tmp")).mkdir()
    (path / "runs" / "0000000900.run").write_bytes(b"no run")
    assert adopted(path) == MESSAGES
    assert (path / "loads" / "notes.txt").read_text() == "notes"
    assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_a_damaged_log_is_helped_by_a_run_and_a_run_by_the_log(tmp_path: Path) -> None:
    path, clock = tmp_path / "store", Clock()
    with delaymq.open(path, clock=clock, **SHARED) as store:
        for number in range(MESSAGES):
            store.publish("orders", b"body %03d" % number, delay=DELAY_S + number)
        store.checkpoint()
    whole = pending(path)
    segment, at = place_of(path, b"body 100")
    flip(segment, at)
    counts = compared(path)[1]
    assert (counts.kept, counts.same, counts.wrong) == (1, MESSAGES - 1, 0)
    assert adopted(path) == MESSAGES
    assert pending(path) == whole
    for run in runs_of(path, SCHEDULE):
        run.unlink()
    counts = compared(path)[1]
    assert (counts.vanishing, counts.unreadable) == (1, MESSAGES - 1)


@pytest.mark.parametrize("damage", [remove, flip_a_row])
def test_verify_says_once_what_only_the_older_checkpoint_needs(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path, clock = tmp_path / "store", Clock()
    waiting(path, clock)
    [run] = runs_of(path, SCHEDULE)
    damage(path)
    lines = verified(path)["problems"]
    assert len(lines) == len(set(lines)) == (1 if damage is remove else 2), lines
    assert adopted(path) == MESSAGES
    told = verified(path)["problems"]
    newest = "the newest, checkpoints/0000000002.checkpoint, does not: the store opens without it"
    assert told == [f"{line}; only checkpoints/0000000001.checkpoint needs it, and {newest}" for line in lines]
    assert run.name in told[0]
    assert verified(path)["records"] > 0
    for _ in range(2):
        with delaymq.open(path, clock=clock, **SHARED) as store:
            store.publish("orders", b"more", delay=DELAY_S)
            store.checkpoint()
    assert verified(path)["problems"] == []


def test_an_adoption_that_is_killed_is_done_again_by_a_new_one(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom delaymq.rebuilding import adopt, plan, rebuild_all\n"
        f"path = sys.argv[1]\nasked = plan(path, piece_sequences={PIECE})\n"
        "told = rebuild_all(path, asked, stage=True)\nprint('staged', flush=True)\nadopt(path, asked, told)\n"
    )
    for turn in range(10):
        path, clock = tmp_path / f"store {turn}", Clock()
        bodies = waiting(path, clock)
        remove(path)
        with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"staged\n"
            try:
                process.wait(turn * 0.002)
            except subprocess.TimeoutExpired:
                process.kill()
        refuse_open(path)
        assert adopted(path) == MESSAGES
        assert taken(path, clock) == dict.fromkeys(bodies, 1)


def test_who_asks_whether_a_store_is_open_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    waiting(path, Clock())
    before = files(path)
    refuse_open(path)
    assert files(path) == before
    with delaymq.open(path), pytest.raises(Locked) as caught:
        refuse_open(path)
    assert caught.value.store == str(path)
    with pytest.raises(delaymq.StoreError):
        refuse_open(tmp_path / "nothing")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("notes")
    with pytest.raises(delaymq.NotAStore):
        refuse_open(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["notes.txt"]
