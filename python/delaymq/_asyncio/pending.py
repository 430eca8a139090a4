"""Queries of pending messages, and commands on them by their keys, for coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Self

from delaymq import _core
from delaymq._verbs import pending
from delaymq._verbs.calls import AsyncPart
from delaymq._verbs.pending import pending_filter
from delaymq.durations import Duration
from delaymq.forecast import Forecast
from delaymq.pending import PAGE, LookedUp, Page, Pending, PendingRows
from delaymq.receipt import Moved, Outcome, Receipt


class AsyncPendingList(PendingRows, AsyncIterator[Pending]):
    """As `delaymq.pending.PendingList`, for `async for`."""

    def __init__(self, page: Callable[[str | None], Awaitable[Page]], after: str | None) -> None:
        """Use `AsyncStore.pending` instead."""
        super().__init__(after)
        self._page = page

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Pending:
        while (found := self._next()) is None:
            if self._is_done:
                raise StopAsyncIteration
            self._take(await self._page(self._behind))
        return found


class AsyncPendingMessages(AsyncPart):
    """The methods of `AsyncStore` for pending messages: queries, and commands by their keys.

    Each does what the method of `delaymq.Store` does, on a thread of the store. It raises the same errors,
    and WrongLoop.
    """

    _core: _core.Store

    async def _call(self, function: Callable[[], Page]) -> Page:
        """Makes a blocking call on a thread of the store."""
        raise NotImplementedError

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Store.look_up`."""
        return await self._run(pending.look_up(receipt))

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Store.look_up_many`."""
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
        """Lists pending messages, for `async for`, as `delaymq.Store.pending`.

        Invalid arguments raise at once, except `after`, which raises with the first page.
        """
        chosen = pending_filter(subject, prefix, due_from, due_before)
        readers: list[_core.PendingReader] = []

        def page() -> Page:
            if not readers:
                readers.append(_core.pending(self._core, chosen, after))
            return readers[0].next_page(PAGE)

        return AsyncPendingList(lambda _: self._call(page), after)

    async def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Store.pending_counts`."""
        return await self._run(pending.pending_counts(subject, prefix))

    async def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages that become due in each minute or second, as `delaymq.Store.forecast`."""
        return await self._run(pending.forecast(subject, due_from, due_before, seconds=seconds))

    async def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Store.cancel_key`."""
        return await self._run(pending.cancel_key(subject, key, command_id))

    async def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Store.cancel_keys`."""
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
        """Gives the message that is pending under a key another due time, as `delaymq.Store.move_key`."""
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
        """Gives the messages that are pending under these keys another due time, as `delaymq.Store.move_keys`."""
        return await self._run(pending.move_keys(subject, keys, delay, at, command_id))

    async def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Store.look_up_key`."""
        return await self._run(pending.look_up_key(subject, key))
