"""The tables `message` and `action` as streams of Spark, by sequence, up to the last durable fact.

An offset is the next sequence with the id of the store, so that a query that is restarted with the checkpoint of
another store is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

import delaymq
from delaymq._arguments.argument_errors import refused
from delaymq.errors import StoreError
from delaymq.spark.partition import PartOfTable, batches_in
from delaymq.spark.plan import Named, TableOptions, parts_of, taken, truth_option
from delaymq.tables import Snapshot

PLANNED_FACTS = 1 << 16
"""How many facts are planned at first, to find the end of a micro-batch by bytes."""

STREAMED = ("message", "action")
"""The tables that only grow, in the order of the log."""


class LostBeforeRead(StoreError):  # noqa: N818 - a name says what happened, as all of delaymq's do
    """Messages were retired before a stream read them, or the store has less than was read: rows are missing.

    Increase the retention (`keep_finished_hours`), run the query more often, or continue without the rows with the
    option `failOnDataLoss=false`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a stream proceeds.

    Attributes:
        begin: Where a new query begins: at the first message that is kept, after the last one, or at a sequence.
        rows_max: The maximum of rows of the log in a micro-batch, including facts that are not messages; None for no
            limit.
        bytes_max: Approximate maximum of bytes of files in a micro-batch; None for no limit.
        is_loss_an_error: False continues after facts that were retired before they were read.
    """

    begin: Literal["earliest", "latest"] | int = "earliest"
    rows_max: int | None = None
    bytes_max: int | None = None
    is_loss_an_error: bool = True

    @classmethod
    def taken(cls, options: Mapping[str, str]) -> tuple[StreamOptions, dict[str, str]]:
        """Parses the options of a stream, and returns them and the other options.

        Raises:
            InvalidArgument: A text is invalid, or two limits are set.
        """
        found, others = taken(options, NAMES)
        if found.get("rows_max") is not None and found.get("bytes_max") is not None:
            raise refused("maxBytesPerTrigger", "none beside maxRowsPerTrigger", found["bytes_max"])
        return cls(**found), others


def _begin(name: str, text: str) -> str | int:
    return text if text in ("earliest", "latest") else _at_least(0, "earliest, latest or a sequence", name, text)


def _limit(name: str, text: str) -> int:
    return _at_least(1, "a whole number, 1 or more", name, text)


def _at_least(least: int, expected: str, name: str, text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        raise refused(name, expected, text) from None
    if found < least:
        raise refused(name, expected, text)
    return found


NAMES: dict[str, Named] = {
    "startingOffset": ("begin", _begin),
    "maxRowsPerTrigger": ("rows_max", _limit),
    "maxBytesPerTrigger": ("bytes_max", _limit),
    "failOnDataLoss": ("is_loss_an_error", truth_option),
}
"""The options of a stream, with their fields and parsers."""


class TableStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one table of one store, micro-batch by micro-batch. The files of the current batch are pinned."""

    def __init__(self, options: TableOptions, stream: StreamOptions) -> None:
        if options.log not in STREAMED:
            raise refused("log", f"one that can be streamed: {', '.join(STREAMED)}", options.log)
        bounds = {"sequenceFrom": options.first_sequence, "sequenceTo": options.end_sequence}
        for name, found in (bounds | {"snapshot": options.snapshot}).items():
            if found is not None:
                raise refused(name, "nothing: a stream has startingOffset, and goes on", found)
        if options.pushes_filters:
            raise refused("pushdown", "false: Spark hands a stream no filters", "true")
        self._options = options
        self._stream = stream
        self._snapshot: Snapshot | None = None
        self._target: int | None = None
        self._retired_before: tuple[tuple[int, int], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the options only; the snapshot stays with its pin."""
        return {**vars(self), "_snapshot": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        snapshot = self._new_snapshot()
        # Facts that were retired before the query began are not a loss.
        self._retired_before = snapshot.retired
        begin = {"earliest": snapshot.first_sequence, "latest": snapshot.end_sequence}.get(
            str(self._stream.begin), self._stream.begin
        )
        return self._offset(int(begin), snapshot)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a micro-batch, by the options."""
        if self._stream.rows_max is not None:
            return ReadMaxRows(self._stream.rows_max)
        if self._stream.bytes_max is not None:
            return ReadMaxBytes(self._stream.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Makes a query with the trigger `availableNow` stop at the present end of the store."""
        self._target = self._new_snapshot().end_sequence

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch."""
        snapshot = self._new_snapshot()
        begin = self._begin(start, snapshot)
        end = snapshot.end_sequence if self._target is None else min(self._target, snapshot.end_sequence)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            end = min(end, self._end_of_bytes(begin, limit.max_bytes, snapshot))
        elif isinstance(limit, ReadMinRows):
            end = end if end - begin >= limit.min_rows else begin
        elif not isinstance(limit, ReadAllAvailable):
            raise refused("limit", "rows or bytes", type(limit).__name__)
        return self._offset(max(begin, end, int(start["sequence"])), snapshot)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of the store when it was last read."""
        return None if self._snapshot is None else self._offset(self._snapshot.end_sequence, self._snapshot)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of one micro-batch, with the same rows each time that Spark asks for it."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.end_sequence < int(end["sequence"]):
            snapshot = self._new_snapshot()
        if snapshot.end_sequence < int(end["sequence"]):
            self._report_loss(
                f"the store ends at sequence {snapshot.end_sequence}, and {end['sequence']} was read before"
            )
        begin = self._begin(start, snapshot)
        if begin >= int(end["sequence"]):
            return []
        for first, behind in self._retired_since(snapshot, begin, int(end["sequence"])):
            self._report_loss(f"facts {first} to {behind - 1} were retired, and {begin} is to be read next")
        wanted = replace(self._options, first_sequence=begin, end_sequence=int(end["sequence"]))
        return [PartOfTable(part) for part in parts_of(snapshot, wanted)]

    def read(self, partition: InputPartition | None) -> Iterator[pyarrow.RecordBatch]:
        """The batches of one part."""
        return batches_in(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: no resource waits for it."""

    def stop(self) -> None:
        """Releases the files."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def _new_snapshot(self) -> Snapshot:
        snapshot = delaymq.snapshot(self._options.path, pinned_for=self._options.pinned_for)
        self.stop()  # releases the files of the batch before, after the new pin is set
        self._snapshot = snapshot
        return snapshot

    def _offset(self, sequence: int, snapshot: Snapshot) -> dict[str, Any]:
        return {"sequence": sequence, "store": snapshot.stream_id.hex()}

    def _begin(self, start: dict[str, Any], snapshot: Snapshot) -> int:
        """The first sequence of a batch after `start`."""
        if start["store"] != snapshot.stream_id.hex():
            raise refused("checkpointLocation", f"one of the store in {self._options.path}", start["store"])
        sequence = int(start["sequence"])
        if sequence > snapshot.end_sequence:
            self._report_loss(f"the store ends at sequence {snapshot.end_sequence}, and {sequence} was read before")
        if sequence < snapshot.first_sequence:
            self._report_loss(
                f"the log begins at sequence {snapshot.first_sequence}, and {sequence} is to be read next"
            )
        return max(sequence, snapshot.first_sequence)

    def _retired_since(self, snapshot: Snapshot, begin: int, end: int) -> list[tuple[int, int]]:
        """Ranges between these sequences that were retired since the query began, as far as this process knows."""
        found = []
        for first, behind in snapshot.retired:
            one, other = max(first, begin), min(behind, end)
            if one < other and not any(was <= one and other <= until for was, until in self._retired_before):
                found.append((one, other))
        return found

    def _report_loss(self, what: str) -> None:
        if self._stream.is_loss_an_error:
            raise LostBeforeRead(f"{self._options.path}: {what}", store=self._options.path, reason=what)

    def _end_of_bytes(self, begin: int, bytes_max: int, snapshot: Snapshot) -> int:
        """The end of the first part of about so many bytes. Only as much of the log is looked at as shows it: planning
        all that is left, for each micro-batch, would follow its headers again and again.
        """
        wanted, facts = (
            replace(self._options, first_sequence=begin, split_bytes=bytes_max, subjects=None),
            PLANNED_FACTS,
        )
        while True:
            end = begin + facts
            parts = parts_of(snapshot, replace(wanted, end_sequence=min(end, snapshot.end_sequence)))
            if len(parts) > 1 or end >= snapshot.end_sequence:
                return parts[0].range.end_sequence if parts else snapshot.end_sequence
            facts *= 8
