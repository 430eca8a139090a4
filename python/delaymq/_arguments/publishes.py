"""Arguments of `publish_many`, as one call into the core takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from delaymq._arguments.argument_errors import unexpected, wrong_type
from delaymq._arguments.columns import ColumnOptions, moments_of
from delaymq.durations import Duration, delay_ms, due_of, jitter_ms, jittered, random_integers
from delaymq.errors import InvalidArgument, WrongType
from delaymq.keys import Terms, code_of, id_for, new_ids, terms_of
from delaymq.message import Publish, meta_of

if TYPE_CHECKING:
    from delaymq._core import Columns, Meta

Answer_co = TypeVar("Answer_co", covariant=True)
Body: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = "tuple[str, Body, int, bool, Meta | None, Terms | None]"


class BatchPublisher(Protocol[Answer_co]):
    """The two calls of the core, or of a request to a server, that publish many messages."""

    def publish_columns(self, columns: Columns, /) -> Answer_co:
        """Publishes a message for each body."""

    def publish_messages(self, messages: list[Publish], with_ids: bool, /) -> Answer_co:
        """Publishes messages. The core reads fields of plain types, and asks `row_of` for all others."""


def publish_all(
    core: BatchPublisher[Answer_co],
    messages: str | Sequence[str] | Iterable[Publish],
    bodies: Sequence[Body] | None,
    delays: Duration | Sequence[Duration],
    options: ColumnOptions,
    *,
    with_ids: bool = False,
) -> Answer_co:
    """Calls the core with the arguments of `publish_many`.

    With `with_ids`, each message is deduplicated by its id; a message without one has a new one.

    Raises:
        WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
    """
    if bodies is not None:
        return core.publish_columns(_columns_of(messages, bodies, delays, options, with_ids=with_ids))
    anything: object = messages
    if isinstance(anything, str):
        raise WrongType(
            "bodies: expected a sequence, found nothing", argument="bodies", expected="a sequence", found="nothing"
        )
    for name, value in zip(options._fields, options, strict=True):
        if value is not None:
            raise unexpected(name, "one in each Publish", type(value).__name__)
    if isinstance(anything, bytes) or not isinstance(anything, Iterable):
        raise wrong_type("messages", "a list of Publish, or a subject and bodies", messages)
    return core.publish_messages(list(cast("Iterable[Publish]", messages)), with_ids)


def _columns_of(
    subjects: object,
    bodies: Sequence[Body],
    delays: Duration | Sequence[Duration],
    options: ColumnOptions,
    *,
    with_ids: bool,
) -> Columns:
    """The columns as the core takes them."""
    if isinstance(subjects, bytes) or not _is_sequence(subjects):
        raise wrong_type("subject", "str, or a sequence of str", subjects)
    code, most = code_of(options.if_exists, options.keys is not None), jitter_ms(options.jitter)
    moments = moments_of(options.at)
    anything: object = delays
    if moments is not None and not (isinstance(anything, int) and anything == 0):
        raise unexpected("at", "no delays with it", "delays")
    if isinstance(delays, int | float | timedelta):
        delays = delay_ms(delays, "delays")
    count = len(bodies) if _is_sequence(bodies) else 0
    return (
        cast("str | Sequence[str]", subjects),
        bodies,
        delays,
        moments,
        options.keys,
        code,
        random_integers(most, count) if most else None,
        new_ids(count) if with_ids else None,
    )


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
