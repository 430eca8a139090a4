"""The client for coroutines: `delaymq.connect_async(url)`."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self, cast, overload

from delaymq import _core
from delaymq._arguments.batches import receipt_list
from delaymq._arguments.columns import ColumnOptions, Moments
from delaymq._arguments.moves import Row, move_of, moved, moves_of
from delaymq._arguments.subjects import Subjects, subjects_of
from delaymq._asyncio.event_loop import BlockingCalls, EventLoop
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.subscription import AsyncSubscription
from delaymq._asyncio.wakeups import Wakeups
from delaymq._core import Request
from delaymq._store.closing import AsyncClosing
from delaymq.client.commands.batches import cancels, moves, refused_move
from delaymq.client.commands.keys import AsyncClientKeyCommands
from delaymq.client.commands.loading import AsyncClientBulkLoads
from delaymq.client.commands.publishing import RETRY_FOR_MS, Publication
from delaymq.client.commands.recurring import AsyncClientRecurringCommands
from delaymq.client.event_loop.administration import AsyncClientAdministration
from delaymq.client.event_loop.calls import LoopCalls
from delaymq.client.event_loop.connection import LoopConnection, LoopSubscription
from delaymq.client.event_loop.pending import AsyncClientPendingQueries
from delaymq.client.options import TIMEOUT_S, ClientOptions
from delaymq.client.sources import OpenSources
from delaymq.client.threads.client import IN_FLIGHT_MAX
from delaymq.durations import Duration, Expires, OnExpiry, hold_ms
from delaymq.errors import InvalidArgument, NamesFull, StoreError
from delaymq.filters import AttributeConditions, Tags, filters_of
from delaymq.keys import IfExists
from delaymq.message import NO_TAGS, Publish
from delaymq.receipt import Moved, Outcome, Receipt, Receipts
from delaymq.starts import Start, start_of
from delaymq.status import Status


class AsyncClient(
    AsyncClientAdministration,
    AsyncClientPendingQueries,
    AsyncClientKeyCommands,
    AsyncClientRecurringCommands,
    AsyncClientBulkLoads,
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
        # The same interfaces as those of a store in this process, for `AsyncSubscription`.
        calls, watchers = cast("BlockingCalls", LoopCalls(loop)), cast("Wakeups", connection.watchers)
        self._event_loop = EventLoop(loop, calls, watchers)
        self._subscriptions: weakref.WeakSet[AsyncSubscription] = weakref.WeakSet()
        # A subscription that the user has dropped is closed with the client.
        self._sources = OpenSources[LoopSubscription]()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str | bytes | None = None,
        timeout: Duration = TIMEOUT_S,
        deduplicate: bool = False,
        retry_ambiguous: bool = True,
    ) -> Opening[Self]:
        """Connects to the server at `delaymq://host:port`, when it is awaited or entered.

        ::

            async with delaymq.connect_async("delaymq://127.0.0.1:20801") as store:
                await store.publish("order.timeout", b"42", delay=30)

        Arguments and errors are those of `delaymq.connect`. A client belongs to the loop that made it.
        """

        async def connect() -> Self:
            options = ClientOptions.made(url, token, timeout, deduplicate=deduplicate, retry_ambiguous=retry_ambiguous)
            connection = LoopConnection(options)
            try:
                await connection.opened()
            except BaseException:
                connection.end()
                raise
            return cls(options, connection)

        return Opening(connect)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that made it; also while the connection is lost."""
        return self._connection.is_here and not self._connection.is_closed

    @property
    def url(self) -> str:
        """The address of the server."""
        return str(self._options.address)

    async def publish(
        self,
        subject: str,
        body: bytes | bytearray | memoryview,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        level: int | None = None,
        tags: Sequence[str] = NO_TAGS,
        attributes: Mapping[str, str] | None = None,
        message_id: str | None = None,
        key: str | None = None,
        if_exists: IfExists | None = None,
        deduplicate: bool = False,
        jitter: Duration | None = None,
        expires: Expires | None = None,
        on_expiry: OnExpiry | None = None,
    ) -> Receipt:
        """Stores one message, as `delaymq.Client.publish`.

        If the coroutine is cancelled while it waits, the message may or may not be stored, and never twice.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable,
                Busy, Stopping, Closed, ForkedProcess: As `delaymq.Client.publish`.
            WrongLoop: This is not the loop that made the client.
        """
        options = (tags, attributes, message_id, key, if_exists, deduplicate, jitter, expires, on_expiry)
        message = Publish(subject, body, delay, at, level, *options)
        return (await self._published(Publication.one(message, with_ids=self._options.deduplicate)))[0]

    @overload
    async def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        at: Moments | None = None,
        keys: Sequence[str | None] | None = None,
        if_exists: IfExists | None = None,
        jitter: Duration | None = None,
    ) -> Receipts: ...
    @overload
    async def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    async def publish_many(
        self,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        at: Moments | None = None,
        keys: Sequence[str | None] | None = None,
        if_exists: IfExists | None = None,
        jitter: Duration | None = None,
    ) -> Receipts:
        """Stores up to 10,000 messages of 8 MiB in total, all or none, as `delaymq.Client.publish_many`.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable,
                Busy, Stopping, Closed, ForkedProcess: As `delaymq.Client.publish_many`.
            WrongLoop: This is not the loop that made the client.
        """
        options = ColumnOptions(at, keys, if_exists, jitter)
        return await self._published(
            Publication.many(messages, bodies, delays, options, with_ids=self._options.deduplicate)
        )

    async def _published(self, publication: Publication) -> Receipts:
        receipts: Receipts
        try:
            request, retry = publication.request, publication.is_safe and self._options.retry_ambiguous
            receipts = await self._call(request, retry=retry, retry_for_ms=RETRY_FOR_MS)
        except NamesFull as error:
            if publication.without_ids is None or error.argument != "message_id":
                raise
            receipts = await self._call(publication.without_ids())
        except InvalidArgument as error:
            raise publication.raised(error) from None
        return receipts

    async def cancel(self, receipt: Receipt) -> Outcome:
        """Cancels a message that is still pending. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, AmbiguousError, Poisoned, Unreachable, Busy, Stopping,
                Closed, ForkedProcess: As `delaymq.Client.cancel`.
            WrongLoop: This is not the loop that made the client.
        """
        return (await self.cancel_many((receipt,)))[0]

    async def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Cancels messages that are still pending, with one wait for all; each has its own outcome.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, AmbiguousError, Poisoned, Unreachable, Busy, Stopping,
                Closed, ForkedProcess: As `delaymq.Client.cancel_many`.
            WrongLoop: This is not the loop that made the client.
        """
        self._event_loop.check()
        self._connection.check()
        requests = cancels(receipt_list(receipts), self._connection.stream)
        return [Outcome(word) for request in requests for word in await self._call(request, retry=True)]

    async def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a pending message another due time and a new receipt. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge, AmbiguousError, Poisoned, Unreachable, Busy,
                Stopping, Closed, ForkedProcess: As `delaymq.Client.move`.
            WrongLoop: This is not the loop that made the client.
        """
        return (await self._moved(move_of(receipt, delay, at)))[0]

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
        return await self._moved(moves_of(receipts, delay, at))

    async def _moved(self, rows: list[Row]) -> list[Moved]:
        self._event_loop.check()
        self._connection.check()
        found: list[Moved] = []
        for place, request in enumerate(moves(rows, self._connection.stream)):
            try:
                found.extend(moved(await self._call(request, retry=True, retry_for_ms=RETRY_FOR_MS)))
            except InvalidArgument as error:
                raise refused_move(error, rows, place) from None
        return found

    def subscribe(
        self,
        subject: Subjects,
        *,
        group: str,
        start: Start = "unfinished",
        in_flight_max: int = IN_FLIGHT_MAX,
        handle_within: Duration | None = None,
        tags: Tags = (),
        attributes: AttributeConditions | None = None,
    ) -> Opening[AsyncSubscription]:
        """Adds a consumer to a group, when it is awaited or entered with `async with`.

        Arguments and errors are those of `delaymq.Client.subscribe`, and WrongLoop.
        """

        async def subscribe() -> AsyncSubscription:
            self._event_loop.check()
            self._connection.check()
            subjects, filters = subjects_of(subject), filters_of(tags, attributes)
            names, within_ms = (list(subjects), group), hold_ms(handle_within)
            begin = partial(self._connection.subscribe, names, start_of(start), in_flight_max, filters, within_ms)
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
        return Status(**await self._call(Request.status(), reads=True))

    def _stream(self) -> bytes:
        self._event_loop.check()
        self._connection.check()
        return self._connection.stream

    async def _call(
        self, request: Request, *, reads: bool = False, retry: bool = False, retry_for_ms: int | None = None
    ) -> Any:  # noqa: ANN401
        self._event_loop.check()
        return await self._loop_connection.call(request, reads=reads, retry=retry, retry_for_ms=retry_for_ms)

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
