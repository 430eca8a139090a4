"""Publishes of both clients: their requests, and the errors of their answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from delaymq._arguments.columns import ColumnOptions
from delaymq._arguments.publishes import publish_all
from delaymq._core import Request
from delaymq.client.commands.batches import renamed_due
from delaymq.durations import Duration, due_of, jittered
from delaymq.errors import InvalidArgument, TooLarge
from delaymq.keys import id_for, terms_of
from delaymq.message import Publish, meta_of

RETRY_FOR_MS = 50_000  # a server remembers an id for at least a minute; the difference is for requests in transit


class Publication:
    """The request of one publish, and how the user passed its due times."""

    __slots__ = ("_is_many", "_used_at", "is_safe", "request", "without_ids")

    def __init__(
        self,
        request: Request,
        used_at: Callable[[int], bool],
        *,
        is_many: bool,
        is_safe: bool,
        without_ids: Callable[[], Request] | None = None,
    ) -> None:
        """Use `one` or `many` instead.

        Args:
            request: The request to send.
            used_at: True if the due time of the message at an index was given as `at`.
            is_many: Whether errors have an index.
            is_safe: Whether the messages are deduplicated by ids, so that a repeated request stores them once.
            without_ids: Encodes the request without generated ids, for a server without room for them; None if the user
                asked for deduplication. It reads arrays and buffers of the user again, so their contents must stay the
                same until the publish ends.
        """
        self.request = request
        self._used_at = used_at
        self._is_many = is_many
        self.is_safe = is_safe
        self.without_ids = without_ids

    @classmethod
    def one(cls, message: Publish, *, with_ids: bool) -> Publication:
        """A publish of one message. It is deduplicated with `with_ids`, or if it has a key and no id of its own.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish`.
        """
        due, absolute = due_of(message.delay, message.at, message.level)
        due = jittered(due, message.jitter)

        def encode(has_id: bool) -> Request:
            terms = terms_of(message.key, message.if_exists, has_id, message.expires, message.on_expiry)
            meta = meta_of(id_for(message.message_id, has_id), message.tags, message.attributes)
            return Request.publish(message.subject, message.body, due, absolute, meta, terms)

        deduplicate = with_ids or message.deduplicate
        has_id = deduplicate or _can_get_id(message)
        without_ids = None if has_id is deduplicate else partial(encode, deduplicate)
        try:
            request = encode(has_id)
        except TooLarge:
            if without_ids is None:
                raise
            request, has_id = without_ids(), deduplicate
        return cls(request, lambda _: absolute, is_many=False, is_safe=has_id, without_ids=without_ids)

    @classmethod
    def many(
        cls,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None,
        delays: Duration | Sequence[Duration],
        options: ColumnOptions,
        *,
        with_ids: bool,
    ) -> Publication:
        """A publish of many messages. They are deduplicated with `with_ids`, or if each has a key and no id of its own.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.publish_many`.
        """
        rows: Any = _as_list(messages) if bodies is None else None
        encode = partial(publish_all, Request, messages if rows is None else rows, bodies, delays, options)
        if bodies is not None:
            used_at, can_get_ids = (lambda _: options.at is not None), _has_all(options.keys)
        else:
            used_at, can_get_ids = partial(_uses_at, rows), isinstance(rows, list) and _can_all_get_ids(rows)
        if with_ids or not can_get_ids:
            request = encode(with_ids=with_ids)
            return cls(request, used_at, is_many=True, is_safe=with_ids or _are_deduplicated(rows))
        # Generated ids, if the request is not too large with them.
        is_asked, without_ids = _are_deduplicated(rows), partial(encode, with_ids=False)
        try:
            request, is_safe = encode(with_ids=True), True
        except TooLarge:
            request, is_safe = without_ids(), is_asked
        return cls(request, used_at, is_many=True, is_safe=is_safe, without_ids=None if is_asked else without_ids)

    def raised(self, error: InvalidArgument) -> InvalidArgument:
        """The error as a store in this process raises it, with the name of the user's argument."""
        index = error.index or 0
        if not self._is_many:
            error.index = None
        return renamed_due(error, self._used_at(index)) if error.argument == "due" else error


def _as_list(messages: str | Sequence[str] | Iterable[Publish]) -> Any:  # noqa: ANN401 - checked when it is encoded
    """The messages as a list, since they are read twice; anything else is refused when it is encoded."""
    anything: object = messages
    return list(messages) if isinstance(anything, Iterable) and not isinstance(anything, str | bytes) else messages


def _has_all(keys: object) -> bool:
    """True if every message of a column has a key."""
    if keys is None or isinstance(keys, str | bytes) or not isinstance(keys, Collection):
        return False
    return len(keys) > 0 and all(key is not None for key in keys)


def _can_all_get_ids(rows: Sequence[object]) -> bool:
    """True if every message may have a generated id, at no cost beyond that of its key."""
    return bool(rows) and all(isinstance(row, Publish) and (row.deduplicate or _can_get_id(row)) for row in rows)


def _can_get_id(message: Publish) -> bool:
    """True if the message may have a generated id: it has to be applied before its answer anyway, because of its key.

    A message with an id of its own is not deduplicated unless the user asks for it: the next message with that id is
    another one.
    """
    return message.key is not None and message.message_id is None


def _are_deduplicated(rows: object) -> bool:
    """True if the user asked to deduplicate every message of a list; a column has no such option."""
    return isinstance(rows, list) and all(row.deduplicate for row in rows)


def _uses_at(rows: Iterable[Publish], index: int) -> bool:
    """True if the message at this index has an absolute due time."""
    return list(rows)[index].at is not None
