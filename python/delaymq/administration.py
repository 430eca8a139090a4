"""Administration of a store: groups, subjects, consumers, dead letters, expiry and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delaymq import _core
from delaymq._arguments.argument_errors import checked_int
from delaymq._store.parts import StorePart
from delaymq.durations import Duration, delay_ms, moment
from delaymq.starts import Start, start_of
from delaymq.status import ClockStatus

__all__ = ["Administration", "Consumer", "DeadLetter", "Group", "Subject"]

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


class Administration(StorePart):
    """The methods of `Store` for operators."""

    def groups(self) -> list[Group]:
        """Lists all groups, by subject.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [Group(**fields) for fields in _core.groups(self._core)]

    def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [subject_of(fields) for fields in _core.subjects(self._core)]

    def start_group(self, subject: str, group: str, start: Start = "unfinished") -> None:
        """Creates a group without a consumer. Returns when that is durable.

        Args:
            subject: The subject to consume. It need not exist yet.
            group: The name of the group.
            start: Where the group begins: `"unfinished"` at the first message that some group has not finished,
                `"earliest"` at the earliest message that is kept, even if all groups have finished it, `"latest"`
                at the next one, or at a time or a message as `subscribe` says.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A name or `start` is refused, or the group exists already.
            DiskFull: There is no room for a new name.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        _core.start_group(self._core, subject, group, start_of(start))

    def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Resets a group to an earlier or later position. Returns when that is durable.

        With `"earliest"` the group reads again all messages that are still kept, even if every group has finished
        them. Messages that it may have received before are marked as redelivered, and their attempts begin at 1. With
        `"unfinished"` it begins at the first message that some group has not finished. With `"latest"` messages that
        are ready now are skipped. A time or a message is as for `subscribe`. Its retries and dead letters are not
        affected. Other groups receive nothing again.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: `start` is refused, there is no such group, or it has consumers.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        _core.reset_group(self._core, subject, group, start_of(start))

    def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, with its retries and dead letters.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or it has consumers.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        _core.remove_group(self._core, subject, group)

    def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group and of its retry subject, the oldest first.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [Consumer(**fields) for fields in _core.consumers(self._core, subject, group)]

    def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named and that does not come back.

        Each message that it holds, of the subject and of the group's retry subject, is due again 5 seconds later on the
        retry subject, or becomes a dead letter if it was delivered 32 times, as when a lease ends in a server. If a
        client uses the name again, it is a new consumer; acknowledgements of the ended consumer have no effect.

        Args:
            subject: The subject.
            group: The group.
            consumer: The name of the consumer, as `consumers` lists it.

        Returns:
            The number of messages that it held, once that is durable.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: The group has no such consumer, or a subscription made it.
            StorageError: The operating system refused to read; the store works on.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.end_consumer(self._core, subject, group, consumer)

    def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """Lists the dead letters of a group, the oldest first. It changes nothing.

        The reasons are read from the log, one file after the other, so this is meant for people and not for loops.

        Args:
            subject: The subject.
            group: The group.
            limit: The maximum number, 100 by default.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or `limit` is below 1.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        rows = _core.dead_letters(self._core, subject, group, checked_limit(limit))
        return [dead_letter_of(fields) for fields in rows]

    def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Delivers dead letters to their group again, the oldest first, as if for the first time.

        Args:
            subject: The subject.
            group: The group.
            limit: The maximum number; None for all.

        Returns:
            How many, once that is durable. A second call, or one after an error, does not redrive a dead letter twice.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or `limit` is below 1.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.redrive(self._core, subject, group, None if limit is None else checked_limit(limit))

    def expire(self, subject: str, older_than: Duration) -> int:
        """Expires ready messages that no consumer took for too long: for all groups, and for good.

        Messages that a consumer holds, or that are not due yet, never expire.

        Args:
            subject: The subject. Its groups' retries and dead letters are not affected.
            older_than: How long ago the messages were due, at least; a timedelta or seconds.

        Returns:
            How many, once that is durable. They are reported, and counted in `status()`.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such subject, or `older_than` is refused.
            StorageError: The operating system refused to read; no message has expired.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.expire(self._core, subject, delay_ms(older_than, "older_than"))

    def clock(self) -> ClockStatus:
        """Reads the clock of the store, and reports whether dispatch is held, why, since when, and what ends the hold.

        Raises:
            ForkedProcess: As `publish`.
        """
        return ClockStatus(**_core.clock(self._core))

    def accept_clock(self, ahead_ms: int) -> int:
        """Accepts the step ahead of the wall clock that holds dispatch. Messages due within the step are delivered.

        Call it only if the wall clock is right now: a wrong clock makes messages early. A later step holds dispatch
        again. The store remembers the step until the machine is rebooted, also when it is closed and opened again. The
        step is reported (`clock_accepted`) and counted.

        Args:
            ahead_ms: The step that you saw: `ahead_ms` of `clock()`. A step that differs by a second or more, since
                the wall clock was stepped again, is not accepted.

        Returns:
            By how many milliseconds the trusted clock went ahead.

        Raises:
            WrongType: `ahead_ms` is not an int.
            InvalidArgument: Dispatch is not held, another step holds it, or the wall clock is behind a time that is in
                the log: no time in the log can be taken back.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.accept_clock(self._core, checked_ahead(ahead_ms))


def subject_of(fields: dict[str, Any]) -> Subject:
    """A `Subject` from a row of the core."""
    before = fields.pop("expired_before_ms")
    return Subject(**fields, expiry=None if before is None else moment(before))


def dead_letter_of(fields: dict[str, Any]) -> DeadLetter:
    """A `DeadLetter` from a row of the core."""
    died, published = fields.pop("died_ms"), fields.pop("published_ms")
    return DeadLetter(**fields, died=moment(died), published=None if published is None else moment(published))


def checked_ahead(ahead_ms: int) -> int:
    """Checks the size of a step of the wall clock.

    Raises:
        WrongType: It is not an int.
        InvalidArgument: It is below 0, or too large.
    """
    return checked_int("ahead_ms", ahead_ms, 0, 2**63 - 1)


def checked_limit(limit: int) -> int:
    """Checks the maximum number of dead letters.

    Raises:
        WrongType: It is not an int.
        InvalidArgument: It is below 1.
    """
    return min(checked_int("limit", limit, 1, None, kind="int", expected="at least 1"), 2**63 - 1)
