"""What is pending at a server, in coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delaymq._arguments.batches import listed
from delaymq._asyncio.pending import AsyncPendingList
from delaymq._core import Request
from delaymq.client.commands.batches import look_ups
from delaymq.forecast import Forecast, asked_forecast, told_forecast
from delaymq.pending import PAGE, LookedUp, Page, asked, looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from delaymq.receipt import Receipt

__all__ = ["AsyncClientPendingQueries"]


class AsyncClientPendingQueries:
    """The part of a client that says what is pending; `AsyncClient` has these methods.

    Each does what its twin of `delaymq.Client` does; errors are the same, and WrongLoop.
    """

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """What became of a message, by its receipt, as `delaymq.Client.look_up`."""
        return (await self.look_up_many((receipt,)))[0]

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """What became of messages, as `delaymq.Client.look_up_many`."""
        stream = self._stream()
        options = listed(receipts, "receipts", "an iterable of Receipt")
        told = [row for request in look_ups(options, stream) for row in await self._call(request, reads=True)]
        return looked_up(options, told)

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> AsyncPendingList:
        """Lists what is pending, for `async for`, as `delaymq.Client.pending`."""
        stream, options = self._stream(), asked(subject, prefix, due_from, due_before)
        Request.pending(options, after, PAGE, stream)

        async def page(behind: str | None) -> Page:
            told: Page = await self._call(Request.pending(options, behind, PAGE, stream), reads=True)
            return told

        return AsyncPendingList(page, after)

    async def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Client.pending_counts`."""
        counts: dict[str, int] = {}
        after = ""
        while True:
            after, rows = await self._call(Request.pending_counts(subject, prefix, after), reads=True)
            counts.update(rows)
            if not after:
                return counts

    async def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """How much is due in each minute, or second, as `delaymq.Client.forecast`."""
        options = asked_forecast(subject, due_from, due_before, seconds=seconds)
        pieces: list[bytes] = []
        begins = 0
        while True:
            piece, hidden_rows, begins = await self._call(Request.forecast(options, begins), reads=True)
            pieces.append(piece)
            if not begins:
                return told_forecast(b"".join(pieces), hidden_rows, seconds=seconds)

    def _stream(self) -> bytes:
        """The stream of the server's store; the client knows it."""
        raise NotImplementedError

    async def _call(self, request: Request, *, reads: bool = False, again: bool = False) -> Any:  # noqa: ANN401
        """Asks and waits; the client knows how."""
        raise NotImplementedError
