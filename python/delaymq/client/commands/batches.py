"""Requests of cancels, moves, look-ups and commands by keys: at most 10,000 items in each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from delaymq._arguments.moves import Row
from delaymq._core import Request
from delaymq.errors import InvalidArgument, WrongType
from delaymq.receipt import Receipt

COMMANDS_MAX = 10_000  # items of one request

Item = TypeVar("Item")
Keyed = TypeVar("Keyed")
Answer = TypeVar("Answer")

RequestOf: TypeAlias = Callable[[str | None], Request]
"""Encodes a request with the id of a command, or with none."""


class KeyParts(Generic[Keyed]):
    """A call for many keys: each distinct key once, in requests of at most 10,000 keys, all of them checked."""

    def __init__(
        self, items: list[Keyed], request: Callable[[list[Keyed], str | None], Request], command_id: str | None
    ) -> None:
        """Divides the items, and encodes every request once to check it, with the id that the user gave, if any.

        Raises:
            WrongType, InvalidArgument: As `delaymq.Store.cancel_keys` and `move_keys`.
        """
        self._items = items
        self._unique = list(dict.fromkeys(items))
        self._parts = [
            self._unique[start : start + COMMANDS_MAX] for start in range(0, max(1, len(self._unique)), COMMANDS_MAX)
        ]
        self._request = request
        for number in range(len(self._parts)):
            self._encoded(number, command_id)

    def requests(self) -> list[RequestOf]:
        """The requests of all parts; one if there is no item."""
        return [partial(self._encoded, number) for number in range(len(self._parts))]

    def merged(self, answers: Iterable[Answer]) -> list[Answer]:
        """The answers to all parts, one for each item of the call, in its order."""
        known = dict(zip(self._unique, answers, strict=True))
        return [known[one] for one in self._items]

    def error_of(self, error: InvalidArgument, number: int) -> tuple[InvalidArgument, Keyed]:
        """The error of a part as the whole call raises it, and the item that was refused."""
        one = self._parts[number][error.index or 0]
        if error.index is not None:
            error.index = self._items.index(one)
        return error, one

    def _encoded(self, number: int, command_id: str | None) -> Request:
        try:
            return self._request(self._parts[number], command_id)
        except (WrongType, InvalidArgument) as error:
            if error.index is not None:
                error.index = self._items.index(self._parts[number][error.index])
            raise


def cancels(receipts: list[Receipt], stream: bytes) -> list[Request]:
    """The requests that cancel these messages, all of them checked; one if there is none.

    Raises:
        WrongType, ForeignReceipt: As `delaymq.Store.cancel_many`.
    """
    return _requests(receipts, lambda part: Request.cancel(part, stream))


def look_ups(receipts: list[Receipt], stream: bytes) -> list[Request]:
    """The requests that look up these messages, all of them checked; one if there is none.

    Raises:
        WrongType, ForeignReceipt: As `delaymq.Store.look_up_many`.
    """
    return _requests(receipts, lambda part: Request.look_up(part, stream))


def moves(rows: list[Row], stream: bytes) -> list[Request]:
    """The requests that move these messages, all of them checked; one if there is none.

    Raises:
        WrongType, ForeignReceipt: As `delaymq.Store.move_many`.
    """
    return _requests(rows, lambda part: Request.move_to(part, stream))


def refused_move(error: InvalidArgument, rows: list[Row], place: int) -> InvalidArgument:
    """The error of the request at this place, as a store in this process raises it for the whole call."""
    if error.index is not None:
        error.index += place * COMMANDS_MAX
    return renamed_due(error, rows[error.index or 0][2]) if error.argument == "due" else error


def renamed_due(error: InvalidArgument, absolute: bool) -> InvalidArgument:
    """The error as a store in this process raises it: a server's "due" is the user's `at` or `delay`."""
    if error.argument != "due":
        return error
    argument = "at" if absolute else "delay"
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
