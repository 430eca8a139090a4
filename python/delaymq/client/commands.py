"""What a client makes of cancels, moves and look-ups: requests of at most 10,000 each, and the errors of answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from delaymq._core import Request
from delaymq._moving import Row
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Receipt

__all__ = ["cancels", "look_ups", "moves", "refused_move"]

COMMANDS_MAX = 10_000  # of one request

Item = TypeVar("Item")


def cancels(receipts: list[Receipt], stream: bytes) -> list[Request]:
    """The requests that cancel these, all of them checked; one even where there is none.

    Raises:
        WrongType, ForeignReceipt: As `delaymq.Store.cancel_many`.
    """
    return _requests(receipts, lambda part: Request.cancel(part, stream))


def look_ups(receipts: list[Receipt], stream: bytes) -> list[Request]:
    """The requests that look these up, all of them checked; one even where there is none.

    Raises:
        WrongType, ForeignReceipt: As `delaymq.Store.look_up_many`.
    """
    return _requests(receipts, lambda part: Request.look_up(part, stream))


def moves(rows: list[Row], stream: bytes) -> list[Request]:
    """The requests that move these, all of them checked; one even where there is none.

    Raises:
        WrongType, ForeignReceipt: As `delaymq.Store.move_many`.
    """
    return _requests(rows, lambda part: Request.move_to(part, stream))


def refused_move(error: InvalidArgument, rows: list[Row], place: int) -> InvalidArgument:
    """The error of the request at this place as a store in this process would raise it, which knows what the time is
    called and how many came before.
    """
    if error.index is not None:
        error.index += place * COMMANDS_MAX
    if error.argument != "due":
        return error
    argument = "at" if rows[error.index or 0][2] else "delay"
    words = f"{argument}: expected {error.expected}, found {error.found}"
    return type(error)(words, **{**vars(error), "argument": argument})


def _requests(items: list[Item], request: Callable[[list[Item]], Request]) -> list[Request]:
    requests = []
    for start in range(0, max(1, len(items)), COMMANDS_MAX):
        try:
            requests.append(request(items[start : start + COMMANDS_MAX]))
        except (WrongType, InvalidArgument) as error:
            if error.index is not None:
                error.index += start
            raise
    return requests
