"""Verbs for what is pending: lists, counts, and the forecast."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from delaymq._arguments.argument_errors import wrong_type
from delaymq._verbs.calls import LISTED, READS, AsyncPart, Call, Part, unchanged
from delaymq.durations import due_ms
from delaymq.forecast import MINUTE, SECOND, Forecast, Slots
from delaymq.pending import PAGE, Page

PendingFilter: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""A subject, a prefix, and two times in milliseconds since 1970."""


def pending_filter(
    subject: str | None, prefix: str | None, due_from: datetime | None, due_before: datetime | None
) -> PendingFilter:
    """The filter of `pending`, as the core takes it.

    Raises:
        WrongType, InvalidArgument: One of the times is refused.
    """
    first = None if due_from is None else due_ms(due_from, "due_from")
    return subject, prefix, first, None if due_before is None else due_ms(due_before, "due_before")


def pending_page(wanted: PendingFilter, behind: str | None, stream: bytes) -> Call[Page]:
    """A page of `pending` of a client; a store in this process has a reader for all pages."""
    return Call("pending", (wanted, behind, PAGE, stream), unchanged, READS)


def pending_counts(subject: str | None, prefix: str | None) -> Call[dict[str, int]]:
    """`pending_counts`."""
    return Call("pending_counts", (subject, prefix), dict, LISTED)


def forecast(
    subject: str | None, due_from: datetime | None, due_before: datetime | None, *, seconds: bool
) -> Call[Forecast]:
    """`forecast`."""
    anything: object = seconds
    if not isinstance(anything, bool):
        raise wrong_type("seconds", "True or False", anything)
    first = None if due_from is None else due_ms(due_from, "due_from")
    wanted = subject, first, None if due_before is None else due_ms(due_before, "due_before"), seconds

    def joined(pieces: list[tuple[bytes, int]]) -> Forecast:
        slots = b"".join(packed for packed, _ in pieces)
        return Forecast(Slots(slots), SECOND if seconds else MINUTE, pieces[-1][1])

    return Call("forecast", (wanted,), joined, LISTED)


class PendingQueries(Part):
    """The methods that count what is pending."""

    def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject. The counts are maintained, so no message is read.

        Args:
            subject: Only this subject; the result is empty if it is unknown.
            prefix: Only subjects whose names begin with this. Without both, all subjects that users publish to.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: Both a subject and a prefix are given, or the subject is empty.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(pending_counts(subject, prefix))

    def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages and bytes that become due in each minute, or each second of an hour.

        The counts are exact. For all subjects together, the store maintains the counts of minutes, so that no message
        is read, however many are pending. For one subject, they are computed from summaries in each file. Seconds are
        counted message by message. A long forecast takes several requests of a client.

        ::

            for slot in store.forecast().slots:
                print(slot.start, slot.messages, slot.bytes)

        Args:
            subject: Only this subject, which may be the retry subject of a group. Without it, everything.
            due_from: Begins with the minute of this time, an aware datetime. By default with the first pending message,
                overdue ones included; by seconds, from now on.
            due_before: Ends with the minute that contains this time. By default with the last pending message; by
                seconds, after an hour, which is the maximum.
            seconds: True for seconds instead of minutes.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: The store does not have the subject, a time is naive, the range is reversed, or it is
                longer than an hour by seconds.
            StorageError: The operating system refused to read.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(forecast(subject, due_from, due_before, seconds=seconds))


class AsyncPendingQueries(AsyncPart):
    """As `PendingQueries`, for coroutines. Each method raises the errors of the plain one, and WrongLoop."""

    async def pending_counts(self, subject: str | None = None, *, prefix: str | None = None) -> dict[str, int]:
        """How many messages are pending, by subject, as `delaymq.Store.pending_counts`."""
        return await self._run(pending_counts(subject, prefix))

    async def forecast(
        self,
        subject: str | None = None,
        *,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        seconds: bool = False,
    ) -> Forecast:
        """Counts the messages that become due in each minute or second, as `delaymq.Store.forecast`."""
        return await self._run(forecast(subject, due_from, due_before, seconds=seconds))
