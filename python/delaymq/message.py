"""Messages: `Publish` is stored, `Message` is delivered."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, TypedDict

from delaymq import _core
from delaymq.durations import Duration, Expires, OnExpiry, delay_ms, hold_ms, moment
from delaymq.errors import AlreadySettled, Closed, HoldExpired

if TYPE_CHECKING:
    from delaymq._core import Delivery

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

    def receipt(self, delivery: Delivery, /) -> _core.Receipt:
        """The receipt that a message was published with."""


def meta_of(
    message_id: str | None, tags: Sequence[str], attributes: Mapping[str, str] | None
) -> tuple[str | None, Sequence[str], Mapping[str, str] | None] | None:
    """Id, tags and attributes as the core takes them; None if none is given."""
    if message_id is None and tags is NO_TAGS and attributes is None:
        return None
    return message_id, tags, attributes


class Received:
    """The base of `Message` and `AsyncMessage`.

    A message is settled once: acknowledged, given back or made a dead letter.
    """

    __slots__ = ("_delivery", "_handed_ms", "_meta_cache", "_settled", "_subscription")

    def __init__(self, subscription: Settling, delivery: Delivery, handed_ms: int) -> None:
        """Wraps one delivery of the core.

        Args:
            subscription: Settles the message.
            delivery: The core's tuple.
            handed_ms: When this process received it, in milliseconds since 1970.
        """
        self._subscription = subscription
        self._delivery = delivery
        self._handed_ms = handed_ms
        self._settled = False
        self._meta_cache: tuple[str, tuple[str, ...], dict[str, str]] | None = None

    @property
    def key(self) -> int:
        """The number of this delivery within its subscription; not the `key` of a publish."""
        return self._delivery[0]

    @property
    def subject(self) -> str:
        """The subject that the message was published on."""
        return self._delivery[1]

    @property
    def body(self) -> bytes:
        """The bytes that were published."""
        return self._delivery[2]

    @property
    def due(self) -> datetime:
        """When the message was due, UTC, to the millisecond; for a retry, when the retry was due."""
        return moment(self._delivery[3])

    @property
    def published(self) -> datetime:
        """When the store received the message, UTC, to the millisecond."""
        return moment(self._delivery[4])

    @property
    def attempt(self) -> int:
        """The number of this delivery to the group: 1 for the first, then 2, 3, …"""
        return self._delivery[5]

    @property
    def redelivered(self) -> bool:
        """True if a consumer of this group may have received the message before."""
        return self._delivery[6]

    @property
    def sequence(self) -> int:
        """The message's place in the store's order of facts."""
        return self._delivery[7]

    @property
    def receipt(self) -> _core.Receipt:
        """The receipt that the message was published with, also if it was moved and has a newer receipt.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        return self._subscription.receipt(self._delivery)

    @property
    def message_id(self) -> str:
        """The id that the message was published with, or the text of its receipt; the same for every attempt."""
        return self._meta()[0] or str(self.receipt)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the message was published with."""
        return self._meta()[1]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes that the message was published with."""
        return self._meta()[2]

    def _meta(self) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """Id, tags and attributes, decoded on first use."""
        if self._meta_cache is None:
            self._meta_cache = _core.decode_meta(self._delivery[9])
        return self._meta_cache

    @property
    def lateness(self) -> timedelta:
        """How long after its due time this process received the message, by the store's clock."""
        return timedelta(milliseconds=self._handed_ms - self._delivery[3])

    @property
    def settled(self) -> bool:
        """True once the message is acknowledged, given back or made a dead letter."""
        return self._settled

    def ack(self) -> None:
        """Acknowledges the message. Returns at once; the subscription's `flush` waits until that is durable.

        Raises:
            AlreadySettled: The message was settled before.
            Closed: The subscription is closed: the message went back to its group and is delivered again.
            HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
            Poisoned: The store stopped after a failed write.
        """
        self._check_unsettled()
        if not self._subscription.acknowledge(self._delivery[0]):
            raise hold_expired(self)
        self._settled = True

    def nack(self, delay: Duration = 0) -> None:
        """Gives the message back, to be delivered again after `delay` (a timedelta or seconds) with `attempt` + 1.

        Raises:
            WrongType: `delay` is neither a timedelta nor a number.
            InvalidArgument: `delay` is negative, not finite, or longer than the store's `delay_max`.
            AlreadySettled: The message was settled before.
            Closed: The subscription is closed: the message went back to its group and is delivered again.
            HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
        """
        milliseconds = delay_ms(delay)
        self._check_unsettled()
        if not self._subscription.give_back(self._delivery[0], milliseconds):
            raise hold_expired(self)
        self._settled = True

    def dead_letter(self, reason: str) -> None:
        """Makes the message a dead letter of the group, which does not get it again.

        Returns at once; the subscription's `flush` waits until that is durable. `Store.dead_letters`
        lists it with the reason, `Store.redrive` delivers it again.

        Raises:
            WrongType: `reason` is not a str.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            AlreadySettled: The message was settled before.
            Closed: The subscription is closed: the message went back to its group and is delivered again.
            HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
            Poisoned: The store stopped after a failed write.
        """
        self._check_unsettled()
        if not self._subscription.dead_letter(self._delivery[0], reason):
            raise hold_expired(self)
        self._settled = True

    def extend(self, duration: Duration | None = None) -> None:
        """Holds the message for longer: for `duration` from now, or for the subscription's `handle_within` once more.

        The time that is left is never shortened. A subscription without `handle_within` has no limit: nothing changes.

        Args:
            duration: A timedelta or seconds, at least a millisecond; or None.

        Raises:
            WrongType: `duration` is neither a timedelta nor a number.
            InvalidArgument: `duration` is zero, negative or not finite.
            AlreadySettled: The message was settled before.
            Closed: The subscription is closed: the message went back to its group and is delivered again.
            HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
            Poisoned: The store stopped after a failed write.
        """
        milliseconds = hold_ms(duration, "duration")
        self._check_unsettled()
        if not self._subscription.extend(self._delivery[0], milliseconds):
            raise hold_expired(self)

    def _check_unsettled(self) -> None:
        if self._settled:
            raise AlreadySettled(
                f"{self!r} was settled before: settle each message once, and not in a `with` whose end does it",
                expected="a message that is not settled",
                found="one that is",
            )

    def _leave(self, failed: bool) -> None:
        """Settles the message at the end of a `with` block, unless the block did."""
        if self._settled:
            return
        if not failed:
            self.ack()
            return
        # Its group has the message already; the error of the block matters more.
        with contextlib.suppress(Closed, HoldExpired):
            self.nack()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(subject={self.subject!r}, sequence={self.sequence}, "
            f"due={self.due.isoformat()}, attempt={self.attempt}, {len(self.body)} bytes)"
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


def note_acknowledged(unsettled: Mapping[int, Received], late: Sequence[int], given: Sequence[Received]) -> None:
    """Marks the messages of a call as settled, but for those at the places `late`, which were held for too long.

    Raises:
        HoldExpired: There are such.
    """
    if not late:
        for message in unsettled.values():
            message._settled = True  # noqa: SLF001 - a subscription settles its messages
        return
    places, passed_on = set(late), []
    for place, message in enumerate(unsettled.values()):
        if place in places:
            passed_on.append(message)
        else:
            message._settled = True  # noqa: SLF001
    check_held(passed_on, given)


class Message(Received):
    """A message that is due, delivered to a consumer.

    Used as a context manager, the message is acknowledged at the end of the block, and given back if
    the block raises. The end of the block raises HoldExpired if the message was held for too long::

        with message:
            handle(message.body)
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(kind is not None)
