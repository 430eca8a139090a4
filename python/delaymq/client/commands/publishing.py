"""What a client makes of a publish: its request, and the errors of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from delaymq._arguments.publishes import sent
from delaymq._core import Request
from delaymq.durations import Duration, due_of, jittered
from delaymq.errors import InvalidArgument, TooLarge
from delaymq.keys import named, terms_of
from delaymq.message import Publish, about

__all__ = ["AGAIN_FOR_S", "Publication"]

AGAIN_FOR_S = 50.0  # a server remembers an id for a minute at least; the rest is for what is on its way


class Publication:
    """One publish, and what its arguments are called."""

    __slots__ = ("_is_many", "_named_at", "is_safe", "plain", "request")

    def __init__(
        self,
        request: Request,
        named_at: Callable[[int], bool],
        *,
        is_many: bool,
        is_safe: bool,
        plain: Callable[[], Request] | None = None,
    ) -> None:
        """Made by `one` and `many`.

        Args:
            request: What is sent.
            named_at: True where the due time of the message at this place was given as `at`.
            is_many: Whether errors say which message they speak of.
            is_safe: Whether the server knows it again, so that it may be sent twice and is stored once.
            plain: What is sent instead where the server remembers no more ids; None where ids were asked for.
        """
        self.request = request
        self._named_at = named_at
        self._is_many = is_many
        self.is_safe = is_safe
        self.plain = plain

    @classmethod
    def one(cls, message: Publish, *, names: bool) -> Publication:
        """A publish of one message; with `names`, or a key and no id of its own, it is one that is told by its id.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish`.
        """
        due, absolute = due_of(message.delay, message.at, message.level)
        due = jittered(due, message.jitter)

        def told(by_id: bool) -> Request:
            terms = terms_of(message.key, message.if_exists, by_id)
            meta = about(named(message.message_id, by_id), message.tags, message.attributes)
            return Request.publish(message.subject, message.body, due, absolute, meta, terms)

        deduplicate = names or message.deduplicate
        by_id = deduplicate or _may_be_named(message)
        plain = None if by_id is deduplicate else partial(told, deduplicate)
        try:
            request = told(by_id)
        except TooLarge:
            if plain is None:
                raise
            request, by_id = plain(), deduplicate
        return cls(request, lambda _: absolute, is_many=False, is_safe=by_id, plain=plain)

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
        """A publish of many messages; with `names`, or where each has a key and no id of its own, they are told by ids.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
        """
        if isinstance(messages, str):
            request = sent(Request, messages, bodies, delays, jitter, names=names)
            return cls(request, lambda _: False, is_many=True, is_safe=names)
        anything: object = messages
        options = messages if bodies is not None or isinstance(anything, bytes) else _gathered(messages)
        if not names and isinstance(options, list) and bodies is None and _are_keyed(options):
            return cls._keyed(options, delays, jitter)
        if names and isinstance(options, list):
            options = [_named(row) for row in options]
        request = sent(Request, options, bodies, delays, jitter)
        is_safe = isinstance(options, list) and all(row.deduplicate for row in options)
        return cls(request, partial(_has_time, options), is_many=True, is_safe=is_safe)

    @classmethod
    def _keyed(cls, rows: list[Publish], delays: Duration | Sequence[Duration], jitter: Duration | None) -> Publication:
        """A publish of messages with keys, each told by an id that it is given, if there is room for these."""
        plain = partial(sent, Request, rows, None, delays, jitter)
        try:
            request, is_safe = sent(Request, [_named(row) for row in rows], None, delays, jitter), True
        except TooLarge:
            request, is_safe = plain(), _are_told(rows)
        at = partial(_has_time, rows)
        return cls(request, at, is_many=True, is_safe=is_safe, plain=None if _are_told(rows) else plain)

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


def _are_keyed(rows: Sequence[object]) -> bool:
    """Whether each is known again by its id at no more cost than its key has already."""
    return bool(rows) and all(isinstance(row, Publish) and (row.deduplicate or _may_be_named(row)) for row in rows)


def _may_be_named(message: Publish) -> bool:
    """Whether it waits to be applied anyway, and may be given an id. One of its own is not judged by unasked: the next
    message of the same id is another one.
    """
    return message.key is not None and message.message_id is None


def _are_told(rows: Sequence[Publish]) -> bool:
    """Whether each was to be told by its id."""
    return all(row.deduplicate for row in rows)


def _has_time(rows: Iterable[Publish], index: int) -> bool:
    """Whether the message at this place was given a time, and no delay."""
    return list(rows)[index].at is not None


def _named(row: Publish) -> Publish:
    """The same, told by its id."""
    anything: object = row
    if not isinstance(anything, Publish):
        return row  # refused where it is encoded
    return replace(row, deduplicate=True)
