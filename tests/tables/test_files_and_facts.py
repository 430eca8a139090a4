"""The tables `segments`, `action` and `ready` against the second reader."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import delaymq
from crafting import flip
from delaymq import Corrupt, MissingFile, tables
from tables import oracle, oracle_actions, oracle_files
from tables.replaying import Replay
from tables.worlds import Step, World

HISTORY: list[Step] = [
    ("publish", 0, 59),
    ("publish", 1, 250),
    ("keyed", 3, 4),
    ("move", 1, 0),
    ("cancel", 2, 3),
    ("checkpoint", 0, 0),
    ("by_key", 3, 3),
    ("advance", 11, 10),
    ("ack", 0, 1),
    ("nack", 1, 2),
    ("bury", 0, 2),
    ("redrive", 0, 3),
    ("recur", 2, 0),
    ("reopen", 0, 0),
    ("advance", 20, 0),
    ("nack", 3, 1),
    ("publish", 2, 30),
    ("expire", 2, 1),
    ("remove_group", 0, 0),
    ("ack", 0, 2),
    ("checkpoint", 0, 0),
    ("advance", 40, 0),
    ("recur", 2, 0),
    ("by_key", 0, 0),
    ("move", 0, 1),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "store"
    World(folder).tell(HISTORY)
    return folder


def read(rows: tables.Rows) -> list[dict[str, Any]]:
    found = oracle.plain(rows)
    for row in found:
        if row.get("ranges") is not None:
            row["ranges"] = json.loads(row["ranges"])
    return found


def test_every_file_is_told_without_its_records(folder: Path) -> None:
    expected = oracle_files.segments(folder)
    with delaymq.snapshot(folder) as snapshot:
        assert read(snapshot.to_arrow_batches("segments")) == expected
        (one,) = snapshot.plan("segments", split_bytes=1)
        assert (one.rows_max, one.bytes) == (len(expected), 0)
        assert [path for path, _, _ in one.files] == [row["path"] for row in expected]
        again = tables.read_range(folder, pickle.loads(pickle.dumps(one)), columns=["rows", "sealed"])
        assert read(again) == [{name: row[name] for name in ("rows", "sealed")} for row in expected]
        assert snapshot.verify(one).records == len(expected)
    assert {row["log"] for row in expected} == {"message", "schedule", "dispatch"}
    with delaymq.snapshot(folder) as snapshot:
        facts = snapshot.end_sequence - snapshot.first_sequence
        assert sum(row["rows"] for row in expected if row["log"] == "message") == facts


@pytest.mark.parametrize("asked", [{"subjects": ["a"]}, {"first_sequence": 1}, {"end_sequence": 1}])
def test_files_are_not_chosen_by_what_messages_have(folder: Path, asked: dict[str, Any]) -> None:
    with delaymq.snapshot(folder) as snapshot, pytest.raises(delaymq.InvalidArgument) as caught:
        snapshot.plan("segments", **asked)
    assert caught.value.argument == next(iter(asked))


def test_the_last_segment_is_sealed_where_the_store_was_closed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with delaymq.open(folder, durability="os") as store:
        store.publish("a", b"")
        with delaymq.snapshot(folder) as snapshot:
            assert [row["sealed"] for row in read(snapshot.to_arrow_batches("segments"))] == [False]
    with delaymq.snapshot(folder) as snapshot:
        assert [row["sealed"] for row in read(snapshot.to_arrow_batches("segments"))] == [True]


def test_every_action_is_what_its_fact_says(folder: Path) -> None:
    expected = oracle_actions.actions(folder)
    with delaymq.snapshot(folder) as snapshot:
        assert read(snapshot.to_arrow_batches("action")) == expected
        for split_bytes in (1, 10_000):
            ranges = snapshot.plan("action", split_bytes=split_bytes)
            assert [row for one in ranges for row in read(snapshot.read(one))] == expected
        middle = expected[len(expected) // 2]
        for asked, keeps in (
            ({"subjects": ["a", "c"]}, lambda row: row["subject"] in ("a", "c")),
            ({"first_sequence": middle["sequence"]}, lambda row: row["sequence"] >= middle["sequence"]),
            ({"published_before": middle["time"]}, lambda row: row["time"] < middle["time"]),
            ({"due_from": middle["time"]}, lambda row: row["due"] is not None and row["due"] >= middle["time"]),
        ):
            found = read(snapshot.to_arrow_batches("action", **asked))
            assert found == [row for row in expected if keeps(row)], asked
            assert found
    kinds = {row["kind"] for row in expected}
    assert kinds >= {"cancel", "move", "cancel_by_key", "move_by_key", "group", "group_end_with_retries", "consumer"}
    assert kinds >= {"consumer_end", "assign", "acknowledge", "retry", "dead_letter", "redrive", "expire", "recur"}


def test_every_ready_message_has_its_number(folder: Path) -> None:
    replay = Replay(folder)
    with delaymq.snapshot(folder) as snapshot:
        rows = read(snapshot.to_arrow_batches("ready"))
        assert rows == replay.ready
        for columns in (("number", "subject"), tuple(rows[0])):
            for split_bytes in (1, 10_000):
                ranges = pickle.loads(pickle.dumps(snapshot.plan("ready", split_bytes=split_bytes)))
                assert len(ranges) > 1
                found = [row for one in ranges for row in read(tables.read_range(folder, one, columns=columns))]
                assert found == [{name: row[name] for name in columns} for row in rows]
                assert len(rows) <= sum(one.rows_max for one in ranges)
        middle = rows[len(rows) // 2]
        for asked, keeps in (
            ({"subjects": ["größe"]}, lambda row: row["subject"] == "größe"),
            ({"first_sequence": middle["sequence"]}, lambda row: row["sequence"] >= middle["sequence"]),
            ({"published_from": middle["ready"]}, lambda row: row["ready"] >= middle["ready"]),
            ({"due_before": middle["due"]}, lambda row: row["due"] < middle["due"]),
        ):
            found = read(snapshot.to_arrow_batches("ready", **asked))
            assert found == [row for row in rows if keeps(row)], asked  # type: ignore[no-untyped-call]
            assert found
    assert any(row["sequence"] != row["ready_sequence"] for row in rows)
    assert any(row["sequence"] != row["published_sequence"] for row in rows)


@pytest.mark.parametrize("table", tables.TABLES)
def test_columns_are_those_that_are_told(folder: Path, table: str) -> None:
    with delaymq.snapshot(folder) as snapshot:
        schema = oracle.table_of(snapshot.to_arrow_batches(table)).schema
        assert tuple((field.name, str(field.type)) for field in schema) == tables.columns_of(table)
        assert all(field.nullable for field in schema)
        assert pyarrow.table(snapshot.to_arrow_batches(table, columns=())).column_names == []


def test_a_file_that_is_damaged_or_gone_has_no_row(tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    World(copied).tell(HISTORY)
    whole = oracle_files.segments(copied)
    with delaymq.snapshot(copied) as snapshot:
        flip(copied / whole[0]["path"], 20)
        (copied / whole[1]["path"]).unlink()
        flip(copied / whole[-1]["path"], whole[-1]["bytes"] - 50)
        rows = snapshot.to_arrow_batches("segments", on_damage="report")
        assert read(rows) == whole[2:-1]
        assert [damage.path for damage in rows.damages] == [whole[0]["path"], whole[1]["path"], whole[-1]["path"]]
        with pytest.raises((Corrupt, MissingFile)):
            list(snapshot.to_arrow_batches("segments"))


def test_numbers_before_damage_are_not_made_up(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    World(folder).tell(HISTORY)
    with delaymq.snapshot(folder) as snapshot:
        whole = read(snapshot.to_arrow_batches("ready"))
        spoiled = [row for row in whole if row["sequence"] == row["ready_sequence"]][-1]
        flip(folder / spoiled["segment"], spoiled["offset"] + 1)
        rows = snapshot.to_arrow_batches("ready", on_damage="report")
        found = read(rows)
        assert rows.damages
        by_entry = {row["sequence"]: row for row in whole}
        for row in found:
            assert row["number"] in (None, by_entry[row["sequence"]]["number"])
            assert row["published_sequence"] in (None, by_entry[row["sequence"]]["published_sequence"])
        assert found[0]["number"] is None
        assert found[-1] == whole[-1]
        assert len(found) > len(whole) * 2 / 3
        with pytest.raises(Corrupt):
            list(snapshot.to_arrow_batches("ready"))
