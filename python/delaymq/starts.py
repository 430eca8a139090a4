"""Where a group begins: at a word, a time, or a message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.durations import delay_ms, due_ms
from delaymq.receipt import Receipt

__all__ = ["CoreStart", "PublishedSince", "Start", "start_of"]


@dataclass(frozen=True, slots=True)
class PublishedSince:
    """The first message that was published at a time or later.

    The group begins where the first of these messages became ready. No later one is left out. Messages that were
    published before, and that became ready behind that place, come as well. A moved message counts as published when it
    was moved.

    Attributes:
        time: The time, with its zone, or for how long before now, by the clock of the store.
    """

    time: datetime | timedelta


Start: TypeAlias = Literal["earliest", "unfinished", "latest"] | datetime | timedelta | PublishedSince | Receipt
"""Where a group begins:

- `"earliest"`: with the earliest message that is kept, even if all groups have finished it,
- `"unfinished"`: with the first message that some group has not finished,
- `"latest"`: with the next message that becomes ready,
- a datetime with its zone, or a timedelta before now: with the first message that became ready at that time or later.
  No message that was due then or later is left out,
- `PublishedSince(…)`: the same by the time of publishing,
- a receipt: with its message, which is kept. If it is pending, with the next message that becomes ready.
"""

CoreStart: TypeAlias = str | tuple[str, int] | Receipt
"""A start as the core takes it: a word, a kind of time with milliseconds, or a receipt."""

WORDS = ("earliest", "unfinished", "latest")
EXPECTED = '"earliest", "unfinished", "latest", a datetime, a timedelta, PublishedSince(…) or a receipt'


def start_of(start: Start) -> CoreStart:
    """The start of a group as the core takes it.

    Raises:
        WrongType: It is no start.
        InvalidArgument: A word is unknown, a time has no zone or lies before 1970, or a duration is negative.
        TooLarge: A duration does not fit into 63 bits of milliseconds.
    """
    if isinstance(start, str):
        if start not in WORDS:
            raise refused("start", EXPECTED, start)
        return start
    if isinstance(start, Receipt):
        return start
    if isinstance(start, PublishedSince):
        return _time("published", start.time)
    return _time("due", start)


def _time(kind: str, time: datetime | timedelta) -> tuple[str, int]:
    if isinstance(time, timedelta):
        return f"{kind}_ago", delay_ms(time, "start")
    if isinstance(time, datetime):
        return f"{kind}_at", due_ms(time, "start")
    raise wrong_type("start", EXPECTED, time)
