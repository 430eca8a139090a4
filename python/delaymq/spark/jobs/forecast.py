"""What is due when, by minute and subject, of a store that is as large as it likes: each task counts its own part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import pyarrow
import pyarrow.compute

from delaymq._arguments.argument_errors import refused
from delaymq.durations import moment
from delaymq.spark.scan import map_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delaymq.spark.plan import TableOptions
    from delaymq.tables import Snapshot

__all__ = ["SCHEMA", "Due", "forecast", "summed", "told"]

COLUMNS = ("subject", "due", "body_bytes")
SCHEMA = "minute timestamp, subject string, messages bigint, bytes bigint"
"""The columns of a forecast."""

COUNTED = pyarrow.schema(
    [
        ("minute", pyarrow.timestamp("us", tz="UTC")),
        ("subject", pyarrow.string()),
        ("messages", pyarrow.int64()),
        ("bytes", pyarrow.int64()),
    ]
)
"""The same, as a task gives them."""

Place = TypeVar("Place", datetime, str)


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


def forecast(spark: SparkSession, options: TableOptions, snapshot: Snapshot | None = None) -> DataFrame:
    """A DataFrame with a row for each minute and subject in which something is due, exact.

    It has what `Store.forecast` says of each subject, for all of them at once, without the store's lock.

    Args:
        spark: The session.
        options: Which store, and which subjects and due times of it; of the table `pending`, with columns chosen here.
        snapshot: Of which moment; keep it open until the frame was used, and its pin goes with it. Without one it is of
            now, and its files are kept for `pinned_for`.

    Raises:
        InvalidArgument: `options` asks for another table, or there is no such snapshot of the store.
        StoreError, StorageError: As `delaymq.snapshot`; here, not in a task.
    """
    if options.log != "pending":
        raise refused("log", "pending, which is what is due", options.log)
    counted = map_segments(spark, replace(options, columns=COLUMNS), _counted, SCHEMA, snapshot)
    summed = counted.groupBy("minute", "subject").sum("messages", "bytes")
    return summed.toDF("minute", "subject", "messages", "bytes").orderBy("minute", "subject")


def told(frame: DataFrame) -> list[Due]:
    """The rows of a forecast, in order."""
    # By the number of milliseconds: Spark gives a time by the clock of this process.
    rows = frame.selectExpr("unix_millis(minute) AS at", "subject", "messages", "bytes").collect()
    return [Due(moment(row["at"]), row["subject"], row["messages"], row["bytes"]) for row in rows]


def summed(found: Iterable[Due], by: Callable[[Due], Place]) -> dict[Place, tuple[int, int]]:
    """Messages and bytes of all that has the same place, the place with the most messages first."""
    sums: dict[Place, tuple[int, int]] = {}
    for one in found:
        messages, size = sums.get(by(one), (0, 0))
        sums[by(one)] = (messages + one.messages, size + one.bytes)
    return dict(sorted(sums.items(), key=lambda of: (-of[1][0], of[0])))


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
    rows = (
        {"minute": minute, "subject": subject, "messages": messages, "bytes": size}
        for (minute, subject), (messages, size) in found.items()
    )
    yield pyarrow.RecordBatch.from_pylist(list(rows), schema=COUNTED)
