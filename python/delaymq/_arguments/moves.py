"""What moves and commands by many keys accept, turned into one crossing into the core; the same in all faces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._arguments.batches import listed
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Moved, Outcome, Receipt

__all__ = ["Answers", "KeyRow", "Row", "key_moves_of", "keys_of", "move_of", "moved", "moves_of", "time_of"]

Row: TypeAlias = tuple[Receipt, int, bool]
"""A receipt, milliseconds, and True where they are since 1970 rather than from now."""

KeyRow: TypeAlias = tuple[str, int, bool]
"""A key, and the time as `Row` has it."""

Answers: TypeAlias = Iterable[tuple[str, Receipt | None]]
"""What the core found of each, and its new receipt."""

Time = TypeVar("Time", Duration, datetime)


def move_of(receipt: Receipt, delay: Duration | None, at: datetime | None) -> list[Row]:
    """What crosses into the core to move one message.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move`.
    """
    return [(receipt, *time_of(delay, at))]


def time_of(delay: Duration | None, at: datetime | None) -> tuple[int, bool]:
    """What crosses into the core of the time that a message is moved to.

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
    """What crosses into the core to move many messages.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move_many`.
    """
    chosen = listed(receipts, "receipts", "an iterable of Receipt")
    times = _times(delay, at, len(chosen), "receipt")
    return [(receipt, time, at is not None) for receipt, time in zip(chosen, times, strict=True)]


def keys_of(keys: Iterable[str]) -> list[str]:
    """The keys of a call for many.

    Raises:
        WrongType: As `Store.cancel_keys`.
    """
    chosen = listed(keys, "keys", "an iterable of str")
    for index, key in enumerate(chosen):
        anything: object = key
        if not isinstance(anything, str):
            error = wrong_type("key", "str", anything)
            error.index = index
            raise error
    return chosen


def key_moves_of(
    keys: Iterable[str],
    delay: Duration | Sequence[Duration] | None,
    at: datetime | Sequence[datetime] | None,
) -> list[KeyRow]:
    """What crosses into the core to move the messages that have these keys.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.move_keys`.
    """
    chosen = keys_of(keys)
    known: dict[str, int] = {}
    rows = []
    for index, (key, time) in enumerate(zip(chosen, _times(delay, at, len(chosen), "key"), strict=True)):
        if known.setdefault(key, time) != time:
            error = refused("key", "no key twice with two times", key)
            error.index = index
            raise error
        rows.append((key, time, at is not None))
    return rows


def moved(answers: Answers) -> list[Moved]:
    """What the core found, as users hold it."""
    return [Moved(Outcome(word), receipt) for word, receipt in answers]


def _not_one(delay: object) -> InvalidArgument:
    argument, found = ("delay", "neither") if delay is None else ("at", "delay and at")
    expected = "one of delay and at"
    return InvalidArgument(
        f"{argument}: expected {expected}, found {found}", argument=argument, expected=expected, found=found
    )


def _times(
    delay: Duration | Sequence[Duration] | None, at: datetime | Sequence[datetime] | None, count: int, what: str
) -> list[int]:
    """The milliseconds of each of so many."""
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
    """The milliseconds of each."""
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
