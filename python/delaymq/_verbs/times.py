"""The times of moves, as the core takes them, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, unexpected
from delaymq._arguments.batches import listed
from delaymq.durations import Duration, delay_ms, due_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Moved, Outcome, Receipt

Answers: TypeAlias = Iterable[tuple[str, Receipt | None]]
"""For each command, the word of its outcome and the new receipt."""

Time = TypeVar("Time", Duration, datetime)


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
