"""The client for coroutines: `delaymq.connect_async(url)`."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from datetime import datetime
from functools import partial
from typing import Self, Unpack, cast

from delaymq import _core
from delaymq._arguments.subjects import Subjects, SubscribeOptions, subscribed
from delaymq._asyncio.event_loop import BlockingCalls, EventLoop
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.pending import AsyncPendingList
from delaymq._asyncio.subscription import AsyncSubscription
from delaymq._asyncio.wakeups import Wakeups
from delaymq._store.lifecycle import AsyncClosing
from delaymq._verbs import AsyncMethods
from delaymq._verbs.calls import Call, Result, with_options_of
from delaymq._verbs.pending import pending_filter, pending_page
from delaymq.client.commands.carrying import Carrier
from delaymq.client.commands.publishing import Steps
from delaymq.client.event_loop.calls import LoopCalls
from delaymq.client.event_loop.connection import LoopConnection, LoopSubscription
from delaymq.client.event_loop.publishing import AsyncClientPublishing
from delaymq.client.options import ClientOptions, ConnectArguments
from delaymq.client.sources import OpenSources
from delaymq.errors import DelaymqError, StoreError
from delaymq.pending import PAGE


class AsyncClient(
    AsyncClientPublishing,
    AsyncMethods,
    AsyncClosing,
):
    """A connection to a delaymq server, for the coroutines of one event loop.

    The methods are those of `delaymq.Client`. A coroutine that waits needs no thread, and none polls.
    """

    def __init__(self, options: ClientOptions, connection: LoopConnection) -> None:
        """Use `connect_async` instead."""
        loop = asyncio.get_running_loop()
        self._options = options
        self._loop_connection = connection
        self._connection = connection.core
        self._carrier = Carrier(self._stream, options)
        # The same interfaces as those of a store in this process, for `AsyncSubscription`.
        calls, watchers = cast("BlockingCalls", LoopCalls(loop)), cast("Wakeups", connection.watchers)
        self._event_loop = EventLoop(loop, calls, watchers)
        self._subscriptions: weakref.WeakSet[AsyncSubscription] = weakref.WeakSet()
        # A subscription that the user has dropped is closed with the client.
        self._sources = OpenSources[LoopSubscription]()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    @with_options_of(ClientOptions.made)
    def connect(cls, url: str, **options: Unpack[ConnectArguments]) -> Opening[Self]:
        """Connects to the server at `delaymq://host:port`, or to one of its nodes, when it is awaited or entered.

        ::

            async with delaymq.connect_async("delaymq://127.0.0.1:20801") as store:
                await store.publish("order.timeout", b"42", delay=30)

        Arguments and errors are those of `delaymq.connect`. A client belongs to the loop that made it.
        """

        async def connect() -> Self:
            made = ClientOptions.made(url, **options)
            connection = LoopConnection(made)
            try:
                await connection.opened()
            except BaseException:
                connection.end()
                raise
            return cls(made, connection)

        return Opening(connect)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that made it; also while the connection is lost."""
        return self._connection.is_here and not self._connection.is_closed

    @property
    def url(self) -> str:
        """The addresses of the server's nodes, as `connect` takes them."""
        return str(self._options.addresses)

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> AsyncPendingList:
        """Lists pending messages, for `async for`, as `delaymq.Client.pending`."""
        stream, wanted = self._stream(), pending_filter(subject, prefix, due_from, due_before)
        _core.pending_request(wanted, after, PAGE, stream)  # refuses at once
        return AsyncPendingList(lambda behind: self._run(pending_page(wanted, behind, stream)), after)

    @with_options_of(subscribed)
    def subscribe(self, subject: Subjects, **options: Unpack[SubscribeOptions]) -> Opening[AsyncSubscription]:
        """Adds a consumer to a group, when it is awaited or entered with `async with`.

        Arguments and errors are those of `delaymq.Client.subscribe`, and WrongLoop.
        """

        async def subscribe() -> AsyncSubscription:
            self._event_loop.check()
            self._connection.check()
            subjects, group, start, in_flight_max, filters, within_ms = subscribed(subject, **options)
            names = (list(subjects), group)
            begin = partial(self._connection.subscribe, names, start, in_flight_max, filters, within_ms)
            source = await self._loop_connection.subscribe(begin)
            self._sources.add(source)
            subscription = AsyncSubscription(
                cast("_core.Subscription", source),
                subjects,
                group,
                in_flight_max=in_flight_max,
                store=self,
                event_loop=self._event_loop,
                pull_messages=1,
                handle_within_ms=within_ms,
            )
            self._subscriptions.add(subscription)
            return subscription

        return Opening(subscribe)

    def _stream(self) -> bytes:
        self._event_loop.check()
        self._connection.check()
        return self._connection.stream

    async def _run(self, call: Call[Result], /) -> Result:
        return await self._ended(self._carrier.steps(call))

    async def _ended(self, steps: Steps[Result]) -> Result:
        """Sends the requests of the steps, and waits for their answers, until the steps return."""
        self._event_loop.check()
        try:
            sent = next(steps)
            while True:
                try:
                    answer = await self._loop_connection.call(*sent)
                except DelaymqError as error:
                    sent = steps.throw(error)
                else:
                    sent = steps.send(answer)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Closes all subscriptions, waits until their acknowledgements are durable, and disconnects.

        A second call does nothing. If the coroutine is cancelled, closing goes on.

        Raises:
            AmbiguousError: The connection was lost before all acknowledgements were known to be durable.
            StoreError: The server refused one.
            ForkedProcess: The client was made by the parent process; nothing was touched.
            WrongLoop: This is not the loop that made the client.
        """
        self._event_loop.check()
        if self._closing is None:
            self._closing = self._event_loop.loop.create_task(self._close())
            self._closing.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        failures: list[StoreError] = []
        for subscription in list(self._subscriptions):
            subscription._forget()  # noqa: SLF001 - disarms its warning
        try:
            for source in self._sources:
                try:
                    await source.close(with_client=True)
                except StoreError as failure:
                    failures.append(failure)
        finally:
            self._loop_connection.end()
        if failures:
            raise failures[0]

    def __del__(self) -> None:
        if getattr(self, "_loop_connection", None) is None or not self._connection.is_here:
            return
        try:
            if self._closing is None and self.is_open:
                warnings.warn(
                    f"{self!r} was not closed: use it in an `async with`", ResourceWarning, source=self, stacklevel=2
                )
        finally:
            self._loop_connection.abandon()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"


connect_async = AsyncClient.connect
"""Connects to a server: `AsyncClient.connect` as a function, which is `delaymq.connect_async`."""
