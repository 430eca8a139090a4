"""What goes in, `Publish`, and what comes out, `Message`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from delaymq import _core
from delaymq.durations import Duration, delay_ms, moment
from delaymq.errors import AlreadySettled, Closed

if TYPE_CHECKING:
    from delaymq._core import Delivery
    from delaymq.keys import IfExists

__all__ = ["Message", "Publish", "Received"]

NO_TAGS: Final[tuple[str, ...]] = ()


@dataclass(slots=True)
class Publish:
    """One message of a `publish_many`.

    Attributes:
        subject: 1 to 100 characters without white space, control characters, `/` and `%`.
        body: Anything that is bytes-like, at most 4 MiB.
        delay: A timedelta or seconds from now, or None.
        at: An aware datetime, or None.
        level: One of RocketMQ's delay levels, 1 to 18, or None. At most one of `delay`, `at` and
            `level` is given; with none of them it is due now.
        tags: Words to tell messages of a subject apart by.
        attributes: Text by name, carried along.
        message_id: A name of your own; by default it is the text of the receipt.
        key: A name of your own for what is pending; one pending message of a subject has it.
        if_exists: What is done where the key is taken: `"replace"`, `"keep"` or `"error"`, the default.
        deduplicate: True stores a message of the same subject and `message_id` once within ten minutes.
        jitter: A timedelta or seconds, or None: as much of it as chance says is added to the due time. The
            receipt tells what came of it.
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


class Settling(Protocol):
    """What a message says its end to: the core's side of a subscription, or what stands before it."""

    def acknowledge(self, key: int, /) -> None:
        """Queues an acknowledgement."""

    def give_back(self, key: int, delay_ms: int, /) -> None:
        """Queues a redelivery."""

    def dead_letter(self, key: int, reason: str, /) -> None:
        """Queues that it is put away."""

    def receipt(self, delivery: Delivery, /) -> _core.Receipt:
        """The receipt that a message was published with."""


def about(
    message_id: str | None, tags: Sequence[str], attributes: Mapping[str, str] | None
) -> tuple[str | None, Sequence[str], Mapping[str, str] | None] | None:
    """What crosses into the core for these, None where there is nothing."""
    if message_id is None and tags is NO_TAGS and attributes is None:
        return None
    return message_id, tags, attributes


class Received:
    """What `Message` and `AsyncMessage` share. A message is settled once: acknowledged, given back or put away."""

    __slots__ = ("_about", "_delivery", "_handed_ms", "_settled", "_subscription")

    def __init__(self, subscription: Settling, delivery: Delivery, handed_ms: int) -> None:
        """Made by a subscription, from what the core delivered.

        Args:
            subscription: Takes acknowledgements and what is given back.
            delivery: The core's tuple of one delivery.
            handed_ms: When this process received it, in milliseconds since 1970.
        """
        self._subscription = subscription
        self._delivery = delivery
        self._handed_ms = handed_ms
        self._settled = False
        self._about: tuple[str, tuple[str, ...], dict[str, str]] | None = None

    @property
    def key(self) -> int:
        """Names this delivery towards the core; means nothing elsewhere."""
        return self._delivery[0]

    @property
    def subject(self) -> str:
        """The subject that it was published on."""
        return self._delivery[1]

    @property
    def body(self) -> bytes:
        """The bytes that were published."""
        return self._delivery[2]

    @property
    def due(self) -> datetime:
        """When it was due, UTC, to the millisecond; for a later attempt, when that was."""
        return moment(self._delivery[3])

    @property
    def published(self) -> datetime:
        """When the store received it, UTC, to the millisecond."""
        return moment(self._delivery[4])

    @property
    def attempt(self) -> int:
        """1 for the first delivery to this group, then 2, 3, …"""
        return self._delivery[5]

    @property
    def redelivered(self) -> bool:
        """True where an earlier delivery to this group may have been handed over before."""
        return self._delivery[6]

    @property
    def sequence(self) -> int:
        """Its place in the store's order of facts."""
        return self._delivery[7]

    @property
    def receipt(self) -> _core.Receipt:
        """The receipt that it was published with, also where it was moved to another time and has another one.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        return self._subscription.receipt(self._delivery)

    @property
    def message_id(self) -> str:
        """The id it was published with, or the text of its receipt: the same in every attempt."""
        return self._meta()[0] or str(self.receipt)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags it was published with."""
        return self._meta()[1]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes it was published with."""
        return self._meta()[2]

    def _meta(self) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """Decoded when it is first asked for."""
        if self._about is None:
            self._about = _core.decode_meta(self._delivery[9])
        return self._about

    @property
    def lateness(self) -> timedelta:
        """How long after its due time this process had it, by the store's clock."""
        return timedelta(milliseconds=self._handed_ms - self._delivery[3])

    @property
    def settled(self) -> bool:
        """True once it was acknowledged, given back or put away."""
        return self._settled

    def ack(self) -> None:
        """Says that it is done. Returns at once; the subscription's `flush` waits until that is durable.

        Raises:
            AlreadySettled: It was settled before.
            Closed: The subscription is closed: the message went back to its group and comes again.
            Poisoned: The store stopped after a failed write.
        """
        self._check_unsettled()
        self._subscription.acknowledge(self._delivery[0])
        self._settled = True

    def nack(self, delay: Duration = 0) -> None:
        """Gives it back, to come again after `delay` (a timedelta or seconds) with `attempt` + 1.

        Raises:
            WrongType: `delay` is neither a timedelta nor a number.
            InvalidArgument: `delay` is negative, not finite, or further than the store's longest.
            AlreadySettled: It was settled before.
            Closed: The subscription is closed: the message went back to its group and comes again.
        """
        milliseconds = delay_ms(delay)
        self._check_unsettled()
        self._subscription.give_back(self._delivery[0], milliseconds)
        self._settled = True

    def dead_letter(self, reason: str) -> None:
        """Puts it away among the dead letters of the group, which does not get it again.

        Returns at once; the subscription's `flush` waits until that is durable. `Store.dead_letters`
        lists it with the reason, `Store.redrive` brings it back.

        Raises:
            WrongType: `reason` is not a str.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            AlreadySettled: It was settled before.
            Closed: The subscription is closed: the message went back to its group and comes again.
            Poisoned: The store stopped after a failed write.
        """
        self._check_unsettled()
        self._subscription.dead_letter(self._delivery[0], reason)
        self._settled = True

    def _check_unsettled(self) -> None:
        if self._settled:
            raise AlreadySettled(
                f"{self!r} was settled before: settle each message once, and not in a `with` whose end does it",
                expected="a message that is not settled",
                found="one that is",
            )

    def _leave(self, failed: bool) -> None:
        """The end of a block; one that settled the message itself is let be."""
        if self._settled:
            return
        if not failed:
            self.ack()
            return
        # Where the subscription is closed it was given back with it; what the block raised matters more.
        with contextlib.suppress(Closed):
            self.nack()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(subject={self.subject!r}, sequence={self.sequence}, "
            f"due={self.due.isoformat()}, attempt={self.attempt}, {len(self.body)} bytes)"
        )


class Message(Received):
    """A message that is due, in the hands of a consumer.

    As a context manager it is acknowledged at the end of the block and given back if the block
    raises::

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
