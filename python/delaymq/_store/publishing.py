"""Publishing to a store in this process, recurring messages, and bulk loads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Unpack, overload

from delaymq import _core
from delaymq._verbs import storing
from delaymq._verbs.calls import Part, with_options_of
from delaymq._verbs.storing import ColumnOptions, RecurOptions
from delaymq.bulk_load import Loaded
from delaymq.durations import Duration
from delaymq.message import Publish, PublishOptions
from delaymq.receipt import Receipt, Receipts
from delaymq.recurring import Recurring

if TYPE_CHECKING:
    from delaymq.loading import StagedRun


class Publishing(Part):
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

    @with_options_of(storing.recur)
    def recur(self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[RecurOptions]) -> Recurring:
        """Publishes a message again and again, one pending at a time, until `end_recurring`.

        ::

            store.recur("reports", b"daily", name="daily", cron="30 9 * * mon-fri", zone="Europe/Berlin")

        Each due time is computed from the one before, never from the current time, so that the series does not drift.
        The next message is stored when the one before is dispatched or cancelled.

        Args:
            subject: The subject of the messages, as for `publish`.
            body: The body of each message, a bytes-like object.
            name: Your name of the series, with the characters of a subject; unique within the subject.
            every: A timedelta or seconds between two messages, from 1 second to 10 years.
            cron: A cron pattern instead: minute, hour, day of the month, month and day of the week, or six fields with
                seconds first. Names, ranges, lists, steps, `L`, `W` and `#` are allowed, and a range may wrap
                (`fri-mon`). `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are patterns too, and `@every 5m`
                is an interval. A pattern without an occurrence within ten years is refused.
            zone: The time zone of the pattern, an IANA name. If the pattern has one time of day, a time that the clock
                skips occurs at the first moment after the gap, and a repeated time occurs once, the first time. If it
                has several (by `*`, a list, a range or a step), it follows the clock.
            start: An aware datetime before which there is no occurrence. An interval is counted from it, even if it has
                passed.
            catch_up: How occurrences are handled that could not be stored in time, such as during a downtime: `"one"`
                publishes the last one at once, `"skip"` none, `"all"` each, one after the other.
            if_exists: The effect if the subject has a series of that name: `"replace"` ends it and cancels its
                pending message, `"keep"` keeps it and begins nothing, `"error"` raises InvalidArgument.
            tags: As for `publish`.
            attributes: As for `publish`. `recurring` is added, with the name of the series.
            expires_after: How long after its own due time each message is of use, as `expires` of `publish`.
            on_expiry: As for `publish`.

        Returns:
            The series of that name, once it is durable.

        Raises:
            WrongType: An argument has the wrong type; nothing was stored.
            InvalidArgument: `subject`, `name`, `every`, `cron`, `zone`, `start`, `catch_up`, `if_exists`, `tags`,
                `attributes`, `expires_after` or `on_expiry` is refused, or there is a series of that name; nothing was
                stored.
            TooLarge: The series takes more than 64 KiB, or all series together more than 16 MiB; nothing was stored.
            NamesFull: There are 65,536 series already; nothing was stored.
            DiskFull, Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(storing.recur(subject, body, **options))

    def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series and cancels its pending message. Messages that were dispatched before are not affected.

        Returns:
            True, or False if the subject has no series of that name. The answer is durable.

        Raises:
            WrongType, InvalidArgument: `subject` or `name` is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(storing.end_recurring(subject, name))

    def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, in the order in which they began.

        Raises:
            WrongType: `subject` is not a str.
            InvalidArgument: The store does not have the subject.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(storing.recurring(subject))

    def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none of them, once for each job.

        ::

            from delaymq.loading import stage

            loaded = store.load("orders-2030-01-01", stage(store.path, table))

        All bytes of the runs are read and checked first, which takes seconds for a million messages; deliveries
        continue meanwhile. Messages that are due already become ready soon after. A load returns no receipts: lists and
        deliveries have them.

        Args:
            job: Identifies the load, with the characters of a subject. A job is remembered for seven days: a second
                load of it stores nothing and has the same answer, whichever runs it names and however the first attempt
                ended.
            runs: The staged runs, 1 to 4,096, with 268,435,456 messages in all, staged twenty hours ago at most.

        Returns:
            The result, once it is as durable as the store was opened for.

        Raises:
            WrongType: `job` is not a str, or `runs` is not an iterable of `StagedRun`; nothing was stored.
            InvalidArgument: `job` is refused, or stored another number of messages before; `runs` is empty, names a run
                twice, or names one that another job has loaded or that was staged too long ago; a message is `due`
                later than the store accepts. Nothing was stored.
            TooLarge: There are too many `runs`, `messages` or `subjects`; nothing was stored.
            MissingFile, Corrupt, NewerFormat: A run is missing, has changed since it was staged, or was staged by a
                later release; nothing was stored.
            NamesFull: 65,536 jobs are remembered, or too many runs were loaded within a day; nothing was stored.
            DiskFull, Closed, ForkedProcess: As `publish`.
            Poisoned: As `publish`. After the store is opened again, the same load has the answer.
        """
        return self._run(storing.load(job, runs))
