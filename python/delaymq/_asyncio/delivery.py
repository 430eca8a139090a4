"""Who waits on an event loop for the messages of one subscription, and handing them over.

Waiters are served in the order in which they came. A message is in the buffer, with one waiter, or
with the user, and nowhere else: a waiter that is cancelled gives back what it had been given.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict, deque
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from delaymq._asyncio.message import AsyncMessage
from delaymq.errors import Closed, StoreError

if TYPE_CHECKING:
    from delaymq._asyncio.event_loop import EventLoop
    from delaymq._core import Delivery, Receipt
    from delaymq._core import Subscription as CoreSubscription

__all__ = ["MessageDelivery", "Settling"]

Waiter: TypeAlias = "asyncio.Future[list[AsyncMessage]]"


class Settling:
    """What the messages of one subscription say their end to."""

    __slots__ = ("_core", "_event_loop", "handing")

    handing: MessageDelivery

    def __init__(self, core: CoreSubscription, event_loop: EventLoop) -> None:
        self._core = core
        self._event_loop = event_loop

    def acknowledge(self, key: int, /) -> None:
        """Queues an acknowledgement.

        Raises:
            WrongLoop, Closed, Poisoned: As `AsyncMessage.ack`.
        """
        self._event_loop.check()
        self._core.acknowledge(key)
        self.handing.has_room()

    def give_back(self, key: int, delay_ms: int, /) -> None:
        """Queues a redelivery.

        Raises:
            WrongLoop, Closed, Poisoned, InvalidArgument: As `AsyncMessage.nack`.
        """
        self._event_loop.check()
        self._core.give_back(key, delay_ms)
        self.handing.has_room()

    def dead_letter(self, key: int, reason: str, /) -> None:
        """Queues that a message is put away.

        Raises:
            WrongLoop, WrongType, TooLarge, Closed, Poisoned: As `AsyncMessage.dead_letter`.
        """
        self._event_loop.check()
        self._core.dead_letter(key, reason)
        self.handing.has_room()

    def receipt(self, delivery: Delivery, /) -> Receipt:
        """The receipt that a message was published with.

        Raises:
            ForkedProcess: The store was opened by the parent process.
        """
        return self._core.receipt(delivery)


class MessageDelivery:
    """The buffer of one subscription and those who wait for it."""

    def __init__(self, core: CoreSubscription, settling: Settling, event_loop: EventLoop) -> None:
        self._core = core
        self._settling = settling
        self._event_loop = event_loop
        self._buffered: deque[AsyncMessage] = deque()
        self._returned: list[AsyncMessage] = []
        # How many messages each wants, how many to pull for it, and whether it waits for no news.
        self._waiting: OrderedDict[Waiter, tuple[int, int, bool]] = OrderedDict()
        self._fetching: asyncio.Future[list[Delivery]] | None = None
        self._late: list[Waiter] = []
        self._looks_soon = False
        self.stopped = False  # set by any thread: nothing is handed over from then on
        self._forgotten = False
        self._store_is_closed = False

    def next(self) -> AsyncMessage | None:
        """The next one that is buffered; none after `stop`."""
        if self.stopped:
            return None
        if self._returned:
            self._put_back()
        return self._buffered.popleft() if self._buffered else None

    async def take(self, count: int, pull: int, timeout_ms: int | None) -> list[AsyncMessage]:
        """Up to `count` messages, waiting for the first; none at the timeout or after `stop`.

        Args:
            count: The longest list.
            pull: How many to ask the core for where nothing is buffered.
            timeout_ms: How long to wait, or None.

        Raises:
            Closed, Poisoned, ForkedProcess: As `AsyncSubscription.get`.
        """
        # A consumer that always finds something must leave the loop to others now and then.
        await asyncio.sleep(0)
        self.check_open()
        if self.stopped:
            return []
        loop = self._event_loop.loop
        waiter: Waiter = loop.create_future()
        self._waiting[waiter] = (count, pull, timeout_ms == 0)
        timer: asyncio.TimerHandle | None = None
        self.look()
        if timeout_ms == 0:
            self._time_out(waiter)
        elif timeout_ms is not None and not waiter.done():
            timer = loop.call_later(timeout_ms / 1000, self._time_out, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._take_back(waiter)
            raise
        finally:
            self._waiting.pop(waiter, None)
            if timer is not None:
                timer.cancel()

    def check_open(self) -> None:
        """Refuses to look for more in a store that is closed.

        Raises:
            Closed: It is.
        """
        if self._store_is_closed:
            raise Closed("the store is closed")

    def look(self) -> None:
        """Hands over what there is, and asks the core for more while somebody waits."""
        if self.stopped:
            self.stop()
        while self._waiting:
            if not self._hand_over() and (self._fetching is not None or not self._fill()):
                return

    def _hand_over(self) -> bool:
        """Gives the first one that waits what there is; False where there is nothing."""
        if self._returned:
            self._put_back()
        if not self._buffered:
            return False
        waiter, (count, *_) = self._waiting.popitem(last=False)
        if not waiter.done():
            waiter.set_result(self._from_buffer(count))
        return True

    def _from_buffer(self, count: int) -> list[AsyncMessage]:
        buffered = self._buffered
        if len(buffered) <= count:
            found = list(buffered)
            buffered.clear()
            return found
        return [buffered.popleft() for _ in range(count)]

    def _fill(self) -> bool:
        """Pulls without waiting; True where something came."""
        _, pull, at_once = next(iter(self._waiting.values()))
        try:
            deliveries = self._core.try_pull(pull, at_once)
        except StoreError as error:
            self._fail(error)
            return False
        if deliveries is None:
            self._fetching = self._event_loop.blocking.begin(self._core.pull, pull, 0)
            self._fetching.add_done_callback(self._fetched)
            return False
        self._keep(deliveries)
        return bool(deliveries)

    def _fetched(self, fetching: asyncio.Future[list[Delivery]]) -> None:
        """What had to be waited for is there, or is not."""
        self._fetching = None
        late, self._late = self._late, []
        if not fetching.cancelled():
            error = fetching.exception()
            if error is None:
                self._keep(fetching.result())
            else:
                self._fail(error)
        while self._waiting and self._hand_over():
            pass
        # Those whose time is over are not fetched for again.
        for waiter in late:
            self._waiting.pop(waiter, None)
            _finish(waiter, [])
        self.look()

    def _keep(self, deliveries: list[Delivery]) -> None:
        if not self._forgotten:
            settling, handed_ms = self._settling, self._core.now_ms() if deliveries else 0
            self._buffered.extend([AsyncMessage(settling, delivery, handed_ms) for delivery in deliveries])

    def _fail(self, error: BaseException) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(copy.copy(error))

    def _time_out(self, waiter: Waiter) -> None:
        """Nothing came in time; what is being fetched still may."""
        if self._fetching is not None and not waiter.done():
            self._late.append(waiter)
        else:
            _finish(waiter, [])

    def _take_back(self, waiter: Waiter) -> None:
        """A waiter was cancelled: what it had been given already goes to the next one."""
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None or self._forgotten:
            return
        self._returned.extend(waiter.result())
        self.look()

    def _put_back(self) -> None:
        """What was taken back comes before what nobody was given yet, in its old order."""
        buffered, returned = self._buffered, self._returned
        last = max(map(_key, returned))
        while buffered and _key(buffered[0]) < last:
            returned.append(buffered.popleft())
        returned.sort(key=_key, reverse=True)
        buffered.extendleft(returned)
        returned.clear()

    def has_room(self) -> None:
        """A message was settled, so that more may be handed over than before."""
        if self._waiting and not self._looks_soon:
            self._looks_soon = True
            self._event_loop.loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._looks_soon = False
        self.look()

    def stop(self) -> None:
        """Ends all waits, now and later, with nothing."""
        self.stopped = True
        while self._waiting:
            _finish(self._waiting.popitem(last=False)[0], [])

    def forget(self, *, store_is_closed: bool = False) -> None:
        """What is buffered goes back to the group, with the end of the subscription or of the store."""
        self._forgotten = True
        self._store_is_closed = store_is_closed
        self._buffered.clear()
        self._returned.clear()


_key = attrgetter("key")


def _finish(waiter: Waiter, messages: list[AsyncMessage]) -> None:
    if not waiter.done():
        waiter.set_result(messages)
