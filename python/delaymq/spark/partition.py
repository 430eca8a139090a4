"""One task's part, as Spark hands it to the task."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from delaymq.spark.plan import Part

__all__ = ["PartOfTable"]


class PartOfTable(InputPartition):
    """One task's part."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part
