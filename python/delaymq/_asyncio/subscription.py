"""Subscriptions of an event loop."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterable
from typing import Self

from delaymq._arguments.batches import checked_reason, listed
from delaymq._arguments.subjects import Subjects, shown_subjects, subjects_of
from delaymq._asyncio.delivery import MessageDelivery, Settling
from delaymq._asyncio.event_loop import EventLoop
from delaymq._asyncio.message import AsyncMessage
from delaymq._core import Subscription as CoreSubscription
from delaymq._core import unsettled
from delaymq._store.lifecycle import AsyncClosing
from delaymq.durations import Duration, delay_ms, wait_ms
from delaymq.errors import TimedOut
from delaymq.message import check_held
from delaymq.subscription import PULL_MESSAGES, Openable, checked_batch


class AsyncSubscription(AsyncClosing):
    """Delivers the messages of its subjects to one consumer of a group, each once it is due.

    ::

        async with store.subscribe("order.timeout", group="billing") as messages:
            async for message in messages:
                async with message:
                    await handle(message.body)

    Any number of coroutines of one loop may wait in it. If one is cancelled, the messages that it had been
    given already go to the next one.
    """

    def __init__(
        self,
        core: CoreSubscription,
        subject: Subjects,
        group: str,
        *,
        in_flight_max: int,
        store: Openable,
        event_loop: EventLoop,
        pull_messages: int = PULL_MESSAGES,
        handle_within_ms: int | None = None,
    ) -> None:
        """Use `AsyncStore.subscribe` instead. The subscription keeps its store alive.

        A client sets `pull_messages` to 1, as for `Subscription`.
        """
        is_limited = handle_within_ms is not None
        self._pull_messages = 1 if is_limited else pull_messages
        self._core = core
        self._subjects = subjects_of(subject)
        self._group = group
        self._in_flight_max = in_flight_max
        self._store = store
        self._event_loop = event_loop
        self._settling = Settling(core, event_loop)
        self._delivery = MessageDelivery(core, self._settling, event_loop, is_limited)
        core.watch(event_loop.wakeups.watch(self._delivery))
        self._closing: asyncio.Future[None] | None = None

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

    async def get(self, timeout: Duration | None = None) -> AsyncMessage | None:  # noqa: ASYNC109 - as the plain face
        """The next message, once one is due; None at the timeout or after `stop`.

        Args:
            timeout: A timedelta or seconds; None waits forever.

        Raises:
            WrongType: `timeout` is neither a timedelta nor a number.
            InvalidArgument: `timeout` is negative or not finite.
            Closed: The store is closed. A closed subscription returns None, as after `stop`.
            Poisoned: The store stopped after a failed write.
            ForkedProcess: The store was opened by the parent process.
            WrongLoop: This is not the loop that opened the store.
        """
        timeout_ms = wait_ms(timeout)
        self._event_loop.check()
        buffered = self._delivery.next()
        if buffered is not None:
            return buffered
        batch = await self._delivery.take(1, self._pull_messages, timeout_ms)
        return batch[0] if batch else None

    def batches(self, max_messages: int = 256, wait: Duration | None = None) -> AsyncIterator[list[AsyncMessage]]:
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
            WrongLoop: This is not the loop that opened the store.
        """
        return self._batches(checked_batch(max_messages), wait_ms(wait, "wait"))

    async def _batches(self, max_messages: int, slice_ms: int | None) -> AsyncIterator[list[AsyncMessage]]:
        self._event_loop.check()
        self._delivery.check_open()
        while not self._delivery.stopped:
            self._event_loop.check()
            batch = await self._delivery.take(max_messages, max_messages, slice_ms)
            if batch or slice_ms is not None:
                yield batch

    def __aiter__(self) -> Self:
        """Yields the messages one by one, until `stop`."""
        return self

    async def __anext__(self) -> AsyncMessage:
        message = await self.get()
        if message is None:
            raise StopAsyncIteration
        return message

    def ack(self, messages: Iterable[AsyncMessage]) -> None:
        """Acknowledges many messages at once; `flush` waits until that is durable.

        Messages that were settled before are skipped. If one message is refused, none is acknowledged.

        Raises:
            WrongType: `messages` is not an iterable of `AsyncMessage`.
            InvalidArgument: Message `index` was delivered by another subscription.
            Closed: The subscription is closed.
            HoldExpired: Message `index`, and `count` in all, were held for longer than `handle_within`; the others are
                settled.
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        given = listed(messages, "messages", "an iterable of AsyncMessage")
        taken = unsettled(given, AsyncMessage, self._settling)
        late = self._core.acknowledge_many(taken)
        self._delivery.on_settled()
        check_held([taken[place] for place in late], given)

    def nack(self, messages: Iterable[AsyncMessage], delay: Duration = 0) -> None:
        """Gives many messages back, to be delivered again after `delay`.

        Messages that were settled before are skipped. If one message is refused, none is given back.

        Raises:
            WrongType: `messages` is not an iterable of `AsyncMessage`, or `delay` is neither a timedelta nor a number.
            InvalidArgument: Message `index` was delivered by another subscription; or `delay` is negative, not finite,
                or longer than the store's `delay_max`.
            Closed: The subscription is closed.
            HoldExpired: Message `index`, and `count` in all, were held for longer than `handle_within`; the others are
                settled.
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        milliseconds = delay_ms(delay)
        self._event_loop.check()
        given = listed(messages, "messages", "an iterable of AsyncMessage")
        taken = unsettled(given, AsyncMessage, self._settling)
        self._core.acknowledge_many([])  # raises if the subscription cannot settle, even if there is no message
        late = []
        for message in taken:
            if self._settling.give_back(message.key, milliseconds):
                message._settle()  # noqa: SLF001 - a subscription settles its messages
            else:
                late.append(message)
        check_held(late, given)

    def dead_letter(self, messages: Iterable[AsyncMessage], reason: str) -> None:
        """Makes dead letters of many messages, for one reason; their group does not get them again.

        Messages that were settled before are skipped. If one message is refused, none becomes a dead letter.

        Raises:
            WrongType: `messages` is not an iterable of `AsyncMessage`, or `reason` is not a str.
            InvalidArgument: Message `index` was delivered by another subscription.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            Closed: The subscription is closed.
            HoldExpired: Message `index`, and `count` in all, were held for longer than `handle_within`; the others are
                settled.
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        checked_reason(reason)
        self._event_loop.check()
        given = listed(messages, "messages", "an iterable of AsyncMessage")
        taken = unsettled(given, AsyncMessage, self._settling)
        self._core.acknowledge_many([])  # as in `nack`
        late = []
        for message in taken:
            if self._settling.dead_letter(message.key, reason):
                message._settle()  # noqa: SLF001 - a subscription settles its messages
            else:
                late.append(message)
        check_held(late, given)

    async def flush(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109 - as the plain face
        """Waits until every acknowledgement, redelivery and dead letter so far is durable.

        Raises:
            TimedOut: `timeout` (a timedelta or seconds) is over first.
            Poisoned: The store stopped after a failed write; messages whose settling was not durable come again.
            WrongLoop: This is not the loop that opened the store.
        """
        timeout_ms = wait_ms(timeout)
        self._event_loop.check()
        position = self._core.begin_flush()
        if position is None:
            await self._event_loop.blocking.call(self._core.flush, timeout_ms)
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._event_loop.wakeups.reached(position)
        except TimeoutError as error:
            if isinstance(error, TimedOut):
                raise
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    def stop(self) -> None:
        """Ends every `get`, `batches` and iteration of this subscription. Any thread may call it.

        Messages that no caller has received yet are not handed over; `close` gives them back to the group.
        """
        self._delivery.stopped = True
        self._core.stop()
        loop = self._event_loop.loop
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._delivery.stop)

    async def close(self) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all messages that are not settled.

        Raises:
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        if self._closing is None:
            self.stop()
            self._delivery.discard()
            self._closing = self._event_loop.blocking.begin(self._core.close)
        await asyncio.shield(self._closing)

    def _forget(self) -> None:
        """Marks the subscription as closed with its store, and disarms the warning of `__del__`."""
        self._delivery.stop()
        self._delivery.discard(store_is_closed=True)
        if self._closing is None:
            self._closing = self._event_loop.loop.create_future()
            self._closing.set_result(None)

    def __del__(self) -> None:
        if getattr(self, "_closing", self) is None and self._store.is_open:
            warnings.warn(
                f"{self!r} was not closed: use it in an `async with`", ResourceWarning, source=self, stacklevel=2
            )

    def __repr__(self) -> str:
        return f"AsyncSubscription(subject={shown_subjects(self._subjects)}, group={self._group!r})"
