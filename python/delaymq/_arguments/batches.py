"""Checks of calls with many messages or receipts, made as a whole before any of them takes effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from delaymq._arguments.argument_errors import unexpected, wrong_type
from delaymq.errors import InvalidArgument, TooLarge, WrongType
from delaymq.message import Received
from delaymq.receipt import Receipt

REASON_BYTES_MAX = 1024  # as in the core, which would not check the reason of a call without messages

Item = TypeVar("Item")


def refused_message(index: int, kind: type[Received], found: object, is_foreign: bool) -> WrongType | InvalidArgument:
    """The error for an item of a call for many messages.

    Args:
        index: Its place.
        kind: The class that each message must have.
        found: The item.
        is_foreign: It is a message of another subscription.
    """
    error: WrongType | InvalidArgument
    if is_foreign:
        hint = "; settle each where it was handed over"
        error = unexpected(f"messages[{index}]", "a message of this subscription", "one of another", hint)
    else:
        error = wrong_type(f"messages[{index}]", kind.__name__, found)
    error.argument, error.index = "messages", index
    return error


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
