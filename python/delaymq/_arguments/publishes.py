"""What `publish_many` accepts, turned into one crossing into the core; the same in both faces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.durations import Duration, delay_ms, draws, due_of, jitter_ms, jittered
from delaymq.errors import InvalidArgument, WrongType
from delaymq.keys import Terms, made, named, terms_of
from delaymq.message import NO_TAGS, Publish, about

__all__ = ["sent"]

Answer_co = TypeVar("Answer_co", covariant=True)
Body: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = tuple[str, Body, int, bool, object, Terms | None]


class Crossing(Protocol[Answer_co]):
    """The core's two ways to take many messages."""

    def publish_many(self, subject: str, bodies: Sequence[Body], delays: int | Sequence[Duration], /) -> Answer_co:
        """Messages of one subject; an int of delays is milliseconds for all of them."""

    def publish_mixed(self, rows: list[Row], /) -> Answer_co:
        """Messages of any subjects."""


def sent(
    core: Crossing[Answer_co],
    messages: str | Iterable[Publish],
    bodies: Sequence[Body] | None,
    delays: Duration | Sequence[Duration],
    jitter: Duration | None = None,
    *,
    names: bool = False,
) -> Answer_co:
    """Crosses into the core with what `publish_many` was called with; with `names` bodies are told by ids of their own.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    if isinstance(messages, str):
        if bodies is None:
            raise WrongType(
                "bodies: expected a sequence, found nothing",
                argument="bodies",
                expected="a sequence",
                found="nothing",
            )
        if jitter is not None or names:
            rows = _spread(messages, bodies, delays, jitter, names=names)
            if rows is not None:
                return core.publish_mixed(rows)
        if isinstance(delays, int | float | timedelta):
            delays = delay_ms(delays, "delays")
        return core.publish_many(messages, bodies, delays)
    if jitter is not None:
        raise refused("jitter", "one in each Publish", jitter)
    if bodies is not None:
        raise wrong_type("subject", "str", messages)
    anything: object = messages
    if isinstance(anything, bytes) or not isinstance(anything, Iterable):
        raise wrong_type("messages", "a list of Publish, or a subject and bodies", messages)
    return core.publish_mixed([_row(index, message) for index, message in enumerate(messages)])


def _spread(
    subject: str,
    bodies: Sequence[Body],
    delays: Duration | Sequence[Duration],
    jitter: Duration | None,
    *,
    names: bool,
) -> list[Row] | None:
    """Messages of one subject, each with a due time or an id of its own; None where the core refuses something."""
    most = jitter_ms(jitter)
    if not _is_sequence(bodies):
        return None
    if isinstance(delays, int | float | timedelta):
        dues = [delay_ms(delays, "delays")] * len(bodies)
    elif _is_sequence(delays) and len(delays) == len(bodies):
        dues = []
        for index, delay in enumerate(delays):
            try:
                dues.append(delay_ms(delay, "delays"))
            except (WrongType, InvalidArgument) as error:
                error.index = index
                raise
    else:
        return None
    terms = terms_of(None, None, names)
    ids = made(len(dues)) if names else [None] * len(dues)
    drawn = draws(most, len(dues)) if most else [0] * len(dues)
    return [
        (subject, body, due + later, False, about(one, NO_TAGS, None), terms)
        for body, due, later, one in zip(bodies, dues, drawn, ids, strict=True)
    ]


def _is_sequence(value: object) -> bool:
    """What the core takes for one: it has a length, and can be gone through."""
    try:
        len(value)  # type: ignore[arg-type]
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def _row(index: int, message: Publish) -> Row:
    """What crosses into the core for one message of a batch."""
    anything: object = message
    if not isinstance(anything, Publish):
        error = wrong_type(f"messages[{index}]", "Publish", anything)
        error.argument, error.index = "messages", index
        raise error
    try:
        due, absolute = due_of(message.delay, message.at, message.level)
        due = jittered(due, message.jitter)
        terms = terms_of(message.key, message.if_exists, message.deduplicate)
    except (WrongType, InvalidArgument) as error:
        error.index = index
        raise
    meta = about(named(message.message_id, message.deduplicate), message.tags, message.attributes)
    return message.subject, message.body, due, absolute, meta, terms
