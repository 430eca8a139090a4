"""The requests of publishes: whether each message has an id, so that a lost request can be sent again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from delaymq._core import Request
from delaymq._verbs import storing
from delaymq._verbs.storing import Body, ColumnOptions
from delaymq.client.options import ClientOptions
from delaymq.durations import Duration
from delaymq.errors import InvalidArgument, NamesFull, TooLarge
from delaymq.message import Publish, PublishOptions
from delaymq.receipt import Receipts

Result = TypeVar("Result")

Sent: TypeAlias = tuple[Request, bool, bool, int | None]
"""A request; whether it changes nothing, so that it is sent again if its connection is lost; whether it is sent again
although it may have taken effect; and for how many milliseconds, or None."""

Steps: TypeAlias = Generator[Sent, Any, Result]
"""Yields requests, is sent the answer of each, or thrown its error, and returns the result."""


class PublishSteps:
    """Makes the steps of publishes for one client."""

    retry_for_ms = 50_000  # a server remembers an id for at least a minute; the difference is for requests in transit

    def __init__(self, options: ClientOptions) -> None:
        """Takes the options of the client."""
        self._with_ids = options.deduplicate
        self._retry_ambiguous = options.retry_ambiguous

    def publish(self, subject: str, body: Body, options: PublishOptions) -> Steps[Receipts]:
        """The steps of `publish`.

        Raises:
            DelaymqError: As `delaymq.Store.publish`.
        """
        is_asked = self._with_ids or options.get("deduplicate", False)
        try:
            if not is_asked and options.get("key") is not None and options.get("message_id") is None:
                return (yield from self._with_new_ids(partial(Request.publish, subject, body, options)))
            request = Request.publish(subject, body, options, self._with_ids)
            answer: Receipts = yield request, False, is_asked and self._retry_ambiguous, self.retry_for_ms
        except InvalidArgument as error:
            error.index = None
            raise renamed_due(error, options.get("at") is not None) from None
        return answer

    def publish_many(
        self,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[Body] | None,
        delays: Duration | Sequence[Duration],
        options: ColumnOptions,
    ) -> Steps[Receipts]:
        """The steps of `publish_many`.

        Raises:
            DelaymqError: As `delaymq.Store.publish_many`.
        """
        rows: Any = _as_list(messages) if bodies is None else messages
        is_asked = self._with_ids or (bodies is None and _are_deduplicated(rows))
        gets_ids = not is_asked and (_can_all_get_ids(rows) if bodies is None else _has_all(options.get("keys")))

        def encode(with_ids: bool) -> Request:
            return storing.publish_many(Request, with_ids, rows, bodies, delays, **options)

        try:
            if gets_ids:
                return (yield from self._with_new_ids(encode))
            request = encode(self._with_ids)
            answer: Receipts = yield request, False, is_asked and self._retry_ambiguous, self.retry_for_ms
        except InvalidArgument as error:
            if error.argument != "due":
                raise
            source = options.get("at") if bodies is not None else rows[error.index or 0].at
            raise renamed_due(error, source is not None) from None
        return answer

    def _with_new_ids(self, encode: Callable[[bool], Request]) -> Steps[Receipts]:
        """Sends messages with generated ids; without, if they are too large with them, or the server has no room.

        Each of them has a key, and no id of its own, or one to deduplicate by. Because of its key it has to be applied
        before its answer anyway. A message with an id of its own is not deduplicated unless the user asks for it: the
        next message with that id is another one. The messages are encoded again from arrays and buffers of the user,
        so their contents must stay the same until the publish ends.
        """
        answer: Receipts
        try:
            request = encode(True)
        except TooLarge:
            answer = yield encode(False), False, False, None
            return answer
        try:
            answer = yield request, False, self._retry_ambiguous, self.retry_for_ms
        except NamesFull as error:
            if error.argument != "message_id":
                raise
            request = encode(False)
        else:
            return answer
        answer = yield request, False, False, None
        return answer


def renamed_due(error: InvalidArgument, absolute: bool) -> InvalidArgument:
    """The error as a store in this process raises it: a server's "due" is the user's `at` or `delay`."""
    if error.argument != "due":
        return error
    argument = "at" if absolute else "delay"
    words = f"{argument}: expected {error.expected}, found {error.found}"
    return type(error)(words, **{**vars(error), "argument": argument})


def _as_list(messages: str | Sequence[str] | Iterable[Publish]) -> Any:  # noqa: ANN401 - checked when it is encoded
    """The messages as a list, since they are read twice; anything else is refused when it is encoded."""
    anything: object = messages
    return list(messages) if isinstance(anything, Iterable) and not isinstance(anything, str | bytes) else messages


def _has_all(keys: object) -> bool:
    """True if every message of a column has a key."""
    if keys is None or isinstance(keys, str | bytes) or not isinstance(keys, Collection):
        return False
    return len(keys) > 0 and all(key is not None for key in keys)


def _can_all_get_ids(rows: object) -> bool:
    """True if every message may have a generated id, or the user asked to deduplicate it."""
    return isinstance(rows, list) and all(
        isinstance(row, Publish) and (row.deduplicate or (row.key is not None and row.message_id is None))
        for row in rows
    )


def _are_deduplicated(rows: object) -> bool:
    """True if the user asked to deduplicate every message of a list; a column has no such option."""
    return isinstance(rows, list) and all(isinstance(row, Publish) and row.deduplicate for row in rows)
