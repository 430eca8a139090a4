"""The store: a folder of durable delayed messages, opened by one process at a time."""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, overload

from delaymq import _core
from delaymq._arguments.batches import listed
from delaymq._arguments.moves import move_of, moved, moves_of
from delaymq._arguments.publishes import sent
from delaymq._store import recovery
from delaymq._store.lifecycle import Lifecycle
from delaymq._store.recovery import Durability, OpenOptions
from delaymq._store.retention import Pin, pinned
from delaymq.administration import Administration
from delaymq.bulk_load import BulkLoads
from delaymq.durations import Duration, due_of, jittered
from delaymq.errors import StoreError
from delaymq.forecast import ForecastQueries
from delaymq.keys import IfExists, KeyCommands, named, terms_of
from delaymq.message import NO_TAGS, Publish, about
from delaymq.pending import PendingQueries
from delaymq.receipt import Moved, Outcome, Receipt, Receipts
from delaymq.recurring import RecurringCommands
from delaymq.status import Progress, Status
from delaymq.subscription import Subscription

if TYPE_CHECKING:
    from delaymq.testing import Clock

__all__ = ["Durability", "Progress", "Start", "Status", "Store", "open_store"]

Start = Literal["earliest", "latest"]
"""Where a new group begins: at the earliest message kept, or at the next one."""

IN_FLIGHT_MAX = 256  # messages that one consumer holds unacknowledged at most


class Store(Administration, ForecastQueries, PendingQueries, KeyCommands, RecurringCommands, BulkLoads):
    """A folder of messages that are kept until they are due.

    Threads may share it; a forked child may not use it. Close it, or use it as a context manager.
    """

    def __init__(self, core: _core.Store, path: str, lifecycle: Lifecycle | None = None) -> None:
        """Made by `open`."""
        self._lifecycle = lifecycle or Lifecycle.over(core, path)
        self._core = core
        self._path = path
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "disk",
        create: bool = True,
        segment_bytes: int = recovery.SEGMENT_BYTES,
        delay_max: Duration = recovery.DELAY_MAX,
        keep_finished: Duration = recovery.KEEP_FINISHED,
        keep_finished_of: Mapping[str, Duration] | None = None,
        expire: Mapping[str, Duration] | None = None,
        deduplicate_for: Duration = recovery.DEDUPLICATE_FOR,
        keys_max: int = recovery.NAMES_MAX,
        message_ids_max: int = recovery.NAMES_MAX,
        progress: Callable[[Progress], object] | None = None,
        clock: Clock | None = None,
        hot_minute_messages: int = recovery.HOT_MINUTE_MESSAGES,
        window_bytes: int = recovery.WINDOW_BYTES,
        warn_free_bytes: int = 0,
        refuse_free_bytes: int = 0,
    ) -> Self:
        """Opens the store in a folder, recovering what a crash left.

        Args:
            path: The folder; it is made where it does not exist.
            durability: `"disk"`: a call returns once `fdatasync` covered it, and survives a power
                cut. `"os"`: once the operating system has it, and survives a killed process.
            create: False refuses a folder that is not a store yet.
            segment_bytes: Of a file of the log, fixed when made: 64 KiB to 2 GiB, 128 MiB; a call fills half at most.
            delay_max: The longest delay that is accepted, a timedelta or seconds; ten years by default.
            keep_finished: How long files are kept after all in them is finished; 72 hours by default.
            keep_finished_of: The same of single subjects. A file stays for the longest in it, the log from there on.
            expire: For subjects, how long after it was due what nobody took is given up; by default never.
            deduplicate_for: How long ids of what is published with `deduplicate` are remembered; a minute at least.
            keys_max: How many keys pending messages may have, up to 4,294,967,295; 1,048,576 by default.
            message_ids_max: How many ids may be remembered; the same.
            progress: Called now and then while the store recovers.
            clock: A `delaymq.testing.Clock` that a test turns, and `"os"` without any syncs; None is the system's.
            hot_minute_messages: A minute in which more are due is told in the log, once; 600,000 by default.
            window_bytes: Memory for what is due soon, however much it is: 128 KiB to 64 GiB, 512 MiB by default.
            warn_free_bytes: Less free on the disk than this is told in the log, once; 0, the default, is no mark.
            refuse_free_bytes: With less free than this, publishes raise `DiskFull`; 0, the default, is no mark.

        Raises:
            Locked, NotAStore, NewerFormat: Another process has it; it is something else; a later release wrote it.
            Corrupt: Durable bytes are damaged; `path`, `offset`, `expected`, `found` name the place.
            MissingFile, StorageError: A file that the store needs is gone, or the operating system refused a call.
            WrongType, InvalidArgument: An option has the wrong type, or a value that is refused.
        """
        chosen = OpenOptions.made(
            path,
            durability=durability,
            create=create,
            segment_bytes=segment_bytes,
            delay_max=delay_max,
            keep_finished=keep_finished,
            keep_finished_of=keep_finished_of,
            expire=expire,
            deduplicate_for=deduplicate_for,
            keys_max=keys_max,
            message_ids_max=message_ids_max,
            progress=progress,
            clock=clock,
            hot_minute_messages=hot_minute_messages,
            window_bytes=window_bytes,
            warn_free_bytes=warn_free_bytes,
            refuse_free_bytes=refuse_free_bytes,
        )
        return cls._on(Lifecycle.started(chosen, watches=True))

    @classmethod
    def _on(cls, lifecycle: Lifecycle) -> Self:
        return cls(lifecycle.core, lifecycle.folder, lifecycle)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that opened it."""
        return not self._lifecycle.stopped and self._lifecycle.is_here

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    def publish(
        self,
        subject: str,
        body: bytes | bytearray | memoryview,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        level: int | None = None,
        tags: Sequence[str] = NO_TAGS,
        attributes: Mapping[str, str] | None = None,
        message_id: str | None = None,
        key: str | None = None,
        if_exists: IfExists | None = None,
        deduplicate: bool = False,
        jitter: Duration | None = None,
    ) -> Receipt:
        """Stores one message, to be delivered when it is due.

        Args:
            subject: 1 to 100 characters without white space, control characters, `/` and `%`.
            body: Anything that is bytes-like, at most 4 MiB.
            delay: A timedelta or seconds from now; what is shorter than a millisecond rounds up.
            at: An aware datetime instead; one that has passed is due now.
            level: One of RocketMQ's levels instead, 1 (a second) to 18 (two hours). With none of
                the three it is due now.
            tags: At most 10 words to tell messages of a subject apart by.
            attributes: Text by name, carried along; keys and values at most 32 KiB together.
            message_id: A name of your own, made as a subject's; by default the text of the receipt.
            key: A name of your own for what is pending, made as a subject's: one pending message of a subject has
                it. It is free again when that is dispatched or cancelled.
            if_exists: What is done where the key is taken: `"replace"` cancels the message that has it, `"keep"`
                leaves it and stores nothing, `"error"`, which is the default, raises KeyTaken.
            deduplicate: True stores a message of the same subject and `message_id` once within ten minutes
                (`deduplicate_for`), however often it is published; one without an id gets one.
            jitter: A timedelta or seconds, at most ten years: as much of it as chance says is added to the due
                time, so that what is published together is not due together. `receipt.due` tells what came of it.

        Returns:
            The receipt, once the message is as durable as the store was opened for. Of one that was kept, or that
            was published before, it is the receipt that it has.

        Raises:
            WrongType: An argument has the wrong type; nothing was stored.
            InvalidArgument: An argument has a value that is refused, such as a due time that is too far
                ahead; nothing was stored.
            TooLarge: The body, or tags, attributes and id together, are over the limit; nothing was stored.
            DiskFull: There is no room for new messages; nothing was stored.
            KeyTaken: A pending message has the key; nothing was stored.
            NamesFull: There is no room for one more key, or id; nothing was stored.
            Poisoned: A write failed now or earlier; it may or may not have been stored.
            Closed: The store is closed.
            ForkedProcess: The store was opened by the parent process.
        """
        due, absolute = due_of(delay, at, level)
        terms = terms_of(key, if_exists, deduplicate)
        meta = about(named(message_id, deduplicate), tags, attributes)
        return self._core.publish(subject, body, jittered(due, jitter), absolute, meta, terms)

    @overload
    def publish_many(
        self,
        subject: str,
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        jitter: Duration | None = None,
    ) -> Receipts: ...
    @overload
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    def publish_many(
        self,
        messages: str | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        jitter: Duration | None = None,
    ) -> Receipts:
        """Stores up to 10,000 messages, all or none: the fast way.

        Either `publish_many(subject, bodies, delays)`, where delays is one delay for all or one for
        each body, or `publish_many(list of Publish)`. With `jitter`, a timedelta or seconds, each of the bodies
        is due later by as much of it as chance says; a `Publish` has its own.

        Returns:
            The receipts, in the order of the messages.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `publish`; `index` says which is refused; nothing was stored.
            KeyTaken: A pending message has the key of one; `index` says which, and nothing of the whole was stored.
            DiskFull, NamesFull, Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return sent(self._core, messages, bodies, delays, jitter)

    def cancel(self, receipt: Receipt) -> Outcome:
        """Takes a message back, if it is still pending, for all groups. The answer is durable.

        Raises:
            WrongType: It is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave it out.
            InvalidArgument: No store gave it out: it was altered.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self.cancel_many((receipt,))[0]

    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Takes messages back, if they are still pending, with one wait for all; each is judged alone.

        Raises:
            WrongType: They are not an iterable of `Receipt`; nothing was cancelled.
            ForeignReceipt: Another store gave one of them out, `index` says which; nothing was cancelled.
            InvalidArgument: One of them was altered; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        chosen = listed(receipts, "receipts", "an iterable of Receipt")
        return [Outcome(word) for word in self._core.cancel_many(chosen)]

    def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a message that is still pending another due time, for all groups, and a new receipt. It is durable.

        Args:
            receipt: Of the message; it is not found any more afterwards.
            delay: A timedelta or seconds from now, as `publish` takes it.
            at: An aware datetime instead; one that has passed is due now.

        Returns:
            What was found, and the new receipt where it was moved. The same call again (of the same receipt to the
            same `at`, or by the same `delay`) has the same answer for ten minutes, up to 1,048,576 moves within them;
            after that, and to another time, the old receipt is not found.

        Raises:
            WrongType: It is not a `Receipt`, or the time has the wrong type; nothing was moved.
            ForeignReceipt: Another store gave it out.
            InvalidArgument: It was altered; not one of `delay` and `at` is given; the time is refused, as by
                `publish`. Nothing was moved.
            TooLarge: The delay does not fit into 63 bits of milliseconds.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return moved(self._core.move_many(move_of(receipt, delay, at)))[0]

    def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]:
        """Gives messages another due time, with one wait for all; each is judged alone, as `move` judges it.

        Args:
            receipts: Of the messages.
            delay: One for all, or a sequence with one for each.
            at: The same, of aware datetimes.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `move`; `index` says which, and nothing was moved.
            ForeignReceipt: Another store gave one of them out, `index` says which; nothing was moved.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return moved(self._core.move_many(moves_of(receipts, delay, at)))

    def subscribe(
        self,
        subject: str,
        *,
        group: str,
        start: Start = "earliest",
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> Subscription:
        """Becomes a consumer of a group: each message of the subject goes to one of its consumers.

        Args:
            subject: What to consume; it need not exist yet.
            group: Who consumes, by name. It remembers what it has acknowledged.
            start: Where the group begins, if it is new: at the earliest message kept, or at the next one.
            in_flight_max: Messages that may be out unacknowledged, 1 to 65,535, 256 by default: after a
                crash at most so many come a second time.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: An argument has a value that is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        core = self._core.subscribe(subject, group, start, in_flight_max)
        subscription = Subscription(core, subject, group, in_flight_max, self)
        self._subscriptions.add(subscription)
        return subscription

    def status(self) -> Status:
        """What the store holds and how it is; also when it is closed.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        return Status(**self._core.status())

    def checkpoint(self) -> None:
        """Saves where the store is, so that the next open replays less. It happens by itself too.

        Raises:
            StorageError: It could not be written, which harms nothing.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        self._core.checkpoint()

    def pin(self, duration: Duration) -> Pin:
        """Holds every file of the store for so long, or until it is released, for a reader of the folder beside it.

        No file goes while it lasts, and the store works on. A copy of the folder made meanwhile is no
        backup: its files are of different moments. Close the store for that.

        Raises:
            WrongType, InvalidArgument: `duration` is refused.
            StorageError, ForkedProcess, Closed: It could not be pinned.
        """
        return pinned(self._core, self._path, duration)

    def close(self) -> None:
        """Makes everything durable and lets go of the folder. A second call does nothing.

        Raises:
            Poisoned: A write failed; what was answered is safe, the next open repairs the rest.
            ForkedProcess: The store was opened by the parent process; nothing was touched.
        """
        self._lifecycle.stop()
        for subscription in list(self._subscriptions):
            subscription._forget()  # noqa: SLF001 - what it held went with the store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        lifecycle = getattr(self, "_lifecycle", None)
        if lifecycle is not None and not lifecycle.stopped and lifecycle.is_here:
            try:
                warnings.warn(
                    f"{self!r} was not closed: use it in a `with`", ResourceWarning, source=self, stacklevel=2
                )
            finally:
                with contextlib.suppress(StoreError):
                    self.close()

    def __repr__(self) -> str:
        return f"Store({self._path!r})"


open_store = Store.open
"""`Store.open`, for those who name no class; `delaymq.open` is this."""
