"""What a client makes of a publish: its request, and the errors of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from delaymq._core import Request
from delaymq._publishing import sent
from delaymq.durations import Duration, due_of, jittered
from delaymq.errors import InvalidArgument
from delaymq.keys import named, terms_of
from delaymq.message import Publish, about

__all__ = ["AGAIN_FOR_S", "Publication"]

AGAIN_FOR_S = 50.0  # a server remembers an id for a minute at least; the rest is for what is on its way


class Publication:
    """One publish, and what its arguments are called."""

    __slots__ = ("_is_many", "_named_at", "is_safe", "request")

    def __init__(self, request: Request, named_at: Callable[[int], bool], *, is_many: bool, is_safe: bool) -> None:
        """Made by `one` and `many`.

        Args:
            request: What is sent.
            named_at: True where the due time of the message at this place was given as `at`.
            is_many: Whether errors say which message they speak of.
            is_safe: Whether the server knows it again, so that it may be sent twice and is stored once.
        """
        self.request = request
        self._named_at = named_at
        self._is_many = is_many
        self.is_safe = is_safe

    @classmethod
    def one(cls, message: Publish, *, names: bool) -> Publication:
        """A publish of one message; with `names` it is one that is told by its id.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish`.
        """
        due, absolute = due_of(message.delay, message.at, message.level)
        deduplicate = names or message.deduplicate
        terms = terms_of(message.key, message.if_exists, deduplicate)
        meta = about(named(message.message_id, deduplicate), message.tags, message.attributes)
        due = jittered(due, message.jitter)
        request = Request.publish(message.subject, message.body, due, absolute, meta, terms)
        return cls(request, lambda _: absolute, is_many=False, is_safe=deduplicate)

    @classmethod
    def many(
        cls,
        messages: str | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None,
        delays: Duration | Sequence[Duration],
        *,
        names: bool,
        jitter: Duration | None = None,
    ) -> Publication:
        """A publish of many messages; with `names` each is told by its id.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
        """
        if isinstance(messages, str):
            request = sent(Request, messages, bodies, delays, jitter, names=names)
            return cls(request, lambda _: False, is_many=True, is_safe=names)
        anything: object = messages
        chosen = messages if bodies is not None or isinstance(anything, bytes) else _gathered(messages)
        if names and isinstance(chosen, list):
            chosen = [_named(row) for row in chosen]
        request = sent(Request, chosen, bodies, delays, jitter)
        is_safe = isinstance(chosen, list) and all(row.deduplicate for row in chosen)
        return cls(request, lambda index: list(chosen)[index].at is not None, is_many=True, is_safe=is_safe)

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
    """The same, told by its id."""
    anything: object = row
    if not isinstance(anything, Publish):
        return row  # refused where it is encoded
    return replace(row, deduplicate=True)
