"""What a machine cannot run is said to be not run, and what was planted and not found fails."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from amnesia import filesystem
from amnesia.block_images import SECTOR, Look, Recorded, image_at, ledger_so_far, moments, watch
from amnesia.io_errors import KINDS, how_it_ended
from amnesia.served_errors import WHEN, Rig
from amnesia.stages import Picture, picture, spans
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


def test_a_life_that_told_much_after_its_last_look_is_not_over_before_its_last_write(tmp_path: Path) -> None:
    """A busy machine looked at nothing for the last ten milliseconds: the answer came with the ninth event."""
    lines = [
        {"kind": "publish", "id": "1", "at_ms": 1},
        {"kind": "published", "id": "1", "result": "acknowledged", "at_ms": 1},
    ]
    told = tmp_path / "told"
    told.write_bytes(b"x" * 20)

    class Disk(filesystem.FileSystem):
        def __init__(self) -> None:
            """There is no disk, and nine events."""

        def tell(self, _words: str) -> dict[str, int]:
            return {"events": 9}

    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        looks = watch(Disk(), told, tmp_path, ended)
    recorded = Recorded(b"", [], [(lines, [10, 20], looks), ([{"kind": "ended", "at_ms": 2}], [10], [])])
    assert "published" not in {line["kind"] for line in ledger_so_far(recorded, 8)}
    assert "published" in {line["kind"] for line in ledger_so_far(recorded, 9)}


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


def test_each_stage_of_a_store_is_found_among_what_its_disk_recorded() -> None:
    first = "log/0000000001.segment"
    run, checkpoint = "runs/0000000001.run", "checkpoints/0000000001.checkpoint"

    def shows(*names: str, used: frozenset[str] = frozenset()) -> Picture:
        return Picture(has_identity=True, used=used, names=frozenset(names))

    one, two = frozenset({"0000000001.segment"}), frozenset({"0000000001.segment", "0000000002.segment"})
    looked = [
        (5, shows(first)),
        (10, shows(first, used=one)),
        (20, shows(first, f"{run}.tmp", used=one)),
        (30, shows(first, run, used=one)),
        (40, shows(first, run, checkpoint, used=one)),
        (50, shows(first, run, checkpoint, used=two)),
        (60, shows(run, checkpoint, used=two)),
    ]
    assert spans(looked, [12, 14, 44, 46, 55, 58, 70]) == {
        "first start": [(0, 15)],
        "roll": [(40, 59)],
        "checkpoint": [(10, 47)],
        "retire": [(50, 71)],
    }
    assert spans([], []) == {"first start": [], "roll": [], "checkpoint": [], "retire": []}


def test_a_look_at_a_store_knows_which_segments_have_batches(tmp_path: Path) -> None:
    assert picture(tmp_path / "absent") == Picture()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "0000000001.segment").write_bytes(bytes(SECTOR) + b"DMQBATCH")
    (tmp_path / "log" / "0000000002.segment").write_bytes(bytes(2 * SECTOR))
    (tmp_path / "identity").write_bytes(b"")
    names = frozenset({"log/0000000001.segment", "log/0000000002.segment"})
    assert picture(tmp_path) == Picture(has_identity=True, used=frozenset({"0000000001.segment"}), names=names)


def test_images_are_made_in_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(b"", [(0, A)] * 100, [])
    stages = {"first start": [(3, 5)], "roll": [], "checkpoint": [(50, 51), (60, 60)], "retire": [(70, 72)]}
    monkeypatch.setattr(Recorded, "stages", stages)
    chosen = [event for number, (_, event, _) in enumerate(moments(recorded, 60, 1)) if number % 4 == 1]
    assert len(chosen) == 15
    for of_it in filter(None, stages.values()):
        assert sum(any(start <= event <= end for start, end in of_it) for event in chosen) == 5


def test_each_kind_of_call_fails_in_a_server_and_only_writes_are_short(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tmp_path)
    cases = [rig.case_of(seed) for seed in range(4 * len(KINDS))]
    assert {case.kind for case, _ in cases} == set(KINDS)
    assert all(case.place >= 1 for case, _ in cases)
    assert {case.kind for case, _ in cases if case.error == "short"} <= {"write"}
    assert {when for _, when in cases} == set(WHEN)
    assert {when for case, when in cases if case.kind == "mkdir"} == {"first start"}
