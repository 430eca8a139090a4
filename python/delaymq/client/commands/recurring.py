"""Recurring messages of both clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from delaymq import _core
from delaymq.client.commands.calls import AsyncClientPart, ClientPart
from delaymq.durations import Duration, OnExpiry, expires_after_of
from delaymq.keys import IfExists
from delaymq.message import NO_TAGS
from delaymq.recurring import CatchUp, Recurring, Row, series_meta, series_of, series_request


class ClientRecurringCommands(ClientPart):
    """The methods of `Client` for recurring messages."""

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
        expires_after: Duration | None = None,
        on_expiry: OnExpiry | None = None,
    ) -> Recurring:
        """Publishes a message again and again, one pending at a time, as `delaymq.Store.recur`.

        Raises:
            WrongType, InvalidArgument, TooLarge, NamesFull, DiskFull: As `delaymq.Store.recur`.
            AmbiguousError: The answer was lost: the series may have begun; `recurring` tells.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        expiry = expires_after_of(expires_after, on_expiry)
        request = series_request(
            name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists, expiry=expiry
        )
        _, rows = self._call(_core.recur_request(subject, body, request, series_meta(name, tags, attributes)))
        return series_of(rows[0])

    def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series and cancels its pending message, as `delaymq.Store.end_recurring`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.end_recurring`.
            AmbiguousError: The answer was lost: the series may have ended, in which case the same call returns False.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        ended: int = self._call(_core.end_recurring_request(subject, name))
        return ended > 0

    def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, as `delaymq.Store.recurring`; a long list takes several requests.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.recurring`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        found: list[Row] = []
        after = 0
        while True:
            after, rows = self._call(_core.recurring_request(subject, after), reads=True)
            found += rows
            if not after:
                return [series_of(row) for row in found]


class AsyncClientRecurringCommands(AsyncClientPart):
    """The methods of `AsyncClient` for recurring messages.

    Each does what the method of `delaymq.Client` does. It raises the same errors, and WrongLoop.
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
        expires_after: Duration | None = None,
        on_expiry: OnExpiry | None = None,
    ) -> Recurring:
        """Publishes a message again and again, as `delaymq.Client.recur`."""
        expiry = expires_after_of(expires_after, on_expiry)
        request = series_request(
            name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists, expiry=expiry
        )
        _, rows = await self._call(_core.recur_request(subject, body, request, series_meta(name, tags, attributes)))
        return series_of(rows[0])

    async def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series; its pending message is cancelled, as `delaymq.Client.end_recurring`."""
        ended: int = await self._call(_core.end_recurring_request(subject, name))
        return ended > 0

    async def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, as `delaymq.Client.recurring`."""
        found: list[Row] = []
        after = 0
        while True:
            after, rows = await self._call(_core.recurring_request(subject, after), reads=True)
            found += rows
            if not after:
                return [series_of(row) for row in found]
