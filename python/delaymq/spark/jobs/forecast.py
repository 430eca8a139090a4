"""What is due when, by minute and subject, of a store that is as large as it likes: each task counts its own part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.compute

from delaymq._refusals import refused
from delaymq.spark.scan import map_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delaymq.spark.plan import TableOptions

__all__ = ["SCHEMA", "Due", "forecast", "told"]

COLUMNS = ("subject", "due", "body_bytes")
SCHEMA = "minute timestamp, subject string, messages bigint, bytes bigint"
"""The columns of a forecast."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Due:
    """What of one subject is due in one minute.

    Attributes:
        start: The minute, UTC.
        subject: The subject.
        messages: How many messages are pending that are due in it.
        bytes: How many bytes their bodies have together.
    """

    start: datetime
    subject: str
    messages: int
    bytes: int


def forecast(spark: SparkSession, options: TableOptions) -> DataFrame:
    """A DataFrame with a row for each minute and subject in which something is due, exact, as of now.

    It has what `Store.forecast` says of each subject, for all of them at once, without the store's lock.

    Args:
        spark: The session.
        options: Which store, and which subjects and due times of it; of the table `pending`, with columns chosen here.

    Raises:
        InvalidArgument: `options` asks for another table.
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    if options.log != "pending":
        raise refused("log", "pending, which is what is due", options.log)
    counted = map_segments(spark, replace(options, columns=COLUMNS), _counted, SCHEMA)
    summed = counted.groupBy("minute", "subject").sum("messages", "bytes")
    return summed.toDF("minute", "subject", "messages", "bytes").orderBy("minute", "subject")


def told(frame: DataFrame) -> list[Due]:
    """The rows of a forecast, in order."""
    # By the number of microseconds: Spark gives a time by the clock of this process.
    rows = frame.selectExpr("unix_micros(minute) AS at", "subject", "messages", "bytes").collect()
    return [
        Due(EPOCH + timedelta(microseconds=row["at"]), row["subject"], row["messages"], row["bytes"]) for row in rows
    ]


def _counted(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Adds up each batch as it comes, so that a task has in memory what it tells and one batch."""
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
    places, sums = list(found), list(found.values())
    yield pyarrow.RecordBatch.from_pydict(
        {
            "minute": pyarrow.array([minute for minute, _ in places], pyarrow.timestamp("us", tz="UTC")),
            "subject": pyarrow.array([subject for _, subject in places], pyarrow.string()),
            "messages": pyarrow.array([messages for messages, _ in sums], pyarrow.int64()),
            "bytes": pyarrow.array([size for _, size in sums], pyarrow.int64()),
        }
    )
