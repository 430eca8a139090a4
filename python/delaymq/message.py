"""What goes in, `Publish`, and what comes out, `Message`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from delaymq import _core
from delaymq.durations import Duration, delay_ms, due_ms, moment
from delaymq.errors import InvalidArgument

if TYPE_CHECKING:
    from delaymq._core import Delivery
    from delaymq._core import Subscription as CoreSubscription

__all__ = ["Message", "Publish"]


@dataclass(slots=True)
class Publish:
    """One message of a `publish_many`.

    Attributes:
        subject: 1 to 100 characters without white space, control characters, `/` and `%`.
        body: Anything that is bytes-like, at most 4 MiB.
        delay: A timedelta or seconds from now, or None.
        at: An aware datetime, or None. With neither it is due now; both are refused.
    """

    subject: str
    body: bytes | bytearray | memoryview
    delay: Duration | None = None
    at: datetime | None = None


def due_of(delay: Duration | None, at: datetime | None) -> tuple[int, bool]:
    """Milliseconds, and True where they are since 1970 rather than from now.

    Raises:
        WrongType: One of them has the wrong type.
        InvalidArgument: Both are given, or one of them is refused.
    """
    if at is None:
        return (0 if delay is None else delay_ms(delay)), False
    if delay is not None:
        raise InvalidArgument(
            "at: expected either delay or at, found both",
            argument="at",
            expected="either delay or at",
            found="both",
        )
    return due_ms(at), True


class Message:
    """A message that is due, in the hands of a consumer.

    As a context manager it is acknowledged at the end of the block and given back if the block
    raises::

        with message:
            handle(message.body)

    Settling it twice does nothing the second time.
    """

    __slots__ = ("_delivery", "_handed_ms", "_settled", "_subscription")

    def __init__(self, subscription: CoreSubscription, delivery: Delivery, handed_ms: int) -> None:
        """Made by a subscription, from what the core delivered.

        Args:
            subscription: The core's side of the subscription.
            delivery: The core's tuple of one delivery.
            handed_ms: When this process received it, in milliseconds since 1970.
        """
        self._subscription = subscription
        self._delivery = delivery
        self._handed_ms = handed_ms
        self._settled = False

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
        """When it was due, UTC, to the millisecond."""
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
    def lateness(self) -> timedelta:
        """How long after its due time this process had it, by the system's clock."""
        return timedelta(milliseconds=self._handed_ms - self._delivery[3])

    @property
    def settled(self) -> bool:
        """True once it was acknowledged or given back."""
        return self._settled

    def ack(self) -> None:
        """Says that it is done. Returns at once; `Subscription.flush` waits until that is durable.

        Raises:
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
        """
        if not self._settled:
            self._subscription.acknowledge(self._delivery[0])
            self._settled = True

    def nack(self, delay: Duration = 0) -> None:
        """Gives it back, to come again after `delay` (a timedelta or seconds) with `attempt` + 1.

        Raises:
            WrongType: `delay` is neither a timedelta nor a number.
            InvalidArgument: `delay` is negative or not finite.
            Closed: The subscription is closed.
        """
        if not self._settled:
            self._subscription.give_back(self._delivery[0], delay_ms(delay))
            self._settled = True

    def dead_letter(self, reason: str) -> None:
        """Puts it away among the dead letters of the group, which does not get it again.

        Returns at once; `Subscription.flush` waits until that is durable. `Store.dead_letters` lists
        it with the reason, `Store.redrive` brings it back.

        Raises:
            WrongType: `reason` is not a str.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
        """
        if not self._settled:
            _core.dead_letter(self._subscription, self._delivery[0], reason)
            self._settled = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.ack()
        else:
            self.nack()

    def __repr__(self) -> str:
        return (
            f"Message(subject={self.subject!r}, sequence={self.sequence}, due={self.due.isoformat()}, "
            f"attempt={self.attempt}, {len(self.body)} bytes)"
        )
