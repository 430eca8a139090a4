"""Queries of the pending messages of a server, for coroutines."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from delaymq._arguments.batches import receipt_list
from delaymq._asyncio.pending import AsyncPendingList
from delaymq._core import Request
from delaymq.client.commands.batches import look_ups
from delaymq.client.commands.calls import AsyncClientPart
from delaymq.forecast import Forecast, forecast_filter, forecast_of
from delaymq.pending import PAGE, LookedUp, Page, looked_up, pending_filter
from delaymq.receipt import Receipt


class AsyncClientPendingQueries(AsyncClientPart):
    """The methods of `AsyncClient` that look up, list and count pending messages.

    Each does what the method of `delaymq.Client` does. It raises the same errors, and WrongLoop.
    """

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Client.look_up`."""
        return (await self.look_up_many((receipt,)))[0]

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Client.look_up_many`."""
        stream = self._stream()
        options = receipt_list(receipts)
        answers = [row for request in look_ups(options, stream) for row in await self._call(request, reads=True)]
        return looked_up(options, answers)

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
        stream, options = self._stream(), pending_filter(subject, prefix, due_from, due_before)
        Request.pending(options, after, PAGE, stream)

        async def page(behind: str | None) -> Page:
            answers: Page = await self._call(Request.pending(options, behind, PAGE, stream), reads=True)
            return answers

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
        """Counts the messages that become due in each minute or second, as `delaymq.Client.forecast`."""
        options = forecast_filter(subject, due_from, due_before, seconds=seconds)
        pieces: list[bytes] = []
        begins = 0
        while True:
            piece, hidden_rows, begins = await self._call(Request.forecast(options, begins), reads=True)
            pieces.append(piece)
            if not begins:
                return forecast_of(b"".join(pieces), hidden_rows, seconds=seconds)
