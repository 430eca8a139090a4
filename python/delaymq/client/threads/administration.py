"""Administration of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from delaymq._core import Request
from delaymq.administration import (
    DEAD_LETTERS,
    Consumer,
    DeadLetter,
    Group,
    Subject,
    checked_ahead,
    checked_limit,
    dead_letter_of,
    subject_of,
)
from delaymq.client.commands.calls import ClientPart
from delaymq.durations import Duration, delay_ms
from delaymq.starts import Start, start_of
from delaymq.status import ClockStatus


class ClientAdministration(ClientPart):
    """The methods of `Client` for operators.

    Each does what the method of `delaymq.Store` does. A method that changes something raises AmbiguousError
    if the connection is lost before its answer.
    """

    def groups(self) -> list[Group]:
        """Lists all groups, by subject, as `delaymq.Store.groups`.

        Raises:
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return by_subject([Group(**fields) for fields in self._listed(Request.groups)])

    def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created, as `delaymq.Store.subjects`.

        Raises:
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return [subject_of(fields) for fields in self._listed(Request.subjects)]

    def start_group(self, subject: str, group: str, start: Start = "unfinished") -> None:
        """Creates a group without a consumer, as `delaymq.Store.start_group`.

        Raises:
            WrongType, InvalidArgument, DiskFull: As `delaymq.Store.start_group`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        self._call(Request.start_group(subject, group, start_of(start)))

    def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Resets a group to an earlier or later position, as `delaymq.Store.reset_group`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.reset_group`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        self._call(Request.reset_group(subject, group, start_of(start)))

    def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, as `delaymq.Store.remove_group`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.remove_group`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        self._call(Request.remove_group(subject, group))

    def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group, as `delaymq.Store.consumers`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.consumers`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        rows = self._listed(lambda after: Request.consumers(subject, group, after))
        return [Consumer(**fields) for fields in rows]

    def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Store.end_consumer`.

        The delay and the maximum of attempts are those of the server (`server.qmq_retry_seconds`,
        `server.qmq_attempts_max`).

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.end_consumer`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        held: int = self._call(Request.end_consumer(subject, group, consumer))
        return held

    def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """Lists the dead letters of a group, the oldest first, as `delaymq.Store.dead_letters`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.dead_letters`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        left, after = checked_limit(limit), 0
        found: list[DeadLetter] = []
        while True:
            after, rows = self._call(Request.dead_letters(subject, group, after, left), reads=True)
            found += [dead_letter_of(fields) for fields in rows]
            left -= len(rows)
            if not after or left <= 0:
                return found

    def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Delivers dead letters to their group again, the oldest first, as `delaymq.Store.redrive`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.redrive`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        count: int = self._call(Request.redrive(subject, group, None if limit is None else checked_limit(limit)))
        return count

    def expire(self, subject: str, older_than: Duration) -> int:
        """Expires ready messages that no consumer took for too long, as `delaymq.Store.expire`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.expire`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        count: int = self._call(Request.expire(subject, delay_ms(older_than, "older_than")))
        return count

    def clock(self) -> ClockStatus:
        """Reads the clock of the server's store, as `delaymq.Store.clock`.

        Raises:
            ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return ClockStatus(**self._call(Request.clock(), reads=True))

    def accept_clock(self, ahead_ms: int) -> int:
        """Accepts the step of the wall clock that holds dispatch, as `delaymq.Store.accept_clock`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.accept_clock`.
            Poisoned, Closed, ForkedProcess, Unreachable, AmbiguousError: As `publish`.
        """
        accepted_ms: int = self._call(Request.accept_clock(checked_ahead(ahead_ms)))
        return accepted_ms

    def _listed(self, piece: Callable[[int], Request]) -> list[dict[str, Any]]:
        """All rows of a list, which takes several requests if it is long."""
        rows: list[dict[str, Any]] = []
        after = 0
        while True:
            after, more = self._call(piece(after), reads=True)
            rows += more
            if not after:
                return rows


def by_subject(groups: list[Group]) -> list[Group]:
    """Groups in the order of `Store.groups`; a server lists them by age."""
    return sorted(groups, key=lambda group: (group.subject, group.name))
