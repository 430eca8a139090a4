"""The store for an event loop: the interface of `delaymq.Store`, with coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
import weakref
from collections.abc import Callable
from datetime import datetime
from typing import ParamSpec, Self, TypeVar, Unpack

from delaymq import _core
from delaymq._arguments.subjects import Subjects, SubscribeOptions, subscribed
from delaymq._asyncio.event_loop import BlockingCalls, EventLoop
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.pending import AsyncPendingList
from delaymq._asyncio.publishing import AsyncPublishing
from delaymq._asyncio.subscription import AsyncSubscription
from delaymq._asyncio.upkeep import abandon, schedule_expiry
from delaymq._asyncio.wakeups import Wakeups
from delaymq._store.lifecycle import AsyncClosing, Lifecycle
from delaymq._store.recovery import OpenArguments, OpenOptions
from delaymq._store.retention import Pin, pinned
from delaymq._verbs import AsyncMethods
from delaymq._verbs.calls import Call, Result, answered, with_options_of
from delaymq._verbs.pending import pending_filter
from delaymq.durations import Duration
from delaymq.errors import StoreError
from delaymq.pending import PAGE, Page

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class AsyncStore(
    AsyncPublishing,
    AsyncMethods,
    AsyncClosing,
):
    """A folder of durable messages, each delivered when it is due, for the coroutines of one event loop.

    The methods are those of `delaymq.Store`. A coroutine that waits needs no thread, and none polls.
    """

    def __init__(self, lifecycle: Lifecycle, event_loop: EventLoop, options: OpenOptions) -> None:
        """Use `open_async` instead."""
        self._lifecycle = lifecycle
        self._options = options
        self._core = lifecycle.core
        self._unblocked = lifecycle.core.unblocked()
        self._event_loop = event_loop
        self._subscriptions: weakref.WeakSet[AsyncSubscription] = weakref.WeakSet()
        self._closing: asyncio.Future[None] | None = None
        if lifecycle.expiry.has_work:
            event_loop.loop.call_soon(schedule_expiry, weakref.ref(self))

    @classmethod
    @with_options_of(OpenOptions.made)
    def open(
        cls,
        path: str | os.PathLike[str],
        **options: Unpack[OpenArguments],
    ) -> Opening[Self]:
        """Opens the store in a folder, when it is awaited or entered.

        ::

            async with delaymq.open_async("./data") as store:
                ...

        Arguments and errors are those of `delaymq.open`. `progress` is called on a thread of the
        store. A store belongs to the loop that opened it.
        """

        async def open_() -> Self:
            return await cls._started(OpenOptions.made(path, **options))

        return Opening(open_)

    @classmethod
    async def _started(cls, options: OpenOptions) -> Self:
        loop = asyncio.get_running_loop()
        blocking = BlockingCalls(loop)
        starting = blocking.begin(Lifecycle.started, options, watches=False)
        try:
            lifecycle = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda done: abandon(done, blocking))
            raise
        except BaseException:
            blocking.end()
            raise
        try:
            wakeups = Wakeups(lifecycle.core.unblocked(), lifecycle.reports, loop)
        except BaseException:
            with contextlib.suppress(StoreError):
                lifecycle.stop()
            blocking.end()
            raise
        return cls(lifecycle, EventLoop(loop, blocking, wakeups), options)

    async def _opened_again(self) -> Self:
        """Opens the same folder with the same options, once this store is closed."""
        return await self._started(self._options)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that opened it."""
        return not self._lifecycle.stopped and self._lifecycle.is_here

    @property
    def path(self) -> str:
        """The folder of the store."""
        return self._lifecycle.folder

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> AsyncPendingList:
        """Lists pending messages, for `async for`, as `delaymq.Store.pending`.

        Invalid arguments raise at once, except `after`, which raises with the first page.
        """
        chosen = pending_filter(subject, prefix, due_from, due_before)
        readers: list[_core.PendingReader] = []

        def page() -> Page:
            if not readers:
                readers.append(_core.pending(self._core, chosen, after))
            return readers[0].next_page(PAGE)

        return AsyncPendingList(lambda _: self._call(page), after)

    @with_options_of(subscribed)
    def subscribe(self, subject: Subjects, **options: Unpack[SubscribeOptions]) -> Opening[AsyncSubscription]:
        """Adds a consumer when it is awaited or entered, as `delaymq.Store.subscribe`; WrongLoop is raised, too."""

        async def subscribe() -> AsyncSubscription:
            wanted = subscribed(subject, **options)
            core = await self._call(self._core.subscribe, *wanted)
            subscription = AsyncSubscription(
                core,
                wanted.subjects,
                wanted.group,
                in_flight_max=wanted.in_flight_max,
                store=self,
                event_loop=self._event_loop,
                handle_within_ms=wanted.handle_within_ms,
            )
            self._subscriptions.add(subscription)
            if self._closing is not None:
                subscription._forget()  # noqa: SLF001 - the store was closed meanwhile
            return subscription

        return Opening(subscribe)

    async def checkpoint(self) -> None:
        """Takes a checkpoint, so that the next open replays less of the log. The store also takes them by itself.

        Raises:
            StorageError, Poisoned, Closed, ForkedProcess: As `delaymq.Store.checkpoint`.
            WrongLoop: This is not the loop that opened the store.
        """
        await self._call(self._core.checkpoint)

    async def pin(self, duration: Duration) -> Pin:
        """Keeps every file of the store for a while, or until the pin is released, as `delaymq.Store.pin`.

        Raises:
            WrongType, InvalidArgument, StorageError, ForkedProcess, Closed: As `delaymq.Store.pin`.
            WrongLoop: This is not the loop that opened the store.
        """
        return await self._call(pinned, self._core, self.path, duration)

    async def _run(self, call: Call[Result], /) -> Result:
        return await self._call(answered, self._core, call)

    async def _call(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """Makes a blocking call on a thread of the store."""
        self._event_loop.check()
        if self._closing is not None or self._lifecycle.stopped:
            return function(*args, **kwargs)  # raises at once; `status` answers
        return await self._event_loop.blocking.call(function, *args, **kwargs)

    async def close(self) -> None:
        """Makes everything durable and releases the folder. A second call does nothing.

        Waits in subscriptions end without a message. If the coroutine is cancelled, closing goes on.

        Raises:
            Poisoned: A write failed. Everything that was answered is safe; the next open repairs the rest.
            ForkedProcess: The store was opened by the parent process; nothing was touched.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        if self._closing is None:
            for subscription in list(self._subscriptions):
                subscription._forget()  # noqa: SLF001 - the core gives its messages back
            self._closing = self._event_loop.blocking.begin(self._lifecycle.stop)
            self._closing.add_done_callback(self._closed)
        await asyncio.shield(self._closing)

    def _closed(self, closing: asyncio.Future[None]) -> None:
        if not closing.cancelled():
            closing.exception()  # retrieved, so that asyncio does not warn if no coroutine waits for it
        self._event_loop.wakeups.end()
        self._event_loop.blocking.end()

    def __del__(self) -> None:
        if getattr(self, "_closing", self) is not None or not self.is_open:
            return
        try:
            warnings.warn(
                f"{self!r} was not closed: use it in an `async with`", ResourceWarning, source=self, stacklevel=2
            )
        finally:
            self._event_loop.wakeups.abandon()
            with contextlib.suppress(StoreError):
                self._lifecycle.stop()
            self._event_loop.blocking.end()

    def __repr__(self) -> str:
        return f"AsyncStore({self.path!r})"


open_async = AsyncStore.open
"""Opens a store: `AsyncStore.open` as a function, which is `delaymq.open_async`."""
