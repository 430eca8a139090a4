"""Delivery of one subscription's messages to the coroutines that wait for them.

Waiters are served in order of arrival. A message is in the buffer, with one waiter, or with the user,
and nowhere else: a waiter that is cancelled gives back the messages that it had been given.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from delaymq._asyncio.event_loop import EventLoop
from delaymq._asyncio.message import AsyncMessage
from delaymq._core import Subscription as CoreSubscription
from delaymq.errors import Closed, StoreError

if TYPE_CHECKING:
    from delaymq._core import Receipt
    from delaymq.message import Received

Waiter: TypeAlias = "asyncio.Future[list[AsyncMessage]]"


class Settling:
    """Settles the messages of one subscription. False for a message that was held for too long.

    Its delivery is referred to weakly: the buffer there has messages, and each of them has this object.
    """

    __slots__ = ("_core", "_delivery", "_event_loop")

    def __init__(self, core: CoreSubscription, event_loop: EventLoop) -> None:
        self._core = core
        self._event_loop = event_loop
        self._delivery: Callable[[], MessageDelivery | None] = _nothing

    def begin(self, delivery: MessageDelivery) -> None:
        """From now on, the delivery is notified of what is settled."""
        self._delivery = weakref.ref(delivery)

    def acknowledge(self, key: int, /) -> bool:
        """Queues an acknowledgement.

        Raises:
            WrongLoop, Closed, Poisoned: As `AsyncMessage.ack`.
        """
        self._event_loop.check()
        return self._noted(self._core.acknowledge(key))

    def give_back(self, key: int, delay_ms: int, /) -> bool:
        """Queues a redelivery.

        Raises:
            WrongLoop, Closed, Poisoned, InvalidArgument: As `AsyncMessage.nack`.
        """
        self._event_loop.check()
        return self._noted(self._core.give_back(key, delay_ms))

    def dead_letter(self, key: int, reason: str, /) -> bool:
        """Queues a dead letter.

        Raises:
            WrongLoop, WrongType, TooLarge, Closed, Poisoned: As `AsyncMessage.dead_letter`.
        """
        self._event_loop.check()
        return self._noted(self._core.dead_letter(key, reason))

    def _noted(self, is_held: bool) -> bool:
        if (delivery := self._delivery()) is not None:
            delivery.on_settled()
        return is_held

    def extend(self, key: int, duration_ms: int | None, /) -> bool:
        """Holds a message for longer.

        Raises:
            WrongLoop, Closed, Poisoned: As `AsyncMessage.extend`.
        """
        self._event_loop.check()
        return self._core.extend(key, duration_ms)

    def receipt(self, message: Received, /) -> Receipt:
        """The receipt that a message was published with.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        return self._core.receipt(message)


class MessageDelivery:
    """The buffer of one subscription, and the coroutines that wait for it."""

    def __init__(
        self, core: CoreSubscription, settling: Settling, event_loop: EventLoop, is_limited: bool = False
    ) -> None:
        self._core = core
        self._settling = settling
        settling.begin(self)
        self._is_limited = is_limited  # a message may be held for some time only, from when it is handed over
        self._event_loop = event_loop
        self._buffered: deque[AsyncMessage] = deque()
        self._returned: list[AsyncMessage] = []
        # For each waiter: the messages it wants, the messages to pull for it, and whether it only polls.
        self._waiting: OrderedDict[Waiter, tuple[int, int, bool]] = OrderedDict()
        self._fetching: asyncio.Future[list[AsyncMessage]] | None = None
        self._timed_out: list[Waiter] = []
        self._is_scheduled = False
        self.stopped = False  # set by any thread: no message is handed over any more
        self._discarded = False
        self._store_is_closed = False

    def next(self) -> AsyncMessage | None:
        """The next buffered message, or None; None after `stop`."""
        if self.stopped:
            return None
        if self._returned:
            self._merge_returned()
        found = self._from_buffer(1)
        return found[0] if found else None

    async def take(self, count: int, pull: int, timeout_ms: int | None) -> list[AsyncMessage]:
        """Up to `count` messages, waiting for the first; none at the timeout or after `stop`.

        Args:
            count: The longest list.
            pull: How many messages to pull from the core if the buffer is empty.
            timeout_ms: How long to wait, or None.

        Raises:
            Closed, Poisoned, ForkedProcess: As `AsyncSubscription.get`.
        """
        # A consumer that always finds messages must yield to the other tasks of the loop.
        await asyncio.sleep(0)
        self.check_open()
        if self.stopped:
            return []
        loop = self._event_loop.loop
        waiter: Waiter = loop.create_future()
        self._waiting[waiter] = (count, pull, timeout_ms == 0)
        timer: asyncio.TimerHandle | None = None
        self.on_news()
        if timeout_ms == 0:
            self._time_out(waiter)
        elif timeout_ms is not None and not waiter.done():
            timer = loop.call_later(timeout_ms / 1000, self._time_out, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._return_from(waiter)
            raise
        finally:
            self._waiting.pop(waiter, None)
            if timer is not None:
                timer.cancel()

    def check_open(self) -> None:
        """Checks that the store is open.

        Raises:
            Closed: It is closed.
        """
        if self._store_is_closed:
            raise Closed("the store is closed")

    def on_news(self) -> None:
        """Hands over buffered messages, and pulls more from the core while coroutines wait."""
        if self.stopped:
            self.stop()
        while self._waiting:
            if not self._hand_over() and (self._fetching is not None or not self._fill()):
                return

    def _hand_over(self) -> bool:
        """Gives buffered messages to the first waiter; False if there are none."""
        if self._returned:
            self._merge_returned()
        if not self._buffered:
            return False
        waiter, (count, *_) = next(iter(self._waiting.items()))
        if not waiter.done():
            found = self._from_buffer(count)
            if not found:
                return False
            waiter.set_result(found)
        del self._waiting[waiter]
        return True

    def _from_buffer(self, count: int) -> list[AsyncMessage]:
        buffered = self._buffered
        if self._is_limited:
            found: list[AsyncMessage] = []
            while buffered and len(found) < count:
                message = buffered.popleft()
                if self._begins(message):
                    found.append(message)
            return found
        if len(buffered) <= count:
            found = list(buffered)
            buffered.clear()
            return found
        return [buffered.popleft() for _ in range(count)]

    def _begins(self, message: AsyncMessage) -> bool:
        """Holds a message from now on; False if it waited here for too long, and went back to its group."""
        with contextlib.suppress(StoreError):  # settling the message raises it
            return self._core.extend(message.key, None)
        return True

    def _fill(self) -> bool:
        """Pulls without waiting; True if messages came."""
        _, pull, at_once = next(iter(self._waiting.values()))
        try:
            messages = self._core.try_pull(pull, at_once, self._settling)
        except StoreError as error:
            self._fail(error)
            return False
        if messages is None:
            self._fetching = self._event_loop.blocking.begin(self._core.pull, pull, 0, self._settling)
            self._fetching.add_done_callback(self._fetched)
            return False
        self._keep(messages)
        return bool(messages)

    def _fetched(self, fetching: asyncio.Future[list[AsyncMessage]]) -> None:
        """Handles the result of a pull on a thread."""
        self._fetching = None
        late, self._timed_out = self._timed_out, []
        if not fetching.cancelled():
            error = fetching.exception()
            if error is None:
                self._keep(fetching.result())
            else:
                self._fail(error)
        while self._waiting and self._hand_over():
            pass
        # No further pull is made for waiters whose timeout is over.
        for waiter in late:
            self._waiting.pop(waiter, None)
            _finish(waiter, [])
        self.on_news()

    def _keep(self, messages: list[AsyncMessage]) -> None:
        if not self._discarded:
            self._buffered.extend(messages)

    def _fail(self, error: BaseException) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(copy.copy(error))

    def _time_out(self, waiter: Waiter) -> None:
        """Ends a waiter at its timeout, or once a pull that is in progress ends."""
        if self._fetching is not None and not waiter.done():
            self._timed_out.append(waiter)
        else:
            _finish(waiter, [])

    def _return_from(self, waiter: Waiter) -> None:
        """Takes back the messages that a cancelled waiter had been given, for the next waiter."""
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None or self._discarded:
            return
        self._returned.extend(waiter.result())
        self.on_news()

    def _merge_returned(self) -> None:
        """Puts returned messages back into the buffer, in their original order."""
        buffered, returned = self._buffered, self._returned
        last = max(map(_key, returned))
        while buffered and _key(buffered[0]) < last:
            returned.append(buffered.popleft())
        returned.sort(key=_key, reverse=True)
        buffered.extendleft(returned)
        returned.clear()

    def on_settled(self) -> None:
        """Notes that a message was settled, so that more may be in flight."""
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._event_loop.loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.on_news()

    def stop(self) -> None:
        """Ends all present and future waits without a message."""
        self.stopped = True
        while self._waiting:
            _finish(self._waiting.popitem(last=False)[0], [])

    def discard(self, *, store_is_closed: bool = False) -> None:
        """Drops all buffered messages, which go back to the group when the subscription or the store is closed."""
        self._discarded = True
        self._store_is_closed = store_is_closed
        self._buffered.clear()
        self._returned.clear()


_key = attrgetter("key")


def _nothing() -> None:
    """As a weak reference to what has ended."""


def _finish(waiter: Waiter, messages: list[AsyncMessage]) -> None:
    if not waiter.done():
        waiter.set_result(messages)
