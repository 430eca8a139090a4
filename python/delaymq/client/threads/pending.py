"""Queries of the pending messages of a server."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from delaymq._arguments.batches import receipt_list
from delaymq._core import Request
from delaymq.client.commands.batches import look_ups
from delaymq.client.commands.calls import ClientPart
from delaymq.forecast import Forecast, forecast_filter, forecast_of
from delaymq.pending import PAGE, LookedUp, Page, PendingList, looked_up, pending_filter
from delaymq.receipt import Receipt


class ClientPendingQueries(ClientPart):
    """The methods of `Client` that look up, list and count pending messages. None of them changes anything."""

    def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Store.look_up`.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.look_up`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self.look_up_many((receipt,))[0]

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Store.look_up_many`; more than 10,000 take several requests.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.look_up_many`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        stream = self._stream()
        options = receipt_list(receipts)
        answers = [row for request in look_ups(options, stream) for row in self._call(request, reads=True)]
        return looked_up(options, answers)

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> PendingList:
        """Lists pending messages in order of due time and sequence, as `delaymq.Store.pending`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.pending`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`, during iteration.
        """
        stream, options = self._stream(), pending_filter(subject, prefix, due_from, due_before)
        Request.pending(options, after, PAGE, stream)

        def page(behind: str | None) -> Page:
            answers: Page = self._call(Request.pending(options, behind, PAGE, stream), reads=True)
            return answers

        return PendingList(page, after)

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Store.pending_counts`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.pending_counts`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        counts: dict[str, int] = {}
        after = ""
        while True:
            after, rows = self._call(Request.pending_counts(subject, prefix, after), reads=True)
            counts.update(rows)
            if not after:
                return counts

    def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages that become due in each minute or second, as `delaymq.Store.forecast`.

        A long forecast takes several requests.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.forecast`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        options = forecast_filter(subject, due_from, due_before, seconds=seconds)
        pieces: list[bytes] = []
        begins = 0
        while True:
            piece, hidden_rows, begins = self._call(Request.forecast(options, begins), reads=True)
            pieces.append(piece)
            if not begins:
                return forecast_of(b"".join(pieces), hidden_rows, seconds=seconds)
