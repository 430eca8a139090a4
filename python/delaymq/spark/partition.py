"""The partition of one task, as Spark passes it to the task."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
from pyspark.sql.datasource import InputPartition

from delaymq.spark.plan import Part
from delaymq.spark.worker import batches_of


class PartOfTable(InputPartition):
    """One task's part of a table."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


def batches_in(partition: InputPartition | None) -> Iterator[pyarrow.RecordBatch]:
    """The batches of one part; none for the partition None, by which Spark means an empty table."""
    return batches_of(partition.part) if isinstance(partition, PartOfTable) else iter(())
