"""The code that runs in a task: it reads the batches of one part."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow

from delaymq.spark.plan import STORE, Part
from delaymq.spark.schemas import arrow_of
from delaymq.tables import read_range

DAMAGES = "path string, offset bigint, expected string, found string, sequence bigint"
"""The columns of `damages`. Each may be null."""


@functools.cache
def warm() -> None:
    """Excludes all imported modules from garbage collection, in workers of Spark that are reused.

    A reused worker collects garbage after every task. Other processes, such as one in which Sail runs, are not
    affected.
    """
    if os.environ.get("SPARK_REUSE_WORKER"):
        gc.collect()
        gc.freeze()


def batches_of(part: Part) -> Iterator[pyarrow.RecordBatch]:
    """Reads one part, a batch at a time.

    Raises:
        Corrupt: Data is damaged; the error has the file and the offset.
        MissingFile: A file has been retired since the plan was made, or the executor does not see the store.
    """
    warm()
    rows = read_range(part.path, part.range, columns=_columns_of(part), on_damage=part.on_damage)
    try:
        for batch in pyarrow.RecordBatchReader.from_stream(rows):
            given = batch if part.checked_by is None else batch.select(part.columns)
            yield given if part.store is None else _with_store_column(given, part.store)
    except pyarrow.ArrowException:
        rows.check()  # raises the original error; a stream of Arrow only has its text
        raise


def damages_of(part: Part) -> pyarrow.RecordBatch:
    """Reads one part and returns its damage, a row for each place."""
    warm()
    rows = read_range(part.path, part.range, columns=_columns_of(part), on_damage="report")
    for _ in rows:
        pass
    return pyarrow.RecordBatch.from_pylist([asdict(damage) for damage in rows.damages], schema=arrow_of(DAMAGES))


def _with_store_column(batch: pyarrow.RecordBatch, store: str) -> pyarrow.RecordBatch:
    """Adds the column `store`."""
    stores = pyarrow.repeat(store, batch.num_rows)
    return pyarrow.RecordBatch.from_arrays([*batch.columns, stores], names=[*batch.schema.names, STORE])


def _columns_of(part: Part) -> tuple[str, ...]:
    return part.columns if part.checked_by is None else (*part.columns, part.checked_by)
