"""The store: a folder of durable delayed messages, opened by one process at a time."""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Self, Unpack

from delaymq import _core
from delaymq._arguments.subjects import Subjects, SubscribeOptions, subscribed
from delaymq._store.administration import Administration
from delaymq._store.closing import Closing
from delaymq._store.lifecycle import Lifecycle
from delaymq._store.pending import PendingMessages
from delaymq._store.publishing import Publishing
from delaymq._store.recovery import Durability, OpenArguments, OpenOptions
from delaymq._store.retention import Pin, pinned
from delaymq._verbs import administration, pending
from delaymq._verbs.calls import Call, Result, answered, with_options_of
from delaymq.durations import Duration
from delaymq.errors import StoreError
from delaymq.receipt import Moved, Outcome, Receipt
from delaymq.status import Progress, Status
from delaymq.subscription import Subscription

__all__ = ["Durability", "Progress", "Status", "Store", "open_store"]


class Store(Publishing, Administration, PendingMessages, Closing):
    """A folder of durable messages, each of which is delivered when it is due.

    Threads may share a store; a forked child may not use it. Close it, or use it as a context manager.
    """

    def __init__(self, core: _core.Store, path: str, lifecycle: Lifecycle | None = None) -> None:
        """Use `open` instead."""
        self._lifecycle = lifecycle or Lifecycle.over(core, path)
        self._core = core
        self._path = path
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()

    @classmethod
    @with_options_of(OpenOptions.made)
    def open(
        cls,
        path: str | os.PathLike[str],
        **options: Unpack[OpenArguments],
    ) -> Self:
        """Opens the store in a folder and recovers its state after a crash.

        Args:
            path: The folder. It is created if it does not exist.
            durability: `"disk"`: a call returns once `fdatasync` covered its message; `"os"`: once the system has it.
            create: False refuses a folder that is not a store yet.
            segment_bytes: Size of one log segment, 64 KiB to 2 GiB, fixed at creation; a call may fill half of it.
            delay_max: The longest delay that is accepted, as a timedelta or seconds; ten years by default.
            keep_finished: Retention: how long finished messages are kept and can be read again; 72 hours by default.
            keep_finished_of: Retention of single subjects, by name. The longest of a file's subjects applies to it.
            expire: By subject, how long after its due time a message expires if no consumer took it; by default never.
            deduplicate_for: How long ids of `deduplicate`, and keys of dispatched messages, are kept; 1 minute or more.
            keys_max: How many pending messages may have a key, up to 4,294,967,295; 1,048,576 by default.
            message_ids_max: How many ids may be remembered; limit and default as for `keys_max`.
            progress: Called with a `Progress` now and then during recovery.
            clock: A `delaymq.testing.Clock`, for tests; with `"os"` nothing is synced then. None: the system's clock.
            hot_minute_messages: A minute with more messages due is reported once, in the log; 600,000 by default.
            window_bytes: Memory for messages that are due soon, 128 KiB to 64 GiB, 512 MiB by default.
            warn_free_bytes: Less free disk space than this is reported once, in the log; 0, the default: never.
            refuse_free_bytes: With less free disk space, publishes raise `DiskFull`; 0, the default: no such limit.
            clock_accept_after: How long a stepped wall clock keeps its pace until it is accepted; None: by operators.

        Raises:
            Locked, NotAStore, NewerFormat, Corrupt, MissingFile, StorageError: The store cannot be opened as it is.
            WrongType, InvalidArgument: An option is refused.
        """
        return cls._on(Lifecycle.started(OpenOptions.made(path, **options), watches=True))

    @classmethod
    def _on(cls, lifecycle: Lifecycle) -> Self:
        return cls(lifecycle.core, lifecycle.folder, lifecycle)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that opened it; False in a forked child."""
        return not self._lifecycle.stopped and self._lifecycle.is_here

    @property
    def path(self) -> str:
        """The folder of the store."""
        return self._path

    def cancel(self, receipt: Receipt) -> Outcome:
        """Cancels a message that is still pending, for all groups. The answer is durable.

        Raises:
            WrongType: `receipt` is not a `Receipt`; `Receipt.parse` reads one from text.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered: no store gave it out.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.cancel(receipt))

    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Cancels messages that are still pending, with one wait for all; each has its own outcome.

        Raises:
            WrongType: `receipts` is not an iterable of `Receipt`; nothing was cancelled.
            ForeignReceipt: Another store gave out receipt `index`; nothing was cancelled.
            InvalidArgument: A receipt was altered; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.cancel_many(receipts))

    def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a pending message another due time and a new receipt, for all groups. The answer is durable.

        Args:
            receipt: The receipt of the message. It is not valid afterwards.
            delay: A timedelta or seconds from now, as for `publish`.
            at: An aware datetime instead; a past time means now.

        Returns:
            The outcome, and the new receipt if the message was moved. The same call again (with the same receipt and
            the same `at` or `delay`) has the same answer for ten minutes, within the last 1,048,576 moves. After that,
            or with another time, the old receipt is not found.

        Raises:
            WrongType: `receipt` is not a `Receipt`, or the time has the wrong type; nothing was moved.
            ForeignReceipt: Another store gave out the receipt.
            InvalidArgument: The receipt was altered, neither or both of `delay` and `at` are given, or the time is out
                of range as for `publish`; nothing was moved.
            TooLarge: The delay does not fit into 63 bits of milliseconds.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.move(receipt, delay, at))

    def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]:
        """Gives pending messages another due time, with one wait for all; each has its own outcome, as `move` has.

        Args:
            receipts: The receipts of the messages.
            delay: One delay for all, or a sequence with one for each.
            at: One aware datetime for all, or a sequence with one for each.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `move`; `index` is the refused one, and nothing was moved.
            ForeignReceipt: Another store gave out receipt `index`; nothing was moved.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self._run(pending.move_many(receipts, delay, at))

    @with_options_of(subscribed)
    def subscribe(self, subject: Subjects, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Adds a consumer to a group: each message of the subjects goes to one consumer of the group.

        Args:
            subject: The subject to consume, or a list of at most 10,000, which need not exist yet; or a prefix with `*`
                at its end, for every subject that begins so, those made later included.
            group: The name of the group. A group remembers which messages its consumers have acknowledged.
            start: Where a new group begins: `"unfinished"` at the first message that some group has not finished,
                `"earliest"` at the earliest one that is kept (`keep_finished`), `"latest"` at the next one, a datetime
                or a timedelta before now at the first one that was due since, `PublishedSince(…)` at the first one that
                was published since, or a receipt at its message. A subject made later is read from its first message.
            in_flight_max: How many unacknowledged messages the consumer may hold, 1 to 65,535.
            handle_within: How long the consumer may hold a message, as a timedelta or seconds. Then the message goes
                back to its group, unless `Message.extend` was called. None sets no limit.
            tags: Tags, at most 127, of which a message must have one, or `all_of(…)`. A message that does not pass is
                finished for the group, so all consumers of a group must have the same filters.
            attributes: For each name the value that a message must have, `StartsWith(text)`, or `Present()`.

        Raises:
            WrongType, InvalidArgument, TooLarge: An argument has the wrong type or a value beyond its limits.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        wanted = subscribed(subject, **options)
        core = self._core.subscribe(*wanted)
        subscription = Subscription(
            core,
            wanted.subjects,
            wanted.group,
            wanted.in_flight_max,
            self,
            handle_within_ms=wanted.handle_within_ms,
        )
        self._subscriptions.add(subscription)
        return subscription

    def status(self) -> Status:
        """The state of the store, as counts and flags; also after it is closed.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        return self._run(administration.status())

    def checkpoint(self) -> None:
        """Takes a checkpoint, so that the next open replays less of the log. The store also takes them by itself.

        Raises:
            StorageError: The checkpoint could not be written; the store is unharmed.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        self._core.checkpoint()

    def pin(self, duration: Duration) -> Pin:
        """Keeps every file of the store for a while, or until the pin is released, for a process that reads the folder.

        A copy of the folder under a pin is no backup: its files are of different moments. Close the store to copy it.

        Raises:
            WrongType, InvalidArgument: `duration` is refused.
            StorageError, Closed, ForkedProcess: The pin could not be set.
        """
        return pinned(self._core, self._path, duration)

    def _run(self, call: Call[Result], /) -> Result:
        return answered(self._core, call)

    def close(self) -> None:
        """Makes everything durable and releases the folder. A second call does nothing.

        Raises:
            Poisoned: A write failed. Everything that was answered is safe; the next open repairs the rest.
            ForkedProcess: The store was opened by the parent process; nothing was touched.
        """
        self._lifecycle.stop()
        for subscription in list(self._subscriptions):
            subscription._forget()  # noqa: SLF001 - the core gave its messages back

    def __del__(self) -> None:
        lifecycle = getattr(self, "_lifecycle", None)
        if lifecycle is not None and not lifecycle.stopped and lifecycle.is_here:
            try:
                words = f"{self!r} was not closed: use it in a `with`"
                warnings.warn(words, ResourceWarning, source=self, stacklevel=2)
            finally:
                with contextlib.suppress(StoreError):
                    self.close()

    def __repr__(self) -> str:
        return f"Store({self._path!r})"


open_store = Store.open
"""Opens a store: `Store.open` as a function, which is `delaymq.open`."""
