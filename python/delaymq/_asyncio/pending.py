"""What is pending, in coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from delaymq import _core
from delaymq.forecast import Forecast, forecasting_of
from delaymq.pending import PAGE, LookedUp, Page, Pending, PendingQueries, PendingRows, asked, looking_at

if TYPE_CHECKING:
    from delaymq.receipt import Receipt

__all__ = ["AsyncPendingList", "AsyncPendingQueries"]

Answer = TypeVar("Answer")


class AsyncPendingList(PendingRows, AsyncIterator[Pending]):
    """As `delaymq.pending.PendingList`, for `async for`."""

    def __init__(self, page: Callable[[str | None], Awaitable[Page]], after: str | None) -> None:
        """Made by `pending`."""
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


class AsyncPendingQueries:
    """The part of a store that says what is pending; `AsyncStore` has these methods.

    Each does what its twin of `delaymq.Store` does, on a thread of the store's own; errors are the
    same, and WrongLoop.
    """

    _core: _core.Store

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """What became of a message, by its receipt, as `delaymq.Store.look_up`."""
        return await self._call(looking_at(self._core).look_up, receipt)

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """What became of messages, as `delaymq.Store.look_up_many`."""
        return await self._call(looking_at(self._core).look_up_many, receipts)

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> AsyncPendingList:
        """Lists what is pending, for `async for`, as `delaymq.Store.pending`.

        What is wrong with the arguments is told at once but for `after`, and that with the first page.
        """
        chosen = asked(subject, prefix, due_from, due_before)
        readers: list[_core.PendingReader] = []

        def page() -> Page:
            if not readers:
                readers.append(_core.pending(self._core, chosen, after))
            return readers[0].next_page(PAGE)

        return AsyncPendingList(lambda _: self._call(page), after)

    async def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Store.pending_counts`."""
        return await self._call(PendingQueries.pending_counts, looking_at(self._core), subject, prefix=prefix)

    async def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """How much is due in each minute, or second, as `delaymq.Store.forecast`."""
        asking = forecasting_of(self._core).forecast
        return await self._call(asking, subject, due_from=due_from, due_before=due_before, seconds=seconds)

    async def _call(self, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:  # noqa: ANN401
        """Calls what may wait on a thread that may; the store knows how."""
        raise NotImplementedError
