"""Audits: every message of a store is accounted for, by comparing its log, its schedule and its state.

Every part of the tables `deliveries`, `message`, `pending` and `action` is one task, which aggregates close to the
data. Rows are compared one by one only if two aggregates differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

import pyarrow
from pyspark.sql import DataFrame, SparkSession

import delaymq
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.spark.jobs.accounting import accounted, listed
from delaymq.spark.jobs.discrepancies import discrepancies
from delaymq.spark.jobs.retry_findings import Moment, of_given_back
from delaymq.spark.jobs.tally import ACCOUNTED, FOUND_SCHEMA, READ
from delaymq.spark.plan import Part, TableOptions, parts_of, refuse_part, retired_from
from delaymq.spark.scan import collected
from delaymq.tables import Snapshot

FINDINGS = "kind string, sequence bigint, subject string, group string, words string"
"""The columns of `findings_frame`."""

KINDS = ("lost", "doubled", "early", "corrupt", "stuck")
"""The kinds of findings."""

PERCENTILES = (50, 90, 99, 99.9, 100)
"""The percentiles of lateness that are reported."""

Task: TypeAlias = Callable[[Part], "Iterable[pyarrow.RecordBatch]"]

Run: TypeAlias = Callable[[list[Part], Task], list[dict[str, Any]]]

STUCK_AFTER = timedelta(hours=1)
SPLIT_BYTES = 256 << 20
"""A task of `deliveries` reads the log from its own messages to the end, so few large parts read less in total."""

FOLLOWED = ("deliveries", "ready")
"""Tables with such large parts: a task of `ready` reads the log before its part, too."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that the audit found.

    Attributes:
        kind: One of `KINDS`.
        sequence: The sequence of the message, or None if it is unknown.
        subject: Its subject, or None.
        group: The group, or None if the finding is not about one.
        words: A description.
    """

    kind: str
    sequence: int | None
    subject: str | None
    group: str | None
    words: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        store: The folder.
        as_of: The store's clock at the last fact that was read, UTC.
        first_sequence: The first sequence of the log.
        end_sequence: The sequence after the last.
        dispatch_held: True if dispatch was held at that fact, since the system's clock was not trusted: due messages
            wait, and count as stuck after the usual time.
        not_audited: Ranges of sequences that were retired before: the first of each, and the one after its last, in
            order; empty if the log is complete.
        messages: The number of messages that were accounted for.
        outcomes: The number of rows of the table `deliveries` with each outcome.
        found: The number of findings by kind; more than in `findings` if a task found more than it lists.
        findings: The findings.
        dispatched_late_ms: How late messages became ready, by percentile, exact to a percent.
        delivered_late_ms: How late messages were first delivered, by percentile, exact to a percent.
    """

    store: str
    as_of: datetime
    first_sequence: int
    end_sequence: int
    dispatch_held: bool
    not_audited: tuple[tuple[int, int], ...]
    messages: int
    outcomes: dict[str, int]
    found: dict[str, int]
    findings: tuple[Finding, ...]
    dispatched_late_ms: dict[float, int]
    delivered_late_ms: dict[float, int]

    @property
    def is_clean(self) -> bool:
        """True if there is no finding."""
        return not any(self.found.values())


def audit(spark: SparkSession, options: TableOptions, *, stuck_after: Duration = STUCK_AFTER) -> Audit:
    """Accounts for every message that the log still has, and for older ones that are not finished.

    The kinds of findings are: lost, a message whose outcome is unknown, or that is pending or retrying and in no
    schedule; doubled, scheduled twice, or delivered again to a group that had it; early, ready or delivered before its
    due time, or scheduled too early; corrupt, with a failed checksum; stuck, waiting for longer than `stuck_after` by
    the store's clock: due and not dispatched, ready and not taken by a group, or delivered and not settled (if the
    group had it before, since the last delivery).

    Args:
        spark: The session.
        options: The store, as of now or of a snapshot; all of it is audited.
        stuck_after: Messages that wait for longer are stuck.

    Raises:
        InvalidArgument: `options` excludes a part of the store, or there is no such snapshot of it.
        StoreError, StorageError: As `delaymq.snapshot`; raised here, not in a task.
    """
    return audited(options, partial(collected, spark, FOUND_SCHEMA), stuck_after=stuck_after)


def findings_frame(spark: SparkSession, found: Audit) -> DataFrame:
    """The findings of an audit as a DataFrame."""
    rows = [(one.kind, one.sequence, one.subject, one.group, one.words) for one in found.findings]
    return spark.createDataFrame(rows, FINDINGS)


def audited(options: TableOptions, run: Run, *, stuck_after: Duration = STUCK_AFTER) -> Audit:
    """As `audit`, with any function that runs tasks.

    Args:
        options: As for `audit`.
        run: Runs a task on each part, and returns the rows of all tasks.
        stuck_after: As for `audit`.

    Raises:
        InvalidArgument, StoreError, StorageError: As `audit`.
    """
    refuse_part(options, options.log)
    with delaymq.snapshot(options.path, pinned_for=options.pinned_for, name=options.snapshot) as snapshot:
        as_of_ms, stuck_ms = due_ms(snapshot.trusted, "as_of"), delay_ms(stuck_after, "stuck_after")
        tallied = run(_parts(snapshot, options, ACCOUNTED), partial(accounted, as_of_ms, stuck_ms))

        def look(wanted: dict[str, list[Any]], tables: tuple[str, ...]) -> list[dict[str, Any]]:
            return run(_parts(snapshot, options, tables), partial(listed, wanted))

        wrong = [*discrepancies(tallied, look), *of_given_back(tallied, look, Moment(as_of_ms, stuck_ms))]
        return _audit(options.path, snapshot, tallied, wrong)


def _parts(snapshot: Snapshot, options: TableOptions, tables: Iterable[str]) -> list[Part]:
    """The parts of some tables, the slowest first."""
    found: list[Part] = []
    for table in tables:
        size = max(options.split_bytes, SPLIT_BYTES) if table in FOLLOWED else options.split_bytes
        found += parts_of(snapshot, replace(options, log=table, columns=READ[table], split_bytes=size))
    return found


def _audit(path: str, snapshot: Snapshot, tallied: Sequence[dict[str, Any]], wrong: Sequence[dict[str, Any]]) -> Audit:
    numbers: dict[str, Counter[str]] = {}
    for row in tallied:
        if row["words"] != "print" and row["count"] is not None:
            numbers.setdefault(row["kind"], Counter())[row["words"]] += row["count"]
    found = Counter(numbers.get("found", {}))
    found.update(row["kind"] for row in wrong)
    rows = [row for row in tallied if row["kind"] in KINDS and row["count"] is None]
    # The same damage is found by each table that reads it.
    corrupt = {row["words"]: row for row in rows if row["kind"] == "corrupt"}
    met = [row for row in rows if row["kind"] == "corrupt"]
    found["corrupt"] -= len(met) - len(corrupt)
    rows = [*(row for row in rows if row["kind"] != "corrupt"), *corrupt.values()]
    findings = [
        Finding(row["kind"], row["sequence"], row["subject"], row["group"], row["words"]) for row in [*rows, *wrong]
    ]
    findings.sort(key=lambda one: (KINDS.index(one.kind), one.sequence is None, one.sequence or 0, one.group or ""))
    return Audit(
        store=path,
        as_of=snapshot.trusted,
        first_sequence=snapshot.first_sequence,
        end_sequence=snapshot.end_sequence,
        dispatch_held=snapshot.dispatch_held(),
        not_audited=retired_from(snapshot, 1),
        messages=numbers.get("messages", Counter())[""],
        outcomes=dict(sorted(numbers.get("outcome", {}).items())),
        found={kind: found[kind] for kind in KINDS},
        findings=tuple(findings),
        dispatched_late_ms=percentiles(numbers.get("dispatched", {})),
        delivered_late_ms=percentiles(numbers.get("delivered", {})),
    )


def percentiles(counted: dict[str, int] | Counter[str]) -> dict[float, int]:
    """The percentiles of values that are counted by value."""
    ordered = sorted((int(value), count) for value, count in counted.items())
    whole, seen, found = sum(counted.values()), 0, dict[float, int]()
    for value, count in ordered:
        seen += count
        for percent in PERCENTILES:
            if percent not in found and seen * 100 >= whole * percent:
                found[percent] = value
    return found
