"""Verbs for pending messages: cancelled, moved, looked up, listed, counted; by their receipts, or by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, unexpected, wrong_type
from delaymq._arguments.batches import listed, receipt_list
from delaymq._verbs.calls import BY_KEY, BY_KEYS, CANCELS, LISTED, LOOK_UPS, MOVES, READS, Call, unchanged
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.forecast import MINUTE, SECOND, Forecast, Slots
from delaymq.pending import PAGE, Fate, LookedUp, Page
from delaymq.receipt import Moved, Outcome, Receipt

PendingFilter: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""A subject, a prefix, and two times in milliseconds since 1970."""

Row: TypeAlias = tuple[Receipt, int, bool]
"""A receipt, milliseconds, and True if they are since 1970 rather than from now."""

KeyRow: TypeAlias = tuple[str, int, bool]
"""A key, and the time as in `Row`."""

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


def _looked_up(receipts: list[Receipt], answers: list[tuple[str, str]]) -> list[LookedUp]:
    found = zip(receipts, answers, strict=True)
    return [LookedUp(Fate(fate), subject, receipt) for receipt, (fate, subject) in found]


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


def cancel_key(subject: str, key: str, command_id: str | None) -> Call[Outcome]:
    """`cancel_key`."""
    return Call("cancel_key", (subject, key, command_id), lambda words: Outcome(words[0]), BY_KEY)


def cancel_keys(subject: str, keys: Iterable[str], command_id: str | None) -> Call[list[Outcome]]:
    """`cancel_keys`."""
    arguments = (subject, keys_of(keys), command_id)
    return Call("cancel_keys", arguments, lambda words: [Outcome(word) for word in words], BY_KEYS)


def move_key(
    subject: str, key: str, delay: Duration | None, at: datetime | None, command_id: str | None
) -> Call[Moved]:
    """`move_key`."""
    arguments = (subject, key, *time_of(delay, at), command_id)
    return Call("move_key", arguments, lambda answers: moved(answers)[0], BY_KEY)


def move_keys(
    subject: str,
    keys: Iterable[str],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
    command_id: str | None,
) -> Call[list[Moved]]:
    """`move_keys`."""
    return Call("move_keys", (subject, key_moves_of(keys, delay, at), command_id), moved, BY_KEYS)


def look_up_key(subject: str, key: str) -> Call[LookedUp]:
    """`look_up_key`."""

    def looked_up(answer: tuple[str, Receipt | None]) -> LookedUp:
        fate, receipt = answer
        return LookedUp(Fate(fate), "" if receipt is None else subject, receipt)

    return Call("look_up_key", (subject, key), looked_up, READS)


def move_of(receipt: Receipt, delay: Duration | None, at: datetime | None) -> list[Row]:
    """The row that moves one message.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move`.
    """
    return [(receipt, *time_of(delay, at))]


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
    times = _times(delay, at, len(items), "receipt")
    return [(receipt, time, at is not None) for receipt, time in zip(items, times, strict=True)]


def keys_of(keys: Iterable[str]) -> list[str]:
    """The keys of a call for many keys.

    Raises:
        WrongType: As `Store.cancel_keys`.
    """
    items = listed(keys, "keys", "an iterable of str")
    for index, key in enumerate(items):
        anything: object = key
        if not isinstance(anything, str):
            error = wrong_type("key", "str", anything)
            error.index = index
            raise error
    return items


def key_moves_of(
    keys: Iterable[str],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
) -> list[KeyRow]:
    """The rows that move the messages with these keys.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move_keys`.
    """
    items = keys_of(keys)
    known: dict[str, int] = {}
    rows = []
    for index, (key, time) in enumerate(zip(items, _times(delay, at, len(items), "key"), strict=True)):
        if known.setdefault(key, time) != time:
            error = refused("key", "no key twice with two times", key)
            error.index = index
            raise error
        rows.append((key, time, at is not None))
    return rows


def moved(answers: Answers) -> list[Moved]:
    """The core's answers as `Moved`."""
    return [Moved(Outcome(word), receipt) for word, receipt in answers]


def _not_one(delay: object) -> InvalidArgument:
    argument, found = ("delay", "neither") if delay is None else ("at", "delay and at")
    return unexpected(argument, "one of delay and at", found)


def _times(
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
