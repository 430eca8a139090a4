"""The client for coroutines: `delaymq.connect_async(url)`."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Self, Unpack, cast

from delaymq import _core
from delaymq._arguments.subjects import Subjects, SubscribeOptions, subscribed
from delaymq._asyncio.event_loop import BlockingCalls, EventLoop
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.subscription import AsyncSubscription
from delaymq._asyncio.wakeups import Wakeups
from delaymq._store.closing import AsyncClosing
from delaymq._verbs import administration, pending
from delaymq._verbs.calls import Call, Result, with_options_of
from delaymq.client.commands.carrying import Carrier
from delaymq.client.commands.publishing import Steps
from delaymq.client.event_loop.administration import AsyncClientAdministration
from delaymq.client.event_loop.calls import LoopCalls
from delaymq.client.event_loop.connection import LoopConnection, LoopSubscription
from delaymq.client.event_loop.pending import AsyncClientPendingMessages
from delaymq.client.event_loop.publishing import AsyncClientPublishing
from delaymq.client.options import ClientOptions, ConnectArguments
from delaymq.client.sources import OpenSources
from delaymq.durations import Duration
from delaymq.errors import DelaymqError, StoreError
from delaymq.receipt import Moved, Outcome, Receipt
from delaymq.status import Status


class AsyncClient(
    AsyncClientPublishing,
    AsyncClientAdministration,
    AsyncClientPendingMessages,
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

    async def cancel(self, receipt: Receipt) -> Outcome:
        """Cancels a message that is still pending. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, AmbiguousError, Poisoned, Unreachable, Busy, Stopping,
                Closed, ForkedProcess: As `delaymq.Client.cancel`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._run(pending.cancel(receipt))

    async def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Cancels messages that are still pending, with one wait for all; each has its own outcome.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, AmbiguousError, Poisoned, Unreachable, Busy, Stopping,
                Closed, ForkedProcess: As `delaymq.Client.cancel_many`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._run(pending.cancel_many(receipts))

    async def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a pending message another due time and a new receipt. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge, AmbiguousError, Poisoned, Unreachable, Busy,
                Stopping, Closed, ForkedProcess: As `delaymq.Client.move`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._run(pending.move(receipt, delay, at))

    async def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]:
        """Gives pending messages another due time, with one wait for all; each has its own outcome.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge, AmbiguousError, Poisoned, Unreachable, Busy,
                Stopping, Closed, ForkedProcess: As `delaymq.Client.move_many`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._run(pending.move_many(receipts, delay, at))

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

    async def status(self) -> Status:
        """The state of the server's store, as counts and flags.

        Raises:
            Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._run(administration.status())

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
