"""A run of which most waits for long gives the room of what was cancelled back, and nothing else of it changes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import delaymq
from delaymq import Publish, _core
from delaymq.testing import Clock
from format_reader.store import read_runs

MESSAGES = 48_000
CANCELLED = range(8_000, 31_000)
BATCH = 500
FAR_S = 7 * 86_400
# Less than this is not looked for by itself.
RECLAIM_BYTES = 64 << 20


def body(number: int) -> bytes:
    return b"%d " % number + bytes([number % 251]) * 3_000


def in_batches(numbers: range) -> list[range]:
    return [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]


def runs_of(folder: Path) -> dict[str, tuple[int, int]]:
    """How long each run is, and how many bytes of the disk it takes."""
    found = {path.name: path.stat() for path in (folder / "runs").glob("*.run")}
    return {name: (stat.st_size, stat.st_blocks * 512) for name, stat in found.items()}


def opened(folder: Path, clock: Clock) -> delaymq.Store:
    return delaymq.open(folder, clock=clock, segment_bytes=8 << 20, keep_finished=0)


@pytest.fixture(scope="module")
def hollow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Clock, str]:
    """A store, its clock, and the name of the run with all payloads; its room came back."""
    folder, clock = tmp_path_factory.mktemp("hollow") / "store", Clock()
    with opened(folder, clock) as store:
        receipts: list[delaymq.Receipt] = []
        for numbers in in_batches(range(MESSAGES)):
            receipts += store.publish_many([Publish("far", body(number), delay=FAR_S + number) for number in numbers])
        store.checkpoint()
        full = runs_of(folder)
        largest = max(full, key=lambda name: full[name][0])
        for numbers in in_batches(CANCELLED):
            store.cancel_many([receipts[number] for number in numbers])
        until = time.monotonic() + 60
        while full[largest][1] - runs_of(folder)[largest][1] < RECLAIM_BYTES:
            assert time.monotonic() < until, (full, runs_of(folder))
            store.publish("other", b"")
            store.checkpoint()
        assert runs_of(folder)[largest][0] == full[largest][0], "it is as long as it was"
    return folder, clock, largest


def test_inspect_counts_a_run_without_what_was_given_back(hollow: tuple[Path, Clock, str]) -> None:
    folder, _, name = hollow
    (told,) = [file for file in delaymq.inspect(folder).files if file.path == f"runs/{name}"]
    length, taken = runs_of(folder)[name]
    assert RECLAIM_BYTES < told.hole_bytes <= len(CANCELLED) * 3_200
    assert abs(length - told.hole_bytes - taken) < 64 << 10
    assert told.pending == MESSAGES - len(CANCELLED)


def test_verify_and_the_second_reader_find_all_that_waits_and_no_damage(hollow: tuple[Path, Clock, str]) -> None:
    folder, _, name = hollow
    assert _core.verify(str(folder))["problems"] == []
    run = read_runs(folder)[int(name.partition(".")[0])]
    bodies = [record.fields["body"] for record in run.payloads.values()]
    assert bodies == [body(number) for number in range(MESSAGES) if number not in CANCELLED]


def test_all_that_waits_comes_whole(hollow: tuple[Path, Clock, str]) -> None:
    folder, clock, _ = hollow
    with opened(folder, clock) as store, store.subscribe("far", group="g") as far:
        expected = (number for number in range(MESSAGES) if number not in CANCELLED)
        left = MESSAGES - len(CANCELLED)
        clock.advance(FAR_S + MESSAGES)
        while left:
            batch = next(iter(far.batches(BATCH, wait=5)))
            assert [message.body for message in batch] == [body(next(expected)) for _ in batch]
            far.ack(batch)
            left -= len(batch)
        assert store.status().pending == 0
