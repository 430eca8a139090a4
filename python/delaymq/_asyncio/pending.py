"""The list of pending messages, for coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from delaymq.pending import Page, Pending, PendingRows


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
