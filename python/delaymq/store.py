"""The store: a folder of durable delayed messages, opened by one process at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Literal, Self, overload

from delaymq import _core
from delaymq._reports import Reports
from delaymq.administration import Administration
from delaymq.durations import Duration, delay_ms
from delaymq.errors import InvalidArgument, StoreError, WrongType
from delaymq.message import Publish, due_of
from delaymq.receipt import Outcome, Receipt, Receipts
from delaymq.subscription import Subscription

__all__ = ["Durability", "Progress", "Start", "Status", "Store", "open_store"]

Durability = Literal["disk", "os"]
"""When a call is answered: after the disk has it, or after the operating system has it."""

Start = Literal["earliest", "latest"]
"""Where a new group begins: at the earliest message kept, or at the next one."""

SEGMENT_BYTES = 128 * 1024 * 1024
DELAY_MAX = timedelta(days=3653)  # ten years
KEEP_FINISHED = timedelta(hours=72)
IN_FLIGHT_MAX = 256  # messages that one consumer holds unacknowledged at most


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an open has come.

    Attributes:
        facts: Facts applied so far.
        bytes: Bytes of the log applied so far.
    """

    facts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Status:
    """What a store holds and how it is.

    Attributes:
        durability: When a call is answered, `"disk"` or `"os"`.
        epoch: How often the store was opened for writing, this open included.
        created: True where this open made the store.
        closed: True once it was closed.
        pending: Messages that are not due yet.
        ready: Messages that became due and that some group has not finished.
        accepted: The sequence that the next fact gets.
        visible: Facts below this sequence are as durable as was asked for.
        applied: Facts below this sequence have had their effect.
        now_ms: The store's trusted clock, in milliseconds since 1970.
        recovered_ms: How long recovery took at this open, in milliseconds.
        recovered_facts: How many facts recovery applied.
        held: True while dispatch waits because the clock cannot be trusted.
        disk_full: True while publishes are refused for want of room.
        poisoned: Why the store refuses everything, or None.
        aside: What this open set aside, in words.
        voided: Messages given up because their payload was damaged, since this open.
        expired: Messages that `expire` gave up, since this open.
    """

    durability: str
    epoch: int
    created: bool
    closed: bool
    pending: int
    ready: int
    accepted: int
    visible: int
    applied: int
    now_ms: int
    recovered_ms: int
    recovered_facts: int
    held: bool
    disk_full: bool
    poisoned: str | None
    aside: tuple[str, ...]
    voided: int
    expired: int


class Store(Administration):
    """A folder of messages that are kept until they are due.

    Threads may share it; a forked child may not use it. Close it, or use it as a context manager.
    """

    def __init__(self, core: _core.Store, path: str) -> None:
        """Made by `open`."""
        self._core = core
        self._path = path
        self._reports = Reports(core)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "disk",
        create: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        delay_max: Duration = DELAY_MAX,
        keep_finished: Duration = KEEP_FINISHED,
        progress: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Opens the store in a folder, recovering what a crash left.

        Args:
            path: The folder; it is made where it does not exist.
            durability: `"disk"`: a call returns once `fdatasync` covered it, and survives a power
                cut. `"os"`: once the operating system has it, and survives a killed process.
            create: False refuses a folder that is not a store yet.
            segment_bytes: The size of a file of the log, fixed when the store is made.
            delay_max: The longest delay that is accepted, a timedelta or seconds.
            keep_finished: How long files are kept after all in them is finished.
            progress: Called now and then while the store recovers.

        Raises:
            Locked: Another process has it open.
            NotAStore: The folder holds something else.
            NewerFormat: A later release wrote it.
            Corrupt: Durable bytes are damaged; `path`, `offset`, `expected`, `found` name the place.
            MissingFile: A file that the store needs is gone.
            StorageError: The operating system refused a call.
            InvalidArgument: An option has a value that is refused.
            WrongType: An option has the wrong type.
        """
        folder = _folder(path)
        tell = None if progress is None else _telling(progress)
        options = {
            "durability": durability,
            "create": bool(create),
            "segment_bytes": segment_bytes,
            "delay_ms_max": delay_ms(delay_max, "delay_max"),
            "keep_finished_ms": delay_ms(keep_finished, "keep_finished"),
        }
        try:
            core = _core.Store.open(folder, progress=tell, **options)
        except StoreError as error:
            error.store = folder
            error.add_note(f"the store is {folder}")
            raise
        return cls(core, folder)

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
    ) -> Receipt:
        """Stores one message, to be delivered when it is due.

        Args:
            subject: 1 to 100 characters without white space, control characters, `/` and `%`.
            body: Anything that is bytes-like, at most 4 MiB.
            delay: A timedelta or seconds from now; what is shorter than a millisecond rounds up.
            at: An aware datetime instead; one that has passed is due now. With neither: due now.

        Returns:
            The receipt, once the message is as durable as the store was opened for.

        Raises:
            WrongType: An argument has the wrong type; nothing was stored.
            InvalidArgument: An argument has a value that is refused; nothing was stored.
            TooLarge: The body or the due time is over its limit; nothing was stored.
            DiskFull: There is no room for new messages; nothing was stored.
            Poisoned: A write failed now or earlier; it may or may not have been stored.
            Closed: The store is closed.
            ForkedProcess: The store was opened by the parent process.
        """
        due, absolute = due_of(delay, at)
        return self._core.publish(subject, body, due, absolute)

    @overload
    def publish_many(
        self,
        subject: str,
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
    ) -> Receipts: ...
    @overload
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    def publish_many(
        self,
        messages: str | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
    ) -> Receipts:
        """Stores up to 10,000 messages, all or none: the fast way.

        Either `publish_many(subject, bodies, delays)`, where delays is one delay for all or one for
        each body, or `publish_many(list of Publish)`.

        Returns:
            The receipts, in the order of the messages.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `publish`; `index` is the place of the refused
                message, and nothing of the whole was stored.
            DiskFull, Poisoned, Closed, ForkedProcess: As `publish`.
        """
        if isinstance(messages, str):
            if bodies is None:
                raise WrongType("bodies: expected a sequence, found nothing", argument="bodies")
            if isinstance(delays, int | float | timedelta):
                delays = delay_ms(delays, "delays")
            return self._core.publish_many(messages, bodies, delays)
        if bodies is not None:
            raise WrongType(
                f"subject: expected str, found {type(messages).__name__}",
                argument="subject",
                expected="str",
                found=type(messages).__name__,
            )
        return self._core.publish_mixed([_row(index, message) for index, message in enumerate(messages)])

    def cancel(self, receipt: Receipt) -> Outcome:
        """Takes a message back, if it is still pending. The answer is durable.

        Raises:
            WrongType: It is not a `Receipt`; `Receipt.parse` reads one from text.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return self.cancel_many((receipt,))[0]

    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Takes messages back, if they are still pending, with one wait for all; each is judged alone.

        Raises:
            WrongType: One of them is not a `Receipt`; nothing was cancelled.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        return [Outcome(word) for word in self._core.cancel_many(list(receipts))]

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
            start: Where the group begins, if it is new.
            in_flight_max: Messages that may be out unacknowledged, 1 to 65,535: after a crash at
                most so many come a second time.

        Raises:
            WrongType: An argument has the wrong type.
            InvalidArgument: An argument has a value that is refused.
            Poisoned, Closed, ForkedProcess: As `publish`.
        """
        core = self._core.subscribe(subject, group, start, in_flight_max)
        return Subscription(core, subject, group)

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

    def close(self) -> None:
        """Makes everything durable and lets go of the folder. A second call does nothing.

        Raises:
            Poisoned: A write failed; what was answered is safe, the next open repairs the rest.
            ForkedProcess: The store was opened by the parent process; nothing was touched.
        """
        self._core.close()
        self._reports.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self._path!r})"


open_store = Store.open
"""`Store.open`, for those who name no class; `delaymq.open` is this."""


def _folder(path: str | os.PathLike[str]) -> str:
    try:
        return os.fsdecode(path)
    except TypeError as error:
        kind = type(path).__name__
        raise WrongType(
            f"path: expected a path, found {kind}", argument="path", expected="a path", found=kind
        ) from error


def _telling(progress: Callable[[Progress], object]) -> Callable[[int, int], None]:
    def tell(facts: int, bytes_: int) -> None:
        progress(Progress(facts, bytes_))

    return tell


def _row(index: int, message: Publish) -> tuple[str, bytes | bytearray | memoryview, int, bool]:
    """What crosses into the core for one message of a batch."""
    try:
        due, absolute = due_of(message.delay, message.at)
    except AttributeError:
        kind = type(message).__name__
        raise WrongType(
            f"messages[{index}]: expected Publish, found {kind}",
            argument="messages",
            index=index,
            expected="Publish",
            found=kind,
        ) from None
    except (WrongType, InvalidArgument) as error:
        error.index = index
        raise
    return message.subject, message.body, due, absolute
