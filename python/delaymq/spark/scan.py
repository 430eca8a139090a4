"""Each task with the batches of its own part: for what is counted where the bytes are, and for whole tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from delaymq.spark.plan import Part, TableOptions, planned
from delaymq.spark.schemas import schema_of
from delaymq.spark.worker import batches_of, damages_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from delaymq.tables import Snapshot

__all__ = ["DAMAGES", "damages", "map_parts", "map_segments", "read_table", "segment_rdd"]

WITH_FUNCTION_BYTES = 1 << 20
"""So many bytes of parts at most go to each task with its function: under Connect they are part of each plan."""

Found = TypeVar("Found")
Asked = TypeVar("Asked")

DAMAGES = "path string, offset bigint, expected string, found string, sequence bigint"
"""The columns of `damages`, each of which may be null."""


def segment_rdd(
    context: SparkContext,
    options: TableOptions,
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[Found]],
    snapshot: Snapshot | None = None,
) -> RDD[Found]:
    """An RDD with one partition for each part of a table, and in it what `function` makes of the part's batches.

    Args:
        context: Where it runs; there is none under Connect, use `map_segments` there.
        options: What is read.
        function: Is given all batches of one part, once.
        snapshot: As for `map_segments`.

    Raises:
        InvalidArgument: Bounds are upside down, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
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
    """A DataFrame of what `function` makes of the batches of each part of a table, in one task for each; under
    Connect, too.

    Args:
        spark: The session.
        options: What is read.
        function: Is given all batches of one part, once, and gives batches of `schema`.
        schema: What they hold.
        snapshot: Of which moment of the store at the path of `options`: where that has another store, the tasks refuse
            it. Whoever has it keeps its files for them. Without one it is of now, and its files are kept for
            `pinned_for`.

    Raises:
        InvalidArgument: Bounds are upside down, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    return map_parts(spark, planned(options, snapshot), partial(_batches_given, function), schema)


def read_table(spark: SparkSession, options: TableOptions, snapshot: Snapshot | None = None) -> DataFrame:
    """A table as a DataFrame: the rows and columns of `spark.read.format("delaymq")`, for less, since Spark makes each
    row of a source twice and these once. It is planned here and now, not by the first action: what is read later than
    `pinned_for` may be gone.

    Args:
        spark: The session, also one of Connect.
        options: What is read.
        snapshot: As for `map_segments`.

    Raises:
        InvalidArgument: Bounds are upside down, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    schema = schema_of(options.log, options.wanted, tells_store=options.store is not None)
    return map_segments(spark, options, iter, schema, snapshot)


def map_parts(
    spark: SparkSession,
    parts: list[Asked],
    function: Callable[[Asked], Iterable[pyarrow.RecordBatch]],
    schema: str | StructType,
) -> DataFrame:
    """The same of parts that are planned already, of one table or of several or of none, whose function reads its part
    itself. They are pickled: where they are small in all every task is given them with the function, and a number says
    which is whose. Else they are rows of a frame, of which each task has its own, which takes Spark two more jobs.
    """
    pickled = [pickle.dumps(part) for part in parts]
    if sum(map(len, pickled)) > WITH_FUNCTION_BYTES:
        rows = spark.createDataFrame(list(enumerate(pickled)), "number bigint, part binary")
        # By range: a hash would put two parts into one task and leave another without.
        return rows.repartitionByRange(len(parts), "number").mapInArrow(partial(_each_pickled, function), schema)
    # A range of nothing has no task; its number of parts must be one all the same.
    numbers = spark.range(0, len(parts), 1, max(len(parts), 1))
    return numbers.mapInArrow(partial(_each_numbered, function, pickled), schema)


def _batches_given(
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[pyarrow.RecordBatch]], part: Part
) -> Iterable[pyarrow.RecordBatch]:
    return function(batches_of(part))


def damages(spark: SparkSession, options: TableOptions) -> DataFrame:
    """A DataFrame of what is damaged in a part of a table, a row for each place, by reading all of it: what
    `onCorrupt=report` leaves out. Payloads are checked where a column is read out of them.

    Args:
        spark: The session.
        options: What is read.

    Raises:
        InvalidArgument: Bounds are upside down, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    return map_parts(spark, planned(options), _damaged, DAMAGES)


def _damaged(part: Part) -> Iterator[pyarrow.RecordBatch]:
    found = damages_of(part)
    if found.num_rows > 0:
        yield found


def _each_pickled(
    function: Callable[[Asked], Iterable[pyarrow.RecordBatch]], rows: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    for batch in rows:
        for pickled in batch.column("part").to_pylist():
            yield from function(pickle.loads(pickled))  # noqa: S301 - the driver of the same job wrote it


def _each_numbered(
    function: Callable[[Asked], Iterable[pyarrow.RecordBatch]],
    pickled: list[bytes],
    numbers: Iterator[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield from function(pickle.loads(pickled[number]))  # noqa: S301 - as above
