"""What `move` and `move_many` accept, turned into one crossing into the core; the same in all faces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from delaymq._gathering import listed
from delaymq._refusals import refused
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Moved, Outcome, Receipt

__all__ = ["Answers", "Row", "move_of", "moved", "moves_of", "time_of"]

Row: TypeAlias = tuple[Receipt, int, bool]
"""A receipt, milliseconds, and True where they are since 1970 rather than from now."""

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
    if delay is not None and at is None:
        if isinstance(delay, int | float | timedelta):
            times = [delay_ms(delay)] * len(chosen)
        else:
            times = _each(delay, "delay", "a delay, or one for each receipt", delay_ms, len(chosen))
    elif at is not None and delay is None:
        if isinstance(at, datetime):
            times = [due_ms(at)] * len(chosen)
        else:
            times = _each(at, "at", "a datetime, or one for each receipt", due_ms, len(chosen))
    else:
        raise _not_one(delay)
    return [(receipt, time, at is not None) for receipt, time in zip(chosen, times, strict=True)]


def moved(answers: Answers) -> list[Moved]:
    """What the core found, as users hold it."""
    return [Moved(Outcome(word), receipt) for word, receipt in answers]


def _not_one(delay: object) -> InvalidArgument:
    argument, found = ("delay", "neither") if delay is None else ("at", "delay and at")
    expected = "one of delay and at"
    return InvalidArgument(
        f"{argument}: expected {expected}, found {found}", argument=argument, expected=expected, found=found
    )


def _each(given: Iterable[Time], argument: str, expected: str, rule: Callable[[Time], int], count: int) -> list[int]:
    """The milliseconds of each."""
    times = []
    for index, time in enumerate(listed(given, argument, expected)):
        try:
            times.append(rule(time))
        except (WrongType, InvalidArgument) as error:
            error.index = index
            raise
    if len(times) != count:
        raise refused(argument, f"{count}, one for each receipt", len(times))
    return times
