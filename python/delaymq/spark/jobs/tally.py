"""The tally of an audit's task, and the rows in which it is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy
import pyarrow
import pyarrow.compute

from delaymq.spark.schemas import arrow_of

Numbers: TypeAlias = Any
"""An array of numpy, which is not typed precisely enough to be checked."""

BLOCK_BITS = 20
"""The number of low bits of a sequence that are one block."""

LISTED = 1_000
"""The maximum of findings of one kind that a task lists; it counts the rest."""

FOUND_SCHEMA = "kind string, words string, sequence bigint, subject string, group string, count bigint, value bigint"
"""The rows of a task: a finding, or a number under its kind and words."""

FOUND = arrow_of(FOUND_SCHEMA)

READ = {
    "deliveries": (
        "sequence", "subject", "group", "due", "ready", "delivered", "outcome", "lateness_ms",
        "attempts", "entry_sequence", "number", "group_number",
    ),
    "message": ("sequence", "body_bytes"),
    "pending": ("sequence", "subject", "due", "body_bytes", "published_sequence"),
    "action": (
        "sequence", "time", "kind", "subject", "target_subject", "published_sequence", "due", "group", "group_number",
        "consumer_number", "first_number", "last_number", "first_offset", "count", "ranges",
    ),
    "ready": ("sequence", "subject", "number", "published_sequence", "due", "ready"),
}  # fmt: skip
"""The columns that are read of each table. A column in the payload makes the payload be checked."""

ACCOUNTED = ("deliveries", "message", "pending", "action")
"""The tables that are read completely; others only if these leave a question open."""


@dataclass
class Tally:
    """The results of a task so far.

    Attributes:
        counts: Numbers by kind and words.
        prints: Rows and sums by kind and block.
        findings: The listed findings, by kind.
        others: Further rows.
        as_of_ms: The time of the snapshot, by the store's clock.
        stuck_ms: Messages that wait for longer are stuck.
    """

    as_of_ms: int
    stuck_ms: int
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    prints: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)

    @property
    def stuck_before(self) -> pyarrow.Scalar:
        """Messages that wait since before this time are stuck."""
        return pyarrow.scalar((self.as_of_ms - self.stuck_ms) * 1_000, pyarrow.timestamp("us", tz="UTC"))

    def add(self, kind: str, words: str, count: int) -> None:
        """Adds to a count."""
        if count:
            self.counts[kind, words] = self.counts.get((kind, words), 0) + count

    def note(self, kind: str, words: str, rows: pyarrow.RecordBatch) -> None:
        """Lists findings, and counts those above the maximum."""
        tallied = self.findings.setdefault(kind, [])
        room = LISTED - len(tallied)
        for row in rows.slice(0, max(room, 0)).to_pylist():
            names = ("sequence", "subject", "group")
            tallied.append({"kind": kind, "words": words, **{name: row.get(name) for name in names}})
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
        """All results as rows."""
        whole = [*self.others, *(row for tallied in self.findings.values() for row in tallied)]
        whole += [{"kind": kind, "words": words, "count": count} for (kind, words), count in self.counts.items()]
        whole += [
            {"kind": kind, "words": "print", "sequence": block, "count": count, "value": _signed(total)}
            for (kind, block), (count, total) in self.prints.items()
        ]
        return pyarrow.RecordBatch.from_pylist(whole, schema=FOUND)


def in_blocks(
    kind: str, batch: pyarrow.RecordBatch, name: str, blocks: dict[str, list[Any]], value: str | None = None
) -> pyarrow.RecordBatch:
    """The rows whose sequence, in column `name`, is in a requested block, with the column `value` as their value."""
    wanted = blocks.get(kind)
    if wanted is None:
        return pyarrow.RecordBatch.from_pylist([], schema=FOUND)
    batch = batch.filter(pyarrow.compute.is_valid(batch.column(name)))
    sequences = numbers(batch, name)
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


def numbers(batch: pyarrow.RecordBatch, name: str, instead: int | None = 0) -> Numbers:
    """A column of integers; nulls become `instead`, or are dropped if that is None."""
    column = batch.column(name)
    column = column.drop_null() if instead is None else pyarrow.compute.fill_null(column, instead)
    found = column.to_numpy(zero_copy_only=False)
    return found.view(numpy.uint64) if name.endswith("sequence") else found


def microseconds(batch: pyarrow.RecordBatch, name: str) -> Numbers:
    """A column of times in microseconds; nulls become 0."""
    column = pyarrow.compute.fill_null(batch.column(name).cast(pyarrow.int64()), 0)
    return column.to_numpy(zero_copy_only=False).view(numpy.uint64)


def _mixed(plain: Numbers) -> Numbers:
    """Hashes numbers, so that sums of them differ: the finalizer of splitmix64."""
    mixed = plain + numpy.uint64(0x9E37_79B9_7F4A_7C15)
    mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58_476D_1CE4_E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D0_49BB_1331_11EB)
    return mixed ^ (mixed >> numpy.uint64(31))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
