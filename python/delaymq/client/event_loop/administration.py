"""Administration of a server, for coroutines."""

from __future__ import annotations

from delaymq._verbs import administration
from delaymq._verbs.calls import AsyncPart
from delaymq.administration import DEAD_LETTERS, Consumer, DeadLetter, Group, Subject
from delaymq.durations import Duration
from delaymq.starts import Start
from delaymq.status import ClockStatus


class AsyncClientAdministration(AsyncPart):
    """The methods of `AsyncClient` for operators.

    Each does what the method of `delaymq.Client` does. It raises the same errors, and WrongLoop.
    """

    async def groups(self) -> list[Group]:
        """Lists all groups, by subject, as `delaymq.Client.groups`."""
        return await self._run(administration.groups())

    async def subjects(self) -> list[Subject]:
        """Lists all subjects, in the order in which they were created, as `delaymq.Client.subjects`."""
        return await self._run(administration.subjects())

    async def start_group(self, subject: str, group: str, start: Start = "unfinished") -> None:
        """Creates a group without a consumer, as `delaymq.Client.start_group`."""
        await self._run(administration.start_group(subject, group, start))

    async def reset_group(self, subject: str, group: str, start: Start) -> None:
        """Resets a group to an earlier or later position, as `delaymq.Client.reset_group`."""
        await self._run(administration.reset_group(subject, group, start))

    async def remove_group(self, subject: str, group: str) -> None:
        """Removes a group for good, as `delaymq.Client.remove_group`."""
        await self._run(administration.remove_group(subject, group))

    async def consumers(self, subject: str, group: str) -> list[Consumer]:
        """Lists the consumers of a group, as `delaymq.Client.consumers`."""
        return await self._run(administration.consumers(subject, group))

    async def end_consumer(self, subject: str, group: str, consumer: str) -> int:
        """Ends a consumer that a client of QMQ named, as `delaymq.Client.end_consumer`."""
        return await self._run(administration.end_consumer(subject, group, consumer))

    async def dead_letters(self, subject: str, group: str, limit: int = DEAD_LETTERS) -> list[DeadLetter]:
        """Lists the dead letters of a group, the oldest first, as `delaymq.Client.dead_letters`."""
        return await self._run(administration.dead_letters(subject, group, limit))

    async def redrive(self, subject: str, group: str, limit: int | None = None) -> int:
        """Delivers dead letters to their group again, the oldest first, as `delaymq.Client.redrive`."""
        return await self._run(administration.redrive(subject, group, limit))

    async def expire(self, subject: str, older_than: Duration) -> int:
        """Expires ready messages that no consumer took for too long, as `delaymq.Client.expire`."""
        return await self._run(administration.expire(subject, older_than))

    async def clock(self) -> ClockStatus:
        """Reads the clock of the server's store, as `delaymq.Client.clock`."""
        return await self._run(administration.clock())

    async def accept_clock(self, ahead_ms: int) -> int:
        """Accepts the step of the wall clock that holds dispatch, as `delaymq.Client.accept_clock`."""
        return await self._run(administration.accept_clock(ahead_ms))
