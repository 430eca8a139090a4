"""What a snapshot is, keeps and refuses."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest

import delaymq
from delaymq import Closed, InvalidArgument, MissingFile, NotAStore, WrongType, tables
from delaymq.tables import Snapshot
from tables import oracle, stores


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.rich(tmp_path_factory.mktemp("tables") / "store")


def test_polars_reads_a_store(folder: Path) -> None:
    expected = oracle.messages(folder)
    with delaymq.snapshot(folder) as snapshot:
        frame = polars.DataFrame(snapshot.to_arrow_batches("message"))
        assert frame["sequence"].to_list() == [row["sequence"] for row in expected]
        assert frame["due"].to_list() == [row["due"] for row in expected]
        assert frame["body"].to_list() == [row["body"] for row in expected]
        counts = frame.group_by("subject").len().sort("subject")
        subjects = sorted({row["subject"] for row in expected})
        assert counts.rows() == [(name, sum(row["subject"] == name for row in expected)) for name in subjects]


def test_duckdb_reads_a_store(folder: Path) -> None:
    expected = oracle.messages(folder)
    with delaymq.snapshot(folder) as snapshot:
        rows = snapshot.to_arrow_batches("message")
        found = duckdb.sql("select subject, count(*), sum(body_bytes)::bigint from rows group by all order by all")
        subjects = sorted({row["subject"] for row in expected})
        of = {name: [row["body_bytes"] for row in expected if row["subject"] == name] for name in subjects}
        assert found is not None
        assert found.fetchall() == [(name, len(of[name]), sum(of[name])) for name in subjects]
        assert rows.damages == ()


def test_a_pin_keeps_the_files_while_it_is_open(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store") as store:
        store.publish("s", b"")
        snapshot = delaymq.snapshot(tmp_path / "store", pinned_for=60)
        pins = delaymq.inspect(tmp_path / "store").pins
        assert len(pins) == 1
        assert snapshot.pinned_until is not None
        assert timedelta(seconds=50) < snapshot.pinned_until - datetime.now(UTC) <= timedelta(seconds=60)
        with delaymq.snapshot(tmp_path / "store"):
            assert len(delaymq.inspect(tmp_path / "store").pins) == 2
        held = snapshot.hold(timedelta(hours=2))
        assert held == snapshot.pinned_until
        assert held is not None
        assert held - datetime.now(UTC) > timedelta(hours=1)
        assert len(delaymq.inspect(tmp_path / "store").pins) == 1
        snapshot.close()
        snapshot.close()
        assert delaymq.inspect(tmp_path / "store").pins == ()


def test_nothing_is_retired_under_a_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "store"

    def fill(store: delaymq.Store, batches: int = 10) -> list[delaymq.Receipt]:
        receipts = [one for _ in range(batches) for one in store.publish_many("s", [bytes(1_000)] * 20, 300)]
        store.checkpoint()
        return receipts

    def read(snapshot: Snapshot) -> list[oracle.Row]:
        rows = oracle.read(snapshot.to_arrow_batches("message"))
        assert rows == oracle.messages(folder, snapshot.first_sequence, snapshot.end_sequence)
        return rows

    with delaymq.open(folder, segment_bytes=stores.SEGMENT_BYTES, keep_finished=0) as store:
        receipts = fill(store)
        with delaymq.snapshot(folder) as snapshot:
            rows = read(snapshot)
            assert len(rows) == 200
            store.cancel_many(receipts)
            for _ in range(5):
                store.cancel_many(fill(store))
            assert read(snapshot) == rows
        for _ in range(3):
            store.cancel_many(fill(store))
        with delaymq.snapshot(folder) as snapshot:
            assert snapshot.first_sequence > rows[-1]["sequence"]
            read(snapshot)


def test_threads_that_read_share_nothing(folder: Path) -> None:
    """Each sees all rows."""
    with delaymq.snapshot(folder) as snapshot:
        rows = len(oracle.messages(folder))
        found: list[int] = []

        def reads() -> None:
            found.append(sum(len(batch) for batch in snapshot.to_arrow_batches("message")))

        threads = [threading.Thread(target=reads) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [rows] * 4


def test_a_closed_snapshot_says_so(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        rows = snapshot.to_arrow_batches("message")
        assert repr(snapshot) == f"Snapshot({str(folder)!r}, end_sequence={snapshot.end_sequence})"
    for call in (lambda: snapshot.plan("message"), lambda: snapshot.hold(1), lambda: list(rows)):
        with pytest.raises(Closed):
            call()


@pytest.mark.parametrize(
    ("asked", "error", "argument"),
    [
        ({"subjects": "mail"}, WrongType, "subjects"),
        ({"subjects": 7}, WrongType, "subjects"),
        ({"subjects": [7]}, WrongType, "subjects"),
        ({"first_sequence": "1"}, WrongType, "first_sequence"),
        ({"first_sequence": True}, WrongType, "first_sequence"),
        ({"first_sequence": -1}, InvalidArgument, "first_sequence"),
        ({"first_sequence": 9, "end_sequence": 8}, InvalidArgument, "end_sequence"),
        ({"due_from": datetime(2026, 1, 1)}, InvalidArgument, "due_from"),  # noqa: DTZ001 - it is refused
        ({"published_from": 5}, WrongType, "published_from"),
        ({"split_bytes": 0}, InvalidArgument, "split_bytes"),
        ({"split_bytes": 1.5}, WrongType, "split_bytes"),
        ({"split_bytes": 2**63}, InvalidArgument, "split_bytes"),
    ],
)
def test_what_is_refused_is_named(folder: Path, asked: dict[str, Any], error: type[Exception], argument: str) -> None:
    with delaymq.snapshot(folder) as snapshot, pytest.raises(error) as caught:
        snapshot.plan("message", **asked)
    assert getattr(caught.value, "argument", None) == argument


def test_tables_columns_and_ranges_that_are_none_are_refused(folder: Path) -> None:
    with delaymq.snapshot(folder) as snapshot:
        (one,) = snapshot.plan("message")
        with pytest.raises(InvalidArgument, match="one of message, pending"):
            snapshot.plan("messages")
        with pytest.raises(WrongType, match="table"):
            snapshot.plan(7)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="columns of message: sequence, "):
            snapshot.read(one, columns=["sequences"])
        with pytest.raises(InvalidArgument, match="each column once"):
            snapshot.read(one, columns=["due", "due"])
        with pytest.raises(WrongType, match="columns"):
            snapshot.read(one, columns="due")
        with pytest.raises(InvalidArgument, match="on_damage"):
            snapshot.read(one, on_damage="ignore")  # type: ignore[arg-type]
        with pytest.raises(WrongType, match="range"):
            snapshot.read("message")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="range"):
            snapshot.read(replace(one, token=one.token[:-1]))
        with pytest.raises(InvalidArgument, match="one of message, pending"):
            tables.columns_of("other")


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as caught:
        delaymq.snapshot(tmp_path)
    assert caught.value.store == str(tmp_path)
    (tmp_path / "identity").write_bytes(b"something else")
    with pytest.raises(NotAStore):
        delaymq.snapshot(tmp_path)
    with pytest.raises(WrongType, match="path"):
        delaymq.snapshot(7)  # type: ignore[arg-type]
    with pytest.raises(delaymq.StorageError):
        delaymq.snapshot(tmp_path / "absent")
