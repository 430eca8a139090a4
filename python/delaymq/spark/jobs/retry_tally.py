"""The tally of retries: in which schedules they wait, and since when.

The schedule of retries is compared twice: its messages with those that are retrying, and its entries with the facts
that made them, which have the due times. The second comparison reads only facts of pending entries; each task reports
these entries as one compressed text.
"""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from delaymq.spark.jobs.tally import FOUND, Numbers, Tally, in_blocks, microseconds, numbers

OF_GROUPS = "%"
"""The prefix of subjects of retries and dead letters."""

OF_RETRIES = "%RETRY%"

MADE = pyarrow.array(["retry", "dead_letter", "expired_dead_letter", "redrive", "move", "move_by_key"])
"""Facts that make an entry of an existing message."""

GAVE = pyarrow.array(["retry", "redrive"])


def base_of(subject: str, group: str) -> str:
    """The subject of a group's retry subject; any other subject itself."""
    return subject.removeprefix(OF_RETRIES).removesuffix(f"%{group}") if subject[:1] == OF_GROUPS else subject


def is_given_back(batch: pyarrow.RecordBatch) -> pyarrow.Array:
    """True for entries that are not a publish: entries in a subject of a group."""
    compute = pyarrow.compute
    is_of_group = compute.starts_with(batch.column("subject"), OF_GROUPS)
    is_other = compute.not_equal(batch.column("sequence"), batch.column("published_sequence"))
    return compute.fill_null(compute.and_(is_of_group, is_other), False)


def is_taken_again(batch: pyarrow.RecordBatch) -> pyarrow.Array:
    """True for messages that are ready or in flight after an earlier delivery; only facts tell since when."""
    compute = pyarrow.compute
    outcome, attempts = batch.column("outcome"), compute.fill_null(batch.column("attempts"), 0)
    is_held = compute.and_(compute.equal(outcome, "in_flight"), compute.greater(attempts, 1))
    return compute.or_(is_held, compute.and_(compute.equal(outcome, "ready"), compute.greater(attempts, 0)))


def take_deliveries(tally: Tally, batch: pyarrow.RecordBatch) -> None:
    """Takes retrying messages, and reports messages that may be stuck after an earlier delivery."""
    compute = pyarrow.compute
    tally.take_print("told again", numbers(_waiting_again(batch), "sequence"))
    is_long = compute.less(compute.coalesce(batch.column("delivered"), batch.column("due")), tally.stuck_before)
    for row in batch.filter(compute.and_(is_taken_again(batch), is_long)).to_pylist():
        names = {name: row[name] for name in ("sequence", "subject", "group")}
        if row["sequence"] is not None and row["number"] is not None:
            words = json.dumps([row["outcome"], row["group_number"], _us(row["ready"] or row["due"])])
            tally.others.append({**names, "kind": "held", "words": words, "value": row["number"]})


def take_pending(tally: Tally, again: pyarrow.RecordBatch, entries: list[Numbers]) -> None:
    """Takes entries of retries."""
    if not again.num_rows:
        return
    compute = pyarrow.compute
    sequences = numbers(again, "sequence")
    entries.append(sequences)
    tally.take_print("due again", sequences, microseconds(again, "due"))
    retries = again.filter(compute.starts_with(again.column("subject"), OF_RETRIES))
    tally.take_print("scheduled again", numbers(retries, "published_sequence"))
    overdue = retries.filter(compute.less(retries.column("due"), tally.stuck_before))
    if overdue.num_rows:
        tally.note("stuck", "given back, due again and not dispatched", _of_base(overdue, "subject"))


def tell_entries(tally: Tally, entries: list[Numbers]) -> None:
    """Reports the entries of a task as one text."""
    if entries:
        steps = numpy.diff(numpy.unique(numpy.concatenate(entries)), prepend=numpy.uint64(0))
        packed = base64.b85encode(zlib.compress(steps.astype("<u8").tobytes(), 1)).decode("ascii")
        tally.others.append({"kind": "entries", "words": packed})


def _entries_of(packed: str) -> Numbers:
    steps = numpy.frombuffer(zlib.decompress(base64.b85decode(packed)), dtype="<u8")
    return numpy.cumsum(steps, dtype=numpy.uint64)


class Look:
    """Selects the rows of retries that are compared by row.

    `wanted` has, by kind: for `promised` the texts of entries; for `told again`, `scheduled again`, `due again` and
    `promised due` blocks; for `came again` messages; for `given` a subject, a group and numbers of each.
    """

    def __init__(self, wanted: dict[str, list[Any]]) -> None:
        self._wanted = wanted
        entries = [_entries_of(packed) for packed in wanted.get("promised", ())]
        self._entries = numpy.concatenate(entries) if entries else None
        self._messages = pyarrow.array(wanted.get("came again", ()), pyarrow.int64())
        self._given = {(subject, group): sorted(ready) for subject, group, ready in wanted.get("given", ())}

    def listed(self, table: str, batch: pyarrow.RecordBatch) -> Iterable[pyarrow.RecordBatch]:
        """The rows of one batch."""
        wanted = self._wanted
        if table == "deliveries":
            yield in_blocks("told again", _waiting_again(batch), "sequence", wanted)
        elif table == "pending":
            again = batch.filter(is_given_back(batch))
            named = _of_base(again, "subject").append_column("entry_sequence", again.column("sequence"))
            retries = named.filter(pyarrow.compute.starts_with(again.column("subject"), OF_RETRIES))
            yield in_blocks("scheduled again", retries, "sequence", wanted, "entry_sequence")
            due = named.append_column("count", named.column("sequence"))
            yield in_blocks("due again", due, "entry_sequence", wanted, "due")
        elif table == "ready" and len(self._messages):
            yield from _rows(self._ready(batch))
        elif table == "action":
            yield from self._of_action(batch)

    def _of_action(self, batch: pyarrow.RecordBatch) -> Iterable[pyarrow.RecordBatch]:
        made = batch.filter(pyarrow.compute.is_in(batch.column("kind"), MADE))
        made = made.filter(pyarrow.compute.is_valid(made.column("due")))
        if self._entries is not None:
            tally = Tally(0, 0)
            sequences = numbers(made, "sequence")
            is_in = numpy.isin(sequences, self._entries)
            tally.take_print("promised", sequences[is_in], microseconds(made, "due")[is_in])
            yield tally.rows()
        yield in_blocks("promised due", made, "sequence", self._wanted, "due")
        if len(self._messages):
            yield from _rows(self._gave(made))
        if len(self._messages) or self._given:
            yield from _rows(_ends(batch))
        if self._given:
            yield from _rows(self._assigned(batch))

    def _ready(self, batch: pyarrow.RecordBatch) -> Iterable[dict[str, Any]]:
        """Retries of the messages that became ready, with their ready numbers."""
        compute = pyarrow.compute
        is_again = compute.starts_with(batch.column("subject"), OF_RETRIES)
        is_one = compute.is_in(batch.column("published_sequence"), self._messages)
        again = batch.filter(compute.fill_null(compute.and_(is_again, is_one), False))
        for row, named in zip(again.to_pylist(), _of_base(again, "subject").to_pylist(), strict=True):
            words = json.dumps([row["sequence"], _us(row["ready"] or row["due"])])
            yield {**_names(named), "kind": "ready again", "words": words, "value": row["number"]}

    def _gave(self, made: pyarrow.RecordBatch) -> Iterable[dict[str, Any]]:
        """The facts by which messages were given back."""
        compute = pyarrow.compute
        is_one = compute.is_in(made.column("published_sequence"), self._messages)
        is_again = compute.starts_with(made.column("target_subject"), OF_RETRIES)
        is_so = compute.and_(compute.and_(is_one, is_again), compute.is_in(made.column("kind"), GAVE))
        gave = made.filter(compute.fill_null(is_so, False))
        for row, named in zip(gave.to_pylist(), _of_base(gave, "target_subject").to_pylist(), strict=True):
            words = json.dumps([row["subject"], row["consumer_number"], row["first_offset"], _us(row["due"])])
            yield {**_names(named), "kind": "gave again", "words": words, "value": row["sequence"]}

    def _assigned(self, batch: pyarrow.RecordBatch) -> Iterable[dict[str, Any]]:
        """The facts by which the requested numbers were assigned to consumers."""
        for row in batch.filter(pyarrow.compute.equal(batch.column("kind"), "assign")).to_pylist():
            wanted_numbers = self._given.get((row["subject"], row["group"]), ())
            for first, count in json.loads(row["ranges"]) if wanted_numbers else ():
                words = json.dumps([row["group_number"], row["consumer_number"], _us(row["time"])])
                for number in wanted_numbers[
                    bisect_left(wanted_numbers, first) : bisect_left(wanted_numbers, first + count)
                ]:
                    yield {**_names(row), "kind": "given", "words": words, "value": number}


def _ends(batch: pyarrow.RecordBatch) -> Iterable[dict[str, Any]]:
    """Consumers and groups that ended."""
    kinds = pyarrow.array(["consumer_end", "group_end", "group_end_with_retries", "group_reset"])
    for row in batch.filter(pyarrow.compute.is_in(batch.column("kind"), kinds)).to_pylist():
        number = row["consumer_number"] if row["kind"] == "consumer_end" else None
        yield {**_names(row), "kind": "ended", "count": number, "value": _us(row["time"])}


def _waiting_again(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    again = batch.filter(pyarrow.compute.equal(batch.column("outcome"), "retrying"))
    return again.filter(pyarrow.compute.is_valid(again.column("sequence")))


def _of_base(batch: pyarrow.RecordBatch, of: str) -> pyarrow.RecordBatch:
    """The messages of entries, with subject and group of the retry subject that each entry is in."""
    parts = pyarrow.compute.extract_regex(batch.column(of), r"^%[A-Z]*%(?P<subject>[^%]*)%(?P<group>[^%]*)$")
    subject, group = (pyarrow.compute.struct_field(parts, name) for name in ("subject", "group"))
    columns = [batch.column("published_sequence"), subject, group, batch.column("due")]
    return pyarrow.RecordBatch.from_arrays(columns, ["sequence", "subject", "group", "due"])


def _names(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("sequence", "subject", "group")}


def _us(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000_000)


def _rows(found: Iterable[dict[str, Any]]) -> Iterable[pyarrow.RecordBatch]:
    yield pyarrow.RecordBatch.from_pylist(list(found), schema=FOUND)
