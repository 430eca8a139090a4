"""Bytes that rot in a closed store: what is found, what is named, what goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import delaymq
from delaymq import Corrupt, MissingFile, NewerFormat, Store, StoreError


def filled(folder: Path, *, delay: float = 3600, checkpoint: bool = False) -> None:
    """A closed store with twenty messages whose bodies name themselves."""
    with delaymq.open(folder, segment_bytes=1 << 20) as store:
        with store.subscribe("a", group="g"):
            store.publish_many("a", [b"body-%02d-" % number * 20 for number in range(20)], delay)
        if checkpoint:
            store.checkpoint()


def holding(folder: Path, content: bytes) -> Path:
    """The first file of the log that holds some bytes."""
    return next(path for path in sorted((folder / "log").glob("*.segment")) if content in path.read_bytes())


def change(path: Path, at: int, by: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= by
    path.write_bytes(content)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused_untouched(folder: Path, kind: type[StoreError]) -> StoreError:
    before = snapshot(folder)
    with pytest.raises(kind) as caught:
        delaymq.open(folder)
    assert snapshot(folder) == before
    assert caught.value.store == str(folder)
    return caught.value


def test_a_damaged_body_is_voided_aloud_and_all_others_flow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "store"
    filled(folder, delay=1)
    segment = holding(folder, b"body-07-")
    change(segment, segment.read_bytes().index(b"body-07-"))
    caplog.set_level(logging.INFO, "delaymq")
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        bodies = []
        while (message := messages.get(3)) is not None:
            bodies.append(message.body[:7])
            message.ack()
        assert bodies == [b"body-%02d" % number for number in range(20) if number != 7]
        assert store.status().voided == 1
    voided = [record for record in caplog.records if record.__dict__.get("action") == "voided"]
    assert len(voided) == 1
    assert voided[0].levelno == logging.ERROR
    assert segment.name in voided[0].getMessage()
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        assert messages.get(0.5) is None
        assert store.status().voided == 0


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    filled(folder)
    for path in sorted((folder / "log").glob("*.segment")):
        content = bytearray(path.read_bytes())
        content[8:12] = (999).to_bytes(4, "little")  # the format, behind the magic
        path.write_bytes(content)
    error = refused_untouched(folder, StoreError)
    assert isinstance(error, NewerFormat | Corrupt)


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    filled(folder)
    filled(folder)
    segment = holding(folder, b"body-07-")
    segment.unlink()
    error = refused_untouched(folder, StoreError)
    assert isinstance(error, MissingFile | Corrupt)
    assert segment.name in str(error)


def test_one_unreadable_checkpoint_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "store"
    filled(folder, checkpoint=True)
    filled(folder, checkpoint=True)
    newest = max((folder / "checkpoints").glob("*.checkpoint"))
    change(newest, newest.stat().st_size // 2)
    caplog.set_level(logging.INFO, "delaymq")
    with delaymq.open(folder) as store:
        assert store.status().pending == 40
    assert any(newest.name in record.getMessage() for record in caplog.records)


def test_a_damaged_run_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    filled(folder, delay=1.5, checkpoint=True)
    run = next((folder / "runs").glob("*.run"))
    change(run, 4096 + 100)
    with delaymq.open(folder) as store, store.subscribe("a", group="g") as messages:
        bodies = []
        while (message := messages.get(4)) is not None:
            bodies.append(message.body[:7])
            message.ack()
        voided = store.status().voided
    assert len(bodies) + voided == 20
    assert len(set(bodies)) == len(bodies)


def test_what_is_no_log_file_stays(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    filled(folder)
    (folder / "log" / "notes.txt").write_text("mine")
    store: Store = delaymq.open(folder)
    store.close()
    assert (folder / "log" / "notes.txt").read_text() == "mine"
