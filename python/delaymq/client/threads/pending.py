"""Queries of the pending messages of a server, and commands on them by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from delaymq import _core
from delaymq._verbs import pending
from delaymq._verbs.calls import Part
from delaymq._verbs.pending import pending_filter, pending_page
from delaymq.durations import Duration
from delaymq.forecast import Forecast
from delaymq.pending import PAGE, LookedUp, PendingList
from delaymq.receipt import Moved, Outcome, Receipt


class ClientPendingMessages(Part):
    """The methods of `Client` for pending messages: queries, and commands by their keys."""

    def _stream(self) -> bytes:
        """The stream of the server's store."""
        raise NotImplementedError

    def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Store.look_up`.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.look_up`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(pending.look_up(receipt))

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Store.look_up_many`; more than 10,000 take several requests.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.look_up_many`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(pending.look_up_many(receipts))

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
        stream, wanted = self._stream(), pending_filter(subject, prefix, due_from, due_before)
        _core.pending_request(wanted, after, PAGE, stream)  # refuses at once
        return PendingList(lambda behind: self._run(pending_page(wanted, behind, stream)), after)

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Store.pending_counts`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.pending_counts`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(pending.pending_counts(subject, prefix))

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
        return self._run(pending.forecast(subject, due_from, due_before, seconds=seconds))

    def cancel_key(self, subject: str, key: str, *, command_id: str | None = None) -> Outcome:
        """Cancels the message that is pending under a key, as `delaymq.Store.cancel_key`.

        If the answer is lost, the client repeats the request, under a generated id if `command_id` is None, and gets
        the first answer. If the server has no room for another id and `command_id` is None, the request is sent without
        an id.

        Raises:
            WrongType, InvalidArgument, NamesFull: As `delaymq.Store.cancel_key`.
            AmbiguousError: The answer was lost: the message may or may not be cancelled. Either the repeated request
                had no answer in time, or the request had no id, since the server had no room for one, or the client has
                `retry_ambiguous=False`. `look_up_key` tells, and so does the same call with the same `command_id`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.cancel_key(subject, key, command_id))

    def cancel_keys(self, subject: str, keys: Iterable[str], *, command_id: str | None = None) -> list[Outcome]:
        """Cancels the messages that are pending under these keys, as `delaymq.Store.cancel_keys`.

        Lost answers, and a server without room for ids, are handled as by `cancel_key`. More than 10,000 keys are
        cancelled in several requests, each of them atomic.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.Store.cancel_keys`.
            NamesFull: The server has no room for more ids, and `command_id` is given; earlier requests have taken
                effect.
            AmbiguousError: As `cancel_key`; the same call with the same `command_id` tells the outcome of each.
            StoreError: The server is of a release without this command.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.cancel_keys(subject, keys, command_id))

    def move_key(
        self,
        subject: str,
        key: str,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        command_id: str | None = None,
    ) -> Moved:
        """Gives the message that is pending under a key another due time, as `delaymq.Store.move_key`.

        Raises:
            WrongType, InvalidArgument, TooLarge, NamesFull: As `delaymq.Store.move_key`.
            AmbiguousError: As `cancel_key`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.move_key(subject, key, delay, at, command_id))

    def move_keys(
        self,
        subject: str,
        keys: Iterable[str],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
        command_id: str | None = None,
    ) -> list[Moved]:
        """Gives the messages that are pending under these keys another due time, as `delaymq.Store.move_keys`.

        More than 10,000 keys are moved in several requests, each of them atomic.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.Store.move_keys`; if a time is too far ahead, earlier
                requests have taken effect.
            NamesFull, AmbiguousError, StoreError: As `cancel_keys`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.move_keys(subject, keys, delay, at, command_id))

    def look_up_key(self, subject: str, key: str) -> LookedUp:
        """Looks up the last message that had a key, as `delaymq.Store.look_up_key`.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.look_up_key`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`.
        """
        return self._run(pending.look_up_key(subject, key))
