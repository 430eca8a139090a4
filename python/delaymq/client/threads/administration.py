"""Administration of a server."""

from __future__ import annotations

from delaymq._verbs import administration
from delaymq._verbs.calls import Part
from delaymq.administration import DEAD_LETTERS, Consumer, DeadLetter, Group, Subject
from delaymq.durations import Duration
from delaymq.starts import Start
from delaymq.status import ClockStatus


class ClientAdministration(Part):
    """The methods of `Client` for operators.

    Each does what the method of `delaymq.Store` does. A method that changes something raises AmbiguousError
    if the connection is lost before its answer.
    """

    def groups(self) -> list[Group]:
        """Lists all groups, by subject, as `delaymq.Store.groups`.

        Raises:
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(administration.groups())

    def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created, as `delaymq.Store.subjects`.

        Raises:
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(administration.subjects())

    def start_group(self, subject: str, group: str, start: Start = "unfinished") -> None:
        """Creates a group without a consumer, as `delaymq.Store.start_group`.

        Raises:
            WrongType, InvalidArgument, DiskFull: As `delaymq.Store.start_group`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        self._run(administration.start_group(subject, group, start))

    def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Resets a group to an earlier or later position, as `delaymq.Store.reset_group`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.reset_group`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        self._run(administration.reset_group(subject, group, start))

    def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, as `delaymq.Store.remove_group`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.remove_group`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        self._run(administration.remove_group(subject, group))

    def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group, as `delaymq.Store.consumers`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.consumers`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(administration.consumers(subject, group))

    def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Store.end_consumer`.

        The delay and the maximum of attempts are those of the server (`server.qmq_retry_seconds`,
        `server.qmq_attempts_max`).

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.end_consumer`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        return self._run(administration.end_consumer(subject, group, consumer))

    def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """Lists the dead letters of a group, the oldest first, as `delaymq.Store.dead_letters`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.dead_letters`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(administration.dead_letters(subject, group, limit))

    def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Delivers dead letters to their group again, the oldest first, as `delaymq.Store.redrive`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.redrive`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        return self._run(administration.redrive(subject, group, limit))

    def expire(self, subject: str, older_than: Duration) -> int:
        """Expires ready messages that no consumer took for too long, as `delaymq.Store.expire`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.expire`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        return self._run(administration.expire(subject, older_than))

    def clock(self) -> ClockStatus:
        """Reads the clock of the server's store, as `delaymq.Store.clock`.

        Raises:
            ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(administration.clock())

    def accept_clock(self, ahead_ms: int) -> int:
        """Accepts the step of the wall clock that holds dispatch, as `delaymq.Store.accept_clock`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.accept_clock`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        return self._run(administration.accept_clock(ahead_ms))
