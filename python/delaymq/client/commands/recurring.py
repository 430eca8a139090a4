"""Messages of a server that recur."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq.message import NO_TAGS
from delaymq.recurring import CatchUp, Recurring, about_series, asked_series, told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from delaymq._core import Request
    from delaymq.durations import Duration
    from delaymq.keys import IfExists
    from delaymq.recurring import Row

__all__ = ["AsyncClientRecurringCommands", "ClientRecurringCommands"]


class ClientRecurringCommands:
    """The part of a client that sends messages again and again; `Client` has these methods."""

    def recur(
        self,
        subject: str,
        body: bytes | bytearray | memoryview,
        *,
        name: str,
        every: Duration | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        start: datetime | None = None,
        catch_up: CatchUp = "one",
        if_exists: IfExists = "error",
        tags: Sequence[str] = NO_TAGS,
        attributes: Mapping[str, str] | None = None,
    ) -> Recurring:
        """Sends a message again and again, one pending at a time, as `delaymq.Store.recur`.

        Raises:
            WrongType, InvalidArgument, TooLarge, NamesFull, DiskFull: As there.
            AmbiguousError: The answer was lost: the series may have begun; `recurring` tells.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        asked = asked_series(name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists)
        _, rows = self._call(_core.recur_request(subject, body, asked, about_series(name, tags, attributes)))
        return told(rows[0])

    def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series; its pending message is cancelled, as `delaymq.Store.end_recurring`.

        Raises:
            WrongType, InvalidArgument: As there.
            AmbiguousError: The answer was lost: it may have ended; asked again it says False then.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        ended: int = self._call(_core.end_recurring_request(subject, name))
        return ended > 0

    def recurring(self, subject: str | None = None) -> list[Recurring]:
        """All series, of a subject or of all, as `delaymq.Store.recurring`; many come in pieces.

        Raises:
            WrongType, InvalidArgument: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        found: list[Row] = []
        after = 0
        while True:
            after, rows = self._call(_core.recurring_request(subject, after), reads=True)
            found += rows
            if not after:
                return [told(row) for row in found]

    def _call(self, request: Request, *, reads: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError


class AsyncClientRecurringCommands:
    """The part of a client that sends messages again and again; `AsyncClient` has these methods.

    Each does what its twin of `delaymq.Client` does; errors are the same, and WrongLoop.
    """

    async def recur(
        self,
        subject: str,
        body: bytes | bytearray | memoryview,
        *,
        name: str,
        every: Duration | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        start: datetime | None = None,
        catch_up: CatchUp = "one",
        if_exists: IfExists = "error",
        tags: Sequence[str] = NO_TAGS,
        attributes: Mapping[str, str] | None = None,
    ) -> Recurring:
        """Sends a message again and again, one pending at a time, as `delaymq.Client.recur`."""
        asked = asked_series(name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists)
        _, rows = await self._call(_core.recur_request(subject, body, asked, about_series(name, tags, attributes)))
        return told(rows[0])

    async def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series; its pending message is cancelled, as `delaymq.Client.end_recurring`."""
        ended: int = await self._call(_core.end_recurring_request(subject, name))
        return ended > 0

    async def recurring(self, subject: str | None = None) -> list[Recurring]:
        """All series, of a subject or of all, as `delaymq.Client.recurring`."""
        found: list[Row] = []
        after = 0
        while True:
            after, rows = await self._call(_core.recurring_request(subject, after), reads=True)
            found += rows
            if not after:
                return [told(row) for row in found]

    async def _call(self, request: Request, *, reads: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits."""
        raise NotImplementedError
