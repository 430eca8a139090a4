"""Damaged, missing and foreign files: what is refused is left alone, what is not flows on."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import delaymq
from crafting import (
    BLOCK_BYTES,
    SEGMENT_BYTES,
    contents,
    drain,
    flip,
    later_format,
    one,
    overwrite,
    place_of,
    publish_all,
    refused,
    runs_of,
    verified,
    wait_until,
)
from delaymq import Corrupt, Locked, MissingFile, NewerFormat, NotAStore, Store, _core
from format_reader.layout import FORMAT

BODIES = [b"body %03d" % number for number in range(400)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def reopened(folder: Path, **options: Any) -> Store:
    """With options that only the core knows: nothing finished is kept, and payloads are copied at once."""
    small = {"segment_bytes": SEGMENT_BYTES, "keep_finished_ms": 0, "copy_after_ms": 0, "window_ms": 300}
    return Store(
        _core.Store.open(str(folder), progress=None, **{"durability": "disk", **small, **options}), str(folder)
    )


@pytest.fixture
def filled(folder: Path) -> Path:
    """A closed store with pending and ready messages, both kinds of runs, two checkpoints, facts behind them."""
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        publish_all(store, "late", BODIES, 3600)
        publish_all(store, "now", BODIES)
        wait_until(lambda: store.status().ready == len(BODIES))
        store.checkpoint()
        publish_all(store, "late", [b"x" * 500] * 200, 3600)
        store.checkpoint()
        store.publish("late", b"behind the checkpoint", delay=3600)
    assert runs_of(folder, 1)
    assert runs_of(folder, 2)
    return folder


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "delaymq"):
        yield caplog


def actions(logged: pytest.LogCaptureFixture) -> list[str]:
    return [str(getattr(record, "action", "")) for record in logged.records]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "log").glob("*.segment"))


def kept_segments(folder: Path) -> list[Path]:
    """Those above the floor that were used; the first one of a store never is."""
    return [path for path in segments(folder) if b"DMQBATCH" in path.read_bytes()[4096:]][1:]


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("*.checkpoint"))


def within(folder: Path, path: Path) -> str:
    return str(path.relative_to(folder))


# --- refused, and left alone -----------------------------------------------------------------------


def test_a_folder_that_is_no_store(folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("dear reader")
    error = refused(NotAStore, folder)
    assert (error.path, error.expected, error.found) == (".", "a store", "letter.txt")


def test_an_identity_that_is_something_else(filled: Path) -> None:
    overwrite(filled / "identity", 0, b"PNG")
    error = refused(NotAStore, filled)
    assert error.path == "identity"
    assert error.expected
    assert error.found


def test_a_damaged_identity(filled: Path) -> None:
    flip(filled / "identity", 20)
    error = refused(Corrupt, filled)
    assert (error.path, error.offset) == ("identity", 76)
    assert error.expected != error.found


def test_a_store_that_another_process_has_open(filled: Path) -> None:
    code = "import delaymq, sys; store = delaymq.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(filled)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "open\n"
        refusals: list[Locked] = []

        def leaves_all_alone() -> bool:
            # The process that has the store prepares segments and records its end when it gets to it, so a refused
            # opening is judged when no file changed by that process's hand in the meantime.
            before = contents(filled)
            with pytest.raises(Locked) as caught:
                delaymq.open(filled)
            refusals.append(caught.value)
            return contents(filled) == before

        wait_until(leaves_all_alone)
        error = refusals[-1]
        assert error.store == str(filled)
        assert error.path is not None
        assert error.path.endswith("LOCK")
        assert error.expected
        assert error.found
        other.stdin.close()
    assert other.returncode == 0
    delaymq.open(filled).close()


def test_a_newer_identity(filled: Path) -> None:
    later_format(filled / "identity", 0, 8, 76)
    refused_as_newer(filled, filled / "identity", 8)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_newer_segment(filled: Path, place: int) -> None:
    path = kept_segments(filled)[place]
    later_format(path, 0, 8, 48)
    refused_as_newer(filled, path, 8)


@pytest.mark.parametrize("place", [0, 1])
def test_a_newer_checkpoint(filled: Path, place: int) -> None:
    path = checkpoints(filled)[place]
    later_format(path, 0, 8, 60)
    refused_as_newer(filled, path, 8)


@pytest.mark.parametrize("kind", [1, 2])
def test_a_newer_run(filled: Path, kind: int) -> None:
    path = runs_of(filled, kind)[0]
    end = path.stat().st_size
    later_format(path, end - 40, end - 16, end - 12)
    refused_as_newer(filled, path, end - 16)


def refused_as_newer(folder: Path, path: Path, offset: int) -> None:
    error = refused(NewerFormat, folder)
    assert (error.path, error.offset) == (within(folder, path), offset)
    assert (error.expected, error.found) == (f"format {FORMAT} or earlier", f"format {FORMAT + 1}")


def test_a_batch_header_before_a_vouched_position(filled: Path) -> None:
    path, at = place_of(filled, b"behind the checkpoint")
    batch = path.read_bytes().rindex(b"DMQBATCH", 0, at)
    flip(path, batch + 20)
    error = refused(Corrupt, filled)
    assert (error.path, error.offset, error.expected) == (within(filled, path), batch, "a batch header")
    assert error.found == "other bytes"


def test_a_record_header_before_a_vouched_position(filled: Path) -> None:
    path, at = place_of(filled, b"behind the checkpoint")
    record = path.read_bytes().rindex(b"DMQBATCH", 0, at) + 88
    flip(path, record + 20)
    error = refused(Corrupt, filled)
    assert (error.path, error.offset) == (within(filled, path), record)
    assert (error.expected or "").startswith("record check ")
    assert error.found


def test_a_zeroed_batch_before_a_vouched_position(filled: Path) -> None:
    path, at = place_of(filled, b"behind the checkpoint")
    batch = path.read_bytes().rindex(b"DMQBATCH", 0, at)
    overwrite(path, batch, bytes(at + 21 - batch))
    error = refused(Corrupt, filled)
    assert (error.path, error.offset, error.found) == (within(filled, path), batch, "zeros")


def test_each_missing_segment_above_the_floor(filled: Path) -> None:
    paths = kept_segments(filled)
    assert len(paths) >= 3
    for path in paths:
        data = path.read_bytes()
        path.unlink()
        error = refused(MissingFile, filled)
        assert error.path == within(filled, path)
        assert (error.expected, error.found) == ("a file", "none")
        assert error.reason
        path.write_bytes(data)
    delaymq.open(filled).close()


@pytest.mark.parametrize("kind", [1, 2])
def test_a_missing_run(filled: Path, kind: int) -> None:
    path = runs_of(filled, kind)[0]
    path.unlink()
    error = refused(MissingFile, filled)
    assert error.path == within(filled, path)
    assert error.reason


@pytest.mark.parametrize("kind", [1, 2])
def test_a_run_cut_short(filled: Path, kind: int) -> None:
    path = runs_of(filled, kind)[0]
    path.write_bytes(path.read_bytes()[:-8])
    error = refused(Corrupt, filled)
    assert error.path == within(filled, path)
    assert error.offset is not None


def test_a_missing_identity(filled: Path) -> None:
    (filled / "identity").unlink()
    error = refused(MissingFile, filled)
    assert error.path == "identity"
    assert error.reason


def test_both_checkpoints_gone_where_the_log_was_retired(folder: Path) -> None:
    retired_store(folder)
    for path in checkpoints(folder):
        path.unlink()
    error = refused(MissingFile, folder)
    assert error.path == "log/0000000001.segment"


# --- not refused: all others flow ------------------------------------------------------------------


def test_checkpoints_gone_where_the_whole_log_is_kept(filled: Path) -> None:
    for path in checkpoints(filled):
        path.unlink()
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        assert store.status().pending == len(BODIES) + 201
        assert drain(messages, 0.3) == BODIES


def test_the_newest_checkpoint_gone(filled: Path) -> None:
    checkpoints(filled)[-1].unlink()
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        assert store.status().pending == len(BODIES) + 201
        assert drain(messages, 0.3) == BODIES


@pytest.mark.parametrize("at", [0, 40, 60, 64, 300, -1])
def test_the_newest_checkpoint_unreadable(filled: Path, logged: pytest.LogCaptureFixture, at: int) -> None:
    path = checkpoints(filled)[-1]
    flip(path, at if at >= 0 else path.stat().st_size - 1)
    assert any(within(filled, path) in problem for problem in verified(filled)["problems"])
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        assert store.status().pending == len(BODIES) + 201
        assert drain(messages, 0.3) == BODIES
    assert actions(logged).count("checkpoint_unreadable") == 1
    assert within(filled, path) in logged.text
    assert verified(filled)["problems"] == []


def test_a_damaged_payload_is_voided_when_it_is_read(filled: Path, logged: pytest.LogCaptureFixture) -> None:
    path, at = now_body(filled, 7)
    flip(path, at)
    problems = verified(filled)["problems"]
    assert len(problems) == 1
    assert within(filled, path) in problems[0]
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        assert store.status().voided == 0
        assert drain(messages, 0.3) == BODIES[:7] + BODIES[8:]
        assert store.status().voided == 1
        assert store.status().ready == 0
    assert actions(logged).count("voided") == 1
    assert within(filled, path) in logged.text
    assert verified(filled)["voided"] == ['ready message 7 of subject "now"']
    with delaymq.open(filled) as store, store.subscribe("now", group="other") as messages:
        assert drain(messages, 0.3) == []
        store.publish("now", b"next")
        assert one(messages).body == b"next"


def now_body(folder: Path, number: int) -> tuple[Path, int]:
    """Where the payload of a ready message lies: behind that of the pending one of the same words."""
    path, first = place_of(folder, BODIES[number])
    return path, path.read_bytes().index(BODIES[number], first + 1)


def test_a_record_header_behind_the_checkpoint_is_voided_too(filled: Path) -> None:
    path, at = now_body(filled, 7)
    flip(path, at - 20)
    assert any(within(filled, path) in problem for problem in verified(filled)["problems"])
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        assert drain(messages, 0.3) == BODIES[:7] + BODIES[8:]
        assert store.status().voided == 1


def test_a_damaged_block_of_a_schedule_run_comes_from_the_log(folder: Path, logged: pytest.LogCaptureFixture) -> None:
    with delaymq.open(folder, segment_bytes=SEGMENT_BYTES) as store:
        publish_all(store, "late", BODIES, 4)
        store.checkpoint()
    [path] = runs_of(folder, 1)
    for block in (1, 3):
        flip(path, block * BLOCK_BYTES + 100)
    assert sum(within(folder, path) in problem for problem in verified(folder)["problems"]) == 2
    with delaymq.open(folder) as store, store.subscribe("late", group="g") as messages:
        assert drain(messages, 6) == BODIES
        assert store.status().voided == 0
    assert actions(logged).count("run_damaged") >= 1
    assert within(folder, path) in logged.text


def retired_store(folder: Path) -> list[str]:
    """A closed store whose first segments are gone: pending messages lie in a run with their payloads."""
    with reopened(folder) as store, store.subscribe("now", group="g") as messages:
        receipts = publish_all(store, "late", BODIES, 6)
        for _ in range(4):
            publish_all(store, "now", [b"x" * 700] * 60)
            assert len(drain(messages, 0.1)) == 60
            store.checkpoint()
        kept = [str(receipt.sequence) for receipt in receipts]
    reopened(folder).close()
    assert segments(folder)[0].name > "0000000003.segment"
    return kept


def test_a_damaged_block_whose_log_is_gone_is_voided_by_name(folder: Path, logged: pytest.LogCaptureFixture) -> None:
    sequences = retired_store(folder)
    path = runs_of(folder, 1)[0]
    flip(path, 2 * BLOCK_BYTES + 100)
    with reopened(folder) as store, store.subscribe("late", group="g") as messages:
        assert drain(messages, 8) == BODIES[:85] + BODIES[170:]
        assert store.status().voided == 85
        assert store.status().pending == 0
    assert "run_damaged" in actions(logged)
    named = [record.getMessage() for record in logged.records if getattr(record, "action", "") == "voided"]
    assert len(named) == 85
    for sequence in sequences[85:170]:
        assert any(f"sequence {sequence} " in text for text in named)
    assert len(verified(folder)["voided"]) == 85


def test_a_damaged_copied_payload_is_voided(folder: Path, logged: pytest.LogCaptureFixture) -> None:
    retired_store(folder)
    path = runs_of(folder, 1)[0]
    flip(path, path.read_bytes().index(BODIES[5]))
    with reopened(folder) as store, store.subscribe("late", group="g") as messages:
        assert drain(messages, 8) == BODIES[:5] + BODIES[6:]
        assert store.status().voided == 1
    assert within(folder, path) in logged.text


def test_a_damaged_block_of_a_dispatch_run_comes_from_the_log(filled: Path, logged: pytest.LogCaptureFixture) -> None:
    path = runs_of(filled, 2)[0]
    flip(path, 2 * BLOCK_BYTES + 100)
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        assert drain(messages, 0.5) == BODIES
        assert store.status().voided == 0
    assert "run_damaged" in actions(logged)
    assert within(filled, path) in logged.text


def test_a_torn_tail(filled: Path, logged: pytest.LogCaptureFixture) -> None:
    last = kept_segments(filled)[-1]
    data = last.read_bytes()
    end = len(data.rstrip(b"\0"))
    seal = data.rindex(b"DMQBATCH", 0, end)
    overwrite(last, seal, data[seal : seal + 50] + bytes(38))
    with delaymq.open(filled) as store, store.subscribe("now", group="g") as messages:
        [aside] = store.status().aside
        assert store.status().pending == len(BODIES) + 201
        assert drain(messages, 0.3) == BODIES
    assert actions(logged).count("tail_repaired") == 1
    assert aside in logged.text
    assert (filled / aside).read_bytes()[seal : seal + 50] == data[seal : seal + 50]
    assert verified(filled)["aside"] == [aside]
