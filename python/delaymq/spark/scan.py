"""Scans: tasks that each read the batches of one part, for aggregation close to the data and for whole tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import pyarrow
from pyspark import RDD, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delaymq.spark.plan import Part, TableOptions, planned
from delaymq.spark.schemas import schema_of
from delaymq.spark.worker import DAMAGES, batches_of, damages_of
from delaymq.tables import Snapshot

WITH_FUNCTION_BYTES = 1 << 20
"""The maximum size of pickled parts that are sent to each task with its function; under Connect they are in the plan.
"""

Found = TypeVar("Found")
Item = TypeVar("Item")


def segment_rdd(
    context: SparkContext,
    options: TableOptions,
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[Found]],
    snapshot: Snapshot | None = None,
) -> RDD[Found]:
    """An RDD with one partition for each part of a table, which contains the results of `function`.

    Args:
        context: The Spark context. Connect has none; use `map_segments` there.
        options: The rows to read.
        function: Called once for each part, with all of its batches.
        snapshot: As for `map_segments`.

    Raises:
        InvalidArgument: Bounds are reversed, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; raised here, not in a task.
    """
    parts = planned(options, snapshot)
    if not parts:
        return context.emptyRDD()
    return context.parallelize(parts, len(parts)).mapPartitions(partial(_each_part, function))


def _each_part(
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[Found]], parts: Iterator[Part]
) -> Iterator[Found]:
    for part in parts:
        yield from function(batches_of(part))


def map_segments(
    spark: SparkSession,
    options: TableOptions,
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[pyarrow.RecordBatch]],
    schema: StructType | str,
    snapshot: Snapshot | None = None,
) -> DataFrame:
    """A DataFrame of the results of `function`, called in one task for each part of a table; also under Connect.

    Args:
        spark: The session.
        options: The rows to read.
        function: Called once for each part, with all of its batches; returns batches of `schema`.
        schema: The schema of the results.
        snapshot: A snapshot of the store at the path of `options`; tasks refuse the snapshot of another store. The
            caller keeps its files until the tasks end. Without it a new one is taken, whose files are kept for
            `pinned_for`.

    Raises:
        InvalidArgument: Bounds are reversed, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; raised here, not in a task.
    """
    return map_parts(spark, planned(options, snapshot), partial(_batches_given, function), schema)


def read_table(spark: SparkSession, options: TableOptions, snapshot: Snapshot | None = None) -> DataFrame:
    """A table as a DataFrame, like `spark.read.format("delaymq")`, but Spark converts its rows once, not twice.

    The read is planned at this call, not by the first action. Files may be missing if they are read later than
    `pinned_for`.

    Args:
        spark: The session, also one of Connect.
        options: The rows to read.
        snapshot: As for `map_segments`.

    Raises:
        InvalidArgument: Bounds are reversed, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; raised here, not in a task.
    """
    schema = schema_of(options.log, options.wanted, tells_store=options.store is not None)
    return map_segments(spark, options, iter, schema, snapshot)


def map_parts(
    spark: SparkSession,
    parts: list[Item],
    function: Callable[[Item], Iterable[pyarrow.RecordBatch]],
    schema: str | StructType,
) -> DataFrame:
    """As `map_segments`, for items that are planned already, and a function that reads its item itself.

    The items are pickled. If they are small in total, each task gets all of them with the function, and a number
    selects its own. Otherwise they are rows of a DataFrame, one for each task, which costs Spark two more jobs.
    """
    pickled = [pickle.dumps(part) for part in parts]
    if sum(map(len, pickled)) > WITH_FUNCTION_BYTES:
        rows = spark.createDataFrame(list(enumerate(pickled)), "number bigint, part binary")
        # By range: a hash could put two items into one task and leave another without.
        return rows.repartitionByRange(len(parts), "number").mapInArrow(partial(_each_pickled, function), schema)
    # An empty range has no task, but its number of partitions must be at least one.
    numbers = spark.range(0, len(parts), 1, max(len(parts), 1))
    return numbers.mapInArrow(partial(_each_numbered, function, pickled), schema)


def collected(
    spark: SparkSession, schema: str, parts: list[Item], function: Callable[[Item], Iterable[pyarrow.RecordBatch]]
) -> list[dict[str, Any]]:
    """The rows of all tasks of `map_parts`."""
    table: Any = map_parts(spark, parts, function, schema).toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _batches_given(
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[pyarrow.RecordBatch]], part: Part
) -> Iterable[pyarrow.RecordBatch]:
    return function(batches_of(part))


def damages(spark: SparkSession, options: TableOptions) -> DataFrame:
    """A DataFrame of the damage in a table, a row for each place: the data that `onCorrupt=report` skips.

    It reads all requested data. A payload is checked only if one of its columns is requested.

    Args:
        spark: The session.
        options: The rows to read.

    Raises:
        InvalidArgument: Bounds are reversed, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; raised here, not in a task.
    """
    return map_parts(spark, planned(options), _damaged, DAMAGES)


def _damaged(part: Part) -> Iterator[pyarrow.RecordBatch]:
    found = damages_of(part)
    if found.num_rows > 0:
        yield found


def _each_pickled(
    function: Callable[[Item], Iterable[pyarrow.RecordBatch]], rows: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    for batch in rows:
        for pickled in batch.column("part").to_pylist():
            yield from function(pickle.loads(pickled))  # noqa: S301 - the driver of the same job wrote it


def _each_numbered(
    function: Callable[[Item], Iterable[pyarrow.RecordBatch]],
    pickled: list[bytes],
    numbers: Iterator[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield from function(pickle.loads(pickled[number]))  # noqa: S301 - as above
