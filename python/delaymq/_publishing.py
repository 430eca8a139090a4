"""What `publish_many` accepts, turned into one crossing into the core; the same in both faces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias, TypeVar

from delaymq._refusals import wrong_type
from delaymq.durations import Duration, delay_ms, due_of
from delaymq.errors import InvalidArgument, WrongType
from delaymq.message import Publish, about

__all__ = ["sent"]

Answer_co = TypeVar("Answer_co", covariant=True)
Body: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = tuple[str, Body, int, bool, object]


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
) -> Answer_co:
    """Crosses into the core with what `publish_many` was called with.

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
        if isinstance(delays, int | float | timedelta):
            delays = delay_ms(delays, "delays")
        return core.publish_many(messages, bodies, delays)
    if bodies is not None:
        raise wrong_type("subject", "str", messages)
    anything: object = messages
    if isinstance(anything, bytes) or not isinstance(anything, Iterable):
        raise wrong_type("messages", "a list of Publish, or a subject and bodies", messages)
    return core.publish_mixed([_row(index, message) for index, message in enumerate(messages)])


def _row(index: int, message: Publish) -> Row:
    """What crosses into the core for one message of a batch."""
    anything: object = message
    if not isinstance(anything, Publish):
        error = wrong_type(f"messages[{index}]", "Publish", anything)
        error.argument, error.index = "messages", index
        raise error
    try:
        due, absolute = due_of(message.delay, message.at, message.level)
    except (WrongType, InvalidArgument) as error:
        error.index = index
        raise
    return message.subject, message.body, due, absolute, about(message.message_id, message.tags, message.attributes)
