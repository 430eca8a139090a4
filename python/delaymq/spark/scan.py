"""Each task with the batches of its own part: for what is counted where the bytes are."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from delaymq.spark.plan import Part, TableOptions, planned
from delaymq.spark.worker import batches_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["map_segments", "segment_rdd"]

Found = TypeVar("Found")


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
) -> DataFrame:
    """A DataFrame of what `function` makes of the batches of each part of a table, in one task for each; under
    Connect, too.

    Args:
        spark: The session.
        options: What is read.
        function: Is given all batches of one part, once, and gives batches of `schema`.
        schema: What they hold.

    Raises:
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    parts = planned(options)
    rows = [(number, pickle.dumps(part)) for number, part in enumerate(parts)]
    pickled = spark.createDataFrame(rows, "number bigint, part binary")
    # One part for each task: by range, since a hash would put two parts into one task and leave another without.
    spread = pickled.repartitionByRange(max(1, len(rows)), "number") if len(rows) > 1 else pickled
    return spread.mapInArrow(partial(_each_pickled, function), schema)


def _each_pickled(
    function: Callable[[Iterator[pyarrow.RecordBatch]], Iterable[pyarrow.RecordBatch]],
    rows: Iterator[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    for batch in rows:
        for pickled in batch.column("part").to_pylist():
            part: Part = pickle.loads(pickled)  # noqa: S301 - the driver of the same job wrote it
            yield from function(batches_of(part))
