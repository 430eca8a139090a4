"""What became of each message for each group, by the rules of docs/format.md, from the first fact of a log on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from format_reader.checkpoints import read_checkpoint
from format_reader.records import Record
from format_reader.store import numbered
from tables.oracle import Row, moment
from tables.replaying import Entry, Replay

DEAD = ("dead_letter", "expired_dead_letter")
UNFINISHED = ("pending", "ready", "in_flight", "retrying")


@dataclass
class Published:
    """A message and what its entry came to."""

    subject: int
    message_id: str | None
    published: datetime
    due_ms: int
    entry: int
    outcome: str = "refused"
    ready: datetime | None = None
    number: int | None = None


@dataclass
class Queue:
    """One life of a group."""

    start: int
    done: set[int] = field(default_factory=set)
    held: dict[tuple[int, int], int] = field(default_factory=dict)

    def below(self) -> int:
        number = self.start
        while number in self.done:
            number += 1
        return number

    def has(self, number: int) -> bool:
        return number in self.held.values()


@dataclass
class Given:
    """A message and a group that was given it."""

    outcome: str = "ready"
    delivered: datetime | None = None
    ended: datetime | None = None
    attempts: int = 0
    retry: tuple[int, int] | None = None

    def was_kept_back(self) -> None:
        """It was assigned, and its consumer did not receive it."""
        self.attempts -= 1
        self.delivered = self.delivered if self.attempts else None


def _first_without(gone: dict[int, tuple[str, datetime] | None], number: int) -> int:
    while number in gone:
        number += 1
    return number


class Deliveries(Replay):
    """A log, fact by fact, with all that groups were given."""

    def __init__(self, folder: Path) -> None:
        self.messages: dict[int, Published] = {}
        self.queues: dict[int, Queue] = {}
        self.given: dict[tuple[int, int], Given] = {}
        self.group_ended: dict[int, datetime] = {}
        self.entry_at: dict[tuple[int, int], Entry] = {}
        self.retries: dict[int, tuple[int, int]] = {}
        self.dead: set[int] = set()
        self.gone: dict[int, dict[int, tuple[str, datetime] | None]] = {}
        self.finished: dict[int, int] = {}
        self.named: dict[int, datetime] = {}
        self.all_groups: dict[int, tuple[int, str]] = {}
        super().__init__(folder)
        self.known = set(self.groups)
        for path in numbered(folder / "checkpoints", "checkpoint").values():
            self.known |= {group["number"] for group in read_checkpoint(path.read_bytes())["body"]["groups"]}

    @property
    def _now(self) -> datetime:
        return moment(self._batch.batch.header["trusted_ms"])

    def _message(self, record: Record) -> None:
        fields = record.fields
        self.messages[record.sequence] = Published(
            fields["subject"], fields["message_id"] or None, self._now, fields["due_ms"], record.sequence
        )
        super()._message(record)

    def _place(self, entry: Entry, *, at_once: bool = False) -> None:
        super()._place(entry, at_once=at_once)
        if entry.sequence in self.pending and entry.sequence not in self.retries:
            self.messages[entry.message].outcome = "pending"

    def _make_ready(self, entry: Entry, fact: int) -> None:
        super()._make_ready(entry, fact)
        number = self._numbers[entry.subject] - 1
        self.entry_at[entry.subject, number] = entry
        if entry.sequence not in self.retries and entry.sequence not in self.dead:
            message = self.messages[entry.message]
            message.outcome, message.ready, message.number = "ready", self._now, number
        if entry.sequence < self._ended_before.get(entry.subject, 0):
            self.gone.setdefault(entry.subject, {})[number] = None
            for queue in self._queues_of(entry.subject):
                queue.done.add(number)
            self._settle(entry.subject)

    def _end(self, sequence: int | None) -> Entry | None:
        entry = super()._end(sequence)
        if entry is not None and entry.sequence not in self.retries:
            self.messages[entry.message].outcome = "cancelled"
        elif entry is not None:
            self.given[self.retries[entry.sequence]].outcome = "cancelled"
        return entry

    def _cancel(self, record: Record) -> None:
        self._name(record.fields["target_sequence"])
        super()._cancel(record)

    def _by_key(self, record: Record) -> None:
        if record.fields["what"] == "cancel":
            self._name(record.fields["target_sequence"])
        super()._by_key(record)

    def _name(self, entry: int) -> None:
        self.named.setdefault(entry, self._now)
        if entry in self.retries and entry in self.pending:
            self.given[self.retries[entry]].ended = self._now

    def _moved(self, record: Record, target: int) -> None:
        entry = self.pending.get(target)
        owner = self.retries.get(target)
        if entry is not None and owner is not None:
            self.retries[record.sequence] = owner
        super()._moved(record, target)
        if entry is None or target in self.pending:
            return
        if owner is None:
            message = self.messages[entry.message]
            message.entry, message.due_ms = record.sequence, record.fields["due_ms"]
            message.outcome = "pending" if record.sequence in self.pending else "ready"
        else:
            self.given[owner].outcome, self.given[owner].retry = "retrying", (record.sequence, entry.subject)

    def _ready(self, record: Record) -> None:
        for _, sequence, _ in record.fields["entries"]:
            entry = super()._end(sequence)
            if entry is not None:
                self._make_ready(entry, record.sequence)

    # What groups do.

    def _queues_of(self, subject: int) -> list[Queue]:
        return [self.queues[number] for number, (of, _) in self.groups.items() if of == subject]

    def _settle(self, subject: int) -> None:
        gone = self.gone.setdefault(subject, {})
        queues = self._queues_of(subject)
        if queues:
            floor = min(queue.below() for queue in queues)
        else:
            floor = _first_without(gone, self.finished.get(subject, 0))
        self.finished[subject] = max(self.finished.get(subject, 0), min(floor, self._numbers.get(subject, 0)))

    def _ensure(self, subject: int, name: str) -> None:
        self._begin(subject, name, self.finished.get(subject, 0))

    def _begin(self, subject: int, name: str, start: int) -> None:
        there = set(self.groups)
        super()._ensure(subject, name)
        for number in set(self.groups) - there:
            self.queues[number] = Queue(start, {one for one in self.gone.get(subject, {}) if one >= start})
            self.all_groups[number] = (subject, name)
            # A group that reads again makes what is not gone unfinished.
            self.finished[subject] = min(self.finished.get(subject, 0), start)

    def _start(self, subject: int, fields: Row) -> int:
        """Where a group begins: at the first unfinished message, behind the last ready one, or at a number."""
        end = self._numbers.get(subject, 0)
        match fields["start"]:
            case "unfinished":
                return self.finished.get(subject, 0)
            case "latest":
                return end
            case _:
                number: int = fields["start_number"]
                return min(max(number, _first_without(self.gone.get(subject, {}), 0)), end)

    def _group(self, record: Record) -> None:
        subject = record.fields["subject"]
        self._begin(subject, record.fields["name"], self._start(subject, record.fields))
        self._settle(subject)

    def _attach(self, record: Record) -> None:
        subject = record.fields["subject"]
        self._begin(subject, record.fields["group"], self._start(subject, record.fields))
        super()._attach(record)
        self._settle(subject)

    def _group_reset(self, record: Record) -> None:
        number = record.fields["group"]
        if number not in self.groups:
            return
        subject, name = self.groups[number]
        start = self._start(subject, record.fields)
        self.groups.pop(number)
        self.group_ended[number] = self._now
        self._begin(subject, name, start)
        self._settle(subject)

    def _group_end(self, record: Record) -> None:
        if record.fields["group"] not in self.groups:
            return
        before = dict(self.groups)
        ended = dict(self._ended_before)
        super()._group_end(record)
        for number in before.keys() - self.groups.keys():
            self.group_ended[number] = self._now
        for subject, sequence in self._ended_before.items():
            if ended.get(subject) != sequence:
                gone = self.gone.setdefault(subject, {})
                for number in range(self._numbers.get(subject, 0)):
                    gone.setdefault(number, None)
                self._settle(subject)
                self._remove_retries(subject)
        self._settle(before[record.fields["group"]][0])

    def _remove_retries(self, subject: int) -> None:
        for one in self.given.values():
            if one.retry is not None and one.retry[1] == subject and one.outcome in UNFINISHED:
                one.outcome, one.ended = "removed", self._now

    def _given_to(self, group: int, number: int) -> Given | None:
        subject, name = self.groups[group]
        entry = self.entry_at.get((subject, number))
        if entry is None:
            return None
        if entry.sequence in self.retries:
            key = self.retries[entry.sequence]
            return self.given[key] if self.all_groups[key[1]][1] == name else None
        if entry.sequence in self.dead:
            return None
        return self.given.setdefault((entry.message, group), Given())

    def _assign(self, record: Record) -> None:
        fields = record.fields
        if fields["group"] not in self.groups:
            return
        queue, offset = self.queues[fields["group"]], fields["first_offset"]
        for first, count in fields["ranges"]:
            for number in range(first, first + count):
                if number >= queue.start and number not in queue.done and not queue.has(number):
                    queue.held[fields["consumer"], offset] = number
                    given = self._given_to(fields["group"], number)
                    if given is not None:
                        given.delivered = given.delivered or self._now
                        given.attempts += 1
                        given.outcome = "in_flight"
                offset += 1

    def _finish(self, group: int, number: int, outcome: str) -> Given | None:
        self.queues[group].done.add(number)
        given = self._given_to(group, number)
        if given is not None:
            given.outcome, given.ended = outcome, self._now
        return given

    def _pass_over(self, record: Record) -> None:
        fields = record.fields
        if fields["group"] not in self.groups:
            return
        queue, subject = self.queues[fields["group"]], self.groups[fields["group"]][0]
        for first, count in fields["ranges"]:
            for number in range(first, min(first + count, self._numbers.get(subject, 0))):
                if number >= queue.start and number not in queue.done and not queue.has(number):
                    self._finish(fields["group"], number, "filtered")
        self._settle(subject)

    def _acknowledge(self, record: Record) -> None:
        fields = record.fields
        if fields["group"] not in self.groups:
            return
        for first, count in fields["ranges"]:
            for offset in range(first, first + count):
                number = self.queues[fields["group"]].held.pop((fields["consumer"], offset), None)
                if number is None:
                    continue
                given = self._finish(fields["group"], number, "filtered" if fields["filtered"] else "acknowledged")
                if given is not None and fields["filtered"]:
                    given.was_kept_back()
        self._settle(self.groups[fields["group"]][0])

    def _retry(self, record: Record) -> None:
        fields = record.fields
        group, under = fields["group"], (fields["consumer"], fields["offset"])
        if group not in self.groups or self.queues[group].held.get(under) != fields["number"]:
            return
        del self.queues[group].held[under]
        subject = self.groups[group][0]
        entry = self.entry_at[subject, fields["number"]]
        is_dead = fields["destination"] != "again"
        outcomes = {"again": "retrying", "dead_letter": "dead_letter", "expired": "expired_dead_letter"}
        given = self._finish(group, fields["number"], outcomes[fields["destination"]])
        if given is not None:
            if fields["destination"] == "expired" and not fields["received"]:
                given.was_kept_back()
            owner = self.retries.get(entry.sequence, (entry.message, group))
            if is_dead:
                self.dead.add(record.sequence)
            else:
                self.retries[record.sequence] = owner
                given.ended, given.retry = None, (record.sequence, fields["target"])
        super()._retry(record)
        self._settle(subject)

    def _redrive(self, record: Record) -> None:
        fields = record.fields
        if fields["group"] not in self.groups:
            return
        subject, name = self.groups[fields["group"]]
        queue = self.queues[fields["group"]]
        if fields["number"] in queue.done or fields["number"] >= self._numbers.get(subject, 0):
            return
        queue.done.add(fields["number"])
        message = fields["payload_sequence"]
        owners = [key for key, one in self.given.items() if key[0] == message and one.outcome in DEAD]
        for owner in owners:
            if self.all_groups[owner[1]][1] == name:
                self.retries[record.sequence] = owner
                given = self.given[owner]
                given.outcome, given.ended, given.retry = "retrying", None, (record.sequence, fields["target"])
        super()._redrive(record)
        self._settle(subject)

    def _expire(self, record: Record) -> None:
        subject = record.fields["subject"]
        gone = self.gone.setdefault(subject, {})
        own = record.fields["group"]
        for first, count in record.fields["ranges"]:
            for number in range(first, min(first + count, self._numbers.get(subject, 0))):
                is_finished = number < self.finished.get(subject, 0)
                for group, (of, _) in () if is_finished else list(self.groups.items()):
                    queue = self.queues[group]
                    if of != subject or number in queue.done or (queue.has(number) and group != own):
                        continue
                    queue.held = {place: held for place, held in queue.held.items() if held != number}
                    queue.done.add(number)
                    entry = self.entry_at[subject, number]
                    key = self.retries.get(entry.sequence, (entry.message, group))
                    if key in self.given:
                        self.given[key].outcome, self.given[key].ended = "expired", self._now
                        if group == own and not record.fields["received"]:
                            self.given[key].was_kept_back()
                if gone.get(number) is None:
                    gone[number] = ("expired", self._now)
        self._settle(subject)

    def _consumer_end(self, record: Record) -> None:
        super()._consumer_end(record)
        fields = record.fields
        queue = self.queues.get(fields["group"], Queue(0))
        for consumer, offset in list(queue.held):
            if consumer == fields["consumer"]:
                number = queue.held.pop((consumer, offset))
                given = self._given_to(fields["group"], number) if fields["group"] in self.groups else None
                if given is not None:
                    given.outcome = "ready" if given.retry is None else "retrying"

    # The rows.

    def rows(self) -> list[Row]:
        """The table `deliveries`."""
        given: dict[int, set[int]] = {}
        for message, group in self.given:
            given.setdefault(message, set()).add(group)
        return [
            row
            for sequence in sorted(self.messages)
            for row in self._rows_of(sequence, given.get(sequence, set()) & self.known)
        ]

    def _rows_of(self, sequence: int, groups: set[int]) -> list[Row]:
        message = self.messages[sequence]
        subject, number = message.subject, message.number
        row: Row = {
            "sequence": sequence,
            "subject": self.names[subject],
            "group": None,
            "number": number,
            "message_id": message.message_id,
            "published": message.published,
            "due": moment(message.due_ms),
            "ready": message.ready,
            "delivered": None,
            "acknowledged": None,
            "attempts": None,
            "outcome": message.outcome,
            "lateness_ms": None,
            "ended": self.named.get(message.entry) if message.outcome == "cancelled" else None,
            "entry_sequence": message.entry,
            "group_number": None,
        }
        if number is None:
            return [row]
        groups |= {one for one, (of, _) in self.groups.items() if of == subject and self.queues[one].start <= number}
        gone = self.gone.get(subject, {})
        outcome, ended = gone.get(number) or (None, None)
        if not groups:
            is_finished = number in gone or number < self.finished.get(subject, 0)
            return [row | {"outcome": outcome or ("skipped" if is_finished else "ready"), "ended": ended}]
        return [row | self._told(sequence, group, number) for group in sorted(groups)]

    def _told(self, message: int, group: int, number: int) -> dict[str, Any]:
        subject, name = self.all_groups[group]
        told: dict[str, Any] = {"group": name, "group_number": group, "attempts": 0}
        given = self.given.get((message, group))
        if given is None:
            outcome, ended = self.gone.get(subject, {}).get(number) or ("finished", None)
            is_done = number in self.queues[group].done
            return told | ({"outcome": outcome, "ended": ended} if is_done else {"outcome": "ready", "ended": None})
        outcome, ended = given.outcome, given.ended
        if group in self.group_ended and outcome in {"ready", "in_flight"} and given.retry is None:
            outcome, ended = "removed", self.group_ended[group]
        due = moment(self.messages[message].due_ms)
        late = None if given.delivered is None else round((given.delivered - due).total_seconds() * 1000)
        return told | {
            "delivered": given.delivered,
            "acknowledged": ended if outcome == "acknowledged" else None,
            "attempts": given.attempts,
            "outcome": outcome,
            "ended": ended,
            "lateness_ms": late,
        }
