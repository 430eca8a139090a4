"""Verbs for messages by their receipts: cancelled, moved, looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, unexpected
from delaymq._arguments.batches import listed, receipt_list
from delaymq._verbs.calls import CANCELS, LOOK_UPS, MOVES, AsyncPart, Call, Part
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.pending import Fate, LookedUp
from delaymq.receipt import Moved, Outcome, Receipt

Row: TypeAlias = tuple[Receipt, int, bool]
"""A receipt, milliseconds, and True if they are since 1970 rather than from now."""

Answers: TypeAlias = Iterable[tuple[str, Receipt | None]]
"""For each command, the word of its outcome and the new receipt."""

Time = TypeVar("Time", Duration, datetime)


def cancel(receipt: Receipt) -> Call[Outcome]:
    """`cancel`."""
    return Call("cancel_many", ([receipt],), lambda words: Outcome(words[0]), CANCELS)


def cancel_many(receipts: Iterable[Receipt]) -> Call[list[Outcome]]:
    """`cancel_many`."""
    return Call("cancel_many", (receipt_list(receipts),), lambda words: [Outcome(word) for word in words], CANCELS)


def move(receipt: Receipt, delay: Duration | None, at: datetime | None) -> Call[Moved]:
    """`move`."""
    return Call("move_many", (move_of(receipt, delay, at),), lambda answers: moved(answers)[0], MOVES)


def move_many(
    receipts: Iterable[Receipt],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
) -> Call[list[Moved]]:
    """`move_many`."""
    rows: list[Row] = moves_of(receipts, delay, at)
    return Call("move_many", (rows,), moved, MOVES)


def look_up(receipt: Receipt) -> Call[LookedUp]:
    """`look_up`."""
    return Call("look_up_many", ([receipt],), lambda answers: _looked_up([receipt], answers)[0], LOOK_UPS)


def look_up_many(receipts: Iterable[Receipt]) -> Call[list[LookedUp]]:
    """`look_up_many`."""
    chosen = receipt_list(receipts)
    return Call("look_up_many", (chosen,), lambda answers: _looked_up(chosen, answers), LOOK_UPS)


class ReceiptCommands(Part):
    """The methods for messages by their receipts."""

    def cancel(self, receipt: Receipt) -> Outcome:
        """Cancels a message that is still pending, for all groups. The answer is durable.

        Raises:
            WrongType: `receipt` is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered: no store gave it out.
            Poisoned, Closed, ForkedProcess: As `publish`.
            AmbiguousError: As `cancel_many`.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(cancel(receipt))

    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Cancels messages that are still pending, with one wait for all; each has its own outcome.

        A client repeats a request whose answer was lost: the same cancel has the same outcome. Its requests have at
        most 10,000 messages: if one is refused, the earlier ones have taken effect.

        Raises:
            WrongType: `receipts` is not an iterable of `Receipt`; nothing was cancelled.
            ForeignReceipt: Another store gave out receipt `index`; nothing was cancelled.
            InvalidArgument: A receipt was altered; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
            AmbiguousError: An answer to a client was lost, and the repeated request had none in time, or the client was
                closed: the messages may or may not be cancelled. The same call tells later.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(cancel_many(receipts))

    def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a pending message another due time and a new receipt, for all groups. The answer is durable.

        Args:
            receipt: The receipt of the message. It is not valid afterwards.
            delay: A timedelta or seconds from now, as for `publish`.
            at: An aware datetime instead; a past time means now.

        Returns:
            The outcome, and the new receipt if the message was moved. The same call again (with the same receipt and
            the same `at` or `delay`) has the same answer for ten minutes, within the last 1,048,576 moves. After that,
            or with another time, the old receipt is not found.

        Raises:
            WrongType: `receipt` is not a `Receipt`, or the time has the wrong type; nothing was moved.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered, neither or both of `delay` and `at` are given, or the time is out
                of range as for `publish`; nothing was moved.
            TooLarge: The delay does not fit into 63 bits of milliseconds.
            Poisoned, Closed, ForkedProcess: As `publish`.
            AmbiguousError: As `move_many`.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(move(receipt, delay, at))

    def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]:
        """Gives pending messages another due time, with one wait for all; each has its own outcome, as `move` has.

        A client repeats a request whose answer was lost: the same move has the same outcome while the server remembers
        it, which is for ten minutes, or until 1,048,576 more moves. Its requests have at most 10,000 messages, as of
        `cancel_many`.

        Args:
            receipts: The receipts of the messages.
            delay: One delay for all, or a sequence with one for each.
            at: One aware datetime for all, or a sequence with one for each.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `move`; `index` is the refused one, and nothing was moved.
            ForeignReceipt: Another store gave out receipt `index`; nothing was moved.
            Poisoned, Closed, ForkedProcess: As `publish`.
            AmbiguousError: An answer to a client was lost, and the repeated request had none in time, or the client was
                closed: the messages may or may not be moved. The same call tells later.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(move_many(receipts, delay, at))

    def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, without reading from disk.

        Raises:
            WrongType: `receipt` is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered: no store gave it out.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(look_up(receipt))

    def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages as of one moment, in the order of their receipts.

        A client sends requests of at most 10,000 receipts, each of which is answered as of a moment of its own.

        Raises:
            WrongType: `receipts` is not an iterable of `Receipt`.
            ForeignReceipt: Another store gave out receipt `index`.
            InvalidArgument: A receipt was altered.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(look_up_many(receipts))


class AsyncReceiptCommands(AsyncPart):
    """As `ReceiptCommands`, for coroutines. Each method raises the errors of the plain one, and WrongLoop."""

    async def cancel(self, receipt: Receipt) -> Outcome:
        """Cancels a message that is still pending, as `delaymq.Store.cancel`."""
        return await self._run(cancel(receipt))

    async def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Cancels messages that are still pending, as `delaymq.Store.cancel_many`."""
        return await self._run(cancel_many(receipts))

    async def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a pending message another due time and a new receipt, as `delaymq.Store.move`."""
        return await self._run(move(receipt, delay, at))

    async def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]:
        """Gives pending messages another due time, as `delaymq.Store.move_many`."""
        return await self._run(move_many(receipts, delay, at))

    async def look_up(self, receipt: Receipt) -> LookedUp:
        """Looks up the state of a message by its receipt, as `delaymq.Store.look_up`."""
        return await self._run(look_up(receipt))

    async def look_up_many(self, receipts: Iterable[Receipt]) -> list[LookedUp]:
        """Looks up many messages, as `delaymq.Store.look_up_many`."""
        return await self._run(look_up_many(receipts))


def _looked_up(receipts: list[Receipt], answers: list[tuple[str, str]]) -> list[LookedUp]:
    found = zip(receipts, answers, strict=True)
    return [LookedUp(Fate(fate), subject, receipt) for receipt, (fate, subject) in found]


def move_of(receipt: Receipt, delay: Duration | None, at: datetime | None) -> list[Row]:
    """The row that moves one message.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move`.
    """
    return [(receipt, *time_of(delay, at))]


def moves_of(
    receipts: Iterable[Receipt],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
) -> list[Row]:
    """The rows that move many messages.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move_many`.
    """
    items = receipt_list(receipts)
    times = times_of(delay, at, len(items), "receipt")
    return [(receipt, time, at is not None) for receipt, time in zip(items, times, strict=True)]


def time_of(delay: Duration | None, at: datetime | None) -> tuple[int, bool]:
    """The time that a message is moved to: milliseconds, and True if they are since 1970.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move`.
    """
    if delay is not None and at is None:
        return delay_ms(delay), False
    if at is not None and delay is None:
        return due_ms(at), True
    raise _not_one(delay)


def times_of(
    delay: Duration | Sequence[Duration] | None, at: datetime | Sequence[datetime] | None, count: int, what: str
) -> list[int]:
    """The milliseconds for each of `count` items."""
    if delay is not None and at is None:
        if isinstance(delay, int | float | timedelta):
            return [delay_ms(delay)] * count
        return _each(delay, "delay", ("a delay", what), delay_ms, count)
    if at is not None and delay is None:
        if isinstance(at, datetime):
            return [due_ms(at)] * count
        return _each(at, "at", ("a datetime", what), due_ms, count)
    raise _not_one(delay)


def moved(answers: Answers) -> list[Moved]:
    """The core's answers as `Moved`."""
    return [Moved(Outcome(word), receipt) for word, receipt in answers]


def _not_one(delay: object) -> InvalidArgument:
    argument, found = ("delay", "neither") if delay is None else ("at", "delay and at")
    return unexpected(argument, "one of delay and at", found)


def _each(
    given: Iterable[Time], argument: str, words: tuple[str, str], rule: Callable[[Time], int], count: int
) -> list[int]:
    """The milliseconds of each item, converted by `rule`."""
    one, what = words
    times = []
    for index, time in enumerate(listed(given, argument, f"{one}, or one for each {what}")):
        try:
            times.append(rule(time))
        except (WrongType, InvalidArgument) as error:
            error.index = index
            raise
    if len(times) != count:
        raise refused(argument, f"{count}, one for each {what}", len(times))
    return times
