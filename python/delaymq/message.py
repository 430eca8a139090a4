"""Messages: `Publish` is stored, `Message` is delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypedDict

from delaymq._core import Message, Received
from delaymq.durations import Duration, Expires, OnExpiry
from delaymq.errors import AlreadySettled, HoldExpired

if TYPE_CHECKING:
    from delaymq._core import Receipt

__all__ = ["Message", "Publish", "Received"]

NO_TAGS: Final[tuple[str, ...]] = ()

IfExists = Literal["replace", "keep", "error"]
"""The effect of a taken key: the new message replaces the pending one, it is kept, or the new one is refused."""

IF_EXISTS: tuple[IfExists, ...] = ("replace", "keep", "error")
"""Its words; the core takes the place of one."""


@dataclass(slots=True)
class Publish:
    """One message of a `publish_many`; the fields are arguments of `Store.publish`.

    Attributes:
        subject: 1 to 100 characters without white space, control characters, `/` and `%`; visible, assigned, NFC.
        body: Any bytes-like object, at most 4 MiB.
        delay: A timedelta or seconds from now, or None.
        at: An aware datetime, or None.
        level: One of RocketMQ's delay levels, 1 to 18, or None. At most one of `delay`, `at` and
            `level` is given; without them the message is due now.
        tags: Words that tell messages of a subject apart.
        attributes: Text by name, delivered with the message.
        message_id: Your id of the message; by default the text of the receipt.
        key: Your name for the pending message; a subject has at most one pending message with a key.
        if_exists: The effect of a taken key: `"replace"`, `"keep"` or `"error"`, the default.
        deduplicate: True stores a message of one subject and `message_id` once within ten minutes.
        jitter: A timedelta or seconds, or None. A random part of it is added to the due time, which
            the receipt shows.
        expires: How long after its due time the message is of use, as a timedelta or seconds; or an aware datetime.
        on_expiry: The effect: `"drop"`, the default, or `"dead_letter"`.
    """

    subject: str
    body: bytes | bytearray | memoryview
    delay: Duration | None = None
    at: datetime | None = None
    level: int | None = None
    tags: Sequence[str] = NO_TAGS
    attributes: Mapping[str, str] | None = None
    message_id: str | None = None
    key: str | None = None
    if_exists: IfExists | None = None
    deduplicate: bool = False
    jitter: Duration | None = None
    expires: Expires | None = None
    on_expiry: OnExpiry | None = None


class PublishOptions(TypedDict, total=False):
    """The options of a publish: the fields of `Publish` with a default, which documents them."""

    delay: Duration | None
    at: datetime | None
    level: int | None
    tags: Sequence[str]
    attributes: Mapping[str, str] | None
    message_id: str | None
    key: str | None
    if_exists: IfExists | None
    deduplicate: bool
    jitter: Duration | None
    expires: Expires | None
    on_expiry: OnExpiry | None


class Settling(Protocol):
    """Settles messages: the core's side of a subscription, or a client's. False for a message that was passed on."""

    def acknowledge(self, key: int, /) -> bool:
        """Queues an acknowledgement."""

    def give_back(self, key: int, delay_ms: int, /) -> bool:
        """Queues a redelivery."""

    def dead_letter(self, key: int, reason: str, /) -> bool:
        """Queues a dead letter."""

    def extend(self, key: int, duration_ms: int | None, /) -> bool:
        """Holds a message for longer."""

    def receipt(self, message: Received, /) -> Receipt:
        """The receipt that a message was published with."""


def meta_of(
    message_id: str | None, tags: Sequence[str], attributes: Mapping[str, str] | None
) -> tuple[str | None, Sequence[str], Mapping[str, str] | None] | None:
    """Id, tags and attributes as the core takes them; None if none is given."""
    if message_id is None and tags is NO_TAGS and attributes is None:
        return None
    return message_id, tags, attributes


def already_settled(message: Received) -> AlreadySettled:
    """The error of a message that is settled a second time."""
    return AlreadySettled(
        f"{message!r} was settled before: settle each message once, and not in a `with` whose end does it",
        expected="a message that is not settled",
        found="one that is",
    )


def hold_expired(message: Received, index: int | None = None, count: int = 1) -> HoldExpired:
    """The error of messages that were held for too long.

    Args:
        message: The first of them.
        index: Its place, if many messages were settled at once.
        count: Their number.
    """
    others = f"; so were {count - 1} others" if count > 1 else ""
    return HoldExpired(
        f"{message!r} was held for longer than handle_within: it went back to its group and is delivered again{others}",
        expected="a message that is still held",
        found="one that was passed on",
        index=index,
        count=count,
    )


def check_held(late: Sequence[Received], given: Sequence[Received]) -> None:
    """Checks that no message of a call for many was held for too long.

    Raises:
        HoldExpired: Some were: `late`, of those that the call was given.
    """
    if late:
        raise hold_expired(late[0], next(index for index, one in enumerate(given) if one is late[0]), len(late))
