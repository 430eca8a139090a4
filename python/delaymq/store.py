"""The store: a folder of durable delayed messages, opened by one process at a time."""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from datetime import datetime
from typing import Self, Unpack

from delaymq import _core
from delaymq._arguments.subjects import Subjects, SubscribeOptions, subscribed
from delaymq._store.lifecycle import Closing, Lifecycle
from delaymq._store.publishing import Publishing
from delaymq._store.recovery import Durability, OpenArguments, OpenOptions
from delaymq._store.retention import Pin, pinned
from delaymq._verbs import Methods
from delaymq._verbs.calls import Call, Result, answered, with_options_of
from delaymq._verbs.pending import pending_filter
from delaymq.durations import Duration
from delaymq.errors import StoreError
from delaymq.pending import PAGE, PendingList
from delaymq.status import Progress, Status
from delaymq.subscription import Subscription

__all__ = ["Durability", "Progress", "Status", "Store", "open_store"]


class Store(Publishing, Methods, Closing):
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

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> PendingList:
        """Lists pending messages in order of due time and sequence, while the store works on.

        ::

            for one in store.pending(prefix="order."):
                print(one.due, one.subject, one.receipt)

        Args:
            subject: Only messages of this subject. An unknown subject has none.
            prefix: Only subjects whose names begin with this. Without `subject` and `prefix`, all subjects that users
                publish to; `"%"` lists the retries of groups, `""` everything.
            due_from: Only messages due at this time or later, an aware datetime.
            due_before: Only messages due before this time, an aware datetime.
            after: Only messages behind the cursor of an earlier list (its `after`), also of before a restart.

        Returns:
            An iterator that fetches a page at a time.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: A time is naive, the range is reversed, both a subject and a prefix are given, the subject
                is empty, or `after` is not a cursor of this store.
            StorageError: The operating system refused to read, during iteration; the iteration can be continued.
            Poisoned, Closed, ForkedProcess: As `publish`, also during iteration.
        """
        reader = _core.pending(self._core, pending_filter(subject, prefix, due_from, due_before), after)
        return PendingList(lambda _: reader.next_page(PAGE), after)

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
