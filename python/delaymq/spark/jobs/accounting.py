"""What a task of an audit makes of its part: counts, sums to be compared, and the rows in which something is wrong.

Two tables are compared by *prints*: for each block of sequences how many rows there are, and a sum over them that is
another one where a row is missing, doubled or different. Only blocks whose prints differ are looked at row by row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
import pyarrow
import pyarrow.compute

from delaymq.tables import read_range

if TYPE_CHECKING:
    from delaymq.spark.plan import Part

__all__ = ["BLOCK_BITS", "FOUND", "FOUND_SCHEMA", "LISTED", "READ", "accounted", "listed"]

Numbers: TypeAlias = Any
"""An array of numpy, which says too little of itself to be checked."""

BLOCK_BITS = 20
"""So many low bits of a sequence are one block."""

LISTED = 1_000
"""A task tells no more findings of one kind, and counts the rest."""

FOUND = pyarrow.schema(
    [
        ("kind", pyarrow.string()),
        ("words", pyarrow.string()),
        ("sequence", pyarrow.int64()),
        ("subject", pyarrow.string()),
        ("group", pyarrow.string()),
        ("count", pyarrow.int64()),
        ("value", pyarrow.int64()),
    ]
)
FOUND_SCHEMA = "kind string, words string, sequence bigint, subject string, group string, count bigint, value bigint"
"""What a task tells: a finding, or a number under its kind and words."""

READ = {
    "deliveries": (
        "sequence", "subject", "group", "due", "ready", "delivered", "outcome", "lateness_ms",
        "attempts", "entry_sequence", "number", "group_number",
    ),
    "message": ("sequence", "body_bytes"),
    "pending": ("sequence", "subject", "due", "body_bytes"),
    "action": ("sequence", "kind", "subject", "group", "count", "ranges", "group_number"),
}  # fmt: skip
"""The columns that are read of each table. One that lies in the payload has it checked."""

OF_GROUPS = "%"
"""With this begin the subjects of retries and dead letters."""

OF_RETRIES = "%RETRY%"


@dataclass
class Tally:
    """What a task has counted so far.

    Attributes:
        counts: Numbers by kind and words.
        prints: Rows and sums by kind and block.
        findings: By kind, those that are told.
        as_of_ms: The time of the snapshot, by the store's own clock.
        stuck_ms: What waits for longer is stuck.
    """

    as_of_ms: int
    stuck_ms: int
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    prints: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, kind: str, words: str, count: int) -> None:
        """Counts."""
        if count:
            self.counts[kind, words] = self.counts.get((kind, words), 0) + count

    def note(self, kind: str, words: str, rows: pyarrow.RecordBatch) -> None:
        """Notes findings, and counts those that are too many to be told."""
        told = self.findings.setdefault(kind, [])
        room = LISTED - len(told)
        for row in rows.slice(0, max(room, 0)).to_pylist():
            names = ("sequence", "subject", "group")
            told.append({"kind": kind, "words": words, **{name: row.get(name) for name in names}})
        self.add("found", kind, rows.num_rows)

    def take_print(self, kind: str, sequences: Numbers, others: Numbers | None = None) -> None:
        """Adds rows to the prints of their blocks."""
        if not len(sequences):
            return
        mixed = _mixed(sequences if others is None else sequences ^ _mixed(others))
        blocks = (sequences >> numpy.uint64(BLOCK_BITS)).astype(numpy.int64)
        found, places = numpy.unique(blocks, return_inverse=True)
        counts = numpy.bincount(places)
        for at, block in enumerate(found.tolist()):
            count, total = self.prints.get((kind, block), (0, 0))
            of_block = int(mixed[places == at].sum(dtype=numpy.uint64))
            self.prints[kind, block] = count + int(counts[at]), (total + of_block) & 0xFFFF_FFFF_FFFF_FFFF

    def rows(self) -> pyarrow.RecordBatch:
        """All of it, as rows."""
        whole = [row for told in self.findings.values() for row in told]
        whole += [{"kind": kind, "words": words, "count": count} for (kind, words), count in self.counts.items()]
        whole += [
            {"kind": kind, "words": "print", "sequence": block, "count": count, "value": _signed(total)}
            for (kind, block), (count, total) in self.prints.items()
        ]
        return pyarrow.RecordBatch.from_pylist(whole, schema=FOUND)


def accounted(as_of_ms: int, stuck_ms: int, part: Part) -> Iterator[pyarrow.RecordBatch]:
    """Reads one part and tells what it comes to."""
    tally = Tally(as_of_ms, stuck_ms)
    rows = read_range(part.path, part.range, columns=part.columns, on_damage="report")
    takes: dict[str, Callable[[pyarrow.RecordBatch], None]] = {
        "deliveries": Deliveries(tally).take,
        "message": partial(_take_message, tally),
        "pending": partial(_take_pending, tally),
        "action": partial(_take_action, tally),
    }
    take = takes[part.range.table]
    for batch in pyarrow.RecordBatchReader.from_stream(rows):
        take(batch)
    for damage in rows.damages:
        words = f"{damage.path}, offset {damage.offset}: expected {damage.expected}, found {damage.found}"
        tally.note("corrupt", words, pyarrow.RecordBatch.from_pylist([{"sequence": damage.sequence}]))
    yield tally.rows()


class Deliveries:
    """Takes the rows of one range, which come by sequence and group."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last: tuple[Any, Any] | None = None

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Accounts for the rows of a batch."""
        if not batch.num_rows:
            return
        tally, column = self._tally, batch.column
        for word in pyarrow.compute.value_counts(column("outcome")).to_pylist():
            tally.add("outcome", word["values"], word["counts"])
        known = batch.filter(pyarrow.compute.is_valid(column("sequence")))
        sequences = _numbers(known, "sequence")
        before = self._last
        if known.num_rows:
            groups = _numbers(known, "group_number", -1)
            is_same = _as_the_one_before(before, sequences, groups)
            first = ~_as_the_one_before(before and (before[0], 0), sequences, numpy.zeros_like(groups))
            tally.note("doubled", "two rows for one group", known.filter(pyarrow.array(is_same)))
            tally.take_print("told", sequences[first])
            tally.add("messages", "", int(first.sum()))
            self._last = sequences[-1], groups[-1]
        pending = batch.filter(pyarrow.compute.equal(column("outcome"), "pending"))
        entries = pending.filter(pyarrow.compute.is_valid(pending.column("entry_sequence")))
        tally.take_print("told pending", _numbers(entries, "entry_sequence"), _microseconds(entries, "due"))
        _sum_by_group(tally, "attempts", batch, "attempts")
        _note_early(tally, batch)
        _note_stuck(tally, batch)
        _note_lost(tally, batch)
        _take_lateness(tally, "delivered", _numbers(batch, "lateness_ms", None))
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
    before = pyarrow.scalar((tally.as_of_ms - tally.stuck_ms) * 1_000, pyarrow.timestamp("us", tz="UTC"))
    outcome, has_group = batch.column("outcome"), compute.is_valid(batch.column("group_number"))
    ready = compute.coalesce(batch.column("ready"), batch.column("due"))
    for word, since, what in (
        ("pending", batch.column("due"), "due and not dispatched"),
        ("ready", ready, "ready and not taken"),
        ("in_flight", batch.column("delivered"), "delivered and neither acknowledged nor given back"),
    ):
        is_so = compute.and_(compute.equal(outcome, word), compute.less(since, before))
        # What nobody has subscribed to waits for nobody.
        tally.note("stuck", what, batch.filter(compute.and_(is_so, has_group) if word == "ready" else is_so))


def _note_lost(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    is_lost = pyarrow.compute.equal(batch.column("outcome"), "unknown")
    tally.note("lost", "nothing says what became of it", batch.filter(is_lost))


def _take_message(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    tally.take_print("stored", _numbers(batch, "sequence"))
    tally.add("bytes", "", int(pyarrow.compute.sum(batch.column("body_bytes")).as_py() or 0))


def _take_pending(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    subjects = batch.column("subject")
    is_of_group = pyarrow.compute.fill_null(pyarrow.compute.starts_with(subjects, OF_GROUPS), False)
    own = batch.filter(pyarrow.compute.invert(is_of_group))
    tally.take_print("scheduled", _numbers(own, "sequence"), _microseconds(own, "due"))


def _take_action(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    assigned = batch.filter(pyarrow.compute.equal(batch.column("kind"), "assign"))
    _sum_by_group(tally, "assigned", assigned, "count")


def _sum_by_group(tally: Tally, kind: str, batch: pyarrow.RecordBatch, name: str) -> None:
    """Adds up by subject and group. What a group was given of its retry subject was given of the subject."""
    columns = {one: batch.column(one) for one in ("subject", "group", name)}
    sums = pyarrow.table(columns).group_by(["subject", "group"]).aggregate([(name, "sum")])
    for row in sums.to_pylist():
        subject, group = row["subject"], row["group"]
        if subject is not None and group is not None:
            base = subject.removeprefix(OF_RETRIES).removesuffix(f"%{group}") if subject[:1] == OF_GROUPS else subject
            tally.add(kind, f"{base} {group}", row[f"{name}_sum"] or 0)


def listed(wanted: dict[str, list[Any]], part: Part) -> Iterator[pyarrow.RecordBatch]:
    """The rows of one part that are to be looked at: by kind those in some blocks, or of some subjects and groups."""
    rows = read_range(part.path, part.range, columns=part.columns, on_damage="report")
    for batch in pyarrow.RecordBatchReader.from_stream(rows):
        yield from _listed_of(part.range.table, batch, wanted)


def _listed_of(table: str, batch: pyarrow.RecordBatch, wanted: dict[str, list[Any]]) -> Iterable[pyarrow.RecordBatch]:
    compute = pyarrow.compute
    if table == "message":
        yield _in_blocks("stored", batch, "sequence", wanted)
    elif table == "pending":
        yield _in_blocks("scheduled", batch, "sequence", wanted, "due")
    elif table == "deliveries":
        outcome = batch.column("outcome")
        pending = batch.filter(compute.equal(outcome, "pending"))
        yield _in_blocks("told pending", pending, "entry_sequence", wanted, "due")
        yield _in_blocks("told", batch, "sequence", wanted)
        yield _in_blocks("refused", batch.filter(compute.equal(outcome, "refused")), "sequence", wanted)
        yield _of_groups("attempts", batch, wanted, lambda row: [(row["number"], row["attempts"])])
    else:
        kinds = batch.column("kind")
        terms = batch.filter(compute.is_in(kinds, pyarrow.array(["terms", "occurrence"])))
        yield _in_blocks("terms", terms, "sequence", wanted)
        yield _of_groups("assigned", batch.filter(compute.equal(kinds, "assign")), wanted, _numbers_of)


def _numbers_of(row: dict[str, Any]) -> Iterable[tuple[int, int]]:
    return ((number, 1) for first, count in json.loads(row["ranges"]) for number in range(first, first + count))


def _of_groups(
    kind: str,
    batch: pyarrow.RecordBatch,
    wanted: dict[str, list[Any]],
    each: Callable[[dict[str, Any]], Iterable[tuple[int, int]]],
) -> pyarrow.RecordBatch:
    """A row for each number of the groups that are looked at."""
    groups, found = set(wanted.get(kind, ())), list[dict[str, Any]]()
    for row in batch.to_pylist() if groups else ():
        if f"{row['subject']} {row['group']}" in groups:
            same = {name: row[name] for name in ("sequence", "subject", "group")}
            words = str(row["group_number"])
            found += [{**same, "kind": kind, "words": words, "value": at, "count": count} for at, count in each(row)]
    return pyarrow.RecordBatch.from_pylist(found, schema=FOUND)


def _in_blocks(
    kind: str, batch: pyarrow.RecordBatch, name: str, blocks: dict[str, list[Any]], value: str | None = None
) -> pyarrow.RecordBatch:
    wanted = blocks.get(kind)
    if wanted is None:
        return pyarrow.RecordBatch.from_pylist([], schema=FOUND)
    batch = batch.filter(pyarrow.compute.is_valid(batch.column(name)))
    sequences = _numbers(batch, name)
    is_in = numpy.isin((sequences >> numpy.uint64(BLOCK_BITS)).astype(numpy.int64), numpy.array(wanted, numpy.int64))
    batch = batch.filter(pyarrow.array(is_in))

    def column(of: str, kind: pyarrow.DataType) -> pyarrow.Array:
        return batch.column(of) if of in batch.schema.names else pyarrow.nulls(batch.num_rows, kind)

    values = pyarrow.nulls(batch.num_rows, pyarrow.int64()) if value is None else batch.column(value)
    columns = [
        pyarrow.repeat(kind, batch.num_rows),
        pyarrow.nulls(batch.num_rows, pyarrow.string()),
        batch.column(name),
        column("subject", pyarrow.string()),
        column("group", pyarrow.string()),
        column("count", pyarrow.int64()),
        values.cast(pyarrow.int64()),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=FOUND)


def _take_lateness(tally: Tally, what: str, late_ms: Numbers) -> None:
    """Counts by the seven highest bits, so that a percentile is right to a percent."""
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
    late = _microseconds(rows, name).astype(numpy.int64) - _microseconds(rows, "due").astype(numpy.int64)
    return late // 1_000


def _as_the_one_before(before: tuple[Any, Any] | None, *columns: Numbers) -> Numbers:
    """Where a row has in all these columns what the row before it has; `before` is that before the first."""
    same = numpy.ones(len(columns[0]), dtype=bool)
    same[0] = before is not None and all(column[0] == one for column, one in zip(columns, before, strict=True))
    for column in columns:
        same[1:] &= column[1:] == column[:-1]
    return same


def _numbers(batch: pyarrow.RecordBatch, name: str, instead: int | None = 0) -> Numbers:
    """A column of whole numbers; without rows that are null where nothing stands instead of them."""
    column = batch.column(name)
    column = column.drop_null() if instead is None else pyarrow.compute.fill_null(column, instead)
    numbers = column.to_numpy(zero_copy_only=False)
    return numbers.view(numpy.uint64) if name.endswith("sequence") else numbers


def _microseconds(batch: pyarrow.RecordBatch, name: str) -> Numbers:
    column = pyarrow.compute.fill_null(batch.column(name).cast(pyarrow.int64()), 0)
    return column.to_numpy(zero_copy_only=False).view(numpy.uint64)


def _mixed(numbers: Numbers) -> Numbers:
    """Numbers made of others so that sums of them differ: the end of splitmix64."""
    mixed = numbers + numpy.uint64(0x9E37_79B9_7F4A_7C15)
    mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58_476D_1CE4_E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D0_49BB_1331_11EB)
    return mixed ^ (mixed >> numpy.uint64(31))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
