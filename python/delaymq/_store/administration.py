"""Administration of a store in this process."""

from __future__ import annotations

from delaymq._verbs import administration
from delaymq._verbs.calls import Part
from delaymq.administration import DEAD_LETTERS, Consumer, DeadLetter, Group, Subject
from delaymq.durations import Duration
from delaymq.starts import Start
from delaymq.status import ClockStatus


class Administration(Part):
    """The methods of `Store` for operators."""

    def groups(self) -> list[Group]:
        """Lists all groups, by subject.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(administration.groups())

    def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created.

        Raises:
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(administration.subjects())

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
        self._run(administration.start_group(subject, group, start))

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
        self._run(administration.reset_group(subject, group, start))

    def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, with its retries and dead letters.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group, or it has consumers.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        self._run(administration.remove_group(subject, group))

    def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group and of its retry subject, the oldest first.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: There is no such group.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(administration.consumers(subject, group))

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
        return self._run(administration.end_consumer(subject, group, consumer))

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
        return self._run(administration.dead_letters(subject, group, limit))

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
        return self._run(administration.redrive(subject, group, limit))

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
        return self._run(administration.expire(subject, older_than))

    def clock(self) -> ClockStatus:
        """Reads the clock of the store, and reports whether dispatch is held, why, since when, and what ends the hold.

        Raises:
            ForkedProcess: As `publish`.
        """
        return self._run(administration.clock())

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
        return self._run(administration.accept_clock(ahead_ms))
