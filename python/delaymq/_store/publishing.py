"""Publishing to a store in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack, overload

from delaymq import _core
from delaymq._verbs import storing
from delaymq._verbs.calls import with_options_of
from delaymq._verbs.storing import ColumnOptions
from delaymq.durations import Duration
from delaymq.message import Publish, PublishOptions
from delaymq.receipt import Receipt, Receipts


class Publishing:
    """The methods of `Store` that store messages."""

    _core: _core.Store

    @with_options_of(Publish)
    def publish(self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[PublishOptions]) -> Receipt:
        """Stores one message, to be delivered when it is due.

        Args:
            subject: 1 to 100 characters without white space, control characters, `/` and `%`; visible, assigned, NFC.
            body: Any bytes-like object, at most 4 MiB.
            delay: A timedelta or seconds from now. A fraction of a millisecond is rounded up.
            at: An aware datetime instead; a past time means now.
            level: One of RocketMQ's delay levels instead, 1 (one second) to 18 (two hours). Without `delay`, `at` and
                `level` the message is due now.
            tags: At most 10 words that tell messages of a subject apart.
            attributes: Text by name, delivered with the message; keys and values at most 32 KiB together.
            message_id: Your id of the message, with the characters of a subject; by default the text of the receipt.
            key: Your name for the pending message, with the characters of a subject. A subject has at most one pending
                message with a key; the key is free again once the message is dispatched or cancelled.
            if_exists: The effect of a taken key: `"replace"` cancels the message that has it, `"keep"` keeps
                that message and stores nothing, `"error"`, the default, raises KeyTaken.
            deduplicate: True stores a message of one subject and `message_id` once within ten minutes
                (`deduplicate_for`), however often it is published. A message without an id is given one.
            jitter: A timedelta or seconds, at most ten years. A random part of it is added to the due time, so that
                messages published together are not due together. `receipt.due` is the resulting time.
            expires: How long after its due time the message is of use, as a timedelta or seconds; or an aware datetime
                after the due time. From then on no consumer receives it, nor as a retry. A move does not change it.
            on_expiry: The effect: `"drop"`, the default, finishes the message, `"dead_letter"` makes it a dead letter
                of the group, with the reason `expired`.

        Returns:
            The receipt, once the message is as durable as `durability` says. If a message was kept or had been
            published before, the receipt is that message's.

        Raises:
            WrongType, InvalidArgument: An argument has the wrong type, or a value out of range, such as a due time
                further ahead than `delay_max`; nothing was stored.
            TooLarge: The body, or tags, attributes and id together, exceed the limit; nothing was stored.
            DiskFull: There is no room for new messages; nothing was stored.
            KeyTaken: A pending message has the key; nothing was stored.
            NamesFull: There is no room for another key or id; nothing was stored.
            Poisoned: A write failed, now or earlier. The message may or may not have been stored.
            Closed: The store is closed.
            ForkedProcess: The store was opened by the parent process.
        """
        return self._core.publish(subject, body, options)

    @overload
    def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts: ...
    @overload
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    @with_options_of(storing.publish_many)
    def publish_many(
        self,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts:
        """Stores up to 10,000 messages, all or none, with one wait: faster than `publish`.

        Call it with a list of `Publish`, or with columns. Messages of columns have neither tags nor attributes.

        Args:
            messages: The messages, or their subject: one for all bodies, or one for each.
            bodies: Bytes-like objects.
            delays: One delay for all, or one for each body.
            at: Due times instead: an aware datetime for all, or one for each body. An int64 array of NumPy or Arrow has
                milliseconds since 1970, and is read without a copy. Datetimes of NumPy are in UTC.
            keys: A key or None for each body.
            if_exists: The effect of a taken key, for all bodies.
            jitter: A timedelta or seconds. A random part of it is added to the due time of each body.

        Returns:
            The receipts, in the order of the messages.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `publish`. `index` is the refused message; nothing was stored.
            KeyTaken: A pending message has the key of message `index`; nothing was stored.
            DiskFull, NamesFull, Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return storing.publish_many(self._core, False, messages, bodies, delays, **options)
