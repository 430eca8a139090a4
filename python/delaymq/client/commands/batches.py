"""What a client makes of cancels, moves and look-ups: requests of at most 10,000 each, and the errors of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from delaymq._arguments.moves import Row
from delaymq._core import Request
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Receipt

__all__ = ["KeyParts", "cancels", "look_ups", "moves", "refused_move"]

COMMANDS_MAX = 10_000  # of one request

Item = TypeVar("Item")
Keyed = TypeVar("Keyed")
Answer = TypeVar("Answer")

RequestOf: TypeAlias = Callable[[str | None], Request]
"""Makes a request that is known again by an id, or by none."""


class KeyParts(Generic[Keyed]):
    """What is asked by keys, each of them once, in requests of at most 10,000 keys; all of them are checked."""

    def __init__(
        self, asked: list[Keyed], request: Callable[[list[Keyed], str | None], Request], given: str | None
    ) -> None:
        """Of these, with the id that was given, if one was.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.cancel_keys` and `move_keys`.
        """
        self._asked = asked
        self._once = list(dict.fromkeys(asked))
        self._parts = [
            self._once[start : start + COMMANDS_MAX] for start in range(0, max(1, len(self._once)), COMMANDS_MAX)
        ]
        self._request = request
        for number in range(len(self._parts)):
            self._made(number, given)

    def requests(self) -> list[RequestOf]:
        """One for each part, even where nothing is asked."""
        return [partial(self._made, number) for number in range(len(self._parts))]

    def told(self, answers: Iterable[Answer]) -> list[Answer]:
        """The answers to all parts, in the order in which their keys were named."""
        known = dict(zip(self._once, answers, strict=True))
        return [known[one] for one in self._asked]

    def refused(self, error: InvalidArgument, number: int) -> tuple[InvalidArgument, Keyed]:
        """The error of a part as the whole call would raise it, and what it is about."""
        one = self._parts[number][error.index or 0]
        if error.index is not None:
            error.index = self._asked.index(one)
        return error, one

    def _made(self, number: int, command_id: str | None) -> Request:
        try:
            return self._request(self._parts[number], command_id)
        except (WrongType, InvalidArgument) as error:
            if error.index is not None:
                error.index = self._asked.index(self._parts[number][error.index])
            raise


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
