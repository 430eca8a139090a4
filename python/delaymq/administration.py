"""Administration of a store: groups, subjects, consumers, dead letters, expiry and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Consumer", "DeadLetter", "Group", "Subject"]

DEAD_LETTERS = 100  # default limit of a list of dead letters


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group of a subject.

    Attributes:
        name: Its name.
        subject: The subject that it consumes.
        start: The number of the ready message that it began with; ready messages of a subject are numbered from 0.
        cursor: The next number that was never assigned to one of its consumers.
        next_number: The number that the subject's next ready message gets.
        lag: Ready messages that the group has not finished, those in flight included.
        in_flight: Messages that its consumers hold.
        consumers: The number of its consumers.
        dead_letters: The number of its dead letters.
    """

    name: str
    subject: str
    start: int
    cursor: int
    next_number: int
    lag: int
    in_flight: int
    consumers: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a group.

    Attributes:
        name: Its name, unique within the group.
        subject: The subject that it consumes, or the retry subject of the group.
        in_flight: Messages that it holds.
        is_lasting: True if a client of QMQ named it: the consumer then outlives its connection and a restart of the
            store, and ends when it is silent for the server's lease, or by `end_consumer`.
        is_broadcast: True if it receives every message of the subject. The group is then its own, has its name, and
            ends with it.
    """

    name: str
    subject: str
    in_flight: int
    is_lasting: bool
    is_broadcast: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject.

    Attributes:
        name: Its name.
        ready: Ready messages that some group has not finished; without a group, those that are kept.
        next_number: The number that its next ready message gets, from 0.
        groups: The names of its groups.
        expired: The number of its messages that have expired, also as retries of a group.
        expiry: The latest due time before which messages have expired, or None.
    """

    name: str
    ready: int
    next_number: int
    groups: tuple[str, ...]
    expired: int
    expiry: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a consumer made a dead letter.

    Attributes:
        number: Its number among the dead letters of its group, from 0.
        sequence: The message's place in the store's order of facts.
        body: The bytes that were published.
        reason: Why it became a dead letter.
        attempt: How often it had been delivered; 0 if it expired before any consumer received it.
        died: When it became a dead letter, UTC.
        published: When the store received it, UTC; None if that is unreadable.
        damage: Description of the fields that are unreadable, or None; such a field is empty.
    """

    number: int
    sequence: int
    body: bytes
    reason: str
    attempt: int
    died: datetime
    published: datetime | None
    damage: str | None
