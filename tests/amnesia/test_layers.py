"""What a machine cannot run is said to be not run, and what was planted and not found fails."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from amnesia import filesystem
from amnesia.block_images import SECTOR, Look, Recorded, image_at, ledger_so_far
from amnesia.io_errors import how_it_ended
from amnesia.totals import SHOWN, told_of

A, B, C, ZEROS = b"a" * SECTOR, b"b" * SECTOR, b"c" * SECTOR, bytes(SECTOR)
FLUSHED = ((1 << 64) - 1, b"")


def test_a_device_that_cannot_be_opened_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert filesystem.not_run("a layer", (tmp_path / "absent",)) == 0
    said = capsys.readouterr().out
    assert said == f"a layer: NOT RUN: {tmp_path / 'absent'} cannot be opened\n"


def test_who_is_not_root_runs_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert filesystem.not_run("a layer", (Path(os.devnull),)) == 0
    assert "NOT RUN: only root may mount" in capsys.readouterr().out
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert filesystem.not_run("a layer", (Path(os.devnull),)) is None


def test_a_store_ends_by_no_signal_and_in_time() -> None:
    assert [how_it_ended(code, {}) for code in (0, 4, 5)] == ["went on", "stopped itself", "refused"]
    assert [how_it_ended(code, {}) for code in (None, -7, -9, 3, 7, 8, 9)] == [None] * 7
    assert how_it_ended(7, {"error": "the disk is full: no"}) == "refused"


def test_what_was_flushed_is_in_every_image_and_a_choice_of_the_rest() -> None:
    events = [(0, A + A), FLUSHED, (SECTOR, B + B), (0, C)]
    recorded = Recorded(bytes(4 * SECTOR), events, [])
    assert image_at(recorded, 4, None) == C + B + B + ZEROS
    assert image_at(recorded, 1, None)[: 2 * SECTOR] == A + A
    chosen = {bytes(image_at(recorded, 3, random.Random(seed))) for seed in range(100)}
    assert chosen == {A + middle + last + ZEROS for middle in (A, B) for last in (ZEROS, B)}


def test_answers_are_certain_only_once_they_were_looked_at_before_the_event() -> None:
    lines = [
        {"kind": "publish", "id": "1", "at_ms": 1},
        {"kind": "published", "id": "1", "result": "acknowledged", "at_ms": 1},
        {"kind": "publish", "id": "2", "at_ms": 2},
        {"kind": "published", "id": "2", "result": "acknowledged", "at_ms": 2},
        {"kind": "publish", "id": "3", "at_ms": 3},
    ]
    ends = [10, 20, 30, 40, 50]
    recorded = Recorded(b"", [], [(lines, ends, [Look(20, 5, 20), Look(40, 9, 40), Look(50, 11, 50)])])
    told = [(line["kind"], line.get("id")) for line in ledger_so_far(recorded, 7)]
    assert told == [("publish", "1"), ("published", "1"), ("publish", "2"), ("stop", None)]


def test_a_planted_fault_is_caught_by_what_is_lost_and_not_by_words() -> None:
    looked_for = {"lost": 0, "early": 0}
    unfit = {"verdict": "unfit", "why": "line 6: the first line is of kind run", "findings": looked_for, "examples": {}}
    unmarked = {
        "verdict": "broken",
        "findings": {**looked_for, "unmarked": 3},
        "examples": {"unmarked": ["lost 1 more"]},
    }
    lost = {"verdict": "broken", "findings": {**looked_for, "lost": 12}, "examples": {}}
    told = [f"seed 1: {told_of(one)}" for one in (unfit, unmarked, lost)]
    assert [bool(SHOWN.search(one)) for one in told] == [False, False, True]
    assert SHOWN.search("seed 1: the drain ended with 3: refused")
    assert SHOWN.search("seed 1: life 3 ended by itself with 7: unexpected")
    assert not SHOWN.search("seed 1: the drain ended with 9: undrained")
