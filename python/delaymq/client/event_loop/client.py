"""The client of an event loop: `delaymq.connect_async(url)`."""

from __future__ import annotations

import asyncio
import contextlib
import math
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast, overload

from delaymq._arguments.batches import listed
from delaymq._arguments.moves import Row, move_of, moved, moves_of
from delaymq._asyncio.event_loop import EventLoop
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.subscription import AsyncSubscription
from delaymq._core import Request
from delaymq.client.commands.batches import cancels, moves, refused_move
from delaymq.client.commands.keys import AsyncClientKeyCommands
from delaymq.client.commands.loading import AsyncClientBulkLoads
from delaymq.client.commands.publishing import AGAIN_FOR_S, Publication
from delaymq.client.commands.recurring import AsyncClientRecurringCommands
from delaymq.client.event_loop.administration import AsyncClientAdministration
from delaymq.client.event_loop.calls import LoopCalls, Watchers, awaited
from delaymq.client.event_loop.pending import AsyncClientPendingQueries
from delaymq.client.event_loop.subscription_state import AsyncSubscriptionState
from delaymq.client.event_loop.transport import LoopTransport
from delaymq.client.session.options import TIMEOUT_S, ClientOptions
from delaymq.client.session.pending_request import PendingRequest
from delaymq.client.threads.client import IN_FLIGHT_MAX
from delaymq.client.threads.waiting import into
from delaymq.durations import Duration
from delaymq.errors import InvalidArgument, NamesFull, StoreError
from delaymq.message import NO_TAGS, Publish
from delaymq.receipt import Moved, Outcome, Receipt, Receipts
from delaymq.status import Status

if TYPE_CHECKING:
    from delaymq import _core
    from delaymq._asyncio.blocking_calls import BlockingCalls
    from delaymq._asyncio.wakeups import Wakeups
    from delaymq.keys import IfExists
    from delaymq.store import Start

__all__ = ["AsyncClient", "connect_async"]


class AsyncClient(
    AsyncClientAdministration,
    AsyncClientPendingQueries,
    AsyncClientKeyCommands,
    AsyncClientRecurringCommands,
    AsyncClientBulkLoads,
):
    """A connection to a delaymq server, for the coroutines of one event loop.

    Everything is as in `delaymq.Client`. No coroutine that waits needs a thread, and none polls.
    """

    def __init__(self, options: ClientOptions, transport: LoopTransport) -> None:
        """Made by `connect_async`."""
        loop = asyncio.get_running_loop()
        self._chosen = options
        self._transport = transport
        self._session = transport.session
        self._watchers = Watchers()
        # A subscription finds here what an embedded store has there.
        calls, watchers = cast("BlockingCalls", LoopCalls(loop)), cast("Wakeups", self._watchers)
        self._event_loop = EventLoop(loop, calls, watchers)
        self._subscriptions: weakref.WeakSet[AsyncSubscription] = weakref.WeakSet()
        self._consuming: weakref.WeakSet[AsyncSubscriptionState] = weakref.WeakSet()  # the session holds them
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

        Arguments and errors are those of `delaymq.connect`. One client belongs to the loop that made it.
        """

        async def connect() -> Self:
            options = ClientOptions.made(url, token, timeout, deduplicate=deduplicate, retry_ambiguous=retry_ambiguous)
            opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            transport = LoopTransport(options, into(opened))
            try:
                await opened
            except BaseException:
                await transport.end()
                raise
            return cls(options, transport)

        return Opening(connect)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that made it; also while there is no connection."""
        return self._session.closed is None and self._session.is_here

    @property
    def url(self) -> str:
        """Where the server is."""
        return str(self._chosen.address)

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
    ) -> Receipt:
        """Stores one message, as `delaymq.Client.publish` does.

        Cancelled while it waits, the message is stored or it is not, and never twice.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable,
                Busy, Stopping, Closed, ForkedProcess: As there.
            WrongLoop: This is not the loop that made the client.
        """
        message = Publish(
            subject, body, delay, at, level, tags, attributes, message_id, key, if_exists, deduplicate, jitter
        )
        return (await self._published(Publication.one(message, names=self._chosen.deduplicate)))[0]

    @overload
    async def publish_many(
        self,
        subject: str,
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        jitter: Duration | None = None,
    ) -> Receipts: ...
    @overload
    async def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    async def publish_many(
        self,
        messages: str | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        jitter: Duration | None = None,
    ) -> Receipts:
        """Stores up to 10,000 messages of 8 MiB together, all or none, as `delaymq.Client.publish_many` does.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable,
                Busy, Stopping, Closed, ForkedProcess: As there.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._published(
            Publication.many(messages, bodies, delays, names=self._chosen.deduplicate, jitter=jitter)
        )

    async def _published(self, publication: Publication) -> Receipts:
        receipts: Receipts
        try:
            request, again = publication.request, publication.is_safe and self._chosen.retry_ambiguous
            receipts = await self._call(request, again=again, again_for_s=AGAIN_FOR_S)
        except NamesFull as error:
            if publication.plain is None or error.argument != "message_id":
                raise
            receipts = await self._call(publication.plain())
        except InvalidArgument as error:
            raise publication.raised(error) from None
        return receipts

    async def cancel(self, receipt: Receipt) -> Outcome:
        """Takes a message back, if it is still pending. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, AmbiguousError, Poisoned, Unreachable, Busy, Stopping,
                Closed, ForkedProcess: As `delaymq.Client.cancel`.
            WrongLoop: This is not the loop that made the client.
        """
        return (await self.cancel_many((receipt,)))[0]

    async def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Takes messages back, if they are still pending, with one wait for all; each is judged alone.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, AmbiguousError, Poisoned, Unreachable, Busy, Stopping,
                Closed, ForkedProcess: As `delaymq.Client.cancel_many`.
            WrongLoop: This is not the loop that made the client.
        """
        self._event_loop.check()
        self._session.check()
        requests = cancels(listed(receipts, "receipts", "an iterable of Receipt"), self._session.stream)
        return [Outcome(word) for request in requests for word in await self._call(request, again=True)]

    async def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a message that is still pending another due time, and a new receipt. It is durable.

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
        """Gives messages another due time, with one wait for all; each is judged alone.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge, AmbiguousError, Poisoned, Unreachable, Busy,
                Stopping, Closed, ForkedProcess: As `delaymq.Client.move_many`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._moved(moves_of(receipts, delay, at))

    async def _moved(self, rows: list[Row]) -> list[Moved]:
        self._event_loop.check()
        self._session.check()
        found: list[Moved] = []
        for place, request in enumerate(moves(rows, self._session.stream)):
            try:
                found.extend(moved(await self._call(request, again=True, again_for_s=AGAIN_FOR_S)))
            except InvalidArgument as error:
                raise refused_move(error, rows, place) from None
        return found

    def subscribe(
        self,
        subject: str,
        *,
        group: str,
        start: Start = "earliest",
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> Opening[AsyncSubscription]:
        """Becomes a consumer of a group, when it is awaited or entered with `async with`.

        Arguments and errors are those of `delaymq.Client.subscribe`, and WrongLoop.
        """

        async def subscribe() -> AsyncSubscription:
            self._event_loop.check()
            self._session.check()
            state = AsyncSubscriptionState(self._session, (subject, group), start, in_flight_max, self._watchers)
            await state.open()
            self._consuming.add(state)
            subscription = AsyncSubscription(
                cast("_core.Subscription", state),
                subject,
                group,
                in_flight_max=in_flight_max,
                store=self,
                event_loop=self._event_loop,
                pull_messages=1,
            )
            self._subscriptions.add(subscription)
            return subscription

        return Opening(subscribe)

    async def status(self) -> Status:
        """What the store of the server holds and how it is.

        Raises:
            Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
            WrongLoop: This is not the loop that made the client.
        """
        return Status(**await self._call(Request.status(), reads=True))

    def _stream(self) -> bytes:
        self._event_loop.check()
        self._session.check()
        return self._session.stream

    async def _call(
        self, request: Request, *, reads: bool = False, again: bool = False, again_for_s: float = math.inf
    ) -> Any:  # noqa: ANN401
        self._event_loop.check()
        answer: asyncio.Future[Any] = self._event_loop.loop.create_future()
        asked = PendingRequest(request, into(answer), reads=reads, again=reads or again, again_for_s=again_for_s)
        self._session.ask(asked)
        return await awaited(self._session, asked, answer, self._chosen.timeout_s)

    async def close(self) -> None:
        """Ends all subscriptions, waits until what they acknowledged is durable, and disconnects.

        A second call does nothing. Cancelled, it goes on to its end all the same.

        Raises:
            AmbiguousError: The connection was lost before some of that was known to be durable.
            StoreError: The server refused it.
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
            subscription._forget()  # noqa: SLF001 - nobody is warned any more
        for state in list(self._consuming):
            try:
                await state.close(with_client=True)
            except StoreError as failure:
                failures.append(failure)
        await self._transport.end()
        if failures:
            raise failures[0]

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
        if getattr(self, "_closing", self) is not None or not self.is_open:
            return
        try:
            warnings.warn(
                f"{self!r} was not closed: use it in an `async with`", ResourceWarning, source=self, stacklevel=2
            )
        finally:
            with contextlib.suppress(StoreError):
                self._transport.abandon()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"


connect_async = AsyncClient.connect
"""`AsyncClient.connect`, for those who name no class; `delaymq.connect_async` is this."""
