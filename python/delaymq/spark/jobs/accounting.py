"""The task of an audit: it reduces its part of a table to counts, fingerprints and findings.

Two tables are compared by fingerprints ("prints"): for each block of sequences, the number of rows and a sum over
them that differs if a row is missing, repeated or different. Only blocks with different prints are compared by row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from delaymq.spark.jobs import retry_tally
from delaymq.spark.jobs.retry_tally import base_of, is_given_back
from delaymq.spark.jobs.tally import FOUND, Numbers, Tally, in_blocks, microseconds, numbers
from delaymq.spark.plan import Part
from delaymq.tables import read_range

KEPT_BACK = pyarrow.array(["filter", "expire", "expired_dead_letter"])
"""Facts that end an assignment whose consumer did not receive the messages, so that these count no attempt."""


def accounted(as_of_ms: int, stuck_ms: int, part: Part) -> Iterator[pyarrow.RecordBatch]:
    """Reads one part and returns its tally."""
    tally = Tally(as_of_ms, stuck_ms)
    entries: list[Numbers] = []
    rows = read_range(part.path, part.range, columns=part.columns, on_damage="report")
    takes: dict[str, Callable[[pyarrow.RecordBatch], None]] = {
        "deliveries": Deliveries(tally).take,
        "message": partial(_take_message, tally),
        "pending": partial(_take_pending, tally, entries),
        "action": partial(_take_action, tally),
    }
    take = takes[part.range.table]
    for batch in pyarrow.RecordBatchReader.from_stream(rows):
        take(batch)
    for damage in rows.damages:
        words = f"{damage.path}, offset {damage.offset}: expected {damage.expected}, found {damage.found}"
        tally.note("corrupt", words, pyarrow.RecordBatch.from_pylist([{"sequence": damage.sequence}]))
    retry_tally.tell_entries(tally, entries)
    yield tally.rows()


class Deliveries:
    """Takes the rows of one range, which are ordered by sequence and group."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last: tuple[Any, Any] | None = None

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Adds the rows of a batch."""
        if not batch.num_rows:
            return
        tally, column = self._tally, batch.column
        for word in pyarrow.compute.value_counts(column("outcome")).to_pylist():
            tally.add("outcome", word["values"], word["counts"])
        known = batch.filter(pyarrow.compute.is_valid(column("sequence")))
        sequences = numbers(known, "sequence")
        before = self._last
        if known.num_rows:
            groups = numbers(known, "group_number", -1)
            is_same = _equals_row_before(before, sequences, groups)
            first = ~_equals_row_before(before and (before[0], 0), sequences, numpy.zeros_like(groups))
            tally.note("doubled", "two rows for one group", known.filter(pyarrow.array(is_same)))
            tally.take_print("told", sequences[first])
            tally.add("messages", "", int(first.sum()))
            self._last = sequences[-1], groups[-1]
        pending = batch.filter(pyarrow.compute.equal(column("outcome"), "pending"))
        entries = pending.filter(pyarrow.compute.is_valid(pending.column("entry_sequence")))
        tally.take_print("told pending", numbers(entries, "entry_sequence"), microseconds(entries, "due"))
        _sum_by_group(tally, "attempts", batch, "attempts")
        _note_early(tally, batch)
        _note_stuck(tally, batch)
        retry_tally.take_deliveries(tally, batch)
        is_lost = pyarrow.compute.equal(column("outcome"), "unknown")
        tally.note("lost", "nothing says what became of it", batch.filter(is_lost))
        _take_lateness(tally, "delivered", numbers(batch, "lateness_ms", None))
        _take_lateness(tally, "dispatched", _late_ms(batch, "ready"))


def _note_early(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    compute = pyarrow.compute
    given = compute.less(batch.column("lateness_ms"), 0)
    tally.note("early", "delivered before it was due", batch.filter(given))
    ready = compute.less(batch.column("ready"), batch.column("due"))
    is_new = compute.and_(ready, compute.invert(compute.fill_null(given, False)))
    tally.note("early", "dispatched before it was due", batch.filter(is_new))


def _note_stuck(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    compute = pyarrow.compute
    before = tally.stuck_before
    # For messages that a group has had before, this table does not tell since when they wait.
    batch = batch.filter(compute.invert(retry_tally.is_taken_again(batch)))
    outcome, has_group = batch.column("outcome"), compute.is_valid(batch.column("group_number"))
    ready = compute.coalesce(batch.column("ready"), batch.column("due"))
    for word, since, what in (
        ("pending", batch.column("due"), "due and not dispatched"),
        ("ready", ready, "ready and not taken"),
        ("in_flight", batch.column("delivered"), "delivered and neither acknowledged nor given back"),
    ):
        is_so = compute.and_(compute.equal(outcome, word), compute.less(since, before))
        # Without a group, a ready message waits for no consumer.
        tally.note("stuck", what, batch.filter(compute.and_(is_so, has_group) if word == "ready" else is_so))


def _take_message(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    tally.take_print("stored", numbers(batch, "sequence"))
    tally.add("bytes", "", int(pyarrow.compute.sum(batch.column("body_bytes")).as_py() or 0))


def _take_pending(tally: Tally, entries: list[Numbers], batch: pyarrow.RecordBatch) -> None:
    is_again = is_given_back(batch)
    own = batch.filter(pyarrow.compute.invert(is_again))
    tally.take_print("scheduled", numbers(own, "sequence"), microseconds(own, "due"))
    retry_tally.take_pending(tally, batch.filter(is_again), entries)


def _take_action(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    compute = pyarrow.compute
    _sum_by_group(tally, "assigned", batch.filter(compute.equal(batch.column("kind"), "assign")), "count")
    kept_back = batch.filter(compute.is_in(batch.column("kind"), KEPT_BACK))
    counts = compute.coalesce(kept_back.column("count"), 1)  # a dead letter is one message
    _sum_by_group(tally, "kept back", kept_back.drop_columns(["count"]).append_column("count", counts), "count")


def _sum_by_group(tally: Tally, kind: str, batch: pyarrow.RecordBatch, name: str) -> None:
    """Adds up by subject and group. A group's retry subject counts as its subject."""
    columns = {one: batch.column(one) for one in ("subject", "group", name)}
    sums = pyarrow.table(columns).group_by(["subject", "group"]).aggregate([(name, "sum")])
    for row in sums.to_pylist():
        subject, group = row["subject"], row["group"]
        if subject is not None and group is not None:
            tally.add(kind, f"{base_of(subject, group)} {group}", row[f"{name}_sum"] or 0)


def listed(wanted: dict[str, list[Any]], part: Part) -> Iterator[pyarrow.RecordBatch]:
    """The rows of one part that are compared by row: by kind, those in some blocks, or of some groups."""
    rows = read_range(part.path, part.range, columns=part.columns, on_damage="report")
    look = retry_tally.Look(wanted)
    for batch in pyarrow.RecordBatchReader.from_stream(rows):
        yield from _listed_of(part.range.table, batch, wanted)
        yield from look.listed(part.range.table, batch)


def _listed_of(table: str, batch: pyarrow.RecordBatch, wanted: dict[str, list[Any]]) -> Iterable[pyarrow.RecordBatch]:
    compute = pyarrow.compute
    if table == "message":
        yield in_blocks("stored", batch, "sequence", wanted)
    elif table == "pending":
        own = batch.filter(compute.invert(is_given_back(batch)))
        yield in_blocks("scheduled", own, "sequence", wanted, "due")
    elif table == "deliveries":
        outcome = batch.column("outcome")
        pending = batch.filter(compute.equal(outcome, "pending"))
        yield in_blocks("told pending", pending, "entry_sequence", wanted, "due")
        yield in_blocks("told", batch, "sequence", wanted)
        yield in_blocks("refused", batch.filter(compute.equal(outcome, "refused")), "sequence", wanted)
        yield _of_groups("attempts", batch, wanted, _attempts_of)
    elif table == "action":
        kinds = batch.column("kind")
        terms = batch.filter(compute.is_in(kinds, pyarrow.array(["terms", "occurrence"])))
        yield in_blocks("terms", terms, "sequence", wanted)
        given = pyarrow.array(["assign", "expire", "expired_dead_letter"])
        yield _of_groups("assigned", batch.filter(compute.is_in(kinds, given)), wanted, _numbers_of)


def _attempts_of(row: dict[str, Any]) -> Iterable[tuple[int, int]]:
    # The fact that says so has no ready numbers.
    yield row["number"], row["attempts"] + (row["outcome"] == "filtered")


def _numbers_of(row: dict[str, Any]) -> Iterable[tuple[int, int]]:
    ranges = json.loads(row["ranges"]) if row["ranges"] else [(row["first_number"], 1)]
    each = 1 if row["kind"] == "assign" else -1
    return ((number, each) for first, count in ranges for number in range(first, first + count))


def _of_groups(
    kind: str,
    batch: pyarrow.RecordBatch,
    wanted: dict[str, list[Any]],
    each: Callable[[dict[str, Any]], Iterable[tuple[int, int]]],
) -> pyarrow.RecordBatch:
    """A row for each number of the requested groups."""
    groups, found = set(wanted.get(kind, ())), list[dict[str, Any]]()
    for row in batch.to_pylist() if groups else ():
        if f"{row['subject']} {row['group']}" in groups:
            same = {name: row[name] for name in ("sequence", "subject", "group")}
            words = str(row["group_number"])
            found += [{**same, "kind": kind, "words": words, "value": at, "count": count} for at, count in each(row)]
    return pyarrow.RecordBatch.from_pylist(found, schema=FOUND)


def _take_lateness(tally: Tally, what: str, late_ms: Numbers) -> None:
    """Counts by the seven highest bits, so that percentiles are exact to a percent."""
    if not len(late_ms):
        return
    late = numpy.maximum(late_ms, 0).astype(numpy.int64)
    bits = numpy.frexp(late.astype(numpy.float64))[1]
    low = numpy.maximum(bits - 7, 0).astype(numpy.int64)
    values, counts = numpy.unique((late >> low) << low, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        tally.add(what, str(value), count)


def _late_ms(batch: pyarrow.RecordBatch, name: str) -> Numbers:
    both = pyarrow.compute.and_(
        pyarrow.compute.is_valid(batch.column(name)), pyarrow.compute.is_valid(batch.column("due"))
    )
    rows = batch.filter(both)
    late = microseconds(rows, name).astype(numpy.int64) - microseconds(rows, "due").astype(numpy.int64)
    return late // 1_000


def _equals_row_before(before: tuple[Any, Any] | None, *columns: Numbers) -> Numbers:
    """True for rows that equal the row before in all these columns; `before` precedes the first row."""
    same = numpy.ones(len(columns[0]), dtype=bool)
    same[0] = before is not None and all(column[0] == one for column, one in zip(columns, before, strict=True))
    for column in columns:
        same[1:] &= column[1:] == column[:-1]
    return same
