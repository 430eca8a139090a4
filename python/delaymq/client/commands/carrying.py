"""The requests that carry a call to a server: pieces, parts of lists, and ids for answers that are lost.

The requests are the steps of a generator, which is sent their answers. `Client` and `AsyncClient` differ in how they
wait for an answer. A generator that is dropped before its end holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from delaymq import _core
from delaymq._arguments.publishes import new_ids
from delaymq._core import Request
from delaymq._verbs.calls import Call, Form
from delaymq.client.commands.publishing import PublishSteps, Steps, renamed_due
from delaymq.client.options import ClientOptions
from delaymq.errors import DelaymqError, InvalidArgument, NamesFull, WrongType

COMMANDS_MAX = 10_000  # items of one request

Result = TypeVar("Result")


class Carrier(PublishSteps):
    """Makes the steps of calls for one client."""

    def __init__(self, stream: Callable[[], bytes], options: ClientOptions) -> None:
        """Takes what returns the stream of the server's store, and the options of the client."""
        super().__init__(options)
        self._stream = stream

    def steps(self, call: Call[Result]) -> Steps[Result]:
        """The steps of a call.

        Raises:
            DelaymqError: As the method of `delaymq.Store`, with the arguments and the index of the whole call.
        """
        name, arguments, result, policy = call
        encode: Callable[..., Request] = getattr(_core, f"{name}_request")
        form, reads, repeats, is_remembered = policy
        retry_for_ms = self.retry_for_ms if is_remembered else None
        if form is Form.WHOLE:
            return result((yield encode(*arguments), reads, repeats, retry_for_ms))
        if form is Form.LISTED or form is Form.LIMITED:
            return result((yield from _listed(encode, arguments, is_limited=form is Form.LIMITED)))
        if form is Form.RECEIPTS:
            return result((yield from self._pieces(encode, arguments[0], (reads, repeats, retry_for_ms))))
        if form is Form.KEY:
            try:
                return result((yield from self._with_id(encode, arguments)))
            except InvalidArgument as error:
                raise renamed_due(error, arguments[-2] is True) from None
        return result((yield from self._keyed(encode, arguments)))

    def _pieces(
        self, encode: Callable[..., Request], items: list[Any], how: tuple[bool, bool, int | None]
    ) -> Steps[Any]:
        """Sends receipts, or moves by receipts; all requests are checked before the first is sent."""
        requests, stream = [], self._stream()
        for start in range(0, max(1, len(items)), COMMANDS_MAX):
            try:
                requests.append(encode(items[start : start + COMMANDS_MAX], stream))
            except (WrongType, InvalidArgument) as error:
                if error.index is not None:
                    error.index += start
                raise
        answers: list[Any] = []
        for place, request in enumerate(requests):
            try:
                answers += yield request, *how
            except InvalidArgument as error:
                if error.index is not None:
                    error.index += place * COMMANDS_MAX
                raise (renamed_due(error, items[error.index or 0][2]) if error.argument == "due" else error) from None
        return answers

    def _keyed(self, encode: Callable[..., Request], arguments: tuple[Any, ...]) -> Steps[Any]:
        """Sends each distinct key, or move by a key, once; all requests are checked before the first is sent."""
        subject, items, command_id = arguments
        unique = list(dict.fromkeys(items))
        parts = [unique[start : start + COMMANDS_MAX] for start in range(0, max(1, len(unique)), COMMANDS_MAX)]
        for part in parts:
            try:
                encode(subject, part, command_id)
            except (WrongType, InvalidArgument) as error:
                raise _indexed(error, items, part) from None
        answers: list[Any] = []
        for part in parts:
            try:
                answers += yield from self._with_id(encode, (subject, part, command_id))
            except InvalidArgument as error:
                absolute = error.argument == "due" and part[error.index or 0][2]
                raise renamed_due(_indexed(error, items, part), absolute) from None
        known = dict(zip(unique, answers, strict=True))
        return [known[one] for one in items]

    def _with_id(self, encode: Callable[..., Request], arguments: tuple[Any, ...]) -> Steps[Any]:
        """Sends a command with an id, or without one if the server has no room for ids and the user gave none."""
        *others, command_id = arguments
        request = encode(*others, new_ids(1)[0] if command_id is None else command_id)
        try:
            return (yield request, False, self._retry_ambiguous, self.retry_for_ms)
        except NamesFull:
            if command_id is not None:
                raise
        return (yield encode(*others, None), False, False, None)


def _listed(encode: Callable[..., Request], arguments: tuple[Any, ...], *, is_limited: bool) -> Steps[list[Any]]:
    """All rows of a list, of as many as the last argument says."""
    most = arguments[-1] if is_limited else None
    after, rows = yield encode(*arguments), True, False, None
    while after and (most is None or len(rows) < most):
        left = arguments if most is None else (*arguments[:-1], most - len(rows))
        after, more = yield encode(*left, after), True, False, None
        rows += more
    return rows  # type: ignore[no-any-return]


ErrorType = TypeVar("ErrorType", bound=DelaymqError)


def _indexed(error: ErrorType, items: list[Any], part: list[Any]) -> ErrorType:
    """The error about an item of a part, with the index in the whole call."""
    if error.index is not None:
        error.index = items.index(part[error.index])
    return error
