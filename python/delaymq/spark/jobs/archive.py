"""Archives: finished messages with their history, as Parquet by subject and day, each end exactly once.

A run takes the messages that ended since the run before, by the store's clock, which never goes back. Messages that
ended in the last millisecond of the run before may be in both; they are looked up there, like those without a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, lit

import delaymq
from delaymq._arguments.argument_errors import refused
from delaymq.durations import due_ms
from delaymq.spark.jobs.archive_folder import ArchiveFolder, Manifest
from delaymq.spark.plan import TableOptions, refuse_part, retired_from
from delaymq.spark.scan import read_table
from delaymq.spark.schemas import schema_of
from delaymq.spark.stream import LostBeforeRead
from delaymq.tables import UNFINISHED, Snapshot

OPEN = (*UNFINISHED, "unknown")
"""Outcomes of messages that have not ended, or whose end is unknown."""

CONTENT = ("sequence", "message_id", "key", "tags", "attributes", "body", "body_bytes", "expires", "on_expiry")
"""The columns that are taken from the table `message`."""

COLUMNS = (
    "sequence bigint, group string, number bigint, message_id string, published timestamp_ltz, due timestamp_ltz, "
    "ready timestamp_ltz, delivered timestamp_ltz, acknowledged timestamp_ltz, attempts int, outcome string, "
    "lateness_ms bigint, ended timestamp_ltz, entry_sequence bigint, group_number bigint, key string, tags string, "
    "attributes string, body binary, body_bytes bigint, expires timestamp_ltz, on_expiry string"
)
"""The columns of an archive, except `run`, `subject` and `day`, which its folders have."""

SPLIT_BYTES = 256 << 20
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run.

    Attributes:
        manifest: The manifest of the run, or of the run before if there was nothing to archive.
        is_new: False if there was nothing to archive.
        outcomes: The number of rows of each outcome.
    """

    manifest: Manifest
    is_new: bool
    outcomes: dict[str, int]


def archive(spark: SparkSession, options: TableOptions, into: Path, *, before_retire: bool = False) -> Archived:
    """Archives the messages that have ended since the run before, a row for each message and group.

    If a run is killed at any moment and repeated, the archive has each end once. Facts that were retired before a run
    read them are missing; the manifest lists them.

    Args:
        spark: The session.
        options: The store, as of now or of a snapshot; all of it is archived.
        into: The archive's folder, under the path that executors see; created if it does not exist.
        before_retire: True makes the store keep its log until the next run has archived it; a run with False ends
            this. The mark is a file in the store's folder, which must be writable.

    Raises:
        InvalidArgument: The archive is of another store, or newer than the snapshot, or there is no such snapshot
            of the store, or `options` excludes a part of the store.
        Busy: Another run uses the archive.
        LostBeforeRead: The store ends before the archive does: it was restored from a copy.
        StoreError, StorageError: As `delaymq.snapshot`, or the archive cannot be written.
    """
    refuse_part(options, "message")
    folder = ArchiveFolder(into)
    with folder.held():
        with delaymq.snapshot(options.path, name=options.snapshot) as snapshot:
            before = _continued(folder, snapshot, options)  # checked before a mark is set
        if before_retire:
            folder.mark(Path(options.path), 0 if before is None else before.end_sequence)
        done = _run(spark, options, folder)
        folder.mark(Path(options.path), done.manifest.end_sequence if before_retire else None)
        return done


def _run(spark: SparkSession, options: TableOptions, folder: ArchiveFolder) -> Archived:
    with delaymq.snapshot(options.path, pinned_for=options.pinned_for, name=options.snapshot) as snapshot:
        before = _continued(folder, snapshot, options)
        staged, carried = folder.staged()
        Run(spark, options, folder, snapshot, before).write(staged, carried)
        rows = spark.read.schema(f"{COLUMNS}, subject string, day date").parquet(str(staged))
        counts = {row["outcome"]: row["count"] for row in rows.groupBy("outcome").count().orderBy("outcome").collect()}
        manifest = Manifest(
            store=snapshot.stream_id.hex(),
            run=1 if before is None else before.run + 1,
            rows=sum(counts.values()),
            ended_ms=due_ms(snapshot.trusted, "trusted"),
            end_sequence=snapshot.end_sequence,
            carried=carried.name,
            missed=retired_from(snapshot, 1 if before is None else before.end_sequence),
        )
        if before is not None and before.end_sequence == manifest.end_sequence and not counts:
            return Archived(before, is_new=False, outcomes={})
        folder.commit(staged, manifest)
        return Archived(manifest, is_new=True, outcomes=counts)


def archived(spark: SparkSession, path: Path) -> DataFrame:
    """All rows of an archive.

    Raises:
        InvalidArgument: There is no archive.
    """
    if not (path / "data").is_dir():
        raise refused("archive", "an archive", str(path))
    return spark.read.schema(f"{COLUMNS}, run bigint, subject string, day date").parquet(str(path / "data"))


def _continued(folder: ArchiveFolder, snapshot: Snapshot, options: TableOptions) -> Manifest | None:
    """The manifest of the run before, if any."""
    before = next(reversed(folder.manifests()), None)
    if before is None:
        return None
    if before.store != snapshot.stream_id.hex():
        raise refused("archive", f"one of the store in {snapshot.path}", str(folder.path))
    if before.end_sequence > snapshot.end_sequence and options.snapshot is not None:
        expected = f"one that is not older than the archive, which goes to {before.end_sequence}"
        raise refused("snapshot", expected, options.snapshot)
    if before.end_sequence > snapshot.end_sequence:
        what = f"the store ends at sequence {snapshot.end_sequence}, and {before.end_sequence} was archived before"
        raise LostBeforeRead(f"{snapshot.path}: {what}", store=snapshot.path, reason=what)
    return before


class Run:
    """One run: it selects its rows."""

    def __init__(
        self,
        spark: SparkSession,
        options: TableOptions,
        folder: ArchiveFolder,
        snapshot: Snapshot,
        before: Manifest | None,
    ) -> None:
        self._spark, self._options, self._folder = spark, options, folder
        self._snapshot, self._before = snapshot, before

    def write(self, staged: Path, carried: Path) -> None:
        """Writes the rows, and the content of unfinished messages, whose log may be retired before they end."""
        deliveries = self._table("deliveries", None, max(self._options.split_bytes, SPLIT_BYTES)).cache()
        content = self._table("message", CONTENT, self._options.split_bytes)
        try:
            # If the log does not tell the message of an entry, it is the one with the entry's sequence, unless that was
            # moved.
            ended = self._ended(deliveries).drop("message_id").withColumnRenamed("sequence", "said")
            ended = ended.selectExpr("*", "coalesce(said, entry_sequence) AS sequence")
            rows = ended.join(self._known(content).withColumn("is_known", lit(True)), "sequence", "left")
            rows = rows.withColumn("sequence", expr("IF(is_known, sequence, said)"))
            day = f"date_add(date'1970-01-01', int(floor(unix_micros(ended) / {DAY_US})))"
            names = [name.split()[0] for name in COLUMNS.split(", ")]
            whole = rows.selectExpr(*names, "subject", f"{day} AS day")
            whole.write.partitionBy("subject", "day").parquet(str(staged))
            self._carried(deliveries, content).write.parquet(str(carried))
        finally:
            deliveries.unpersist()

    def _table(self, table: str, columns: tuple[str, ...] | None, split_bytes: int) -> DataFrame:
        wanted = TableOptions(path=self._options.path, log=table, columns=columns, split_bytes=split_bytes)
        return read_table(self._spark, wanted, self._snapshot)

    def _ended(self, deliveries: DataFrame) -> DataFrame:
        """The messages that ended since the run before."""
        # Refused messages ended when they were published.
        found = deliveries.filter(~deliveries["outcome"].isin(*OPEN)).selectExpr(
            *(name for name in deliveries.columns if name != "ended"),
            "coalesce(ended, CASE WHEN outcome = 'refused' THEN published END) AS ended",
            "coalesce(sequence, -entry_sequence) AS its",
            "coalesce(group_number, -1) AS whose",
        )
        if self._before is None:
            return found
        at_ms = self._before.ended_ms
        later = found.filter(f"ended IS NULL OR unix_millis(ended) >= {at_ms}")
        there = archived(self._spark, self._folder.path).filter(f"ended IS NULL OR unix_millis(ended) = {at_ms}")
        keys = there.selectExpr("coalesce(sequence, -entry_sequence) AS its", "coalesce(group_number, -1) AS whose")
        return later.join(keys, ["its", "whose"], "left_anti")

    def _known(self, content: DataFrame) -> DataFrame:
        """The content of messages in the log, and of those that earlier runs carried and the log has retired."""
        paths = [str(path) for path in self._folder.carried()]
        if not paths:
            return content
        older = self._spark.read.schema(schema_of("message", CONTENT)).parquet(*paths)
        return content.unionByName(older.filter(f"sequence < {self._snapshot.first_sequence}"))

    def _carried(self, deliveries: DataFrame, content: DataFrame) -> DataFrame:
        """The content of messages that were published since the run before and have not ended."""
        first = 0 if self._before is None else self._before.end_sequence
        open_ones = deliveries.filter(deliveries["outcome"].isin(*OPEN)).select("sequence").distinct()
        return content.filter(f"sequence >= {first}").join(open_ones, "sequence", "left_semi")
