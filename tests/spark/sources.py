"""Sources that misbehave, in a module of their own, since each worker imports all that is beside them."""

from __future__ import annotations

from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo

from delaymq.spark.source import DelaymqDataSource


class FailingOnce(DelaymqDataSource):
    """The first attempt of each task ends behind its first batch."""

    @classmethod
    def name(cls) -> str:
        return "failing_once"

    def reader(self, schema: Any) -> DataSourceReader:
        return FailingReader(super().reader(schema))


class FailingReader(DataSourceReader):
    def __init__(self, whole: DataSourceReader) -> None:
        self.whole = whole

    def partitions(self) -> Any:
        return self.whole.partitions()

    def read(self, partition: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        for batch in self.whole.read(partition):
            yield batch
            if context.attemptNumber() == 0:
                raise RuntimeError("planned")


class Pruned(DataSource):
    """Takes a filter as Spark offers it, and gives what passes."""

    @classmethod
    def name(cls) -> str:
        return "pruned"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        class Reader(DataSourceReader):
            wanted: Any = None

            def pushFilters(self, filters: Any) -> Any:  # noqa: N802 - Spark's name
                for one in filters:
                    if isinstance(one, EqualTo):
                        self.wanted = one.value
                    yield one

            def read(self, partition: Any) -> Any:  # noqa: ARG002
                return ((number,) for number in range(4) if self.wanted in (None, number))

        return Reader()


def failing_once(batches: Any) -> Any:
    """Hands on all but the last batch of a task, and fails, at its first attempt."""
    yield from failing_below(1, batches)


def failing_always(batches: Any) -> Any:
    """The same at each attempt of the second task; others are done."""
    context = TaskContext.get()
    assert context is not None
    yield from failing_below(100 if context.partitionId() == 1 else 0, batches)


def failing_below(attempt: int, batches: Any) -> Any:
    context = TaskContext.get()
    assert context is not None
    yield from batches
    if context.attemptNumber() < attempt:
        raise RuntimeError("planned")


def at_second_attempt(task: Any, asked: Any) -> Any:
    """Fails behind what a task has told, at its first attempt."""
    context = TaskContext.get()
    assert context is not None
    yield from task(asked)
    if context.attemptNumber() == 0:
        raise RuntimeError("planned")
