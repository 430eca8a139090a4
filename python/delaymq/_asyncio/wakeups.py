"""Who waits on an event loop for a store, and what wakes them.

The core makes one descriptor readable when something happened, once until it is drained. The loop
watches it, so nobody polls and no thread waits; a batch of messages costs one wake-up.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import weakref
from typing import TYPE_CHECKING, Protocol

from delaymq.errors import StoreError

if TYPE_CHECKING:
    from delaymq import _core
    from delaymq._store.reports import Reports

__all__ = ["Wakeups", "Watcher"]


class Watcher(Protocol):
    """What can have news."""

    def look(self) -> None:
        """There is news: sees to those who wait."""


class Wakeups:
    """The waits of one loop for one store."""

    def __init__(self, core: _core.Unblocked, reports: Reports, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to watch the descriptor.

        Raises:
            StorageError: The system has no more descriptors.
        """
        self._core = core
        self._reports = reports
        self._loop = loop
        self._tokens = itertools.count(1)
        self._watchers: weakref.WeakValueDictionary[int, Watcher] = weakref.WeakValueDictionary()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._descriptor = core.fileno()
        # The loop must not keep a store that everybody else has forgotten.
        loop.add_reader(self._descriptor, _woken, weakref.ref(self))

    def watch(self, watcher: Watcher) -> int:
        """From now on the core can tell of this watcher, under the token returned."""
        token = next(self._tokens)
        self._watchers[token] = watcher
        return token

    async def reached(self, position: int) -> None:
        """Waits until everything below the position is visible.

        Raises:
            Poisoned, Closed: It never will be.
        """
        waiter: asyncio.Future[None] = self._loop.create_future()
        entry = (position, next(self._order), waiter)
        heapq.heappush(self._waiting, entry)
        if self._waiting[0] is entry:
            self._settle_reached()
        await waiter

    def look(self) -> None:
        """Sees to everybody who waited for what happened since the last look."""
        visible, tokens, reports = self._core.drain()
        while self._waiting and self._waiting[0][0] <= visible:
            _finish(heapq.heappop(self._waiting)[2], None)
        self._settle_reached()
        for token in tokens:
            watcher = self._watchers.get(token)
            if watcher is not None:
                watcher.look()
        if reports:
            self._reports.log_waiting()

    def _settle_reached(self) -> None:
        """Has the core watch the smallest position that somebody waits for."""
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
        """Stops watching. The store is closed: who still waits is told how that ended."""
        self._loop.remove_reader(self._descriptor)
        self._settle_reached()

    def abandon(self) -> None:
        """As `end`, for a store that was forgotten, from any thread."""
        if not self._loop.is_closed():
            # The core is kept until the loop has let go of its descriptor.
            self._loop.call_soon_threadsafe(_let_go, self._loop, self._descriptor, self._core)


def _woken(reference: weakref.ref[Wakeups]) -> None:
    wakeups = reference()
    if wakeups is not None:
        wakeups.look()


def _let_go(loop: asyncio.AbstractEventLoop, descriptor: int, _core: _core.Unblocked) -> None:
    loop.remove_reader(descriptor)


def _finish(waiter: asyncio.Future[None], error: StoreError | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
