"""Writes of a DataFrame or a stream: the tasks stage messages, and one load adopts them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from delaymq._arguments.argument_errors import refused
from delaymq.bulk_load import check_job
from delaymq.spark.destination import Destination
from delaymq.spark.plan import Named, taken, text_option, time_option, truth_option
from delaymq.spark.staging import StagedRows, StagingRules, check_columns, discard_staged, put_in_place, staged

FAIL = "fail"
"""The value of `onBadRow` that ends a job at the first invalid row."""

OF_SPARK = ("checkpointlocation", "queryname")
"""Spark's own options, which it passes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions(Destination):
    """Where messages go, and what happens to invalid rows. The paths are those that the driver sees.

    Attributes:
        job: Identifies the load; None makes each write a load of its own.
        sink: Identifies a stream, together with the numbers of its micro-batches.
        bad_rows: The folder for invalid rows, as Parquet; None fails at the first one.
        ignore_others: Ignores columns that a message does not have.
        due_before: Rows that are due later are invalid; None is ten years from now.
    """

    job: str | None = None
    sink: str | None = None
    bad_rows: str | None = None
    ignore_others: bool = False
    due_before: datetime | None = None

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> LoadOptions:
        """Parses the options of a write.

        Raises:
            InvalidArgument: One is missing, unknown, or invalid.
        """
        found, others = taken(options, NAMES)
        for name in others:
            if name.lower() not in OF_SPARK:
                raise refused("option", f"one of {', '.join(NAMES)}", name)
        if not found.get("path"):
            raise refused("path", "the folder of a store: save(path), or option path", "none")
        if "address" not in found and "token_file" in found:
            raise refused("tokenFile", "an address of a server beside it", "none")
        for named in (found.get("job"), f"{found['sink']}:0" if "sink" in found else None):
            if named is not None:
                check_job(named)
        return cls(**found)

    @property
    def rules(self) -> StagingRules:
        """The instructions for the tasks."""
        return StagingRules(
            paths=(self.path,),
            bad_rows=self.bad_rows,
            ignore_others=self.ignore_others,
            due_before=self.due_before,
        )


def _name(option: str, text: str) -> str:
    if not text:
        raise refused(option, "a name", text)
    return text


def _bad_rows(_: str, text: str) -> str | None:
    return None if text.lower() == FAIL else text


def _seconds(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise refused(name, "a number of seconds above 0", text)
    return found


NAMES: dict[str, Named] = {
    "path": ("path", text_option),
    "address": ("address", text_option),
    "tokenFile": ("token_file", text_option),
    "timeoutSeconds": ("timeout_s", _seconds),
    "jobId": ("job", _name),
    "sinkId": ("sink", _name),
    "onBadRow": ("bad_rows", _bad_rows),
    "ignoreOthers": ("ignore_others", truth_option),
    "dueBefore": ("due_before", time_option),
}
"""The options of a write, with their fields and parsers."""


@dataclass
class StagedPart(WriterCommitMessage):
    """The result of one task, as Spark passes it to the driver."""

    staged: StagedRows


class _Load:
    """The parts that both writers share: in the planner, in the tasks, and at the end."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        self._options = options
        # Sail passes a schema of Arrow.
        found = to_arrow_schema(schema, timezone="UTC") if isinstance(schema, StructType) else schema
        check_columns(options.rules, found)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stages the rows of one task."""
        return StagedPart(staged(self._options.rules, iterator, number_of_task()))

    def _adopt(self, job: str, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Loads the staged runs of all tasks."""
        parts = _staged_in(messages)
        put_in_place(self._options.rules, job, parts)
        self._options.load_new(job, [run for part in parts for run in part.runs[0]])

    def _discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # If every task has succeeded, a load may have been requested whose answer was lost: the store may need the
        # files, and removes them after a day if it does not.
        if any(part is None for part in messages):
            discard_staged(self._options.rules, _staged_in(messages))


def _staged_in(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    return [part.staged for part in messages if isinstance(part, StagedPart)]


def number_of_task() -> int | None:
    """The number of this task's partition; None if the engine does not tell, like Sail."""
    task = TaskContext.get()
    return None if task is None else task.partitionId()


class BatchLoad(_Load, DataSourceArrowWriter):
    """`df.write.format("delaymq").mode("append").save(path)`, as one load."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        super().__init__(options, schema)
        # This object is sent to all tasks and to the commit.
        self._job = uuid.uuid4().hex if options.job is None else options.job

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Loads the runs of all tasks."""
        self._adopt(self._job, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discards staged runs: a task has failed for good, or the load was refused."""
        self._discard(messages)


class StreamLoad(_Load, DataSourceStreamArrowWriter):
    """`df.writeStream.format("delaymq")`: each micro-batch is one load, however often Spark repeats it."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Loads the runs of a micro-batch."""
        self._adopt(f"{self._options.sink}:{batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Discards staged runs: a task of a micro-batch has failed for good."""
        self._discard(messages)


def writer_of(
    options: Mapping[str, str],
    schema: StructType | pyarrow.Schema,
    overwrite: bool,
) -> BatchLoad:
    """The writer of `DataSource.writer`. It only appends.

    Raises:
        InvalidArgument: The mode is not append, or the options or columns are refused.
    """
    found = _appending(options, overwrite, "mode", "overwrite")
    if found.sink is not None:
        raise refused("sinkId", "jobId: this is no stream", found.sink)
    return BatchLoad(found, schema)


def stream_writer_of(
    options: Mapping[str, str],
    schema: StructType | pyarrow.Schema,
    overwrite: bool,
) -> StreamLoad:
    """The writer of `DataSource.streamWriter`.

    Raises:
        InvalidArgument: The mode is not append, or the options or columns are refused.
    """
    found = _appending(options, overwrite, "outputMode", "complete")
    if found.job is not None:
        raise refused("jobId", "sinkId: the numbers of a stream's micro-batches are put behind it", found.job)
    if found.sink is None:
        raise refused("sinkId", "a name for this query: numbers of micro-batches begin at 0 for each", "none")
    return StreamLoad(found, schema)


def _appending(options: Mapping[str, str], overwrites: bool, option: str, found: str) -> LoadOptions:
    if overwrites:
        raise refused(option, "append: a load adds to what is stored", found)
    return LoadOptions.parsed(options)
