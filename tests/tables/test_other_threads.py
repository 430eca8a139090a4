"""No reader and no stager holds the interpreter: another thread runs while one call of theirs is under way.

A thread that runs Python is never told to let go here, so another one counts on only within a call that lets go by
itself. If no call does, the count stays the same however long the call takes. Time is measured only to end a test that
would never succeed.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow
import pytest

import delaymq
from delaymq import tables
from delaymq.loading import Stager
from delaymq.tables import Snapshot

PATIENCE_S = 60.0
"""How long to try: on a busy machine, thousands of short calls may be over before the other thread was woken."""

SWITCH_S = 1_000.0
ROWS = 10_000

Prepared = Callable[[], Callable[[], object]]
"""Gives a call of which anything else than the call itself is done."""


class Counting:
    """A thread that counts when it may run."""

    def __init__(self) -> None:
        self.count = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._counts)

    def __enter__(self) -> Self:
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._is_over = True
        self._thread.join()
        sys.setswitchinterval(self._switch_s)

    def _counts(self) -> None:
        while not self._is_over:
            self.count += 1
            time.sleep(0.000_2)  # lets go

    def runs_within(self, prepared: Prepared, patience_s: float = PATIENCE_S) -> bool:
        """Whether it counted on within one of the calls."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            call = prepared()
            before = self.count
            result = call()
            after = self.count
            del result  # what it does at its end is none of the call
            if after != before:
                return True
        return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "store"
    with delaymq.open(path, durability="os") as store:
        for turn in range(4):
            receipts = store.publish_many("s", [b"%d" % turn + bytes(50)] * ROWS, 3_600)
            store.publish_many("now", [b"%d" % turn] * 1_000, 0)
            store.cancel_many(receipts[::20])
            if turn == 1:
                store.checkpoint()
    return path


@pytest.fixture(scope="module")
def snapshot(folder: Path) -> Iterator[Snapshot]:
    with delaymq.snapshot(folder) as found:
        yield found


class Exported:
    """Rows that are in Arrow's form already: pyarrow lets go of the interpreter itself when it makes that."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self._capsules = batch.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._capsules


def test_a_call_that_holds_it_is_found() -> None:
    with Counting() as counting:
        assert not counting.runs_within(lambda: lambda: ctypes.PyDLL(None).usleep(20_000), patience_s=1.0)
        assert counting.runs_within(lambda: lambda: ctypes.CDLL(None).usleep(20_000))


@pytest.mark.parametrize("table", tables.TABLES)
def test_a_reading_of_each_table_lets_go(folder: Path, snapshot: Snapshot, table: str) -> None:
    (whole,) = snapshot.plan(table, split_bytes=1 << 40)

    def of_snapshot() -> Callable[[], object]:
        return iter(snapshot.read(whole)).__next__

    def of_another_process() -> Callable[[], object]:
        return iter(tables.read_range(folder, whole)).__next__

    with Counting() as counting:
        for prepared in (of_snapshot, of_another_process):
            assert counting.runs_within(prepared), prepared


@pytest.mark.parametrize("table", tables.TABLES)
def test_planning_and_verifying_let_go(snapshot: Snapshot, table: str) -> None:
    (whole,) = snapshot.plan(table, split_bytes=1 << 40)
    with Counting() as counting:
        assert counting.runs_within(lambda: lambda: snapshot.plan(table))
        assert counting.runs_within(lambda: lambda: snapshot.verify(whole))


def test_looking_and_pinning_let_go(folder: Path, snapshot: Snapshot) -> None:
    def closing() -> Callable[[], object]:
        return delaymq.snapshot(folder).close

    with Counting() as counting:
        assert counting.runs_within(lambda: lambda: delaymq.snapshot(folder))
        assert counting.runs_within(lambda: lambda: snapshot.hold(60))
        assert counting.runs_within(closing)


def test_staging_lets_go(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    delaymq.open(folder).close()
    row = {"subject": "s", "due": datetime(2030, 1, 1, tzinfo=UTC), "body": b"x" * 50}
    batch = pyarrow.RecordBatch.from_pylist([row] * ROWS)
    left: list[Stager] = []

    def making() -> Stager:
        while left:
            left.pop().discard()
        left.append(Stager(folder))
        return left[0]

    def adding() -> Callable[[], object]:
        stager, data = making(), Exported(batch)
        return lambda: stager.add(data)

    def finishing() -> Callable[[], object]:
        stager = making()
        stager.add(batch)
        return stager.finish

    def discarding() -> Callable[[], object]:
        stager = Stager(folder)
        stager.add(batch)
        return stager.discard

    with Counting() as counting:
        for prepared in (adding, finishing, discarding, lambda: lambda: Stager(folder)):
            assert counting.runs_within(prepared), prepared
