"""A consumer of one group of a subject, on an event loop."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from delaymq._arguments.batches import checked_messages, checked_reason
from delaymq._asyncio.delivery import MessageDelivery, Settling
from delaymq._asyncio.message import AsyncMessage
from delaymq.durations import Duration, delay_ms, wait_ms
from delaymq.errors import TimedOut
from delaymq.subscription import PULL_MESSAGES, Opened, checked_batch

if TYPE_CHECKING:
    from delaymq._asyncio.event_loop import EventLoop
    from delaymq._core import Subscription as CoreSubscription

__all__ = ["AsyncSubscription"]


class AsyncSubscription:
    """Hands over the messages of a subject to one consumer of a group, each once it is due.

    ::

        async with store.subscribe("order.timeout", group="billing") as messages:
            async for message in messages:
                async with message:
                    await handle(message.body)

    Any number of coroutines of one loop may wait in it. One that is cancelled takes nothing with it:
    what it had been given already goes to the next one.
    """

    def __init__(
        self,
        core: CoreSubscription,
        subject: str,
        group: str,
        *,
        in_flight_max: int,
        store: Opened,
        event_loop: EventLoop,
        pull_messages: int = PULL_MESSAGES,
    ) -> None:
        """Made by `AsyncStore.subscribe`; keeps the store open while somebody has the subscription.

        A client pulls one message for one that is asked for, as `Subscription` says.
        """
        self._pull_messages = pull_messages
        self._core = core
        self._subject = subject
        self._group = group
        self._in_flight_max = in_flight_max
        self._store = store
        self._event_loop = event_loop
        self._settling = Settling(core, event_loop)
        self._handing = self._settling.handing = MessageDelivery(core, self._settling, event_loop)
        core.watch(event_loop.wakeups.watch(self._handing))
        self._closing: asyncio.Future[None] | None = None

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

    async def get(self, timeout: Duration | None = None) -> AsyncMessage | None:  # noqa: ASYNC109 - as the plain face
        """The next message that is due, or None at the timeout or after `stop`.

        Args:
            timeout: A timedelta or seconds; None waits for ever.

        Raises:
            WrongType: `timeout` is neither a timedelta nor a number.
            InvalidArgument: `timeout` is negative or not finite.
            Closed: The store is closed. A subscription that is closed answers as after `stop`.
            Poisoned: The store stopped after a failed write.
            ForkedProcess: The store was opened by the parent process.
            WrongLoop: This is not the loop that opened the store.
        """
        timeout_ms = wait_ms(timeout)
        self._event_loop.check()
        buffered = self._handing.next()
        if buffered is not None:
            return buffered
        batch = await self._handing.take(1, self._pull_messages, timeout_ms)
        return batch[0] if batch else None

    def batches(self, max_messages: int = 256, wait: Duration | None = None) -> AsyncIterator[list[AsyncMessage]]:
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
            WrongLoop: This is not the loop that opened the store.
        """
        return self._batches(checked_batch(max_messages), wait_ms(wait, "wait"))

    async def _batches(self, max_messages: int, slice_ms: int | None) -> AsyncIterator[list[AsyncMessage]]:
        self._event_loop.check()
        self._handing.check_open()
        while not self._handing.stopped:
            self._event_loop.check()
            batch = await self._handing.take(max_messages, max_messages, slice_ms)
            if batch or slice_ms is not None:
                yield batch

    def __aiter__(self) -> Self:
        """The messages, one by one, until `stop`."""
        return self

    async def __anext__(self) -> AsyncMessage:
        message = await self.get()
        if message is None:
            raise StopAsyncIteration
        return message

    def ack(self, messages: Iterable[AsyncMessage]) -> None:
        """Acknowledges many messages in one crossing; `flush` waits until that is durable.

        Those that were settled before are passed over. Where one is refused none is acknowledged.

        Raises:
            WrongType: `messages` is not an iterable of `AsyncMessage`.
            InvalidArgument: One of them was handed over by another subscription; `index` is its place.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        chosen = checked_messages(messages, AsyncMessage, self._settling)
        self._core.acknowledge_many(list(chosen))
        for message in chosen.values():
            message._settled = True  # noqa: SLF001 - the two classes are one noun's two sides
        self._handing.has_room()

    def nack(self, messages: Iterable[AsyncMessage], delay: Duration = 0) -> None:
        """Gives many messages back, to come again after `delay`.

        Those that were settled before are passed over. Where one is refused none is given back.

        Raises:
            WrongType: `messages` is not an iterable of `AsyncMessage`, or `delay` neither a timedelta
                nor a number.
            InvalidArgument: One of them was handed over by another subscription, `index` is its place;
                or `delay` is negative, not finite, or further than the store's longest.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        milliseconds = delay_ms(delay)
        self._event_loop.check()
        chosen = checked_messages(messages, AsyncMessage, self._settling)
        self._core.acknowledge_many([])  # raises where none can be settled, also where there is none
        for key, message in chosen.items():
            self._settling.give_back(key, milliseconds)
            message._settled = True  # noqa: SLF001

    def dead_letter(self, messages: Iterable[AsyncMessage], reason: str) -> None:
        """Puts many messages away, for one reason; their group does not get them again.

        Those that were settled before are passed over. Where one is refused none is put away.

        Raises:
            WrongType: `messages` is not an iterable of `AsyncMessage`, or `reason` is not a str.
            InvalidArgument: One of them was handed over by another subscription; `index` is its place.
            TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
            Closed: The subscription is closed.
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        checked_reason(reason)
        self._event_loop.check()
        chosen = checked_messages(messages, AsyncMessage, self._settling)
        self._core.acknowledge_many([])  # as in `nack`
        for key, message in chosen.items():
            self._settling.dead_letter(key, reason)
            message._settled = True  # noqa: SLF001

    async def flush(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109 - as the plain face
        """Waits until everything that was acknowledged or given back is durable.

        Raises:
            TimedOut: It is not by the end of `timeout` (a timedelta or seconds).
            Poisoned: The store stopped after a failed write; what was not durable comes again.
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

        What nobody was given yet is not handed over any more; it goes back to the group at the end.
        """
        self._handing.stopped = True
        self._core.stop()
        loop = self._event_loop.loop
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._handing.stop)

    async def close(self) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all that is left.

        Raises:
            Poisoned: The store stopped after a failed write.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        if self._closing is None:
            self.stop()
            self._handing.forget()
            self._closing = self._event_loop.blocking.begin(self._core.close)
        await asyncio.shield(self._closing)

    def _forget(self) -> None:
        """The store is closed, and what was held here went with it; nobody is warned any more."""
        self._handing.stop()
        self._handing.forget(store_is_closed=True)
        if self._closing is None:
            self._closing = self._event_loop.loop.create_future()
            self._closing.set_result(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_closing", self) is None and self._store.is_open:
            warnings.warn(
                f"{self!r} was not closed: use it in an `async with`", ResourceWarning, source=self, stacklevel=2
            )

    def __repr__(self) -> str:
        return f"AsyncSubscription(subject={self._subject!r}, group={self._group!r})"
