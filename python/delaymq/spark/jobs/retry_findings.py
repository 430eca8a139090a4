"""Findings about retries: whether schedules have them once and at the right time, and how long they wait."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from delaymq.spark.jobs.discrepancies import Look, Rows, differing, prints
from delaymq.spark.jobs.retry_tally import OF_RETRIES, base_of

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int, str, str]
"""A message, its subject and a group."""

STUCK = {
    "in_flight": "delivered and neither acknowledged nor given back",
    "ready": "ready and not taken",
    "retrying": "given back, ready again and not taken",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of the audit, and the limit for stuck messages."""

    as_of_ms: int
    stuck_ms: int

    @property
    def stuck_before_us(self) -> int:
        """Messages that wait since before this time are stuck."""
        return (self.as_of_ms - self.stuck_ms) * 1_000


@dataclass(slots=True)
class Waiting:
    """A message that a group had, and the numbers under which it was assigned.

    Attributes:
        row: The row to report.
        outcome: `in_flight`, `ready` or `retrying`.
        ready_us: Since when it is ready; 0 if it is in flight.
        entry: The entry that it waits in, for a retry.
        numbers: Subjects, numbers of groups if they are known, and ready numbers.
    """

    row: Row
    outcome: str
    ready_us: int
    entry: int | None = None
    numbers: list[tuple[str, int | None, int]] = field(default_factory=list)


def of_given_back(tallied: Rows, look: Look, moment: Moment) -> list[Row]:
    """The findings about retries and repeated deliveries, from the tallies of all tasks."""
    found = [*_schedules(tallied, look)]
    held = [_held(row) for row in tallied if row["kind"] == "held" and None not in (row["subject"], row["group"])]
    waits, scheduled = _unlike(tallied, look)
    keys = {key[0] for key in waits.keys() | scheduled.keys()} | {one.row["sequence"] for one in held}
    if not keys:
        return found
    came = look({"came again": sorted(keys)}, ("ready", "action"))
    facts = Facts(came)
    is_damaged = any(row["kind"] == "corrupt" for row in tallied)
    for key in sorted(waits.keys() | scheduled.keys()):
        hidden_us = moment.as_of_ms * 1_000 if is_damaged else 0
        wrong, waiting = _judged(key, (waits[key], scheduled[key]), facts, hidden_us)
        found += wrong
        held += waiting
    for one in held:
        if one.outcome == "in_flight":
            of = _key(one.row)
            again = (row["value"] for row in facts.ready[of])
            one.numbers += [(_retries_of(of), None, number) for number in again if number is not None]
    return [*found, *_stuck(held, look, moment)]


def _retries_of(key: Key) -> str:
    return f"{OF_RETRIES}{key[1]}%{key[2]}"


def _key(row: Row) -> Key:
    return row["sequence"], base_of(row["subject"], row["group"]), row["group"]


def _finding(kind: str, row: Row, words: str, sequence: int | None = None) -> Row:
    same = {"sequence": row["sequence"] if sequence is None else sequence, "subject": row["subject"]}
    return {**same, "group": row["group"], "kind": kind, "words": words}


def _schedules(tallied: Rows, look: Look) -> Iterable[Row]:
    """Entries of retries: each is due at the time that the fact says which made it."""
    entries = [row["words"] for row in tallied if row["kind"] == "entries"]
    if not entries:
        return
    promised = look({"promised": entries}, ("action",))
    blocks = differing(prints(tallied, "due again"), prints(promised, "promised"))
    if not blocks:
        return
    rows = look({"due again": blocks, "promised due": blocks}, ("pending", "action"))
    due = {row["sequence"]: row["value"] for row in rows if row["kind"] == "promised due"}
    seen: set[int] = set()
    for row in rows:
        entry = row["sequence"]
        # If an entry is there twice, one of them is due in time; the comparison of messages finds the other. If the
        # fact is retired, the due time is unknown.
        if row["kind"] != "due again" or entry in seen or entry not in due:
            continue
        seen.add(entry)
        if row["value"] < due[entry]:
            yield _finding("early", row, "given back, and in the schedule before it is due again", row["count"])
        elif row["value"] > due[entry]:
            yield _finding("stuck", row, "given back, and in the schedule after it is due again", row["count"])


def _unlike(tallied: Rows, look: Look) -> tuple[defaultdict[Key, list[Row]], defaultdict[Key, list[Row]]]:
    """Messages that are retrying, and their entries in schedules, if these do not correspond one to one."""
    waits, scheduled = defaultdict[Key, list[Row]](list), defaultdict[Key, list[Row]](list)
    blocks = differing(prints(tallied, "told again"), prints(tallied, "scheduled again"))
    if blocks:
        for row in look({"told again": blocks, "scheduled again": blocks}, ("deliveries", "pending")):
            if row["subject"] is not None and row["group"] is not None:
                (waits if row["kind"] == "told again" else scheduled)[_key(row)].append(row)
    for key in waits.keys() & scheduled.keys():
        if len(waits[key]) == len(scheduled[key]):
            del waits[key], scheduled[key]
    return waits, scheduled


class Facts:
    """The facts about the messages that are compared."""

    def __init__(self, rows: Rows) -> None:
        self.ready = defaultdict[Key, list[Row]](list)
        self.gave = defaultdict[Key, list[Row]](list)
        self.ended = [row for row in rows if row["kind"] == "ended"]
        for row in rows:
            if row["kind"] in ("ready again", "gave again") and row["subject"] is not None:
                (self.ready if row["kind"] == "ready again" else self.gave)[_key(row)].append(row)

    def newest(self, key: Key) -> tuple[int, int] | None:
        """The newest entry that a retry made, and its due time in microseconds."""
        ends = {row["count"]: row["sequence"] for row in self.ended if row["count"] is not None}
        taken = set[tuple[int, int]]()
        found: tuple[int, int] | None = None
        for row in sorted(self.gave[key], key=lambda row: row["value"]):
            _, consumer, offset, due_us = json.loads(row["words"])
            # A retry has no effect if its consumer has ended, or has given back the same message before.
            is_late = ends.get(consumer, row["value"]) < row["value"] or (consumer, offset) in taken
            if consumer is None or not is_late:
                found = row["value"], due_us
            if consumer is not None:
                taken.add((consumer, offset))
        return found

    def is_of_others(self, key: Key) -> bool:
        """True if another group consumes the retry subject, whose retries are not reported for this group."""
        own = (key[1], _retries_of(key))
        return any(json.loads(row["words"])[0] not in own for row in self.gave[key])


def _judged(
    key: Key, rows: tuple[list[Row], list[Row]], facts: Facts, hidden_us: int
) -> tuple[list[Row], list[Waiting]]:
    """The findings about the retries of one message, and those that are not in a schedule.

    If damage hides facts, a retry may have become ready if it is due at `hidden_us`.
    """
    waits, scheduled = rows
    entries = Counter(row["value"] for row in scheduled)
    twice = len(scheduled) - len(entries)
    again = [row for row in scheduled if entries[row["value"]] > 1]
    found = [_finding("doubled", row, "given back, and twice in the schedule") for row in again[:twice]]
    if len(entries) > len(waits) and not facts.is_of_others(key):
        words = "given back, and in the schedule more often than it waits again"
        found += [_finding("doubled", scheduled[0], words)] * (len(entries) - len(waits))
    missing = waits[len(entries) :]
    if not missing:
        return found, []
    newest = facts.newest(key)
    came = [(*json.loads(row["words"]), row) for row in facts.ready[key]]
    came = [again for again in came if newest is None or again[0] >= newest[0]]
    if came:
        entry, ready_us, row = max(came, key=lambda again: (again[0], again[1] or 0))
        waiting = [Waiting(one, "retrying", ready_us or 0, entry) for one in missing]
        for one in waiting:
            # The number is unknown if damage hides it.
            one.numbers += [] if row["value"] is None else [(_retries_of(key), None, row["value"])]
        return found, waiting
    if not hidden_us or (newest is not None and newest[1] > hidden_us):
        found += [_finding("lost", row, "given back, and in no schedule") for row in missing]
    return found, []


def _held(row: Row) -> Waiting:
    outcome, group_number, ready_us = json.loads(row["words"])
    waiting = Waiting(row, outcome, ready_us or 0 if outcome == "ready" else 0)
    waiting.numbers.append((row["subject"], group_number, row["value"]))
    return waiting


def _stuck(held: Sequence[Waiting], look: Look, moment: Moment) -> Iterable[Row]:
    """Messages that have waited for too long since the last delivery, or since they became ready again."""
    wanted_numbers = defaultdict[tuple[str, str], set[int]](set)
    for one in held:
        for subject, _, number in one.numbers:
            wanted_numbers[subject, one.row["group"]].add(number)
    if not wanted_numbers:
        return
    rows = look({"given": [(*of, sorted(numbers)) for of, numbers in wanted_numbers.items()]}, ("action",))
    given = defaultdict[tuple[str, str, int], list[tuple[int, Any, Any, Any]]](list)
    for row in rows:
        if row["kind"] == "given":
            given[row["subject"], row["group"], row["value"]].append((row["sequence"], *json.loads(row["words"])))
    ends = Ends(row for row in rows if row["kind"] == "ended")
    for one in held:
        if _is_stuck(one, given, ends, moment.stuck_before_us):
            yield _finding("stuck", one.row, STUCK[one.outcome])


class Ends:
    """When consumers ended, and the facts by which groups ended."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.consumers: dict[int | None, int | None] = {}
        self.groups: dict[tuple[str, str], int] = {}
        for row in rows:
            if row["count"] is not None:
                self.consumers[row["count"]] = row["value"]
            elif row["subject"] is not None and row["group"] is not None:
                of = row["subject"], row["group"]
                self.groups[of] = max(self.groups.get(of, 0), row["sequence"])


def _is_stuck(
    one: Waiting, given: dict[tuple[str, str, int], list[tuple[int, Any, Any, Any]]], ends: Ends, before_us: int
) -> bool:
    subject, group = one.row["subject"], one.row["group"]
    took = [
        fact
        for of, group_number, number in one.numbers
        for fact in given.get((of, group, number), ())
        if group_number in (None, fact[1])
    ]
    _, _, consumer, given_us = max(took, default=(0, None, None, None), key=lambda fact: fact[0])
    if one.outcome == "in_flight":
        return given_us is not None and given_us < before_us
    if not took and one.outcome == "ready":
        return False
    if one.entry is not None:
        # A removed group waits for no message.
        base = base_of(subject, group)
        if any(ends.groups.get((of, group), 0) > one.entry for of in (base, f"{OF_RETRIES}{base}%{group}")):
            return False
    came_back_us = ends.consumers.get(consumer, given_us) if took else 0
    return came_back_us is not None and max(one.ready_us, came_back_us) < before_us
