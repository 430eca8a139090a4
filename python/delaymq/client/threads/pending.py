"""What is pending at a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delaymq._arguments.batches import listed
from delaymq._core import Request
from delaymq.client.commands.batches import look_ups
from delaymq.forecast import Forecast, asked_forecast, told_forecast
from delaymq.pending import PAGE, LookedUp, Page, PendingList, asked, looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from delaymq.receipt import Receipt

__all__ = ["ClientPendingQueries"]


class ClientPendingQueries:
    """The part of a client that says what is pending; `Client` has these methods. None of them changes anything."""

    def look_up(self, receipt: Receipt) -> LookedUp:
        """What became of a message, by its receipt, as `delaymq.Store.look_up`.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self.look_up_many((receipt,))[0]

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """What became of messages, as `delaymq.Store.look_up_many`; more than 10,000 by several requests.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        stream = self._stream()
        options = listed(receipts, "receipts", "an iterable of Receipt")
        told = [row for request in look_ups(options, stream) for row in self._call(request, reads=True)]
        return looked_up(options, told)

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> PendingList:
        """Lists what is pending, in the order of due time and sequence, as `delaymq.Store.pending`.

        Raises:
            WrongType, InvalidArgument, StorageError: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`, while it is iterated.
        """
        stream, options = self._stream(), asked(subject, prefix, due_from, due_before)
        Request.pending(options, after, PAGE, stream)

        def page(behind: str | None) -> Page:
            told: Page = self._call(Request.pending(options, behind, PAGE, stream), reads=True)
            return told

        return PendingList(page, after)

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Store.pending_counts`.

        Raises:
            WrongType, InvalidArgument: As there.
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
        """How much is due in each minute, or second, as `delaymq.Store.forecast`; a long one comes in pieces.

        Raises:
            WrongType, InvalidArgument, StorageError: As there.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        options = asked_forecast(subject, due_from, due_before, seconds=seconds)
        pieces: list[bytes] = []
        begins = 0
        while True:
            piece, hidden_rows, begins = self._call(Request.forecast(options, begins), reads=True)
            pieces.append(piece)
            if not begins:
                return told_forecast(b"".join(pieces), hidden_rows, seconds=seconds)

    def _stream(self) -> bytes:
        """The stream of the server's store; the client knows it."""
        raise NotImplementedError

    def _call(self, request: Request, *, reads: bool = False) -> Any:  # noqa: ANN401 - whatever it is answered with
        """Asks and waits; the client knows how."""
        raise NotImplementedError
