"""Verbs for operators: groups, subjects, consumers, dead letters, expiry, status and the clock."""

from __future__ import annotations

from typing import Any

from delaymq._arguments.argument_errors import checked_int
from delaymq._verbs.calls import LIMITED, LISTED, READS, Call, unchanged
from delaymq.administration import Consumer, DeadLetter, Group, Subject
from delaymq.durations import Duration, delay_ms, moment
from delaymq.starts import Start, start_of
from delaymq.status import ClockStatus, Status

NUMBER_MAX = 2**63 - 1


def groups() -> Call[list[Group]]:
    """`groups`; a server lists them by age."""

    def by_subject(rows: list[dict[str, Any]]) -> list[Group]:
        return sorted((Group(**fields) for fields in rows), key=lambda group: (group.subject, group.name))

    return Call("groups", (), by_subject, LISTED)


def subjects() -> Call[list[Subject]]:
    """`subjects`."""
    return Call("subjects", (), lambda rows: [_subject_of(fields) for fields in rows], LISTED)


def start_group(subject: str, group: str, start: Start) -> Call[None]:
    """`start_group`."""
    return Call("start_group", (subject, group, start_of(start)), unchanged)


def reset_group(subject: str, group: str, start: Start) -> Call[None]:
    """`reset_group`."""
    return Call("reset_group", (subject, group, start_of(start)), unchanged)


def remove_group(subject: str, group: str) -> Call[None]:
    """`remove_group`."""
    return Call("remove_group", (subject, group), unchanged)


def consumers(subject: str, group: str) -> Call[list[Consumer]]:
    """`consumers`."""
    return Call("consumers", (subject, group), lambda rows: [Consumer(**fields) for fields in rows], LISTED)


def end_consumer(subject: str, group: str, consumer: str) -> Call[int]:
    """`end_consumer`."""
    return Call("end_consumer", (subject, group, consumer), unchanged)


def dead_letters(subject: str, group: str, limit: int) -> Call[list[DeadLetter]]:
    """`dead_letters`."""
    most = _checked_limit(limit)
    return Call(
        "dead_letters", (subject, group, most), lambda rows: [_dead_letter_of(fields) for fields in rows], LIMITED
    )


def redrive(subject: str, group: str, limit: int | None) -> Call[int]:
    """`redrive`."""
    return Call("redrive", (subject, group, None if limit is None else _checked_limit(limit)), unchanged)


def expire(subject: str, older_than: Duration) -> Call[int]:
    """`expire`."""
    return Call("expire", (subject, delay_ms(older_than, "older_than")), unchanged)


def status() -> Call[Status]:
    """`status`."""
    return Call("status", (), lambda fields: Status(**fields), READS)


def clock() -> Call[ClockStatus]:
    """`clock`."""
    return Call("clock", (), lambda fields: ClockStatus(**fields), READS)


def accept_clock(ahead_ms: int) -> Call[int]:
    """`accept_clock`."""
    return Call("accept_clock", (checked_int("ahead_ms", ahead_ms, 0, NUMBER_MAX),), unchanged)


def _subject_of(fields: dict[str, Any]) -> Subject:
    before = fields.pop("expired_before_ms")
    return Subject(**fields, expiry=None if before is None else moment(before))


def _dead_letter_of(fields: dict[str, Any]) -> DeadLetter:
    died, published = fields.pop("died_ms"), fields.pop("published_ms")
    return DeadLetter(**fields, died=moment(died), published=None if published is None else moment(published))


def _checked_limit(limit: int) -> int:
    return min(checked_int("limit", limit, 1, None, kind="int", expected="at least 1"), NUMBER_MAX)
