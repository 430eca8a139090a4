"""Messages of a DataFrame or of a stream, stored at once: staged by the tasks, and adopted by one load.

A task may be run again, or twice at the same time, or be killed: what it staged is no part of a store before the
driver names it, and only what the tasks that won have told is named.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow
import pyarrow.parquet
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import delaymq
from delaymq._refusals import refused
from delaymq.loading import BadRow, StagedRun, Stager, discard, stage
from delaymq.spark.plan import Named, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BatchLoad", "LoadOptions", "StagedPart", "StreamLoad", "job_of"]

FAIL = "fail"
"""The word of `onBadRow` that ends a job with the first row that is no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Where messages go, and what is done with rows that are none.

    Attributes:
        path: The store's folder, which executors see under this path.
        job: What makes two loads the same one; None makes each write a load of its own.
        sink: The same for a stream, whose micro-batches are numbered.
        bad_rows: The folder for rows that are no messages, as Parquet; None fails with the first one.
        ignore_others: Columns that a message does not have are let be.
    """

    path: str
    job: str | None = None
    sink: str | None = None
    bad_rows: str | None = None
    ignore_others: bool = False

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> LoadOptions:
        """Reads the options of a write.

        Raises:
            InvalidArgument: One is missing, unknown, or cannot be read.
        """
        found, others = taken(options, NAMES)
        if others:
            raise refused("options", f"only path, {', '.join(NAMES)}", ", ".join(sorted(others)))
        if found.get("path") is None:
            raise refused("path", "the folder of a store", "none")
        return cls(**found)


def _text(_: str, text: str) -> str:
    return text


def _bad_rows(_: str, text: str) -> str | None:
    return None if text.lower() == FAIL else text


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise refused(name, "true or false", text)
    return text.lower() == "true"


NAMES: dict[str, Named] = {
    "path": ("path", _text),
    "jobId": ("job", _text),
    "sinkId": ("sink", _text),
    "onBadRow": ("bad_rows", _bad_rows),
    "ignoreOthers": ("ignore_others", _truth),
}
"""The options of a write, what each stands for, and how its text is read."""


@dataclass
class StagedPart(WriterCommitMessage):
    """What one task staged, and the file of its rows that are no messages, which nobody reads yet."""

    runs: tuple[StagedRun, ...]
    aside: str | None


def job_of(*parts: str | int) -> bytes:
    """The 16 bytes by which a store knows a load: the same for the same parts."""
    text = "\0".join(map(str, parts)).encode()
    return hashlib.blake2b(text, digest_size=16).digest()


class _Staging:
    """What both writers do in a task."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        self._options = options
        found = to_arrow_schema(schema, timezone="UTC") if isinstance(schema, StructType) else schema
        # Refuses wrong columns before anything runs. No row is staged, and so no file.
        stage(options.path, found.empty_table(), ignore_others=options.ignore_others)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stages the rows of one task."""
        on_bad_row: Literal["raise", "collect"] = "raise" if self._options.bad_rows is None else "collect"
        others = self._options.ignore_others
        aside = list[pyarrow.RecordBatch]()
        with Stager(self._options.path, ignore_others=others, on_bad_row=on_bad_row) as stager:
            for batch in iterator:
                bad = stager.add(batch)
                if bad:
                    aside.append(_told(batch, bad))
            return StagedPart(stager.finish(), self._put_aside(aside) if aside else None)

    def _put_aside(self, batches: list[pyarrow.RecordBatch]) -> str:
        folder = Path(str(self._options.bad_rows))
        folder.mkdir(parents=True, exist_ok=True)
        name = f".{uuid.uuid4().hex}.parquet"  # readers pass over what begins with a dot
        pyarrow.parquet.write_table(pyarrow.Table.from_batches(batches), folder / name)
        return name

    def _load(self, job: bytes, messages: Sequence[WriterCommitMessage | None]) -> None:
        parts = [part for part in messages if isinstance(part, StagedPart)]
        runs = tuple(run for part in parts for run in part.runs)
        for place, part in enumerate(parts):
            if part.aside is not None:
                # Named by job and place: the same job again writes over it.
                folder = Path(str(self._options.bad_rows))
                (folder / part.aside).rename(folder / f"{job.hex()}-{place:05}.parquet")
        with delaymq.open(self._options.path, create=False) as store:
            store.load(job, runs)

    def _discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Where every task has told its part, a load may have been asked for whose answer was lost: then the store
        # needs the files, and what it does not need it removes after a day.
        if any(part is None for part in messages):
            discard(self._options.path, [run for part in messages if isinstance(part, StagedPart) for run in part.runs])


def _told(batch: pyarrow.RecordBatch, bad: tuple[BadRow, ...]) -> pyarrow.RecordBatch:
    """The bad rows of a batch, with what is wrong with each."""
    rows = batch.take(pyarrow.array([one.place for one in bad], pyarrow.int64()))
    rows = rows.append_column("bad_row", pyarrow.array([one.row for one in bad], pyarrow.int64()))
    rows = rows.append_column("bad_column", pyarrow.array([one.column for one in bad], pyarrow.string()))
    return rows.append_column("reason", pyarrow.array([one.words for one in bad], pyarrow.string()))


class BatchLoad(_Staging, DataSourceArrowWriter):
    """`df.write.format("delaymq").mode("append").save(path)`: all of it by one load."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        super().__init__(options, schema)
        # The same writer reaches all tasks and the commit.
        self._job = job_of("job", uuid.uuid4().hex if options.job is None else options.job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: the store adopts what they staged."""
        self._load(self._job, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task has failed for good, or the load was refused."""
        self._discard(messages)


class StreamLoad(_Staging, DataSourceStreamArrowWriter):
    """`df.writeStream.format("delaymq")`: each micro-batch by one load, however often Spark asks for it."""

    def __init__(self, options: LoadOptions, schema: StructType | pyarrow.Schema) -> None:
        if options.sink is None:
            raise refused("sinkId", "a name for this query, since numbers of micro-batches begin at 0 again", "none")
        super().__init__(options, schema)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks of a micro-batch are done."""
        self._load(job_of("sink", str(self._options.sink), batchId), messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """A task of a micro-batch has failed for good."""
        self._discard(messages)


def writer_of(options: Mapping[str, str], schema: Any, overwrite: bool) -> BatchLoad:  # noqa: FBT001 - Spark's order
    """The writer of `DataSource.writer`: nothing is ever written over.

    Raises:
        InvalidArgument: The mode is another one than append, or the options or columns are refused.
    """
    if overwrite:
        raise refused("mode", "append: a load adds to what is stored", "overwrite")
    return BatchLoad(LoadOptions.parsed(options), schema)
