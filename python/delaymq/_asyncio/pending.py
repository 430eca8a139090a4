"""Queries of pending messages, for coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import Self

from delaymq import _core
from delaymq._store.parts import AsyncStorePart, part_of
from delaymq.forecast import Forecast, ForecastQueries
from delaymq.pending import PAGE, LookedUp, Page, Pending, PendingQueries, PendingRows, pending_filter
from delaymq.receipt import Receipt


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


class AsyncPendingQueries(AsyncStorePart):
    """The methods of `AsyncStore` that look up, list and count pending messages.

    Each does what the method of `delaymq.Store` does, on a thread of the store. It raises the same errors,
    and WrongLoop.
    """

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Store.look_up`."""
        return await self._call(part_of(PendingQueries, self._core).look_up, receipt)

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Store.look_up_many`."""
        return await self._call(part_of(PendingQueries, self._core).look_up_many, receipts)

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
        return await self._call(part_of(PendingQueries, self._core).pending_counts, subject, prefix=prefix)

    async def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages that become due in each minute or second, as `delaymq.Store.forecast`."""
        queries = part_of(ForecastQueries, self._core).forecast
        return await self._call(queries, subject, due_from=due_from, due_before=due_before, seconds=seconds)
