"""Recurring messages: a series has a rule for its due times, and one pending message at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.parts import StorePart
from delaymq.durations import TIMEDELTA_MS_MAX, Duration, OnExpiry, delay_ms, due_ms, expires_after_of
from delaymq.keys import CODES, IfExists, is_text
from delaymq.message import NO_TAGS, meta_of
from delaymq.receipt import Receipt

__all__ = ["CatchUp", "Recurring", "RecurringCommands"]

CatchUp = Literal["one", "skip", "all"]
"""How missed occurrences are handled: the last one is published at once, none is, or each one is."""

SeriesRequest: TypeAlias = tuple[str, int | None, str | None, str, int | None, int, int, tuple[int, bool] | None]
Row: TypeAlias = "tuple[int, str, str, str, str, int, tuple[int, bool] | None, Receipt | None]"

CATCH_UPS: tuple[CatchUp, ...] = ("one", "skip", "all")
ATTRIBUTE = "recurring"  # attribute of each message: the name of its series
EVERY = "every "  # the beginning of the rule of an interval
PAGE = 1_000  # series that one call lists


@dataclass(frozen=True, slots=True)
class Recurring:
    """A series of messages that has not ended.

    Attributes:
        subject: The subject of its messages.
        name: Its name, unique within the subject.
        every: Its interval, or None.
        cron: Its cron pattern, or None.
        zone: The IANA time zone of the pattern; `"UTC"` for an interval.
        catch_up: How missed occurrences are handled: `"one"`, `"skip"` or `"all"`.
        receipt: The receipt of the pending message, for `cancel`, `move` and `look_up`; None while that message is
            about to be stored.
        expires_after: How long after its due time each message is of use, or None.
        on_expiry: The effect of an expiry: `"drop"` or `"dead_letter"`; None if the messages do not expire.
    """

    subject: str
    name: str
    every: timedelta | None
    cron: str | None
    zone: str
    catch_up: CatchUp
    receipt: Receipt | None
    expires_after: timedelta | None = None
    on_expiry: OnExpiry | None = None

    @property
    def due(self) -> datetime | None:
        """When the pending message is due, UTC; None while it is about to be stored."""
        return None if self.receipt is None else self.receipt.due


class RecurringCommands(StorePart):
    """The methods of `Store` for recurring messages."""

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
        expires_after: Duration | None = None,
        on_expiry: OnExpiry | None = None,
    ) -> Recurring:
        """Publishes a message again and again, one pending at a time, until `end_recurring`.

        ::

            store.recur("reports", b"daily", name="daily", cron="30 9 * * mon-fri", zone="Europe/Berlin")

        Each due time is computed from the one before, never from the current time, so that the series does not drift.
        The next message is stored when the one before is dispatched or cancelled.

        Args:
            subject: The subject of the messages, as for `publish`.
            body: The body of each message, a bytes-like object.
            name: Your name of the series, with the characters of a subject; unique within the subject.
            every: A timedelta or seconds between two messages, from 1 second to 10 years.
            cron: A cron pattern instead: minute, hour, day of the month, month and day of the week, or six fields with
                seconds first. Names, ranges, lists, steps, `L`, `W` and `#` are allowed, and a range may wrap
                (`fri-mon`). `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are patterns too, and `@every 5m`
                is an interval. A pattern without an occurrence within ten years is refused.
            zone: The time zone of the pattern, an IANA name. If the pattern has one time of day, a time that the clock
                skips occurs at the first moment after the gap, and a repeated time occurs once, the first time. If it
                has several (by `*`, a list, a range or a step), it follows the clock.
            start: An aware datetime before which there is no occurrence. An interval is counted from it, even if it has
                passed.
            catch_up: How occurrences are handled that could not be stored in time, such as during a downtime: `"one"`
                publishes the last one at once, `"skip"` none, `"all"` each, one after the other.
            if_exists: The effect if the subject has a series of that name: `"replace"` ends it and cancels its
                pending message, `"keep"` keeps it and begins nothing, `"error"` raises InvalidArgument.
            tags: As for `publish`.
            attributes: As for `publish`. `recurring` is added, with the name of the series.
            expires_after: How long after its own due time each message is of use, as `expires` of `publish`.
            on_expiry: As for `publish`.

        Returns:
            The series of that name, once it is durable.

        Raises:
            WrongType: An argument has the wrong type; nothing was stored.
            InvalidArgument: `subject`, `name`, `every`, `cron`, `zone`, `start`, `catch_up`, `if_exists`, `tags`,
                `attributes`, `expires_after` or `on_expiry` is refused, or there is a series of that name; nothing was
                stored.
            TooLarge: The series takes more than 64 KiB, or all series together more than 16 MiB; nothing was stored.
            NamesFull: There are 65,536 series already; nothing was stored.
            DiskFull, Poisoned, Closed, ForkedProcess: As `publish`.
        """
        expiry = expires_after_of(expires_after, on_expiry)
        request = series_request(
            name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists, expiry=expiry
        )
        return series_of(_core.recur(self._core, subject, body, request, series_meta(name, tags, attributes)))

    def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series and cancels its pending message. Messages that were dispatched before are not affected.

        Returns:
            True, or False if the subject has no series of that name. The answer is durable.

        Raises:
            WrongType, InvalidArgument: `subject` or `name` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return _core.end_recurring(self._core, subject, name)

    def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, in the order in which they began.

        Raises:
            WrongType: `subject` is not a str.
            InvalidArgument: The store does not have the subject.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        found: list[Row] = []
        while True:
            page = _core.recurring(self._core, subject, found[-1][0] if found else 0, PAGE)
            found += page
            if len(page) < PAGE:
                return [series_of(row) for row in found]


def series_request(
    name: str,
    every: Duration | None,
    cron: str | None,
    *,
    zone: str,
    start: datetime | None,
    catch_up: CatchUp,
    if_exists: IfExists,
    expiry: tuple[int, bool] | None,
) -> SeriesRequest:
    """Checks the arguments of `recur`, and returns them as the core takes them.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `RecurringCommands.recur`.
    """
    check_text(name, "name")
    check_text(zone, "zone")
    if cron is not None:
        check_text(cron, "cron")
        if not cron:
            raise refused("cron", "a cron pattern", cron)
    if (every is None) == (cron is None):
        raise refused("every", "one of every and cron", "neither" if every is None else "both")
    check_choice(catch_up, "catch_up", CATCH_UPS)
    check_choice(if_exists, "if_exists", tuple(CODES))
    every_ms = None if every is None else delay_ms(every, "every")
    start_ms = None if start is None else due_ms(start, "start")
    return name, every_ms, cron, zone, start_ms, CATCH_UPS.index(catch_up), CODES[if_exists], expiry


def check_text(word: object, argument: str) -> None:
    """Refuses an argument that is not text, or that UTF-8 cannot encode."""
    if not isinstance(word, str):
        raise wrong_type(argument, "str", word)
    if not is_text(word):
        raise refused(argument, "text that UTF-8 can hold", "a lone surrogate")


def check_choice(word: object, argument: str, words: tuple[str, ...]) -> None:
    """Refuses an argument that is none of the allowed words."""
    expected = " or ".join(f'"{one}"' for one in words)
    if not isinstance(word, str):
        raise wrong_type(argument, expected, word)
    if word not in words:
        raise refused(argument, expected, word)


def series_meta(
    name: str, tags: Sequence[str], attributes: Mapping[str, str] | None
) -> tuple[str | None, Sequence[str], Mapping[str, str] | None] | None:
    """Id, tags and attributes of each message of a series, as the core takes them."""
    try:
        given = {**(attributes or {})}
    except TypeError:
        raise wrong_type("attributes", "a mapping", attributes) from None
    if given.get(ATTRIBUTE, name) != name:
        raise refused("attributes", f"no {ATTRIBUTE!r} but the name of the series", given[ATTRIBUTE])
    return meta_of(None, tags, {ATTRIBUTE: name, **given})


def series_of(row: Row) -> Recurring:
    """A `Recurring` from a row of the core."""
    _, subject, name, rule, zone, catch_up, expiry, receipt = row
    every = None
    if rule.startswith(EVERY):
        every = timedelta(milliseconds=int(rule.removeprefix(EVERY).removesuffix("ms")))
    cron = rule if every is None else None
    series = Recurring(subject, name, every, cron, zone, CATCH_UPS[catch_up], receipt)
    if expiry is None:
        return series
    after_ms, dies = expiry
    expires_after = timedelta(milliseconds=min(after_ms, TIMEDELTA_MS_MAX))
    return replace(series, expires_after=expires_after, on_expiry="dead_letter" if dies else "drop")
