"""Durations and due times, converted from what users write to whole milliseconds.

A fraction of a millisecond is rounded up, so that no message is due early.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

from delaymq._arguments.argument_errors import WHOLE_BITS_SHOWN, checked_int, refused, shown, unexpected, wrong_type
from delaymq.errors import TooLarge

__all__ = [
    "LEVELS_S",
    "MOMENT_MS_MAX",
    "TIMEDELTA_MS_MAX",
    "Duration",
    "Expires",
    "OnExpiry",
    "begin_of",
    "delay_ms",
    "due_ms",
    "due_of",
    "expires_after_of",
    "expiry_of",
    "hold_ms",
    "jittered",
    "level_ms",
    "moment",
    "moment_or_none",
    "wait_ms",
]

Duration = timedelta | float
"""A timedelta, or a number of seconds."""
Expires = timedelta | float | datetime
"""A time after the due time, as a timedelta or seconds; or an aware datetime."""
OnExpiry = Literal["drop", "dead_letter"]
"""The effect of an expiry: the message is finished, or becomes a dead letter with the reason `expired`."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_S = 86_400
TIMEDELTA_MS_MAX = timedelta.max // timedelta(milliseconds=1)
MOMENT_MS_MAX = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
FLOAT_NOISE = 2.0**-51  # relative error of a decimal literal times 1000
MILLISECONDS_MAX = 2**63 - 1  # the range of the core's integers; its own limits are far lower
DRAW_BYTES = 16  # random bytes of one number: enough to make the bias of the modulus negligible
JITTER_MS_MAX = 3_650 * 86_400_000  # ten years: as far ahead as a store takes messages by default
LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""RocketMQ's delay levels 1 to 18, in seconds."""


def delay_ms(delay: Duration, argument: str = "delay") -> int:
    """A delay in milliseconds, rounded up.

    Args:
        delay: A timedelta or seconds, zero or more, finite.
        argument: The name of the argument, for errors.

    Raises:
        WrongType: It is neither a timedelta nor a number, or it is a bool.
        InvalidArgument: It is negative, infinite or not a number.
        TooLarge: It does not fit into 63 bits of milliseconds.
    """
    if isinstance(delay, timedelta):
        _refuse_nanoseconds(delay, argument, "to_pytimedelta")
        # In integers, since the negation of the longest timedelta is not a valid timedelta.
        microseconds = (delay.days * DAY_S + delay.seconds) * 1_000_000 + delay.microseconds
        milliseconds = -(-microseconds // 1000)
        negative = delay < timedelta(0)
    elif isinstance(delay, bool) or not isinstance(delay, int | float):
        raise wrong_type(argument, "a timedelta or a number of seconds", delay)
    elif isinstance(delay, int):
        milliseconds = delay * 1000
        negative = delay < 0
    elif not math.isfinite(delay):
        raise refused(argument, "a finite number of seconds", delay)
    else:
        negative = delay < 0
        # The minimum keeps the product finite; twice the limit is refused below like every larger value.
        milliseconds = 0 if negative else _rounded_up(min(delay * 1000, MILLISECONDS_MAX * 2.0))
    if negative:
        raise refused(argument, "zero or more", delay)
    if milliseconds > MILLISECONDS_MAX:
        raise _too_large(argument, milliseconds, MILLISECONDS_MAX)
    return milliseconds


def due_ms(at: datetime, argument: str = "at") -> int:
    """An aware datetime in milliseconds since 1970-01-01T00:00:00Z, rounded up.

    Raises:
        WrongType: It is not a datetime, or it is one of pandas.
        InvalidArgument: It has no time zone, or lies before 1970.
    """
    if not isinstance(at, datetime):
        raise wrong_type(argument, "a datetime with a time zone", at)
    _refuse_nanoseconds(at, argument, "to_pydatetime")
    if at.utcoffset() is None:
        raise refused(argument, "a datetime with a time zone (say which: at.replace(tzinfo=UTC))", at)
    milliseconds = -((EPOCH - at) // timedelta(milliseconds=1))
    if milliseconds < 0:
        raise refused(argument, "a time after 1970", at)
    return milliseconds


def level_ms(level: int) -> int:
    """One of RocketMQ's delay levels, in milliseconds.

    Raises:
        WrongType: It is not an int.
        InvalidArgument: It is not 1 to 18.
    """
    return LEVELS_S[checked_int("level", level, 1, len(LEVELS_S)) - 1] * 1000


def due_of(delay: Duration | None, at: datetime | None, level: int | None) -> tuple[int, bool]:
    """The due time of a publish in milliseconds, and True if they are since 1970 rather than from now.

    Raises:
        WrongType: One of the arguments has the wrong type.
        InvalidArgument: Two of them are given, or one of them is refused.
    """
    if at is None and level is None:
        return (0 if delay is None else delay_ms(delay)), False
    given = [name for name, value in (("delay", delay), ("at", at), ("level", level)) if value is not None]
    if len(given) > 1:
        raise unexpected(given[1], "one of delay, at and level", " and ".join(given))
    return (level_ms(level), False) if level is not None else (due_ms(cast("datetime", at)), True)


def expiry_of(expires: Expires | None, on_expiry: OnExpiry | None) -> tuple[int, bool, bool] | None:
    """The expiry of a publish: milliseconds, True if they are since 1970 rather than after the due time, and whether
    the message becomes a dead letter then.

    Raises:
        WrongType: One of the arguments has the wrong type.
        InvalidArgument: One of them is refused, or there is no `expires` beside `on_expiry`.
    """
    dies = _dies(on_expiry, "expires", has_expiry=expires is not None)
    if expires is None:
        return None
    if isinstance(expires, datetime):
        return due_ms(expires, "expires"), True, dies
    if isinstance(expires, bool) or not isinstance(expires, timedelta | int | float):
        raise wrong_type("expires", "a timedelta, a number of seconds or a datetime with a time zone", expires)
    return delay_ms(expires, "expires"), False, dies


def expires_after_of(expires_after: Duration | None, on_expiry: OnExpiry | None) -> tuple[int, bool] | None:
    """The expiry of the messages of a series: milliseconds after the due time, and whether they become dead letters.

    Raises:
        WrongType, InvalidArgument: As `expiry_of`.
    """
    dies = _dies(on_expiry, "expires_after", has_expiry=expires_after is not None)
    return None if expires_after is None else (delay_ms(expires_after, "expires_after"), dies)


def _dies(on_expiry: OnExpiry | None, argument: str, *, has_expiry: bool) -> bool:
    word: object = on_expiry
    if word is not None and not isinstance(word, str):
        raise wrong_type("on_expiry", '"drop" or "dead_letter"', word)
    if word not in {None, "drop", "dead_letter"}:
        raise refused("on_expiry", '"drop" or "dead_letter"', word)
    if word is not None and not has_expiry:
        raise refused("on_expiry", f"{argument} beside it", word)
    return word == "dead_letter"


def jittered(due: int, jitter: Duration | None) -> int:
    """A due time plus a random part of the jitter, uniformly distributed.

    Args:
        due: Milliseconds, since any moment.
        jitter: A timedelta or seconds, at most ten years, or None.

    Raises:
        WrongType: The jitter is neither a timedelta nor a number, or it is a bool.
        InvalidArgument: It is negative, infinite, not a number, or longer than ten years.
        TooLarge: It does not fit into 63 bits of milliseconds.
    """
    most = jitter_ms(jitter)
    return due + random_integers(most, 1)[0] if most else due


def jitter_ms(jitter: Duration | None) -> int:
    """The largest jitter in milliseconds; 0 for None.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `jittered`.
    """
    if jitter is None:
        return 0
    most = delay_ms(jitter, "jitter")
    if most > JITTER_MS_MAX:
        raise refused("jitter", "at most ten years", jitter)
    return most


def random_integers(most: int, count: int) -> list[int]:
    """Uniformly distributed integers from 0 to `most`, from one read of the system's random source."""
    random_bytes = os.urandom(DRAW_BYTES * count)
    starts = range(0, len(random_bytes), DRAW_BYTES)
    return [int.from_bytes(random_bytes[start : start + DRAW_BYTES]) % (most + 1) for start in starts]


def wait_ms(timeout: Duration | None, argument: str = "timeout") -> int | None:
    """A timeout in milliseconds, or None to wait forever.

    Raises:
        WrongType: It is neither None, a timedelta nor a number.
        InvalidArgument: It is negative, infinite or not a number.
    """
    return None if timeout is None else delay_ms(timeout, argument)


def hold_ms(time: Duration | None, argument: str = "handle_within") -> int | None:
    """How long a consumer may hold a message, in milliseconds, or None.

    Raises:
        WrongType: It is neither None, a timedelta nor a number.
        InvalidArgument: It is zero, negative, infinite or not a number.
        TooLarge: It does not fit into 63 bits of milliseconds.
    """
    if time is None:
        return None
    milliseconds = delay_ms(time, argument)
    if milliseconds == 0:
        raise refused(argument, "at least a millisecond", time)
    return milliseconds


def moment(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as an aware UTC datetime.

    Raises:
        TooLarge: It lies after the year 9999, the last one of datetimes.
    """
    if milliseconds > MOMENT_MS_MAX:
        raise _too_large("due", milliseconds, MOMENT_MS_MAX)
    return EPOCH + timedelta(milliseconds=milliseconds)


def moment_or_none(milliseconds: int | None) -> datetime | None:
    """As `moment`; None stays None, and a time after the year 9999 becomes the last possible datetime."""
    return None if milliseconds is None else moment(min(milliseconds, MOMENT_MS_MAX))


def begin_of(time: datetime, width: timedelta) -> datetime:
    """The beginning of the slot of this width that contains a time; slots are counted from 1970."""
    return time - (time - EPOCH) % width


def _rounded_up(milliseconds: float) -> int:
    """Rounds up to a whole millisecond, but ignores an excess of float precision.

    For example, 2.007 seconds are 2007 ms, although 2.007 * 1000 is slightly more.
    """
    nearest = round(milliseconds)
    return nearest if abs(milliseconds - nearest) <= nearest * FLOAT_NOISE else math.ceil(milliseconds)


def _refuse_nanoseconds(value: datetime | timedelta, argument: str, method: str) -> None:
    """Refuses pandas' times: converting them rounds their nanoseconds down, which could make a message early."""
    if type(value) not in (datetime, timedelta) and (hasattr(value, "nanosecond") or hasattr(value, "nanoseconds")):
        kind = "datetime" if isinstance(value, datetime) else "timedelta"
        raise wrong_type(argument, f"a {kind} (round it up, then call .{method}())", value)


def _span(milliseconds: int) -> str:
    """A duration as text, like the core writes it: the largest unit first, to the millisecond."""
    if milliseconds.bit_length() > WHOLE_BITS_SHOWN:
        return f"{shown(milliseconds)} in ms"
    words = []
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")):
        count, milliseconds = divmod(milliseconds, unit_ms)
        if count:
            words.append(f"{count}{word}")
    return "".join(words) or "0ms"


def _too_large(argument: str, found: int, limit: int) -> TooLarge:
    return TooLarge(
        f"{argument} is too large: the limit is {_span(limit)}, found {_span(found)}",
        argument=argument,
        limit=limit,
        found=shown(found),
    )
