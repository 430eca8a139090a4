"""A consumer of one group of a subject."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from delaymq._arguments.argument_errors import shown
from delaymq._arguments.batches import checked_messages, checked_reason
from delaymq.durations import Duration, delay_ms, wait_ms
from delaymq.errors import InvalidArgument, WrongType
from delaymq.message import Message, Settling

if TYPE_CHECKING:
    from delaymq._core import Delivery

__all__ = ["Subscription"]

PULL_MESSAGES = 256  # messages that one crossing into the core brings at most for get() and iteration
BATCH_MESSAGES_MAX = 10_000
LOCK_WAIT_S_MAX = threading.TIMEOUT_MAX  # what the lock of Python takes, some centuries


class Pulling(Settling, Protocol):
    """What a subscription stands on: the core's side of it, or a client's."""

    def pull(self, count_max: int, timeout_ms: int | None) -> list[Delivery]:
        """Waits until something is there; an empty list at the timeout or after `stop`."""

    def acknowledge_many(self, keys: list[int]) -> None:
        """Queues acknowledgements."""

    def flush(self, timeout_ms: int | None) -> None:
        """Waits until what was queued is durable."""

    def now_ms(self) -> int:
        """The store's trusted clock, in milliseconds since 1970."""

    def stop(self) -> None:
        """Ends all pulls, from any thread."""

    def close(self) -> None:
        """Stops, flushes and gives back what is left."""


class Opened(Protocol):
    """A store, or a client."""

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that opened it."""


class Subscription:
    """Hands over the messages of a subject to one consumer of a group, each once it is due.

    ::

        with store.subscribe("order.timeout", group="billing") as messages:
            for message in messages:
                with message:
                    handle(message.body)

    Threads may share it. Leaving the `with` waits until what was acknowledged is durable, and gives
    back what was not.
    """

    def __init__(
        self,
        core: Pulling,
        subject: str,
        group: str,
        in_flight_max: int = PULL_MESSAGES,
        store: Opened | None = None,
        *,
        pull_messages: int = PULL_MESSAGES,
    ) -> None:
        """Made by `Store.subscribe`; keeps the store open while somebody has the subscription.

        A client pulls one message for one that is asked for, since what it has not handed over yet is
        kept where a lost connection is known.
        """
        self._store = store
        self._pull_messages = pull_messages
        self._in_flight_max = in_flight_max
        self._closed = False
        self._core = core
        self._subject = subject
        self._group = group
        self._waiting: deque[Message] = deque()
        self._pulling = threading.Lock()
        self._stopped = False

    @property
    def subject(self) -> str:
        """The subject that is consumed."""
        return self._subject

    @property
    def group(self) -> str:
        """The group that this consumer belongs to."""
        return self._group

    @property
    def in_flight_max(self) -> int:
        """How many messages may be out unacknowledged: so many come again after a crash, at most."""
        return self._in_flight_max

    def get(self, timeout: Duration | None = None) -> Message | None:
        """The next message that is due, or None at the timeout or after `stop`.

        Args:
            timeout: A timedelta or seconds; None waits for ever.

        Raises:
            WrongType: `timeout` is neither a timedelta nor a number.
            InvalidArgument: `timeout` is negative or not finite.
            Closed: The store is closed. A subscription that is closed answers as after `stop`.
            Poisoned: The store stopped after a failed write.
            ForkedProcess: The store was opened by the parent process.
        """
        timeout_ms = wait_ms(timeout)
        try:
            return None if self._stopped else self._waiting.popleft()
        except IndexError:
            batch = self._taken(1, self._pull_messages, timeout_ms)
            return batch[0] if batch else None

    def _taken(self, count_max: int, pull_max: int, timeout_ms: int | None) -> list[Message]:
        """Up to so many messages: those that wait here, or else what the core has.

        Fetches more where no other thread does it already; one of them waits in the core.
        """
        if found := self._buffered(count_max):
            return found
        started = time.monotonic()
        if not self._pulling.acquire(timeout=-1 if timeout_ms is None else min(timeout_ms / 1000, LOCK_WAIT_S_MAX)):
            return []
        try:
            found = self._buffered(count_max)
            if not found:
                left_ms = None
                if timeout_ms is not None:
                    left_ms = max(0, timeout_ms - int((time.monotonic() - started) * 1000))
                found = self._pull(pull_max, left_ms)
                self._waiting.extend(found[count_max:])
                del found[count_max:]
            return found
        finally:
            self._pulling.release()

    def _buffered(self, count_max: int) -> list[Message]:
        """Up to so many of those that wait here, until `stop`; other threads may take some meanwhile."""
        found: list[Message] = []
        with contextlib.suppress(IndexError):
            while len(found) < count_max and not self._stopped:
                found.append(self._waiting.popleft())
        return found

    def batches(self, max_messages: int = 256, wait: Duration | None = None) -> Iterator[list[Message]]:
        """Lists of messages that are due, until `stop`: the fast way.

        Args:
            max_messages: The longest list, 1 to 10,000; never more than `in_flight_max` are out.
            wait: How long to wait for the first message, as a timedelta or seconds; when it has
                passed an empty list comes, so that the loop can look after other things. None
                waits for ever.

        Raises:
            WrongType: `max_messages` is no int, or `wait` neither a timedelta nor a number.
            InvalidArgument: `max_messages` is out of range, or `wait` is negative or not finite.
            Closed: The store is closed. A subscription that is closed has no more lists.
            Poisoned: The store stopped after a failed write.
        """
        return self._batches(checked_batch(max_messages), wait_ms(wait, "wait"))

    def _batches(self, max_messages: int, slice_ms: int | None) -> Iterator[list[Message]]:
        while not self._stopped:
            batch = self._taken(max_messages, max_messages, slice_ms)
            if batch or slice_ms is not None:
                yield batch

    def _pull(self, count_max: int, timeout_ms: int | None) -> list[Message]:
        if self._stopped:
            return []
        core = self._core
        deliveries = core.pull(count_max, timeout_ms)
        handed_ms = core.now_ms() if deliveries else 0
        return [Message(core, delivery, handed_ms) for delivery in deliveries]

    def __iter__(self) -> Iterator[Message]:
        """The messages, one by one, until `stop`."""
        while (message := self.get()) is not None:
            yield message

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledges many messages in one crossing; `flush` waits until that is durable.

        Those that were settled before are passed over. Where one is refused none is acknowledged.

        Raises:
            WrongType: `messages` is not an iterable of `Message`.
            InvalidArgument: One of them was handed over by another subscription; `index` is its place.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
        """
        chosen = checked_messages(messages, Message, self._core)
        self._core.acknowledge_many(list(chosen))
        for message in chosen.values():
            message._settled = True  # noqa: SLF001 - the two classes are one noun's two sides

    def nack(self, messages: Iterable[Message], delay: Duration = 0) -> None:
        """Gives many messages back, to come again after `delay`.

        Those that were settled before are passed over. Where one is refused none is given back.

        Raises:
            WrongType: `messages` is not an iterable of `Message`, or `delay` neither a timedelta nor
                a number.
            InvalidArgument: One of them was handed over by another subscription, `index` is its place;
                or `delay` is negative, not finite, or further than the store's longest.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
        """
        milliseconds = delay_ms(delay)
        chosen = checked_messages(messages, Message, self._core)
        self._core.acknowledge_many([])  # raises where none can be settled, also where there is none
        for key, message in chosen.items():
            self._core.give_back(key, milliseconds)
            message._settled = True  # noqa: SLF001

    def dead_letter(self, messages: Iterable[Message], reason: str) -> None:
        """Puts many messages away, for one reason; their group does not get them again.

        Those that were settled before are passed over. Where one is refused none is put away.

        Raises:
            WrongType: `messages` is not an iterable of `Message`, or `reason` is not a str.
            InvalidArgument: One of them was handed over by another subscription; `index` is its place.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
        """
        checked_reason(reason)
        chosen = checked_messages(messages, Message, self._core)
        self._core.acknowledge_many([])  # as in `nack`
        for key, message in chosen.items():
            self._core.dead_letter(key, reason)
            message._settled = True  # noqa: SLF001

    def flush(self, timeout: Duration | None = None) -> None:
        """Waits until everything that was acknowledged or given back is durable.

        Raises:
            TimedOut: It is not by the end of `timeout` (a timedelta or seconds).
            Poisoned: The store stopped after a failed write; what was not durable comes again.
        """
        self._core.flush(wait_ms(timeout))

    def stop(self) -> None:
        """Ends every `get`, `batches` and iteration of this subscription. Any thread may call it.

        What nobody was given yet is not handed over any more; it goes back to the group at the end.
        """
        self._stopped = True
        self._core.stop()

    def close(self) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all that is left.

        Raises:
            Poisoned: The store stopped after a failed write.
        """
        self.stop()
        self._forget()
        self._core.close()

    def _forget(self) -> None:
        """What is buffered goes back to the group; nobody is warned any more."""
        self._closed = True
        self._waiting.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._store is not None and self._store.is_open:
            warnings.warn(f"{self!r} was not closed: use it in a `with`", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"Subscription(subject={self._subject!r}, group={self._group!r})"


def checked_batch(max_messages: int) -> int:
    """The longest list of a `batches`.

    Raises:
        WrongType: It is not an int.
        InvalidArgument: It is not 1 to 10,000.
    """
    expected = f"1 to {BATCH_MESSAGES_MAX}"
    if isinstance(max_messages, bool) or not isinstance(max_messages, int):
        found = type(max_messages).__name__
        raise WrongType(
            f"max_messages: expected an int, found {found}", argument="max_messages", expected="an int", found=found
        )
    if not 1 <= max_messages <= BATCH_MESSAGES_MAX:
        raise InvalidArgument(
            f"max_messages: expected {expected}, found {shown(max_messages)}",
            argument="max_messages",
            expected=expected,
            found=shown(max_messages),
        )
    return max_messages
