"""Checks of calls with many messages or receipts, made as a whole before any of them takes effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from delaymq._arguments.argument_errors import unexpected, wrong_type
from delaymq.errors import TooLarge
from delaymq.message import Received, Settling
from delaymq.receipt import Receipt

REASON_BYTES_MAX = 1024  # as in the core, which would not check the reason of a call without messages

Received_ = TypeVar("Received_", bound="Received")
Item = TypeVar("Item")


def checked_messages(
    messages: Iterable[Received_], kind: type[Received_], subscription: Settling
) -> dict[int, Received_]:
    """The unsettled ones of many messages, by their keys.

    A key is unique within one subscription only: with a message of another subscription, the same key
    would settle a message that no consumer has handled.

    Args:
        messages: The argument of the call. It is read to its end before any message is settled.
        kind: The class that each message must have.
        subscription: The subscription that the messages must be of.

    Raises:
        WrongType: It is not iterable, or item `index` is not of the class.
        InvalidArgument: Item `index` is of another subscription.
    """
    unsettled = {}
    for index, message in enumerate(listed(messages, "messages", f"an iterable of {kind.__name__}")):
        if not isinstance(message, kind):
            error = wrong_type(f"messages[{index}]", kind.__name__, message)
            error.argument, error.index = "messages", index
            raise error
        if message._subscription is not subscription:  # noqa: SLF001 - a message belongs to its subscription
            expected, hint = "a message of this subscription", "; settle each where it was handed over"
            foreign = unexpected(f"messages[{index}]", expected, "one of another", hint)
            foreign.argument, foreign.index = "messages", index
            raise foreign
        if not message._settled:  # noqa: SLF001
            unsettled[message.key] = message
    return unsettled


def listed(items: Iterable[Item], argument: str, expected: str) -> list[Item]:
    """An argument with many items, as a list.

    Raises:
        WrongType: It is not iterable, or it is text or bytes.
    """
    anything: object = items
    if isinstance(anything, str | bytes | bytearray):
        raise wrong_type(argument, expected, anything)
    try:
        iterator = iter(items)  # also by `__getitem__`, as `Receipts` has it
    except TypeError:
        raise wrong_type(argument, expected, anything) from None
    return list(iterator)


def receipt_list(receipts: Iterable[Receipt]) -> list[Receipt]:
    """The `receipts` of a call for many messages.

    Raises:
        WrongType: `receipts` is not iterable.
    """
    return listed(receipts, "receipts", "an iterable of Receipt")


def checked_reason(reason: str) -> None:
    """Checks the reason of a dead letter, also if the call has no message.

    Raises:
        WrongType: It is not a str.
        TooLarge: It takes more than 1,024 bytes as UTF-8.
    """
    anything: object = reason
    if not isinstance(anything, str):
        raise wrong_type("reason", "str", anything)
    size = len(anything.encode("utf-8", "surrogatepass"))
    if size > REASON_BYTES_MAX:
        raise TooLarge(
            f"reason is too large: the limit is {REASON_BYTES_MAX}, found {size}",
            argument="reason",
            limit=REASON_BYTES_MAX,
            found=str(size),
        )
