"""What the facts of a whole log come to, by the rules that docs/format.md has, for stores that one process used.

The rules are those of a log without races: what a consumer gives back was in its hand, and what is brought back was
dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from format_reader.records import Record
from tables.oracle import Placed, Row, moment, names_of, visible_batches


@dataclass(frozen=True)
class Entry:
    sequence: int
    due_ms: int
    message: int
    subject: int


class Replay:
    """A log, fact by fact: what is pending at its end, or before a sequence, and every message that became ready."""

    def __init__(self, folder: Path, end_sequence: int | None = None) -> None:
        self.batches = [
            one
            for one in visible_batches(folder)
            if end_sequence is None or one.batch.header["base_sequence"] < end_sequence
        ]
        self.names = names_of(folder, self.batches)
        self.pending: dict[int, Entry] = {}
        self.ready: list[Row] = []
        self.groups: dict[int, tuple[int, str]] = {}
        self._numbers: dict[int, int] = {}
        self.consumers: dict[int, tuple[int, str]] = {}
        self._group_count = 0
        self._consumer_count = 0
        self._lasting: dict[int, bool] = {}
        self._keys: dict[Any, int] = {}
        self._ids: dict[Any, int] = {}
        self._id_window_ms = 0
        self._standing: dict[int, tuple[Any, Any, int]] = {}
        self._series: dict[int, int | None] = {}
        self._series_names: dict[tuple[int, str], int] = {}
        self._awaited: tuple[int, int] | None = None
        self._ended_before: dict[int, int] = {}
        for placed in self.batches:
            self._batch = placed
            for self._offset, record in placed.batch.records:
                getattr(self, f"_{record.kind}", lambda _: None)(record)

    _batch: Placed
    _offset: int

    def _place(self, entry: Entry, *, at_once: bool = False) -> None:
        header = self._batch.batch.header
        if at_once or (not header["flags"] & 1 and entry.due_ms <= header["trusted_ms"]):
            self._make_ready(entry, entry.sequence)
        else:
            self.pending[entry.sequence] = entry

    def _make_ready(self, entry: Entry, fact: int) -> None:
        number = self._numbers.get(entry.subject, 0)
        self._numbers[entry.subject] = number + 1
        self.ready.append(
            {
                "sequence": entry.sequence,
                "subject": self.names[entry.subject],
                "number": number,
                "published_sequence": entry.message,
                "due": moment(entry.due_ms),
                "ready": moment(self._batch.batch.header["trusted_ms"]),
                "ready_sequence": fact,
                "epoch": self._batch.batch.header["epoch"],
                "segment": f"log/{self._batch.segment:010}.segment",
                "offset": self._offset,
            }
        )

    def _end(self, sequence: int | None) -> Entry | None:
        if sequence is None:
            return None
        entry = self.pending.pop(sequence, None)
        if entry is not None:
            self._keys = {key: held for key, held in self._keys.items() if held != sequence}
            self._series = {one: None if held == sequence else held for one, held in self._series.items()}
        return entry

    def _terms(self, record: Record) -> None:
        rows, self._id_window_ms = record.fields["rows"], record.fields["id_window_ms"]
        self._standing = {record.sequence + 1 + place: (key, name, exists) for place, key, name, exists in rows}

    def _occurrence(self, record: Record) -> None:
        self._awaited = (record.sequence + 1, record.fields["series"])

    def _message(self, record: Record) -> None:
        fields, sequence = record.fields, record.sequence
        entry = Entry(sequence, fields["due_ms"], sequence, fields["subject"])
        if self._awaited is not None and self._awaited[0] == sequence:
            series = self._awaited[1]
            if series in self._series and self._series[series] is None:
                self._place(entry)
                self._series[series] = sequence if sequence in self.pending else None
            return
        key, name, if_exists = self._standing.pop(sequence, (None, None, 0))
        held = None if key is None else self._keys.get(key)
        now = self._batch.batch.header["trusted_ms"]
        is_repeated = name is not None and self._ids.get(name, 0) > now
        if name is not None and not is_repeated:
            self._ids[name] = now + self._id_window_ms
        if is_repeated or (held is not None and if_exists != 0):
            return
        self._end(held)
        self._place(entry)
        if key is not None and sequence in self.pending:
            self._keys[key] = sequence

    def _cancel(self, record: Record) -> None:
        self._end(record.fields["target_sequence"])

    def _move(self, record: Record) -> None:
        self._moved(record, record.fields["target_sequence"])

    def _moved(self, record: Record, target: int) -> None:
        entry = self.pending.get(target)
        if entry is None or target < self._ended_before.get(entry.subject, 0):
            return
        keys = [key for key, held in self._keys.items() if held == target]
        series = [one for one, held in self._series.items() if held == target]
        self._end(target)
        self._place(Entry(record.sequence, record.fields["due_ms"], entry.message, entry.subject))
        if record.sequence in self.pending:
            self._keys |= dict.fromkeys(keys, record.sequence)
            self._series |= dict.fromkeys(series, record.sequence)

    def _by_key(self, record: Record) -> None:
        held = self._keys.get(record.fields["key"])
        is_cancel = record.fields["what"] == "cancel"
        is_judged = is_cancel or held in (None, record.fields["target_sequence"])
        _, name, _ = self._standing.pop(record.sequence, (None, None, 0))
        now = self._batch.batch.header["trusted_ms"]
        if not is_judged or (name is not None and self._ids.get(name, 0) > now):
            return
        if name is not None:
            self._ids[name] = now + self._id_window_ms
        if is_cancel:
            self._end(held)
        elif held is not None:
            self._moved(record, held)

    def _ready(self, record: Record) -> None:
        for _, sequence, _ in record.fields["entries"]:
            entry = self._end(sequence)
            if entry is not None:
                self._make_ready(entry, record.sequence)

    def _group(self, record: Record) -> None:
        self._ensure(record.fields["subject"], record.fields["name"])

    def _attach(self, record: Record) -> None:
        fields = record.fields
        self._ensure(fields["subject"], fields["group"])
        named = (fields["subject"], fields["group"])
        group = next(number for number, one in self.groups.items() if one == named)
        self._ensure_consumer(group, fields["consumer"], is_lasting=True)

    def _consumer(self, record: Record) -> None:
        if record.fields["group"] in self.groups:
            self._ensure_consumer(record.fields["group"], record.fields["name"], is_lasting=False)

    def _ensure_consumer(self, group: int, name: str, *, is_lasting: bool) -> None:
        there = [number for number, one in self.consumers.items() if one == (group, name)]
        if all(self._lasting[number] != is_lasting for number in there):
            self._consumer_count += 1
            self.consumers[self._consumer_count] = (group, name)
            self._lasting[self._consumer_count] = is_lasting

    def _consumer_end(self, record: Record) -> None:
        self.consumers.pop(record.fields["consumer"], None)

    def _ensure(self, subject: int, name: str) -> None:
        if (subject, name) not in self.groups.values():
            self._group_count += 1
            self.groups[self._group_count] = (subject, name)

    def _group_reset(self, record: Record) -> None:
        subject, name = self.groups.pop(record.fields["group"])
        self._ensure(subject, name)

    def _group_end(self, record: Record) -> None:
        subject, name = self.groups.pop(record.fields["group"])
        if record.fields["end"] == "alone":
            return
        of = self.names[subject]
        for number, other in self.names.items():
            if other in (f"%RETRY%{of}%{name}", f"%DEAD_RETRY%{of}%{name}"):
                self._ended_before[number] = record.sequence
                self.groups = {one: held for one, held in self.groups.items() if held != (number, name)}

    def _retry(self, record: Record) -> None:
        fields = record.fields
        if fields["group"] not in self.groups:
            return
        self._ensure(fields["target"], self.groups[fields["group"]][1])
        entry = Entry(record.sequence, fields["due_ms"], fields["payload_sequence"], fields["target"])
        self._place(entry, at_once=fields["destination"] != "again")

    def _redrive(self, record: Record) -> None:
        fields = record.fields
        self._ensure(fields["target"], self.groups[fields["group"]][1])
        self._place(Entry(record.sequence, fields["due_ms"], fields["payload_sequence"], fields["target"]))

    def _recur(self, record: Record) -> None:
        fields = record.fields
        if fields["what"] == "over":
            self._series.pop(fields["series"], None)
            return
        named = (fields["subject"], fields["name"])
        before = self._series_names.pop(named, None)
        if before is not None:
            self._end(self._series.pop(before, None))
        if fields["what"] != "end":
            self._series_names[named] = record.sequence
            self._series[record.sequence] = None
