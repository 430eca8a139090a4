"""What an operator does with a store: groups, subjects, dead letters, expiry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from delaymq import _core
from delaymq._arguments.argument_errors import shown
from delaymq.durations import Duration, delay_ms, moment
from delaymq.errors import InvalidArgument, WrongType

__all__ = ["Administration", "Consumer", "DeadLetter", "Group", "Subject"]

if TYPE_CHECKING:
    Start = Literal["earliest", "latest"]

DEAD_LETTERS = 100  # dead letters that one call lists, unless it says otherwise


@dataclass(frozen=True, slots=True)
class Group:
    """A group of a subject.

    Attributes:
        name: Its name.
        subject: The subject that it consumes.
        start: The place in the subject's ready messages that it began with, from 0.
        cursor: The next place that it was never given.
        next_number: The place that the subject's next ready message gets.
        lag: Ready messages that it has not finished, those in flight included.
        in_flight: Messages that its consumers hold.
        consumers: How many consume for it.
        dead_letters: Its dead letters.
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
        name: Its name, unique among the group's.
        subject: What it consumes: the subject, or the retry subject of the group.
        in_flight: Messages that it holds.
        is_lasting: A client of QMQ named it: it outlives its connection and an open of the store, and ends
            when it is silent for a lease of the server, or by `end_consumer`.
    """

    name: str
    subject: str
    in_flight: int
    is_lasting: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject.

    Attributes:
        name: Its name.
        ready: Ready messages that some group has not finished; without a group, those that are kept.
        next_number: The place that its next ready message gets, from 0.
        groups: The names of its groups.
        expired: How many of its messages have expired.
        expiry: The latest time before which messages have expired, or None.
    """

    name: str
    ready: int
    next_number: int
    groups: tuple[str, ...]
    expired: int
    expiry: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a consumer put away.

    Attributes:
        number: Its place among the dead letters of its group, from 0.
        sequence: The message's place in the store's order of facts.
        body: The bytes that were published.
        reason: Why it was put away.
        attempt: How often it had been handed over.
        died: When it was put away, UTC.
        published: When the store received it, UTC; None where that cannot be read.
        damage: What cannot be read of it, or None; such a field is empty.
    """

    number: int
    sequence: int
    body: bytes
    reason: str
    attempt: int
    died: datetime
    published: datetime | None
    damage: str | None


class Administration:
    """The part of a store that is for operators; `Store` has these methods."""

    _core: _core.Store

    def groups(self) -> list[Group]:
        """All groups, by subject.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [Group(**fields) for fields in _core.groups(self._core)]

    def subjects(self) -> list[Subject]:
        """All subjects, in the order in which they came to be.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [subject_of(fields) for fields in _core.subjects(self._core)]

    def start_group(self, subject: str, group: str, start: Start = "earliest") -> None:
        """Makes a group without consuming for it. Returns when that is durable.

        Args:
            subject: What it consumes; it need not exist yet.
            group: Its name.
            start: Where it begins: at the earliest message kept, or at the next one.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A name or `start` is refused, or the group is there already.
            DiskFull: There is no room for a new name.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        _core.start_group(self._core, subject, group, start)

    def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Lets a group begin again. Returns when that is durable.

        With `"earliest"` it gets again what is still kept, marked as redelivered; with `"latest"` it
        passes over what is ready. What it gave back and its dead letters stay.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or somebody consumes for it.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        _core.reset_group(self._core, subject, group, start)

    def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for ever, with all that it gave back and its dead letters.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or somebody consumes for it.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        _core.remove_group(self._core, subject, group)

    def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Who consumes for a group, by age; those of its own retry subject, too.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [Consumer(**fields) for fields in _core.consumers(self._core, subject, group)]

    def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named and that does not come back, for ever.

        What it holds, of the subject and of the group's retry subject, goes to the retry subject and is due 5
        seconds later, or becomes a dead letter where it was delivered 32 times: as a server does when a lease is
        over. A client that comes back under the name is another consumer; what it acknowledges of before
        changes nothing.

        Args:
            subject: The subject.
            group: The group.
            consumer: Its name, as `consumers` tells it.

        Returns:
            How many messages it held, when that is durable.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: The group has no such consumer, or one that a subscription made.
            StorageError: The operating system refused to read; it goes on.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.end_consumer(self._core, subject, group, consumer)

    def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """The dead letters of a group, the oldest first. It changes nothing.

        Why they died is read from the log, a file at a time, so this is for people and not for loops.

        Args:
            subject: The subject.
            group: The group.
            limit: At most so many, 100 by default.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or `limit` is below 1.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        rows = _core.dead_letters(self._core, subject, group, checked_limit(limit))
        return [dead_letter_of(fields) for fields in rows]

    def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Brings dead letters back, the oldest first: the group gets them now, as at the first time.

        Args:
            subject: The subject.
            group: The group.
            limit: At most so many; None for all.

        Returns:
            How many, when that is durable. A second call, or one after an error, brings none back
            that was brought back before.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or `limit` is below 1.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.redrive(self._core, subject, group, None if limit is None else checked_limit(limit))

    def expire(self, subject: str, older_than: Duration) -> int:
        """Gives up ready messages that nobody took for too long: for all groups, and for ever.

        What a consumer holds stays with it, and what is not due yet is never touched.

        Args:
            subject: The subject; what groups gave back and dead letters are not of it.
            older_than: How long ago they were due, at least; a timedelta or seconds.

        Returns:
            How many, when that is durable. They are reported and counted in `status()`, too.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such subject, or `older_than` is refused.
            StorageError: The operating system refused to read; nothing has expired.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.expire(self._core, subject, delay_ms(older_than, "older_than"))


def over(core: _core.Store) -> Administration:
    """These methods alone, for who has the core of a store."""
    alone = Administration()
    alone._core = core  # noqa: SLF001 - a store made of this part only
    return alone


def subject_of(fields: dict[str, Any]) -> Subject:
    """A subject, from what crossed the boundary."""
    before = fields.pop("expired_before_ms")
    return Subject(**fields, expiry=None if before is None else moment(before))


def dead_letter_of(fields: dict[str, Any]) -> DeadLetter:
    """A dead letter, from what crossed the boundary."""
    died, published = fields.pop("died_ms"), fields.pop("published_ms")
    return DeadLetter(**fields, died=moment(died), published=None if published is None else moment(published))


def checked_limit(limit: int) -> int:
    """How many at most.

    Raises:
        WrongType: It is not an int.
        InvalidArgument: It is below 1.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        kind = type(limit).__name__
        raise WrongType(f"limit: expected int, found {kind}", argument="limit", expected="int", found=kind)
    if limit < 1:
        found = shown(limit)
        raise InvalidArgument(
            f"limit: expected at least 1, found {found}", argument="limit", expected="at least 1", found=found
        )
    return min(limit, 2**63 - 1)
