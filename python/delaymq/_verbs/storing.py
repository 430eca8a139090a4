"""Verbs that store messages: publishes, recurring messages, bulk loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, Required, TypeAlias, TypedDict, TypeVar, cast

from delaymq._arguments.argument_errors import is_text, refused, unexpected, wrong_type
from delaymq._arguments.batches import listed
from delaymq._verbs.calls import LISTED, REPEATS, Call
from delaymq.bulk_load import Loaded
from delaymq.durations import TIMEDELTA_MS_MAX, Duration, OnExpiry, delay_ms, due_ms, expires_after_of
from delaymq.errors import WrongType
from delaymq.message import IF_EXISTS, NO_TAGS, IfExists, Publish, meta_of
from delaymq.receipt import Receipt
from delaymq.recurring import ATTRIBUTE, CATCH_UPS, CatchUp, Recurring

if TYPE_CHECKING:
    from delaymq._arguments.columns import Moments
    from delaymq._core import Columns
    from delaymq.loading import StagedRun

Answer_co = TypeVar("Answer_co", covariant=True)
Body: TypeAlias = bytes | bytearray | memoryview

SeriesRequest: TypeAlias = tuple[str, int | None, str | None, str, int | None, int, int, tuple[int, bool] | None]
Row: TypeAlias = "tuple[int, str, str, str, str, int, tuple[int, bool] | None, Receipt | None]"

RunRow: TypeAlias = tuple[str, int, int, int]
"""Name, bytes, digest and rows of a staged run."""

EVERY = "every "  # the beginning of the rule of an interval


class BatchPublisher(Protocol[Answer_co]):
    """The two calls of the core, or of a request to a server, that publish many messages."""

    def publish_columns(self, columns: Columns, /) -> Answer_co:
        """Publishes a message for each body."""

    def publish_messages(self, messages: list[Publish], with_ids: bool, /) -> Answer_co:
        """Publishes messages. The core reads fields of plain types, and asks `row_of` for all others."""


class ColumnOptions(TypedDict, total=False):
    """The options of `publish_many` for columns, which documents them."""

    at: Moments | None
    keys: Sequence[str | None] | None
    if_exists: IfExists | None
    jitter: Duration | None


def publish_many(
    core: BatchPublisher[Answer_co],
    with_ids: bool,
    messages: str | Sequence[str] | Iterable[Publish],
    bodies: Sequence[Body] | None,
    delays: Duration | Sequence[Duration],
    /,
    *,
    at: Moments | None = None,
    keys: Sequence[str | None] | None = None,
    if_exists: IfExists | None = None,
    jitter: Duration | None = None,
) -> Answer_co:
    """`publish_many`: what the core answers, or the request for a server.

    With `with_ids`, each message is deduplicated by its id; a message without one has a new one.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    if bodies is not None:
        from delaymq._arguments.publishes import columns_of  # noqa: PLC0415 - an import of delaymq is to be quick

        options = at, keys, if_exists, jitter
        return core.publish_columns(columns_of(messages, bodies, delays, options, with_ids=with_ids))
    anything: object = messages
    if isinstance(anything, str):
        raise WrongType(
            "bodies: expected a sequence, found nothing", argument="bodies", expected="a sequence", found="nothing"
        )
    for option, value in (("at", at), ("keys", keys), ("if_exists", if_exists), ("jitter", jitter)):
        if value is not None:
            raise unexpected(option, "one in each Publish", type(value).__name__)
    if isinstance(anything, bytes) or not isinstance(anything, Iterable):
        raise wrong_type("messages", "a list of Publish, or a subject and bodies", messages)
    return core.publish_messages(list(cast("Iterable[Publish]", messages)), with_ids)


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


def load(job: str, runs: Iterable[StagedRun]) -> Call[Loaded]:
    """`load`; the same job has the same answer."""
    return Call("load", (job, run_rows(runs)), lambda answer: Loaded(*answer), REPEATS)


def run_rows(runs: Iterable[StagedRun]) -> list[RunRow]:
    """Staged runs as the core takes them.

    Raises:
        WrongType, InvalidArgument: Item `index` is not a staged run.
    """
    from delaymq.loading import checked_run  # noqa: PLC0415 - only programs that load pay for the import

    rows = list[RunRow]()
    for index, found in enumerate(listed(runs, "runs", "an iterable of StagedRun")):
        run = checked_run(found, "runs", index)
        rows.append((run.name, run.bytes, run.digest, run.rows))
    return rows
