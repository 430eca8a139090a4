"""Verbs for operators: groups, subjects, consumers, dead letters, expiry, status and the clock."""

from __future__ import annotations

from typing import Any

from delaymq._arguments.argument_errors import checked_int
from delaymq._verbs.calls import LIMITED, LISTED, READS, AsyncPart, Call, Part, unchanged
from delaymq.administration import DEAD_LETTERS, Consumer, DeadLetter, Group, Subject
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


class Administration(Part):
    """The methods for operators."""

    def groups(self) -> list[Group]:
        """Lists all groups, by subject.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(groups())

    def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(subjects())

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
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        self._run(start_group(subject, group, start))

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
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        self._run(reset_group(subject, group, start))

    def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, with its retries and dead letters.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or it has consumers.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        self._run(remove_group(subject, group))

    def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group and of its retry subject, the oldest first.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(consumers(subject, group))

    def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named and that does not come back.

        Each message that it holds, of the subject and of the group's retry subject, is due again 5 seconds later on the
        retry subject, or becomes a dead letter if it was delivered 32 times, as when a lease ends in a server. If a
        client uses the name again, it is a new consumer; acknowledgements of the ended consumer have no effect. A
        server has both numbers in its configuration (`server.qmq_retry_seconds`, `server.qmq_attempts_max`).

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
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        return self._run(end_consumer(subject, group, consumer))

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
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(dead_letters(subject, group, limit))

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
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        return self._run(redrive(subject, group, limit))

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
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        return self._run(expire(subject, older_than))

    def status(self) -> Status:
        """The state of the store, as counts and flags; also after it is closed, but not after a client is.

        Raises:
            ForkedProcess: As `publish`.
            Unreachable, TimedOut, Closed: As `publish` of a client.
        """
        return self._run(status())

    def clock(self) -> ClockStatus:
        """Reads the clock of the store, and reports whether dispatch is held, why, since when, and what ends the hold.

        Raises:
            ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(clock())

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
            Unreachable, AmbiguousError, Busy, Stopping: As `publish` of a client.
        """
        return self._run(accept_clock(ahead_ms))


class AsyncAdministration(AsyncPart):
    """As `Administration`, for coroutines. Each method raises the errors of the plain one, and WrongLoop."""

    async def groups(self) -> list[Group]:
        """Lists all groups, by subject, as `delaymq.Store.groups`."""
        return await self._run(groups())

    async def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created, as `delaymq.Store.subjects`."""
        return await self._run(subjects())

    async def start_group(self, subject: str, group: str, start: Start = "unfinished") -> None:
        """Creates a group without a consumer, as `delaymq.Store.start_group`."""
        await self._run(start_group(subject, group, start))

    async def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Resets a group to an earlier or later position, as `delaymq.Store.reset_group`."""
        await self._run(reset_group(subject, group, start))

    async def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, as `delaymq.Store.remove_group`."""
        await self._run(remove_group(subject, group))

    async def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group, as `delaymq.Store.consumers`."""
        return await self._run(consumers(subject, group))

    async def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Store.end_consumer`."""
        return await self._run(end_consumer(subject, group, consumer))

    async def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """Lists the dead letters of a group, the oldest first, as `delaymq.Store.dead_letters`."""
        return await self._run(dead_letters(subject, group, limit))

    async def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Delivers dead letters to their group again, the oldest first, as `delaymq.Store.redrive`."""
        return await self._run(redrive(subject, group, limit))

    async def expire(self, subject: str, older_than: Duration) -> int:
        """Expires ready messages that no consumer took for too long, as `delaymq.Store.expire`."""
        return await self._run(expire(subject, older_than))

    async def status(self) -> Status:
        """The state of the store, as counts and flags, as `delaymq.Store.status`."""
        return await self._run(status())

    async def clock(self) -> ClockStatus:
        """Reads the clock of the store, as `delaymq.Store.clock`."""
        return await self._run(clock())

    async def accept_clock(self, ahead_ms: int) -> int:
        """Accepts the step of the wall clock that holds dispatch, as `delaymq.Store.accept_clock`."""
        return await self._run(accept_clock(ahead_ms))


def _subject_of(fields: dict[str, Any]) -> Subject:
    before = fields.pop("expired_before_ms")
    return Subject(**fields, expiry=None if before is None else moment(before))


def _dead_letter_of(fields: dict[str, Any]) -> DeadLetter:
    died, published = fields.pop("died_ms"), fields.pop("published_ms")
    return DeadLetter(**fields, died=moment(died), published=None if published is None else moment(published))


def _checked_limit(limit: int) -> int:
    return min(checked_int("limit", limit, 1, None, kind="int", expected="at least 1"), NUMBER_MAX)
