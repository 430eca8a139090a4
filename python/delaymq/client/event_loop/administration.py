"""What an operator asks of a server, in coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delaymq._core import Request
from delaymq.administration import (
    DEAD_LETTERS,
    Consumer,
    DeadLetter,
    Group,
    Subject,
    checked_limit,
    dead_letter_of,
    subject_of,
)
from delaymq.client.threads.administration import by_subject
from delaymq.durations import Duration, delay_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from delaymq.store import Start

__all__ = ["AsyncClientAdministration"]


class AsyncClientAdministration:
    """The part of a client that is for operators; `AsyncClient` has these methods.

    Each does what its twin of `delaymq.Client` does; errors are the same, and WrongLoop.
    """

    async def groups(self) -> list[Group]:
        """All groups, by subject, as `delaymq.Client.groups`."""
        return by_subject([Group(**fields) for fields in await self._listed(Request.groups)])

    async def subjects(self) -> list[Subject]:
        """All subjects, in the order in which they came to be, as `delaymq.Client.subjects`."""
        return [subject_of(fields) for fields in await self._listed(Request.subjects)]

    async def start_group(self, subject: str, group: str, start: Start = "earliest") -> None:
        """Makes a group without consuming for it, as `delaymq.Client.start_group`."""
        await self._call(Request.start_group(subject, group, start))

    async def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Lets a group begin again, as `delaymq.Client.reset_group`."""
        await self._call(Request.reset_group(subject, group, start))

    async def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for ever, as `delaymq.Client.remove_group`."""
        await self._call(Request.remove_group(subject, group))

    async def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Who consumes for a group, as `delaymq.Client.consumers`."""
        rows = await self._listed(lambda after: Request.consumers(subject, group, after))
        return [Consumer(**fields) for fields in rows]

    async def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Client.end_consumer`."""
        held: int = await self._call(Request.end_consumer(subject, group, consumer))
        return held

    async def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """The dead letters of a group, the oldest first, as `delaymq.Client.dead_letters`."""
        left, after = checked_limit(limit), 0
        found: list[DeadLetter] = []
        while True:
            after, rows = await self._call(Request.dead_letters(subject, group, after, left), reads=True)
            found += [dead_letter_of(fields) for fields in rows]
            left -= len(rows)
            if not after or left <= 0:
                return found

    async def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Brings dead letters back, the oldest first, as `delaymq.Client.redrive`."""
        request = Request.redrive(subject, group, None if limit is None else checked_limit(limit))
        count: int = await self._call(request)
        return count

    async def expire(self, subject: str, older_than: Duration) -> int:
        """Gives up ready messages that nobody took for too long, as `delaymq.Client.expire`."""
        count: int = await self._call(Request.expire(subject, delay_ms(older_than, "older_than")))
        return count

    async def _listed(self, piece: Callable[[int], Request]) -> list[dict[str, Any]]:
        """All rows of a list that comes in pieces."""
        rows: list[dict[str, Any]] = []
        after = 0
        while True:
            after, more = await self._call(piece(after), reads=True)
            rows += more
            if not after:
                return rows

    async def _call(self, request: Request, *, reads: bool = False, again: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits; the client knows how."""
        raise NotImplementedError
