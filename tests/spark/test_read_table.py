"""A table that is read with one row for each of the log, and no second one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import InvalidArgument, MissingFile, tables
from delaymq.spark import TableOptions, map_segments, read_table
from spark.test_source import rows


@pytest.mark.parametrize("log", tables.TABLES)
def test_each_table_is_what_a_load_gives(spark: Any, filled: Path, log: str) -> None:
    loaded = spark.read.format("delaymq").options(log=log, splitBytes="65536").load(str(filled))
    found = read_table(spark, TableOptions(path=str(filled), log=log, split_bytes=65_536))
    assert found.schema == loaded.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, loaded.collect())) != []


def test_what_is_asked_for_is_what_it_gives(spark: Any, filled: Path) -> None:
    options = {"columns": "subject,store,sequence", "subject": "orders,settlements", "sequenceFrom": "1000"}
    asked = TableOptions(
        path=str(filled),
        columns=("subject", "sequence"),
        subjects=("orders", "settlements"),
        first_sequence=1000,
        split_bytes=65_536,
        store=str(filled),
    )
    found = rows(read_table(spark, asked))
    assert [row.asDict().keys() for row in found[:1]] == [{"sequence": 0, "subject": 0, "store": 0}.keys()]
    assert found == rows(spark.read.format("delaymq").options(**options).load(str(filled))) != []


def test_it_is_of_the_moment_in_which_it_was_asked_for(spark: Any, tmp_path: Path) -> None:
    def publish(count: int) -> None:
        with delaymq.open(asked.path) as store:
            store.publish_many("orders", [b""] * count, 3600)

    asked = TableOptions(path=str(tmp_path / "store"))
    publish(7)
    before = read_table(spark, asked)
    with delaymq.snapshot(asked.path) as snapshot:
        publish(5)
        assert (before.count(), read_table(spark, asked, snapshot).count()) == (7, 7)
    assert read_table(spark, asked).count() == 12


def test_a_part_is_a_task_and_no_part_gives_no_row(spark: Any, filled: Path) -> None:
    asked = TableOptions(path=str(filled), columns=("sequence",), split_bytes=65_536)
    parts = read_table(spark, asked)
    assert parts.rdd.getNumPartitions() > 3
    of_each = parts.rdd.mapPartitions(lambda found: [[row["sequence"] for row in found]]).collect()
    firsts = [min(of_one) for of_one in of_each if of_one]
    assert len(firsts) > 3  # each task was given one, and not all of them to the first
    assert firsts == sorted(set(firsts))
    nothing = TableOptions(path=str(filled), subjects=("nobody",), first_sequence=10**9)
    assert read_table(spark, nothing).collect() == []
    assert map_segments(spark, nothing, iter, "sequence bigint").collect() == []


def test_what_cannot_be_read_is_refused_at_once(spark: Any, tmp_path: Path, filled: Path) -> None:
    with pytest.raises(MissingFile, match="there is no store here"):
        read_table(spark, TableOptions(path=str(tmp_path)))
    with pytest.raises(InvalidArgument, match="snapshot"):
        read_table(spark, TableOptions(path=str(filled), snapshot="00"))
