"""Administration of a server, for coroutines."""

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
from delaymq.client.commands.calls import AsyncClientPart
from delaymq.client.threads.administration import by_subject
from delaymq.durations import Duration, delay_ms
from delaymq.starts import Start, start_of
from delaymq.status import ClockStatus


class AsyncClientAdministration(AsyncClientPart):
    """The methods of `AsyncClient` for operators.

    Each does what the method of `delaymq.Client` does. It raises the same errors, and WrongLoop.
    """

    async def groups(self) -> list[Group]:
        """Lists all groups, by subject, as `delaymq.Client.groups`."""
        return by_subject([Group(**fields) for fields in await self._listed(Request.groups)])

    async def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created, as `delaymq.Client.subjects`."""
        return [subject_of(fields) for fields in await self._listed(Request.subjects)]

    async def start_group(self, subject: str, group: str, start: Start = "unfinished") -> None:
        """Creates a group without a consumer, as `delaymq.Client.start_group`."""
        await self._call(Request.start_group(subject, group, start_of(start)))

    async def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Resets a group to an earlier or later position, as `delaymq.Client.reset_group`."""
        await self._call(Request.reset_group(subject, group, start_of(start)))

    async def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, as `delaymq.Client.remove_group`."""
        await self._call(Request.remove_group(subject, group))

    async def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group, as `delaymq.Client.consumers`."""
        rows = await self._listed(lambda after: Request.consumers(subject, group, after))
        return [Consumer(**fields) for fields in rows]

    async def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Client.end_consumer`."""
        held: int = await self._call(Request.end_consumer(subject, group, consumer))
        return held

    async def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """Lists the dead letters of a group, the oldest first, as `delaymq.Client.dead_letters`."""
        left, after = checked_limit(limit), 0
        found: list[DeadLetter] = []
        while True:
            after, rows = await self._call(Request.dead_letters(subject, group, after, left), reads=True)
            found += [dead_letter_of(fields) for fields in rows]
            left -= len(rows)
            if not after or left <= 0:
                return found

    async def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Delivers dead letters to their group again, the oldest first, as `delaymq.Client.redrive`."""
        request = Request.redrive(subject, group, None if limit is None else checked_limit(limit))
        count: int = await self._call(request)
        return count

    async def expire(self, subject: str, older_than: Duration) -> int:
        """Expires ready messages that no consumer took for too long, as `delaymq.Client.expire`."""
        count: int = await self._call(Request.expire(subject, delay_ms(older_than, "older_than")))
        return count

    async def clock(self) -> ClockStatus:
        """Reads the clock of the server's store, as `delaymq.Client.clock`."""
        return ClockStatus(**await self._call(Request.clock(), reads=True))

    async def accept_clock(self, ahead_ms: int) -> int:
        """Accepts the step of the wall clock that holds dispatch, as `delaymq.Client.accept_clock`."""
        accepted_ms: int = await self._call(Request.accept_clock(checked_ahead(ahead_ms)))
        return accepted_ms

    async def _listed(self, piece: Callable[[int], Request]) -> list[dict[str, Any]]:
        """All rows of a list, which takes several requests if it is long."""
        rows: list[dict[str, Any]] = []
        after = 0
        while True:
            after, more = await self._call(piece(after), reads=True)
            rows += more
            if not after:
                return rows
