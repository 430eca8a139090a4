"""Type stubs of the part of `delaymq._core` that is receipts, and messages as consumers receive them.

It is a part of that module and no module of its own. A message keeps what its store or its server said of it, and makes
values of Python once they are looked at: `docs/decisions/0040-messages-made-on-demand.md`.
"""

from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypeAlias, TypeVar, final, overload

from delaymq.durations import Duration
from delaymq.message import Settling

Delivery: TypeAlias = tuple[int, str, bytes, int, int, int, bool, int, int, bytes]
"""key, subject, body, due_ms, published_ms, attempt, redelivered, sequence, first_due_ms and meta"""

@final
class Receipt:
    """Identifies one message of one store, and proves that the store gave it out.

    `str(receipt)` is one line of at most 80 ASCII characters, to be kept in a database;
    `Receipt.parse` reads it back. Receipts compare and hash by the message that they identify.
    """

    @staticmethod
    def parse(text: str) -> Receipt:
        """Parses the text of a receipt.

        Raises:
            WrongType: It is not a str.
            InvalidArgument: It is not the text of a receipt.
        """
    @property
    def due(self) -> datetime:
        """When the message is due, UTC, to the millisecond."""
    @property
    def sequence(self) -> int:
        """The place of the message in the store's order of facts."""
    @property
    def size(self) -> int | None:
        """Length of the body in bytes; None if the receipt comes from a list, which does not read bodies."""
    def __hash__(self) -> int: ...

@final
class Receipts(Sequence[Receipt]):
    """The receipts of one `publish_many`, in order of its messages: a sequence that creates each on access."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Receipt:
        """The receipt at an index; negative ones count from the end."""
    @overload
    def __getitem__(self, index: slice, /) -> list[Receipt]:
        """The receipts of a slice."""

class Received:
    """The base of `Message` and `AsyncMessage`.

    A message is settled once: acknowledged, given back or made a dead letter.
    """

    @property
    def key(self) -> int:
        """The number of this delivery within its subscription; not the `key` of a publish."""
    @property
    def subject(self) -> str:
        """The subject that the message was published on."""
    @property
    def body(self) -> bytes:
        """The bytes that were published."""
    @property
    def due(self) -> datetime:
        """When the message was due, UTC, to the millisecond; for a retry, when the retry was due."""
    @property
    def published(self) -> datetime:
        """When the store received the message, UTC, to the millisecond."""
    @property
    def attempt(self) -> int:
        """The number of this delivery to the group: 1 for the first, then 2, 3, …"""
    @property
    def redelivered(self) -> bool:
        """True if a consumer of this group may have received the message before."""
    @property
    def sequence(self) -> int:
        """The message's place in the store's order of facts."""
    @property
    def receipt(self) -> Receipt:
        """The receipt that the message was published with, also if it was moved and has a newer receipt.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
    @property
    def message_id(self) -> str:
        """The id that the message was published with, or the text of its receipt; the same for every attempt."""
    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the message was published with."""
    @property
    def attributes(self) -> dict[str, str]:
        """The attributes that the message was published with."""
    @property
    def lateness(self) -> timedelta:
        """How long after its due time this process received the message, by the store's clock."""
    @property
    def settled(self) -> bool:
        """True once the message is acknowledged, given back or made a dead letter."""
    def ack(self) -> None:
        """Acknowledges the message. Returns at once; the subscription's `flush` waits until that is durable.

        Raises:
            AlreadySettled: The message was settled before.
            Closed: The subscription is closed: the message went back to its group and is delivered again.
            HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
            Poisoned: The store stopped after a failed write.
        """
    def nack(self, delay: Duration = 0) -> None:
        """Gives the message back, to be delivered again after `delay` (a timedelta or seconds) with `attempt` + 1.

        Raises:
            WrongType: `delay` is neither a timedelta nor a number.
            InvalidArgument: `delay` is negative, not finite, or longer than the store's `delay_max`.
            AlreadySettled: The message was settled before.
            Closed: The subscription is closed: the message went back to its group and is delivered again.
            HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
        """
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
    def _leave(self, failed: bool) -> None: ...  # settles it at the end of a `with` block, unless the block did
    def _settle(self) -> None: ...  # marks it as settled, for a subscription that has settled it

class Message(Received):
    """A message that is due, delivered to a consumer.

    Used as a context manager, the message is acknowledged at the end of the block, and given back if
    the block raises. The end of the block raises HoldExpired if the message was held for too long::

        with message:
            handle(message.body)
    """

    def __new__(cls, subscription: Settling, delivery: Delivery, handed_ms: int) -> Self: ...
    def __copy__(self) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

class AsyncMessage(Received):
    """A message that is due, delivered to a consumer on an event loop.

    Used with `async with`, the message is acknowledged at the end of the block, and given back if the block
    raises or is cancelled. The end of the block raises HoldExpired if the message was held for too long::

        async with message:
            await handle(message.body)
    """

    def __new__(cls, subscription: Settling, delivery: Delivery, handed_ms: int) -> Self: ...
    def __copy__(self) -> Self: ...
    async def __aenter__(self) -> Self: ...
    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Awaitable[None]: ...

_Received = TypeVar("_Received", bound=Received)

def unsettled(messages: list[_Received], kind: type[_Received], settling: Settling, /) -> list[_Received]:
    """The unsettled ones of many messages, each once.

    Raises:
        WrongType: Item `index` is not of the class.
        InvalidArgument: Item `index` is not settled by `settling`.
    """
