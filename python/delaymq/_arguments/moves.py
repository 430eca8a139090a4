"""Arguments of moves and of commands for many keys, as one call into the core takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, unexpected, wrong_type
from delaymq._arguments.batches import listed, receipt_list
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Moved, Outcome, Receipt

Row: TypeAlias = tuple[Receipt, int, bool]
"""A receipt, milliseconds, and True if they are since 1970 rather than from now."""

KeyRow: TypeAlias = tuple[str, int, bool]
"""A key, and the time as in `Row`."""

Answers: TypeAlias = Iterable[tuple[str, Receipt | None]]
"""For each command, the word of its outcome and the new receipt."""

Time = TypeVar("Time", Duration, datetime)


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
