"""Forecasts by minute and subject, for stores of any size: each task counts its own part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession

from delaymq._arguments.argument_errors import refused
from delaymq.durations import moment
from delaymq.spark.plan import TableOptions
from delaymq.spark.scan import map_segments
from delaymq.spark.schemas import arrow_of
from delaymq.tables import Snapshot

COLUMNS = ("subject", "due", "body_bytes")
SCHEMA = "minute timestamp, subject string, messages bigint, bytes bigint"
"""The columns of a forecast."""

Place = TypeVar("Place", datetime, str)


@dataclass(frozen=True, slots=True)
class Due:
    """The messages of one subject that are due in one minute.

    Attributes:
        start: The minute, UTC.
        subject: The subject.
        messages: The number of pending messages that are due in it.
        bytes: The total length of their bodies, in bytes.
    """

    start: datetime
    subject: str
    messages: int
    bytes: int


def forecast(spark: SparkSession, options: TableOptions, snapshot: Snapshot | None = None) -> DataFrame:
    """A DataFrame with a row for each minute and subject in which messages are due, with exact counts.

    It has the counts of `Store.forecast` for each subject, for all of them at once, without the store's lock.

    Args:
        spark: The session.
        options: The store, and optionally subjects and due times; the table is `pending`, and columns are ignored.
        snapshot: A snapshot to read. Keep it open until the DataFrame was used. Without it a new one is taken, whose
            files are kept for `pinned_for`.

    Raises:
        InvalidArgument: `options` names another table, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; raised here, not in a task.
    """
    if options.log != "pending":
        raise refused("log", "pending, which is what is due", options.log)
    counted = map_segments(spark, replace(options, columns=COLUMNS), _counted, SCHEMA, snapshot)
    summed = counted.groupBy("minute", "subject").sum("messages", "bytes")
    return summed.toDF("minute", "subject", "messages", "bytes").orderBy("minute", "subject")


def told(frame: DataFrame) -> list[Due]:
    """The rows of a forecast, in order."""
    # As milliseconds, since Spark converts times to the time zone of this process.
    rows = frame.selectExpr("unix_millis(minute) AS at", "subject", "messages", "bytes").collect()
    return [Due(moment(row["at"]), row["subject"], row["messages"], row["bytes"]) for row in rows]


def summed(found: Iterable[Due], by: Callable[[Due], Place]) -> dict[Place, tuple[int, int]]:
    """Messages and bytes summed by a key, the key with the most messages first."""
    sums: dict[Place, tuple[int, int]] = {}
    for one in found:
        messages, size = sums.get(by(one), (0, 0))
        sums[by(one)] = (messages + one.messages, size + one.bytes)
    return dict(sorted(sums.items(), key=lambda of: (-of[1][0], of[0])))


def _counted(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Aggregates each batch as it comes, so that a task holds one batch and its result in memory."""
    found: dict[tuple[datetime, str], tuple[int, int]] = {}
    for batch in batches:
        minutes = pyarrow.compute.floor_temporal(batch.column("due"), unit="minute")
        table = pyarrow.table(
            {"minute": minutes, "subject": batch.column("subject"), "bytes": batch.column("body_bytes")}
        )
        grouped = table.group_by(["minute", "subject"]).aggregate([([], "count_all"), ("bytes", "sum")])
        for row in grouped.to_pylist():
            place = row["minute"], row["subject"]
            messages, size = found.get(place, (0, 0))
            found[place] = messages + row["count_all"], size + (row["bytes_sum"] or 0)
    rows = (
        {"minute": minute, "subject": subject, "messages": messages, "bytes": size}
        for (minute, subject), (messages, size) in found.items()
    )
    yield pyarrow.RecordBatch.from_pylist(list(rows), schema=arrow_of(SCHEMA))
