"""What is asked of a table, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq import InvalidArgument
from delaymq.spark.plan import NAMES, TableOptions, explain, parts_of, planned


def test_options_are_read_from_texts_whatever_their_case() -> None:
    found = TableOptions.parsed(
        {
            "PATH": "/data",
            "log": "message",
            "columns": "sequence, subject",
            "Subject": "a,b",
            "sequencefrom": "5",
            "sequenceTo": "50",
            "publishedFrom": "2030-01-01T00:00:00Z",
            "dueTo": "2030-01-01T01:00:00+01:00",
            "splitBytes": "1048576",
            "verification": "full",
            "onCorrupt": "report",
            "pinHours": "0.5",
            "snapshot": "0a",
            "pushdown": "TRUE",
        }
    )
    assert found == TableOptions(
        path="/data",
        columns=("sequence", "subject"),
        subjects=("a", "b"),
        first_sequence=5,
        end_sequence=50,
        published_from=datetime(2030, 1, 1, tzinfo=UTC),
        due_before=datetime(2030, 1, 1, tzinfo=UTC),
        split_bytes=1 << 20,
        verification="full",
        on_damage="report",
        pinned_for=timedelta(minutes=30),
        snapshot="0a",
        pushes_filters=True,
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log", "messages", "message"),
        ("columns", "sequence,nothing", "nothing"),
        ("sequenceFrom", "five", "a whole number"),
        ("publishedFrom", "yesterday", "ISO 8601"),
        ("dueTo", "2030-01-01T00:00:00", "with its zone"),
        ("onCorrupt", "skip", "fail or report"),
        ("pinHours", "long", "a number of hours"),
        ("verification", "none", "headers or full"),
        ("pushdown", "yes", "true or false"),
        ("filters", "true", "splitBytes"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(name: str, text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        TableOptions.parsed({"path": "/data", name: text})
    assert name in NAMES or "option" in str(caught.value)


def test_of_files_there_is_no_payload_to_check() -> None:
    with pytest.raises(InvalidArgument, match="of segments no record is read"):
        TableOptions(path="/data", log="segments", verification="full")


def test_a_store_has_to_be_named() -> None:
    with pytest.raises(InvalidArgument, match="the folder of a store"):
        TableOptions.parsed({})


def test_what_is_not_asked_for_is_not_read(filled: Path) -> None:
    whole = planned(TableOptions(path=str(filled), split_bytes=256 << 10))
    some = planned(TableOptions(path=str(filled), split_bytes=256 << 10, first_sequence=1, end_sequence=100))
    assert len(whole) > 3
    assert 0 < len(some) < len(whole)
    said = explain(TableOptions(path=str(filled), split_bytes=256 << 10, first_sequence=1, end_sequence=100))
    assert said.startswith(f"message of {filled}: {len(some)} of {len(whole)} parts, ")
    files, size = ({one[0] for part in parts for one in part.range.files} for parts in (some, whole))
    kept, there = (sum(part.range.bytes for part in parts) for parts in (some, whole))
    assert said.partition("\n")[0].endswith(f", {len(files)} of {len(size)} files, {kept} of {there} bytes")
    assert len(files) < len(size)


def test_a_plan_is_of_the_snapshot_that_is_named(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os") as store:
        store.publish("a", b"", delay=60)
    asked = TableOptions(path=str(tmp_path / "store"), log="pending")
    with delaymq.snapshot(asked.path) as snapshot:
        with delaymq.open(tmp_path / "store") as store:
            store.publish("a", b"", delay=60)
        named = replace(asked, snapshot=snapshot.name)
        assert [sum(part.range.rows_max for part in planned(one)) for one in (named, asked)] == [1, 2]
        assert explain(named) != explain(asked)
        with delaymq.snapshot(asked.path) as other, pytest.raises(InvalidArgument, match="snapshot"):
            parts_of(other, named)
    with pytest.raises(InvalidArgument, match="the name of a snapshot"):
        planned(replace(asked, snapshot="newest"))


def test_what_is_explained_is_not_kept(tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "store", durability="os") as store:
        store.publish("a", b"body", delay=60)
    asked = TableOptions(path=str(tmp_path / "store"), log="pending")
    assert "1 of 1 parts" in explain(asked)
    assert delaymq.inspect(tmp_path / "store").pins == ()
    assert len(planned(asked)) == 1
    assert len(delaymq.inspect(tmp_path / "store").pins) == 1, "a plan's tasks come later"
