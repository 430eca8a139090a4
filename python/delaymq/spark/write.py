"""Messages of a DataFrame or of a stream, stored at once: staged by the tasks, and adopted by one load."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from delaymq._arguments.argument_errors import refused
from delaymq.bulk_load import check_job
from delaymq.spark.destination import TIMEOUT_S, Destination
from delaymq.spark.plan import Named, taken, time_option, truth_option
from delaymq.spark.staging import StagedRows, StagingRules, check_columns, discard_staged, put_in_place, staged

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BatchLoad", "LoadOptions", "StagedPart", "StreamLoad", "number_of_task", "stream_writer_of", "writer_of"]

FAIL = "fail"
"""The word of `onBadRow` that ends a job with the first row that is no message."""

OF_SPARK = ("checkpointlocation", "queryname")
"""What Spark hands on of its own options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Where messages go, and what is done with rows that are none.

    Attributes:
        path: The store's folder, which executors see under this path.
        address: The server that has it open; None opens it, for as long as a load takes.
        token_file: The file with the token of the server, where the driver sees it.
        timeout_s: How long the answer of the server is waited for, in seconds.
        job: What makes two loads the same one; None makes each write a load of its own.
        sink: The same for a stream, whose micro-batches are numbered.
        bad_rows: The folder for rows that are no messages, as Parquet; None fails with the first one.
        ignore_others: Columns that a message does not have are let be.
        due_before: No message is due later than this; None is ten years from now.
    """

    path: str
    address: str | None = None
    token_file: str | None = None
    timeout_s: float = TIMEOUT_S
    job: str | None = None
    sink: str | None = None
    bad_rows: str | None = None
    ignore_others: bool = False
    due_before: datetime | None = None

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> LoadOptions:
        """Reads the options of a write.

        Raises:
            InvalidArgument: One is missing, unknown, or cannot be read.
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
        """What the tasks are told."""
        return StagingRules(
            paths=(self.path,),
            bad_rows=self.bad_rows,
            ignore_others=self.ignore_others,
            due_before=self.due_before,
        )

    @property
    def destination(self) -> Destination:
        """Where all of it goes."""
        address, token_file = self.address, self.token_file
        return Destination(path=self.path, address=address, token_file=token_file, timeout_s=self.timeout_s)


def _text(_: str, text: str) -> str:
    return text


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
    "path": ("path", _text),
    "address": ("address", _text),
    "tokenFile": ("token_file", _text),
    "timeoutSeconds": ("timeout_s", _seconds),
    "jobId": ("job", _name),
    "sinkId": ("sink", _name),
    "onBadRow": ("bad_rows", _bad_rows),
    "ignoreOthers": ("ignore_others", truth_option),
    "dueBefore": ("due_before", time_option),
}
"""The options of a write, what each stands for, and how its text is read."""


@dataclass
class StagedPart(WriterCommitMessage):
    """What one task staged, as Spark carries it to the driver."""

    staged: StagedRows


class _Load:
    """What both writers do: in the planner, in the tasks, and at the end."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        self._options = options
        # Sail has a schema of Arrow.
        found = to_arrow_schema(schema, timezone="UTC") if isinstance(schema, StructType) else schema
        check_columns(options.rules, found)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stages the rows of one task."""
        return StagedPart(staged(self._options.rules, iterator, number_of_task()))

    def _adopt(self, job: str, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks are done: the store adopts what they staged."""
        parts = _staged_in(messages)
        put_in_place(self._options.rules, job, parts)
        self._options.destination.load_new(job, [run for part in parts for run in part.runs[0]])

    def _give_up(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Where every task has told its part, a load may have been asked for whose answer was lost: then the store
        # needs the files, and what it does not need it removes after a day.
        if any(part is None for part in messages):
            discard_staged(self._options.rules, _staged_in(messages))


def _staged_in(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    return [part.staged for part in messages if isinstance(part, StagedPart)]


def number_of_task() -> int | None:
    """Which part of a frame this task has; None where the engine does not say, as Sail."""
    task = TaskContext.get()
    return None if task is None else task.partitionId()


class BatchLoad(_Load, DataSourceArrowWriter):
    """`df.write.format("delaymq").mode("append").save(path)`: all of it by one load."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        super().__init__(options, schema)
        # The same writer reaches all tasks and the commit.
        self._job = uuid.uuid4().hex if options.job is None else options.job

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self._adopt(self._job, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task has failed for good, or the load was refused."""
        self._give_up(messages)


class StreamLoad(_Load, DataSourceStreamArrowWriter):
    """`df.writeStream.format("delaymq")`: each micro-batch by one load, however often Spark asks for it."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks of a micro-batch are done."""
        self._adopt(f"{self._options.sink}:{batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """A task of a micro-batch has failed for good."""
        self._give_up(messages)


def writer_of(
    options: Mapping[str, str],
    schema: StructType | pyarrow.Schema,
    overwrite: bool,
) -> BatchLoad:
    """The writer of `DataSource.writer`: nothing is ever written over.

    Raises:
        InvalidArgument: The mode is another one than append, or the options or columns are refused.
    """
    _refuse_mode(overwrite, "mode", "overwrite")
    found = LoadOptions.parsed(options)
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
        InvalidArgument: The mode is another one than append, or the options or columns are refused.
    """
    _refuse_mode(overwrite, "outputMode", "complete")
    found = LoadOptions.parsed(options)
    if found.job is not None:
        raise refused("jobId", "sinkId: the numbers of a stream's micro-batches are put behind it", found.job)
    if found.sink is None:
        raise refused("sinkId", "a name for this query: numbers of micro-batches begin at 0 for each", "none")
    return StreamLoad(found, schema)


def _refuse_mode(overwrites: bool, option: str, found: str) -> None:
    if overwrites:
        raise refused(option, "append: a load adds to what is stored", found)
