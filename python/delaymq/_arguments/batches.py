"""What a call for many messages was given, checked as a whole before any of it is settled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from delaymq.errors import InvalidArgument, TooLarge, WrongType

if TYPE_CHECKING:
    from delaymq.message import Received, Settling

__all__ = ["checked_messages", "checked_reason", "listed"]

REASON_BYTES_MAX = 1024  # the core's own limit, which a call for no message at all would not meet

Received_ = TypeVar("Received_", bound="Received")
Item = TypeVar("Item")


def checked_messages(
    messages: Iterable[Received_], kind: type[Received_], subscription: Settling
) -> dict[int, Received_]:
    """Those of many messages that are not settled, by their keys.

    A key is a place in one subscription's own numbers, so that the same key of another one is
    another message: settling it here would finish a message that nobody handled.

    Args:
        messages: What the call was given; it is read to its end before anything is settled.
        kind: What each of them must be.
        subscription: Who handed them over, as the messages know it.

    Raises:
        WrongType: That is not iterable, or one of them is no message of this face; `index` is its place.
        InvalidArgument: One of them is of another subscription; `index` is its place.
    """
    chosen = {}
    for index, message in enumerate(listed(messages, "messages", f"an iterable of {kind.__name__}")):
        if not isinstance(message, kind):
            raise _wrong_type(f"messages[{index}]", "messages", kind.__name__, message, index)
        if message._subscription is not subscription:  # noqa: SLF001 - the two are one noun's two sides
            expected, found = "a message of this subscription", "one of another"
            raise InvalidArgument(
                f"messages[{index}]: expected {expected}, found {found}; settle each where it was handed over",
                argument="messages",
                index=index,
                expected=expected,
                found=found,
            )
        if not message._settled:  # noqa: SLF001
            chosen[message.key] = message
    return chosen


def listed(items: Iterable[Item], argument: str, expected: str) -> list[Item]:
    """The items of an argument that holds many.

    Raises:
        WrongType: It is not iterable, or it is text or bytes.
    """
    anything: object = items
    if isinstance(anything, str | bytes | bytearray):
        raise _wrong_type(argument, argument, expected, anything)
    try:
        iterator = iter(items)  # by `__getitem__` too, as `Receipts` has it
    except TypeError:
        raise _wrong_type(argument, argument, expected, anything) from None
    return list(iterator)


def checked_reason(reason: str) -> None:
    """Refuses what cannot be a reason, also where there is no message to put away.

    Raises:
        WrongType: It is not a str.
        TooLarge: It takes more than 1,024 bytes as UTF-8.
    """
    anything: object = reason
    if not isinstance(anything, str):
        raise _wrong_type("reason", "reason", "str", anything)
    size = len(anything.encode("utf-8", "surrogatepass"))
    if size > REASON_BYTES_MAX:
        raise TooLarge(
            f"reason is too large: the limit is {REASON_BYTES_MAX}, found {size}",
            argument="reason",
            limit=REASON_BYTES_MAX,
            found=str(size),
        )


def _wrong_type(place: str, argument: str, expected: str, found: object, index: int | None = None) -> WrongType:
    name = type(found).__name__
    return WrongType(
        f"{place}: expected {expected}, found {name}", argument=argument, expected=expected, found=name, index=index
    )
