"""Subscriptions: a consumer takes the messages of one subject, or of many, for one group, and settles them."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from delaymq._arguments.argument_errors import checked_int
from delaymq._arguments.batches import checked_reason, listed
from delaymq._arguments.subjects import Subjects, shown_subjects, subjects_of
from delaymq._core import unsettled
from delaymq._store.lifecycle import Closing
from delaymq.durations import Duration, delay_ms, wait_ms
from delaymq.message import Message, Settling, check_held

__all__ = ["Subscription"]

PULL_MESSAGES = 256  # messages that get() and iteration fetch from the core at once, at most
BATCH_MESSAGES_MAX = 10_000
LOCK_WAIT_S_MAX = threading.TIMEOUT_MAX  # the longest timeout of a Python lock, some centuries


class DeliverySource(Settling, Protocol):
    """Where a subscription gets its messages from: the core, or a client's connection."""

    def pull(self, count_max: int, timeout_ms: int | None) -> list[Message]:
        """Waits until a message is ready; an empty list at the timeout or after `stop`."""

    def acknowledge_many(self, messages: list[Message], /) -> list[int]:
        """Queues acknowledgements.

        Returns the places of messages that were held for too long; the others are settled.
        """

    def flush(self, timeout_ms: int | None) -> None:
        """Waits until everything queued is durable."""

    def stop(self) -> None:
        """Ends all pulls, from any thread."""

    def close(self) -> None:
        """Stops, flushes, and gives back all messages that are not settled."""


class Openable(Protocol):
    """A store, or a client."""

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that opened it."""


class Subscription(Closing):
    """Delivers the messages of its subjects to one consumer of a group, each once it is due.

    ::

        with store.subscribe("order.timeout", group="billing") as messages:
            for message in messages:
                with message:
                    handle(message.body)

    Threads may share a subscription. Leaving the `with` block waits until acknowledgements are durable and
    gives back messages that were not settled.
    """

    def __init__(
        self,
        core: DeliverySource,
        subject: Subjects,
        group: str,
        in_flight_max: int = PULL_MESSAGES,
        store: Openable | None = None,
        *,
        pull_messages: int = PULL_MESSAGES,
        handle_within_ms: int | None = None,
    ) -> None:
        """Use `Store.subscribe` instead. The subscription keeps its store alive.

        A client sets `pull_messages` to 1: messages that are not handed over yet stay with its connection, which
        discards them when it is lost. With `handle_within_ms` it is 1, too: the time of a message begins with its pull.
        """
        self._store = store
        self._pull_messages = pull_messages if handle_within_ms is None else 1
        self._in_flight_max = in_flight_max
        self._closed = False
        self._core = core
        self._subjects = subjects_of(subject)
        self._group = group
        self._waiting: deque[Message] = deque()
        self._pulling = threading.Lock()
        self._stopped = False

    @property
    def subject(self) -> str:
        """The subject or prefix that is consumed; the first of a list. A message has its own."""
        return self._subjects[0]

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that are consumed, or one prefix, as they were given to `subscribe`."""
        return self._subjects

    @property
    def group(self) -> str:
        """The group that this consumer belongs to."""
        return self._group

    @property
    def in_flight_max(self) -> int:
        """How many unacknowledged messages the consumer may hold; after a crash at most so many come again."""
        return self._in_flight_max

    def get(self, timeout: Duration | None = None) -> Message | None:
        """The next message, once one is due; None at the timeout or after `stop`.

        Args:
            timeout: A timedelta or seconds; None waits forever.

        Raises:
            WrongType: `timeout` is neither a timedelta nor a number.
            InvalidArgument: `timeout` is negative or not finite.
            Closed: The store is closed. A closed subscription returns None, as after `stop`.
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
        """Up to `count_max` messages: the buffered ones, or else up to `pull_max` fetched from the core.

        One thread at a time fetches; the others wait for the lock.
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
        """Up to `count_max` buffered messages; other threads may take some meanwhile."""
        found: list[Message] = []
        with contextlib.suppress(IndexError):
            while len(found) < count_max and not self._stopped:
                found.append(self._waiting.popleft())
        return found

    def batches(self, max_messages: int = 256, wait: Duration | None = None) -> Iterator[list[Message]]:
        """Lists of messages that are due, until `stop`: faster than one by one.

        Args:
            max_messages: The longest list, 1 to 10,000. At most `in_flight_max` messages are in flight in any case.
            wait: How long to wait for the first message, as a timedelta or seconds. After that an empty list is
                yielded, so that the loop can do other work. None waits forever.

        Raises:
            WrongType: `max_messages` is not an int, or `wait` is neither a timedelta nor a number.
            InvalidArgument: `max_messages` is out of range, or `wait` is negative or not finite.
            Closed: The store is closed. A closed subscription yields no more lists.
            Poisoned: The store stopped after a failed write.
        """
        return self._batches(checked_batch(max_messages), wait_ms(wait, "wait"))

    def _batches(self, max_messages: int, slice_ms: int | None) -> Iterator[list[Message]]:
        while not self._stopped:
            batch = self._taken(max_messages, max_messages, slice_ms)
            if batch or slice_ms is not None:
                yield batch

    def _pull(self, count_max: int, timeout_ms: int | None) -> list[Message]:
        return [] if self._stopped else self._core.pull(count_max, timeout_ms)

    def __iter__(self) -> Iterator[Message]:
        """Yields the messages one by one, until `stop`."""
        while (message := self.get()) is not None:
            yield message

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledges many messages at once; `flush` waits until that is durable.

        Messages that were settled before are skipped. If one message is refused, none is acknowledged.

        Raises:
            WrongType: `messages` is not an iterable of `Message`.
            InvalidArgument: Message `index` was delivered by another subscription.
            Closed: The subscription is closed.
            HoldExpired: Message `index`, and `count` in all, were held for longer than `handle_within`; the others are
                settled.
            Poisoned: The store stopped after a failed write.
        """
        given = listed(messages, "messages", "an iterable of Message")
        taken = unsettled(given, Message, self._core)
        late = self._core.acknowledge_many(taken)
        check_held([taken[place] for place in late], given)

    def nack(self, messages: Iterable[Message], delay: Duration = 0) -> None:
        """Gives many messages back, to be delivered again after `delay`.

        Messages that were settled before are skipped. If one message is refused, none is given back.

        Raises:
            WrongType: `messages` is not an iterable of `Message`, or `delay` is neither a timedelta nor a number.
            InvalidArgument: Message `index` was delivered by another subscription; or `delay` is negative, not finite,
                or longer than the store's `delay_max`.
            Closed: The subscription is closed.
            HoldExpired: Message `index`, and `count` in all, were held for longer than `handle_within`; the others are
                settled.
            Poisoned: The store stopped after a failed write.
        """
        milliseconds = delay_ms(delay)
        given = listed(messages, "messages", "an iterable of Message")
        taken = unsettled(given, Message, self._core)
        self._core.acknowledge_many([])  # raises if the subscription cannot settle, even if there is no message
        late = []
        for message in taken:
            if self._core.give_back(message.key, milliseconds):
                message._settle()  # noqa: SLF001 - a subscription settles its messages
            else:
                late.append(message)
        check_held(late, given)

    def dead_letter(self, messages: Iterable[Message], reason: str) -> None:
        """Makes dead letters of many messages, for one reason; their group does not get them again.

        Messages that were settled before are skipped. If one message is refused, none becomes a dead letter.

        Raises:
            WrongType: `messages` is not an iterable of `Message`, or `reason` is not a str.
            InvalidArgument: Message `index` was delivered by another subscription.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            Closed: The subscription is closed.
            HoldExpired: Message `index`, and `count` in all, were held for longer than `handle_within`; the others are
                settled.
            Poisoned: The store stopped after a failed write.
        """
        checked_reason(reason)
        given = listed(messages, "messages", "an iterable of Message")
        taken = unsettled(given, Message, self._core)
        self._core.acknowledge_many([])  # as in `nack`
        late = []
        for message in taken:
            if self._core.dead_letter(message.key, reason):
                message._settle()  # noqa: SLF001 - a subscription settles its messages
            else:
                late.append(message)
        check_held(late, given)

    def flush(self, timeout: Duration | None = None) -> None:
        """Waits until every acknowledgement, redelivery and dead letter so far is durable.

        Raises:
            TimedOut: `timeout` (a timedelta or seconds) is over first.
            Poisoned: The store stopped after a failed write; messages whose settling was not durable come again.
        """
        self._core.flush(wait_ms(timeout))

    def stop(self) -> None:
        """Ends every `get`, `batches` and iteration of this subscription. Any thread may call it.

        Messages that no caller has received yet are not handed over; `close` gives them back to the group.
        """
        self._stopped = True
        self._core.stop()

    def close(self) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all messages that are not settled.

        Raises:
            Poisoned: The store stopped after a failed write.
        """
        self.stop()
        self._forget()
        self._core.close()

    def _forget(self) -> None:
        """Drops the buffer, whose messages go back to the group, and disarms the warning of `__del__`."""
        self._closed = True
        self._waiting.clear()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._store is not None and self._store.is_open:
            warnings.warn(f"{self!r} was not closed: use it in a `with`", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"Subscription(subject={shown_subjects(self._subjects)}, group={self._group!r})"


def checked_batch(max_messages: int) -> int:
    """Checks the longest list of a `batches`.

    Raises:
        WrongType: It is not an int.
        InvalidArgument: It is not 1 to 10,000.
    """
    return checked_int("max_messages", max_messages, 1, BATCH_MESSAGES_MAX)
