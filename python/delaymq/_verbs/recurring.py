"""Verbs for messages that recur: series of them begin, end, and are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Required, TypeAlias, TypedDict, Unpack

from delaymq._arguments.argument_errors import is_text, refused, wrong_type
from delaymq._verbs.calls import LISTED, AsyncPart, Call, Part, with_options_of
from delaymq.durations import TIMEDELTA_MS_MAX, Duration, OnExpiry, delay_ms, due_ms, expires_after_of
from delaymq.message import IF_EXISTS, NO_TAGS, IfExists, meta_of
from delaymq.receipt import Receipt
from delaymq.recurring import ATTRIBUTE, CATCH_UPS, CatchUp, Recurring

Body: TypeAlias = bytes | bytearray | memoryview

SeriesRequest: TypeAlias = tuple[str, int | None, str | None, str, int | None, int, int, tuple[int, bool] | None]
Row: TypeAlias = "tuple[int, str, str, str, str, int, tuple[int, bool] | None, Receipt | None]"

EVERY = "every "  # the beginning of the rule of an interval


class RecurOptions(TypedDict, total=False):
    """The options of `recur`, which documents them."""

    name: Required[str]
    every: Duration | None
    cron: str | None
    zone: str
    start: datetime | None
    catch_up: CatchUp
    if_exists: IfExists
    tags: Sequence[str]
    attributes: Mapping[str, str] | None
    expires_after: Duration | None
    on_expiry: OnExpiry | None


def recur(
    subject: str,
    body: Body,
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
) -> Call[Recurring]:
    """`recur`."""
    expiry = expires_after_of(expires_after, on_expiry)
    request = series_request(
        name, every, cron, zone=zone, start=start, catch_up=catch_up, if_exists=if_exists, expiry=expiry
    )
    return Call("recur", (subject, body, request, series_meta(name, tags, attributes)), series_of)


def end_recurring(subject: str, name: str) -> Call[bool]:
    """`end_recurring`; a server answers how many have ended."""
    return Call("end_recurring", (subject, name), bool)


def recurring(subject: str | None) -> Call[list[Recurring]]:
    """`recurring`."""
    return Call("recurring", (subject,), lambda rows: [series_of(row) for row in rows], LISTED)


class Series(Part):
    """The methods for messages that recur."""

    @with_options_of(recur)
    def recur(self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[RecurOptions]) -> Recurring:
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
            AmbiguousError: An answer to a client was lost: the series may have begun; `recurring` tells.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(recur(subject, body, **options))

    def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series and cancels its pending message. Messages that were dispatched before are not affected.

        Returns:
            True, or False if the subject has no series of that name. The answer is durable.

        Raises:
            WrongType, InvalidArgument: `subject` or `name` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
            AmbiguousError: An answer to a client was lost: the series may have ended, in which case the same call
                returns False.
            Unreachable, Busy, Stopping: As `publish` of a client.
        """
        return self._run(end_recurring(subject, name))

    def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, in the order in which they began.

        Raises:
            WrongType: `subject` is not a str.
            InvalidArgument: The store does not have the subject.
            Poisoned, Closed, ForkedProcess: As `publish`.
            Unreachable, TimedOut: As `publish` of a client.
        """
        return self._run(recurring(subject))


class AsyncSeries(AsyncPart):
    """As `Series`, for coroutines. Each method raises the errors of the plain one, and WrongLoop."""

    @with_options_of(recur)
    async def recur(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[RecurOptions]
    ) -> Recurring:
        """Publishes a message again and again, as `delaymq.Store.recur`."""
        return await self._run(recur(subject, body, **options))

    async def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series, as `delaymq.Store.end_recurring`."""
        return await self._run(end_recurring(subject, name))

    async def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, as `delaymq.Store.recurring`."""
        return await self._run(recurring(subject))


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
        WrongType, InvalidArgument, TooLarge: As `recur`.
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
    check_choice(if_exists, "if_exists", IF_EXISTS)
    every_ms = None if every is None else delay_ms(every, "every")
    start_ms = None if start is None else due_ms(start, "start")
    return name, every_ms, cron, zone, start_ms, CATCH_UPS.index(catch_up), IF_EXISTS.index(if_exists), expiry


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
