"""Wake-ups: coroutines that wait for a store, and the descriptor that wakes them.

The core makes one descriptor readable when there is news, once until it is drained. The loop
watches it, so that no thread waits and nothing polls; a batch of messages costs one wake-up.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import weakref
from typing import Protocol

from delaymq import _core
from delaymq._store.reports import Reports
from delaymq.errors import StoreError


class Watcher(Protocol):
    """An object that is notified of news, such as a subscription."""

    def on_news(self) -> None:
        """Serves its waiters."""


class Watchers:
    """Watchers by the tokens under which the core, or a session, refers to them."""

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._watchers: weakref.WeakValueDictionary[int, Watcher] = weakref.WeakValueDictionary()

    def watch(self, watcher: Watcher) -> int:
        """Registers a watcher, and returns its token."""
        token = next(self._tokens)
        self._watchers[token] = watcher
        return token

    def notify(self, token: int) -> None:
        """Notifies the watcher of this token, if it still exists."""
        watcher = self._watchers.get(token)
        if watcher is not None:
            watcher.on_news()


class Wakeups(Watchers):
    """The coroutines of one loop that wait for one store."""

    def __init__(self, core: _core.Unblocked, reports: Reports, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to watch the descriptor.

        Raises:
            StorageError: The process has no more descriptors.
        """
        super().__init__()
        self._core = core
        self._reports = reports
        self._loop = loop
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._descriptor = core.fileno()
        # A weak reference: the loop must not keep alive a store that the user has dropped.
        loop.add_reader(self._descriptor, _woken, weakref.ref(self))

    async def reached(self, position: int) -> None:
        """Waits until everything below the position is visible.

        Raises:
            Poisoned, Closed: It will never be.
        """
        waiter: asyncio.Future[None] = self._loop.create_future()
        entry = (position, next(self._order), waiter)
        heapq.heappush(self._waiting, entry)
        if self._waiting[0] is entry:
            self._settle_reached()
        await waiter

    def on_news(self) -> None:
        """Wakes every waiter and watcher for which there is news."""
        visible, tokens, reports = self._core.drain()
        while self._waiting and self._waiting[0][0] <= visible:
            _finish(heapq.heappop(self._waiting)[2], None)
        self._settle_reached()
        for token in tokens:
            self.notify(token)
        if reports:
            self._reports.log_waiting()

    def _settle_reached(self) -> None:
        """Asks the core to signal the smallest position that a coroutine waits for."""
        while self._waiting:
            position, _, waiter = self._waiting[0]
            error: StoreError | None = None
            if not waiter.done():
                try:
                    if not self._core.want(position):
                        return
                except StoreError as refused:
                    error = refused
            heapq.heappop(self._waiting)
            _finish(waiter, error)

    def end(self) -> None:
        """Stops watching after the store is closed; remaining waiters get the store's error."""
        self._loop.remove_reader(self._descriptor)
        self._settle_reached()

    def abandon(self) -> None:
        """As `end`, from any thread, for a store that was dropped without being closed."""
        if not self._loop.is_closed():
            # The argument keeps the core, and its descriptor, alive until the loop has removed the reader.
            self._loop.call_soon_threadsafe(_remove_reader, self._loop, self._descriptor, self._core)


def _woken(reference: weakref.ref[Wakeups]) -> None:
    wakeups = reference()
    if wakeups is not None:
        wakeups.on_news()


def _remove_reader(loop: asyncio.AbstractEventLoop, descriptor: int, _core: _core.Unblocked) -> None:
    loop.remove_reader(descriptor)


def _finish(waiter: asyncio.Future[None], error: StoreError | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
