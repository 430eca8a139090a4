"""Delays before a failed message is delivered again."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

from delaymq._arguments.argument_errors import checked_int, refused, wrong_type
from delaymq.durations import TIMEDELTA_MS_MAX, Duration, delay_ms

__all__ = ["backoff"]


def backoff(
    first: Duration = 1, factor: float = 2, longest: Duration = timedelta(hours=1), jitter: float = 0.1
) -> Callable[[int], timedelta]:
    """A function of the attempt that returns growing delays, for `message.nack(retry_after(message.attempt))`.

    ::

        retry_after = delaymq.backoff(first=5, longest=timedelta(minutes=30))
        ...
        message.nack(retry_after(message.attempt))

    Args:
        first: The delay after the first attempt, a timedelta or seconds.
        factor: The ratio of each delay to the one before, 1 or more.
        longest: The longest delay, before jitter is applied.
        jitter: The largest random change of a delay, as a fraction of it, 0 to 1, in either direction. It
            keeps messages that failed together from being retried together.

    Returns:
        A function that takes an attempt, from 1, and returns a timedelta.

    Raises:
        WrongType: An argument has the wrong type.
        InvalidArgument: An argument has a value that is refused.
    """
    first_ms, longest_ms = delay_ms(first, "first"), delay_ms(longest, "longest")
    _check(factor, "factor", 1.0, 1e6)
    _check(jitter, "jitter", 0.0, 1.0)

    def retry_after(attempt: int) -> timedelta:
        """The delay after this attempt.

        Raises:
            WrongType: `attempt` is not an int.
            InvalidArgument: `attempt` is less than 1.
        """
        checked_int("attempt", attempt, 1, None, expected="1 or more")
        try:
            milliseconds = min(first_ms * float(factor) ** (attempt - 1), longest_ms)
        except OverflowError:
            milliseconds = longest_ms if first_ms else 0
        spread = random.uniform(-jitter, jitter)  # noqa: S311 - nothing secret depends on it
        return timedelta(milliseconds=min(round(milliseconds * (1 + spread)), TIMEDELTA_MS_MAX))

    return retry_after


def _check(value: float, argument: str, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(argument, "a number", value)
    if not least <= value <= most:  # also refuses NaN
        raise refused(argument, f"{least:g} to {most:g}", value)
