"""Recurring messages, for coroutines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from delaymq._store.parts import AsyncStorePart, part_of
from delaymq.durations import Duration, OnExpiry
from delaymq.keys import IfExists
from delaymq.message import NO_TAGS
from delaymq.recurring import CatchUp, Recurring, RecurringCommands


class AsyncRecurringCommands(AsyncStorePart):
    """The methods of `AsyncStore` for recurring messages.

    Each does what the method of `delaymq.Store` does, on a thread of the store. It raises the same errors,
    and WrongLoop.
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
        """Publishes a message again and again, as `delaymq.Store.recur`."""
        return await self._call(
            part_of(RecurringCommands, self._core).recur,
            subject,
            body,
            name=name,
            every=every,
            cron=cron,
            zone=zone,
            start=start,
            catch_up=catch_up,
            if_exists=if_exists,
            tags=tags,
            attributes=attributes,
            expires_after=expires_after,
            on_expiry=on_expiry,
        )

    async def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series, as `delaymq.Store.end_recurring`."""
        return await self._call(part_of(RecurringCommands, self._core).end_recurring, subject, name)

    async def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, as `delaymq.Store.recurring`."""
        return await self._call(part_of(RecurringCommands, self._core).recurring, subject)
