"""Arguments of `publish_many`, as one call into the core takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias, TypeVar

from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq.durations import Duration, delay_ms, due_of, jitter_ms, jittered, random_integers
from delaymq.errors import InvalidArgument, WrongType
from delaymq.keys import Terms, id_for, new_ids, terms_of
from delaymq.message import NO_TAGS, Publish, meta_of

Answer_co = TypeVar("Answer_co", covariant=True)
Body: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = tuple[str, Body, int, bool, object, Terms | None]


class BatchPublisher(Protocol[Answer_co]):
    """The two calls of the core, or of a request to a server, that publish many messages."""

    def publish_many(self, subject: str, bodies: Sequence[Body], delays: int | Sequence[Duration], /) -> Answer_co:
        """Publishes messages of one subject; an int of delays is milliseconds for all of them."""

    def publish_rows(self, rows: list[Row], /) -> Answer_co:
        """Publishes messages of any subjects."""

    def publish_messages(self, messages: list[Publish], with_ids: bool, /) -> Answer_co:
        """Publishes messages. The core reads fields of plain types, and asks `row_of` for all others."""


def publish_all(
    core: BatchPublisher[Answer_co],
    messages: str | Iterable[Publish],
    bodies: Sequence[Body] | None,
    delays: Duration | Sequence[Duration],
    jitter: Duration | None = None,
    *,
    with_ids: bool = False,
) -> Answer_co:
    """Calls the core with the arguments of `publish_many`.

    With `with_ids`, each message is deduplicated by its id; a message without one has a new one.

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
        if jitter is not None or with_ids:
            rows = _rows_of_bodies(messages, bodies, delays, jitter, with_ids=with_ids)
            if rows is not None:
                return core.publish_rows(rows)
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
    return core.publish_messages(list(messages), with_ids)


def _rows_of_bodies(
    subject: str,
    bodies: Sequence[Body],
    delays: Duration | Sequence[Duration],
    jitter: Duration | None,
    *,
    with_ids: bool,
) -> list[Row] | None:
    """Messages of one subject, each with its own due time or id; None if the core is to refuse an argument."""
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
    terms = terms_of(None, None, with_ids)
    ids = new_ids(len(dues)) if with_ids else [None] * len(dues)
    jitters = random_integers(most, len(dues)) if most else [0] * len(dues)
    return [
        (subject, body, due + extra, False, meta_of(one, NO_TAGS, None), terms)
        for body, due, extra, one in zip(bodies, dues, jitters, ids, strict=True)
    ]


def _is_sequence(value: object) -> bool:
    """True if the core accepts it as a sequence: it has a length and can be iterated."""
    try:
        len(value)  # type: ignore[arg-type]
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def row_of(index: int, message: Publish, with_id: bool) -> Row:
    """One message of a batch, as the core takes it. With `with_id`, it is deduplicated.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    anything: object = message
    if not isinstance(anything, Publish):
        error = wrong_type(f"messages[{index}]", "Publish", anything)
        error.argument, error.index = "messages", index
        raise error
    try:
        due, absolute = due_of(message.delay, message.at, message.level)
        due = jittered(due, message.jitter)
        deduplicate = with_id or message.deduplicate
        terms = terms_of(message.key, message.if_exists, deduplicate, message.expires, message.on_expiry)
    except (WrongType, InvalidArgument) as error:
        error.index = index
        raise
    meta = meta_of(id_for(message.message_id, deduplicate), message.tags, message.attributes)
    return message.subject, message.body, due, absolute, meta, terms
