"""Each task with the batches of its own part: for what is counted where the bytes are."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from delaymq.spark.plan import Part, TableOptions, parts_of, planned
from delaymq.spark.worker import batches_of, damages_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from delaymq.tables import Snapshot

__all__ = ["DAMAGES", "damages", "map_parts", "map_segments", "segment_rdd"]

Found = TypeVar("Found")
Asked = TypeVar("Asked")

DAMAGES = "path string, offset bigint, expected string, found string, sequence bigint"
"""The columns of `damages`, each of which may be null."""


def segment_rdd(
    context: SparkContext, options: TableOptions, function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[Found]]
) -> RDD[Found]:
    """An RDD with one partition for each part of a table, and in it what `function` makes of the part's batches.

    Args:
        context: Where it runs; there is none under Connect, use `map_segments` there.
        options: What is read.
        function: Is given all batches of one part, once.

    Raises:
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    parts = planned(options)
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
        snapshot: Of which moment; whoever has it keeps its files for the tasks. Without one it is of now, and its
            files are kept for `pinned_for`.

    Raises:
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    parts = planned(options) if snapshot is None else parts_of(snapshot, options)
    return map_parts(spark, parts, partial(_batches_given, function), schema)


def map_parts(
    spark: SparkSession,
    parts: list[Asked],
    function: Callable[[Asked], Iterable[pyarrow.RecordBatch]],
    schema: str | StructType,
) -> DataFrame:
    """The same of parts that are planned already, of one table or of several or of none, whose function reads its part
    itself. They are pickled.
    """
    return _spread(spark, parts).mapInArrow(partial(_each_pickled, function), schema)


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
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    return map_parts(spark, planned(options), _damaged, DAMAGES)


def _spread(spark: SparkSession, parts: list[Asked]) -> DataFrame:
    """One part for each task: by range, since a hash would put two parts into one task and leave another without."""
    rows = [(number, pickle.dumps(part)) for number, part in enumerate(parts)]
    pickled = spark.createDataFrame(rows, "number bigint, part binary")
    return pickled.repartitionByRange(len(rows), "number") if len(rows) > 1 else pickled


def _parts_of(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[Any]:
    for batch in rows:
        for pickled in batch.column("part").to_pylist():
            yield pickle.loads(pickled)  # noqa: S301 - the driver of the same job wrote it


def _damaged(part: Part) -> Iterator[pyarrow.RecordBatch]:
    found = damages_of(part)
    if found.num_rows > 0:
        yield found


def _each_pickled(
    function: Callable[[Asked], Iterable[pyarrow.RecordBatch]], rows: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    for part in _parts_of(rows):
        yield from function(part)
