"""A table whose rows Spark makes once, by tasks that are given their parts."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException

import delaymq
from delaymq import InvalidArgument, MissingFile, tables
from delaymq.spark import TableOptions, map_segments, read_table, scan, segment_rdd
from delaymq.spark.plan import Part, planned
from delaymq.spark.scan import map_parts
from delaymq.spark.source import DelaymqDataSource
from delaymq.spark.worker import batches_of, warm
from spark.engines import Engine
from spark.test_source import as_written, damaged, rows
from tables import oracle, stores


@pytest.fixture(params=["parts with the function", "parts of a frame"])
def _handed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How parts come to tasks: few all with the function, many each as a row."""
    if request.param == "parts of a frame":
        monkeypatch.setattr(scan, "WITH_FUNCTION_BYTES", 0)


by_both_ways = pytest.mark.usefixtures("_handed")


@pytest.mark.parametrize("log", tables.TABLES)
def test_each_table_is_what_a_load_gives(spark: Any, filled: Path, log: str) -> None:
    loaded = spark.read.format("delaymq").options(log=log, splitBytes="65536").load(str(filled))
    found = read_table(spark, TableOptions(path=str(filled), log=log, split_bytes=65_536))
    assert found.schema == loaded.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, loaded.collect())) != []


@by_both_ways
def test_rows_are_what_the_second_reader_reads(spark: Any, tmp_path: Path) -> None:
    expected = oracle.messages(stores.rich(tmp_path / "store"))
    found = rows(read_table(spark, TableOptions(path=str(tmp_path / "store"), split_bytes=100_000)))
    assert [as_written(row.asDict(), Engine(spark)) for row in found] == expected != []


def test_times_are_the_same_in_a_session_of_another_zone(spark: Any, filled: Path) -> None:
    asked = TableOptions(path=str(filled), columns=("sequence", "due"), end_sequence=100)
    expected = rows(read_table(spark, asked).selectExpr("sequence", "unix_micros(due) AS due"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = rows(read_table(spark, asked).selectExpr("sequence", "unix_micros(due) AS due"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == expected != []


def test_what_is_asked_for_is_what_it_gives(spark: Any, filled: Path) -> None:
    options = {"columns": "subject,store,sequence", "subject": "orders,settlements", "sequenceFrom": "1000"}
    asked = TableOptions(
        path=str(filled),
        columns=("subject", "sequence"),
        subjects=("orders", "settlements"),
        first_sequence=1000,
        split_bytes=65_536,
        store=str(filled),
        verification="full",
    )
    found = read_table(spark, asked)
    assert found.columns == ["sequence", "subject", "store"]
    assert rows(found) == rows(spark.read.format("delaymq").options(**options).load(str(filled))) != []


def test_it_is_of_the_moment_in_which_it_was_asked_for(spark: Any, tmp_path: Path) -> None:
    def publish(count: int) -> None:
        with delaymq.open(asked.path) as store:
            store.publish_many("orders", [b""] * count, 3600)

    def counted(batches: Iterator[pyarrow.RecordBatch]) -> list[int]:
        return [batch.num_rows for batch in batches]

    asked = TableOptions(path=str(tmp_path / "store"))
    publish(7)
    before = read_table(spark, asked)
    with delaymq.snapshot(asked.path) as snapshot:
        publish(5)
        assert (before.count(), read_table(spark, asked, snapshot).count()) == (7, 7)
        assert sum(segment_rdd(spark.sparkContext, asked, counted, snapshot).collect()) == 7
    assert read_table(spark, asked).count() == 12


def numbered(part: Part) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a part with the number of its task, whose first attempt ends in the middle of it."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches_of(part):
        yield batch.append_column("task", pyarrow.array([context.partitionId()] * batch.num_rows, pyarrow.int32()))
        if context.attemptNumber() == 0:
            raise RuntimeError("planned")


@by_both_ways
def test_each_task_has_its_own_part_also_where_it_is_run_again(spark: Any, filled: Path) -> None:
    parts = planned(TableOptions(path=str(filled), columns=("sequence",), split_bytes=65_536))
    expected = [
        {sequence for batch in batches_of(part) for sequence in batch.column("sequence").to_pylist()} for part in parts
    ]
    found: list[set[int]] = [set() for _ in parts]
    for row in map_parts(spark, parts, numbered, "sequence bigint, task int").collect():
        assert row["sequence"] not in found[row["task"]]
        found[row["task"]].add(row["sequence"])
    assert found == expected
    assert len([one for one in found if one]) > 3


def test_few_parts_need_no_other_job_of_spark(spark: Any, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan() -> str:
        frame = read_table(spark, TableOptions(path=str(filled), split_bytes=65_536))
        return str(frame._jdf.queryExecution().toString())

    assert ("rangepartitioning" in plan(), "Range (0, " in plan()) == (False, True)
    monkeypatch.setattr(scan, "WITH_FUNCTION_BYTES", 2_000)
    assert "rangepartitioning" in plan()


@by_both_ways
def test_nothing_has_no_row(spark: Any, filled: Path, tmp_path: Path) -> None:
    delaymq.open(tmp_path / "empty").close()
    for log in ("message", "pending", "ready", "deliveries"):
        assert read_table(spark, TableOptions(path=str(tmp_path / "empty"), log=log)).collect() == []
    nothing = TableOptions(path=str(filled), subjects=("nobody",), first_sequence=10**9)
    assert read_table(spark, nothing).collect() == []
    assert map_segments(spark, nothing, iter, "sequence bigint").collect() == []


def test_damage_names_its_file_and_offset(spark: Any, tmp_path: Path) -> None:
    segment = damaged(tmp_path / "store")
    asked = TableOptions(path=str(tmp_path / "store"), columns=("sequence", "body"))
    with pytest.raises(Exception, match=f"DamagedPayload: .*{segment}"):
        read_table(spark, asked).collect()
    kept = rows(read_table(spark, TableOptions(path=asked.path, on_damage="report")))
    assert [bytes(row["body"]) for row in kept] == [b"body %d" % number for number in range(10) if number != 5]


def test_what_cannot_be_read_is_refused_at_once(spark: Any, tmp_path: Path, filled: Path) -> None:
    with pytest.raises(MissingFile, match="there is no store here"):
        read_table(spark, TableOptions(path=str(tmp_path)))
    with pytest.raises(InvalidArgument, match="snapshot"):
        read_table(spark, TableOptions(path=str(filled), snapshot="00"))


@pytest.mark.xfail(
    raises=PySparkException, strict=True, reason="Sail runs no function of Arrow batches that this PySpark sends"
)
def test_on_sail(sail: Any, filled: Path) -> None:
    assert read_table(sail, TableOptions(path=str(filled))).count() > 0


def frozen(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """How many objects of its worker are not looked at by the collection of garbage."""
    for _ in batches:
        pass
    yield pyarrow.RecordBatch.from_pydict({"objects": pyarrow.array([gc.get_freeze_count()], pyarrow.int64())})


def test_a_worker_of_spark_leaves_what_is_imported_out_of_its_garbage_and_nobody_else_does(
    spark: Any, filled: Path
) -> None:
    warm.cache_clear()  # as in a process that has read nothing yet
    asked, before = TableOptions(path=str(filled)), gc.get_freeze_count()
    assert all(row["objects"] > 10_000 for row in map_segments(spark, asked, frozen, "objects bigint").collect())
    assert "sequence" in DelaymqDataSource({"path": str(filled)}).schema()
    assert [batch.num_rows for part in planned(asked) for batch in batches_of(part)]
    assert gc.get_freeze_count() == before
