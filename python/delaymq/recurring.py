"""Messages that recur: a rule that says when, and one pending message at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.durations import delay_ms, due_ms
from delaymq.keys import CODES, IfExists, is_text
from delaymq.message import NO_TAGS, about

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from delaymq.durations import Duration
    from delaymq.receipt import Receipt

__all__ = ["CatchUp", "Recurring", "RecurringCommands"]

CatchUp = Literal["one", "skip", "all"]
"""What is done about what is missed: the last of it happens once, at once; none of it; each of it."""

Asked: TypeAlias = tuple[str, int | None, str | None, str, int | None, int, int]
Row: TypeAlias = "tuple[int, str, str, str, str, int, Receipt | None]"

CATCH_UPS: tuple[CatchUp, ...] = ("one", "skip", "all")
ATTRIBUTE = "recurring"  # of each message: the name of its series
EVERY = "every "  # what the rule of an interval begins with
PAGE = 1_000  # series that are listed at once


@dataclass(frozen=True, slots=True)
class Recurring:
    """A series of messages that goes on.

    Attributes:
        subject: The subject of its messages.
        name: Its name in the subject.
        every: Its interval, or None.
        cron: Its pattern, or None.
        zone: The zone of the pattern; of an interval `"UTC"`.
        catch_up: What is done about what is missed: `"one"`, `"skip"` or `"all"`.
        receipt: The pending message, which `cancel`, `move` and `look_up` take; None where it is about to be stored.
    """

    subject: str
    name: str
    every: timedelta | None
    cron: str | None
    zone: str
    catch_up: CatchUp
    receipt: Receipt | None

    @property
    def due(self) -> datetime | None:
        """When the pending message is due, UTC; None where it is about to be stored."""
        return None if self.receipt is None else self.receipt.due


class RecurringCommands:
    """The part of a store that sends messages again and again; `Store` has these methods."""

    _core: _core.Store

    def recur(
        self,
        subject: str,
        body: bytes | bytearray | memoryview,
        *,
        name: str,
        every: Duration | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        start: datetime | None = None,
        catch_up: CatchUp = "one",
        if_exists: IfExists = "error",
        tags: Sequence[str] = NO_TAGS,
        attributes: Mapping[str, str] | None = None,
    ) -> Recurring:
        """Sends a message again and again, one pending at a time, until `end_recurring`.

        ::

            store.recur("reports", b"daily", name="daily", cron="30 9 * * mon-fri", zone="Europe/Berlin")

        Each is due at a time of the rule, counted from the one before and never from now, so that nothing drifts. It is
        stored when the one before is dispatched or cancelled.

        Args:
            subject: The subject of the messages, made as `publish` says.
            body: The body of each of them, anything that is bytes-like.
            name: A name of your own, made as a subject's: a subject has one series of it.
            every: A timedelta or seconds between two messages, from 1 second to 10 years.
            cron: Five fields instead: minute, hour, day of the month, month, day of the week; or six with seconds
                first. Names, ranges, lists, steps, `L`, `W` and `#` are understood. One that does not happen within ten
                years is refused.
            zone: The time zone of the pattern, an IANA name. With one time of day, what a clock leaves out happens at
                the first moment after it, and what it shows twice happens the first time. With several, by `*`, a
                list, a range or a step, it goes by what the clock shows.
            start: An aware datetime before which there is none. An interval counts from it, also where it is over.
            catch_up: What is done where the time of some is over before they could be stored, as after a downtime:
                `"one"`: the last of them happens, at once; `"skip"`: none; `"all"`: each, one after the other.
            if_exists: What is done where the subject has a series of that name: `"replace"` ends it and cancels its
                pending message, `"keep"` leaves it and begins nothing, `"error"` refuses.
            tags: As `publish` has them.
            attributes: The same. `recurring` with the name is added.

        Returns:
            The series of that name, once it is durable.

        Raises:
            WrongType: An argument has the wrong type; nothing was stored.
            InvalidArgument: `subject`, `name`, `every`, `cron`, `zone`, `start`, `catch_up`, `if_exists`, `tags` or
                `attributes` is refused, or there is a series of that name; nothing was stored.
            TooLarge: The whole takes more than 64 KiB, or all series together more than 16 MiB; nothing was stored.
            NamesFull: There are 65,536 series; nothing was stored.
            DiskFull, Poisoned, Closed, ForkedProcess: As `publish`.
        """
        asked = asked_series(name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists)
        return told(_core.recur(self._core, subject, body, asked, about_series(name, tags, attributes)))

    def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series; its pending message is cancelled. What was dispatched stays.

        Returns:
            False where the subject has none of that name. The answer is durable.

        Raises:
            WrongType, InvalidArgument: `subject` or `name` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.end_recurring(self._core, subject, name)

    def recurring(self, subject: str | None = None) -> list[Recurring]:
        """All series, of a subject or of all, in the order in which they began.

        Raises:
            WrongType: `subject` is no str.
            InvalidArgument: The store does not have the subject.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        found: list[Row] = []
        while True:
            page = _core.recurring(self._core, subject, found[-1][0] if found else 0, PAGE)
            found += page
            if len(page) < PAGE:
                return [told(row) for row in found]


def repeating_of(core: _core.Store) -> RecurringCommands:
    """The methods alone, for who has the core of a store."""
    alone = RecurringCommands()
    alone._core = core  # noqa: SLF001 - a store made of this part only
    return alone


def asked_series(
    name: str,
    every: Duration | None,
    cron: str | None,
    *,
    zone: str,
    start: datetime | None,
    catch_up: CatchUp,
    if_exists: IfExists,
) -> Asked:
    """What is asked for, as it crosses the boundary.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `RecurringCommands.recur`.
    """
    checked(name, "name")
    checked(zone, "zone")
    if cron is not None:
        checked(cron, "cron")
        if not cron:
            raise refused("cron", "five fields of cron, or six with seconds first", cron)
    if (every is None) == (cron is None):
        raise refused("every", "one of every and cron", "neither" if every is None else "both")
    chosen(catch_up, "catch_up", CATCH_UPS)
    chosen(if_exists, "if_exists", tuple(CODES))
    every_ms = None if every is None else delay_ms(every, "every")
    start_ms = None if start is None else due_ms(start, "start")
    return name, every_ms, cron, zone, start_ms, CATCH_UPS.index(catch_up), CODES[if_exists]


def checked(word: object, argument: str) -> None:
    """Refuses what is no text."""
    if not isinstance(word, str):
        raise wrong_type(argument, "str", word)
    if not is_text(word):
        raise refused(argument, "text that UTF-8 can hold", "a lone surrogate")


def chosen(word: object, argument: str, words: tuple[str, ...]) -> None:
    """Refuses what is none of some words."""
    expected = " or ".join(f'"{one}"' for one in words)
    if not isinstance(word, str):
        raise wrong_type(argument, expected, word)
    if word not in words:
        raise refused(argument, expected, word)


def about_series(
    name: str, tags: Sequence[str], attributes: Mapping[str, str] | None
) -> tuple[str | None, Sequence[str], Mapping[str, str] | None] | None:
    """What goes along with each message."""
    try:
        given = {**(attributes or {})}
    except TypeError:
        raise wrong_type("attributes", "a mapping", attributes) from None
    if given.get(ATTRIBUTE, name) != name:
        raise refused("attributes", f"no {ATTRIBUTE!r} but the name of the series", given[ATTRIBUTE])
    return about(None, tags, {ATTRIBUTE: name, **given})


def told(row: Row) -> Recurring:
    """A series, from what crossed the boundary."""
    _, subject, name, rule, zone, catch_up, receipt = row
    every = None
    if rule.startswith(EVERY):
        every = timedelta(milliseconds=int(rule.removeprefix(EVERY).removesuffix("ms")))
    return Recurring(subject, name, every, rule if every is None else None, zone, CATCH_UPS[catch_up], receipt)
