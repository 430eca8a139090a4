"""Queries of the pending messages of a server, and commands on them by their keys, for coroutines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from delaymq import _core
from delaymq._asyncio.pending import AsyncPendingList
from delaymq._verbs import pending
from delaymq._verbs.calls import AsyncPart
from delaymq._verbs.pending import pending_filter, pending_page
from delaymq.durations import Duration
from delaymq.forecast import Forecast
from delaymq.pending import PAGE, LookedUp
from delaymq.receipt import Moved, Outcome, Receipt


class AsyncClientPendingMessages(AsyncPart):
    """The methods of `AsyncClient` for pending messages: queries, and commands by their keys.

    Each does what the method of `delaymq.Client` does. It raises the same errors, and WrongLoop.
    """

    def _stream(self) -> bytes:
        """The stream of the server's store."""
        raise NotImplementedError

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Client.look_up`."""
        return await self._run(pending.look_up(receipt))

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Client.look_up_many`."""
        return await self._run(pending.look_up_many(receipts))

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> AsyncPendingList:
        """Lists pending messages, for `async for`, as `delaymq.Client.pending`."""
        stream, wanted = self._stream(), pending_filter(subject, prefix, due_from, due_before)
        _core.pending_request(wanted, after, PAGE, stream)  # refuses at once
        return AsyncPendingList(lambda behind: self._run(pending_page(wanted, behind, stream)), after)

    async def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Client.pending_counts`."""
        return await self._run(pending.pending_counts(subject, prefix))

    async def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages that become due in each minute or second, as `delaymq.Client.forecast`."""
        return await self._run(pending.forecast(subject, due_from, due_before, seconds=seconds))

    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Client.cancel_key`."""
        return await self._run(pending.cancel_key(subject, key, command_id))

    async def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Client.cancel_keys`."""
        return await self._run(pending.cancel_keys(subject, keys, command_id))

    async def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Client.move_key`."""
        return await self._run(pending.move_key(subject, key, delay, at, command_id))

    async def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages that are pending under these keys another due time, as `delaymq.Client.move_keys`."""
        return await self._run(pending.move_keys(subject, keys, delay, at, command_id))

    async def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Client.look_up_key`."""
        return await self._run(pending.look_up_key(subject, key))
