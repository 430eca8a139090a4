"""inspect of a store that cannot be opened: what it still knows, what is gone, and nothing is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import delaymq
from commanding import command
from crafting import SEGMENT_BYTES, contents, flip, place_of, publish_all, runs_of, wait_until
from crafting import refused as open_refused
from delaymq import Corrupt, Inspection, MissingFile

LATE = [b"late %03d " % number + b"m" * 500 for number in range(300)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ready messages, pending ones in a run, two checkpoints, and pending ones over several segments behind them."""
    path = tmp_path / "store"
    with delaymq.open(path, segment_bytes=SEGMENT_BYTES) as store:
        store.subscribe("now", group="slow").close()
        publish_all(store, "now", [b"now"] * 40)
        publish_all(store, "late", LATE[:60], 7200)
        wait_until(lambda: store.status().ready == 40)
        store.checkpoint()
        store.checkpoint()
        publish_all(store, "late", LATE[60:], 7200)
    return path


def looked_at(folder: Path) -> Inspection:
    before = contents(folder)
    found = delaymq.inspect(folder)
    ended = command("inspect", "--store", folder, "--json")
    assert contents(folder) == before
    assert ended.returncode == 4, ended.stderr
    said = json.loads(ended.stdout)
    assert (said["refused"], tuple(said["damaged"])) == (found.refused, found.damaged)
    assert found.refused
    assert not found.sealed
    return found


def subjects(found: Inspection) -> dict[str, tuple[int, int]]:
    return {subject.name: (subject.pending, subject.ready) for subject in found.subjects if "%" not in subject.name}


def test_a_missing_run_is_named_and_the_rest_is_shown(folder: Path) -> None:
    run = runs_of(folder, 1)[0]
    run.unlink()
    open_refused(MissingFile, folder)
    found = looked_at(folder)
    assert f"runs/{run.name} is missing" in str(found.refused)
    assert any(f"runs/{run.name} is missing" in words for words in found.damaged)
    # The checkpoint knows how many waited there, and the log has the others.
    assert subjects(found)["now"] == (0, 40)
    assert found.pending == 300
    assert (found.checkpoint, found.facts_unconfirmed) == (2, 0)
    assert [group.lag for group in found.groups if group.name == "slow" and group.subject == "now"] == [40]
    shown = command("inspect", "--store", folder)
    assert shown.returncode == 4
    first, second, *_ = [line for line in shown.stdout.splitlines() if not line.startswith(str(folder))]
    assert "300 pending" in first
    assert "checkpoint 2" in second
    assert f"DAMAGED: it cannot be opened: runs/{run.name} is missing" in shown.stdout
    assert "group slow of now has 40 not finished" in shown.stdout


def test_a_damaged_batch_header_ends_what_is_certain(folder: Path) -> None:
    path, at = place_of(folder, LATE[150])
    flip(path, path.read_bytes().rindex(b"DMQBATCH", 0, at) + 20)
    open_refused(Corrupt, folder)
    found = looked_at(folder)
    assert f"log/{path.name}" in str(found.refused)
    assert 60 <= found.pending <= 150
    # What stands behind can be read, and nobody can say any more what it came to.
    assert found.pending + found.facts_unconfirmed >= 300
    assert found.facts_behind == found.pending - 60


def test_a_missing_segment_is_named(folder: Path) -> None:
    path, _ = place_of(folder, LATE[150])
    path.unlink()
    open_refused(MissingFile, folder)
    found = looked_at(folder)
    assert any(f"log/{path.name} is missing" in words for words in found.damaged)
    assert any("facts are gone, sequences" in words for words in found.damaged)
    assert 60 <= found.pending < 150


def test_a_log_that_lost_its_identity(folder: Path) -> None:
    (folder / "identity").unlink()
    open_refused(MissingFile, folder)
    found = looked_at(folder)
    assert "identity is missing" in str(found.refused)
    assert subjects(found) == {"late": (300, 0), "now": (0, 40)}


def test_a_store_without_checkpoints_or_beginning_says_that_nothing_is_certain(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").mkdir()
    last, _ = place_of(folder, LATE[0])
    for path in sorted((folder / "log").glob("*.segment")):
        if path <= last:
            path.unlink()
    found = looked_at(folder)
    assert any("nothing is certain" in words for words in found.damaged)
    assert (found.checkpoint, found.pending) == (None, 0)
    assert found.facts_unconfirmed > 100


def test_a_long_list_is_cut_unless_all_is_asked_for(folder: Path) -> None:
    for number in range(60, 300, 10):
        path, at = place_of(folder, LATE[number])
        flip(path, at - 20)
    found = looked_at(folder)
    assert len(found.damaged) > 20
    whole = command("inspect", "--store", folder, "--all").stdout
    assert whole.count("DAMAGED: ") >= len(found.damaged)
    cut = command("inspect", "--store", folder).stdout
    assert 20 <= cut.count("DAMAGED: ") <= 21
    assert " more; --all shows them" in cut


def test_where_nothing_says_whose_files_these_are_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        delaymq.inspect(tmp_path)
