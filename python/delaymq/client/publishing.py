"""What a client makes of a publish: its request, and the errors of its answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from delaymq._core import Request
from delaymq._publishing import sent
from delaymq.durations import Duration, due_of
from delaymq.errors import InvalidArgument
from delaymq.message import Publish, about

__all__ = ["Publication"]


class Publication:
    """One publish, and what its arguments are called."""

    __slots__ = ("_is_many", "_named_at", "request")

    def __init__(self, request: Request, named_at: Callable[[int], bool], *, is_many: bool) -> None:
        """Made by `one` and `many`.

        Args:
            request: What is sent.
            named_at: True where the due time of the message at this place was given as `at`.
            is_many: Whether errors say which message they speak of.
        """
        self.request = request
        self._named_at = named_at
        self._is_many = is_many

    @classmethod
    def one(cls, message: Publish, *, names: bool) -> Publication:
        """A publish of one message; with `names` one without an id gets one.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish`.
        """
        due, absolute = due_of(message.delay, message.at, message.level)
        chosen = _new_name() if names and message.message_id is None else message.message_id
        meta = about(chosen, message.tags, message.attributes)
        return cls(
            Request.publish(message.subject, message.body, due, absolute, meta), lambda _: absolute, is_many=False
        )

    @classmethod
    def many(
        cls,
        messages: str | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None,
        delays: Duration | Sequence[Duration],
        *,
        names: bool,
    ) -> Publication:
        """A publish of many messages; with `names` those without an id get one.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
        """
        if isinstance(messages, str):
            request = sent(Request, messages, bodies, delays)  # refuses what it refuses also without names
            if names and bodies is not None:
                each = [delays] * len(bodies) if isinstance(delays, int | float | timedelta) else delays
                rows = [Publish(messages, body, delay) for body, delay in zip(bodies, each, strict=True)]
                request = sent(Request, [_named(row) for row in rows], None, 0)
            return cls(request, lambda _: False, is_many=True)
        anything: object = messages
        chosen = messages if bodies is not None or isinstance(anything, bytes) else _gathered(messages)
        if names and isinstance(chosen, list):
            chosen = [_named(row) for row in chosen]
        request = sent(Request, chosen, bodies, delays)
        return cls(request, lambda index: list(chosen)[index].at is not None, is_many=True)

    def raised(self, error: InvalidArgument) -> InvalidArgument:
        """The error as a store in this process would raise it, which knows how the arguments are called."""
        index = error.index or 0
        if not self._is_many:
            error.index = None
        if error.argument != "due":
            return error
        argument = "at" if self._named_at(index) else "delay"
        words = f"{argument}: expected {error.expected}, found {error.found}"
        return type(error)(words, **{**vars(error), "argument": argument})


def _gathered(messages: Iterable[Publish]) -> Iterable[Publish]:
    """The messages in a list, as they are read twice; what is no iterable is refused where it is encoded."""
    anything: object = messages
    return list(messages) if isinstance(anything, Iterable) else messages


def _named(row: Publish) -> Publish:
    """The same with an id."""
    anything: object = row
    if not isinstance(anything, Publish):
        return row  # refused where it is encoded
    return row if row.message_id is not None else replace(row, message_id=_new_name())


def _new_name() -> str:
    return uuid.uuid4().hex
