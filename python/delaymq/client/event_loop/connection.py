"""The connection of a client on an event loop: its answers complete futures, and its messages wake subscriptions.

The core makes one descriptor readable when there is anything new, once until it is drained. Requests that are made in
one iteration of the loop are sent together.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq._asyncio.wakeups import Watchers
from delaymq.client.options import ClientOptions, log_report
from delaymq.errors import AmbiguousError, StoreError, TimedOut

if TYPE_CHECKING:
    from delaymq.message import Settling

OPENED = 0  # the number of the answer that says whether the first connection was made


class LoopConnection:
    """A connection, and the coroutines of one loop that wait for its answers."""

    def __init__(self, options: ClientOptions) -> None:
        """Begins to connect; await `opened`.

        Raises:
            StorageError: The process has no more descriptors or threads.
        """
        self._loop = asyncio.get_running_loop()
        self._timeout_s = options.timeout_s
        self._numbers = itertools.count(OPENED + 1)
        self._answers: dict[int, asyncio.Future[Any]] = {OPENED: self._loop.create_future()}
        self._watched: dict[int, int] = {}  # the token of the watcher of each subscription
        self._is_sending = False
        self._has_ended = False
        self.watchers = Watchers()
        self.core = _core.Connection.begin_open(options.of_core(), log_report)
        self._descriptor = self.core.fileno()
        # A weak reference: the loop must not keep alive a client that the user has dropped.
        self._loop.add_reader(self._descriptor, _woken, weakref.ref(self))

    async def opened(self) -> None:
        """Waits for the first connection.

        Raises:
            StoreError: It cannot be made.
        """
        await self._answers[OPENED]

    async def call(self, request: _core.Request, reads: bool, retry: bool, retry_for_ms: int | None) -> Any:  # noqa: ANN401
        """Sends a request, and waits for its answer.

        Raises:
            StoreError: The answer is an error, or no answer came in time.
        """

        def begin(number: int) -> int:
            ticket = self.core.begin(request, reads, retry, retry_for_ms, number)
            if not self._is_sending:
                self._is_sending = True
                self._loop.call_soon(self._send)
            return ticket

        return await self.answer(begin, self._timeout_s)

    def _send(self) -> None:
        self._is_sending = False
        self.core.send()

    async def answer(self, begin: Callable[[int], int | None], timeout_s: float | None = None) -> Any:  # noqa: ANN401
        """Waits for the answer of a request that `begin` makes under a number; None if it makes none.

        Args:
            begin: Returns the ticket of the request, or None.
            timeout_s: How long to wait; the timeout of the client if it is None.

        Raises:
            StoreError: The answer is an error, or no answer came in time.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        number = next(self._numbers)
        self._answers[number] = answer
        try:
            ticket = begin(number)
            if ticket is None:
                return None
            timer = self._loop.call_later(
                self._timeout_s if timeout_s is None else timeout_s, self._time_out, answer, ticket
            )
            try:
                return await answer
            except asyncio.CancelledError:
                self.core.withdraw(ticket)
                raise
            finally:
                timer.cancel()
        finally:
            self._answers.pop(number, None)

    def _time_out(self, answer: asyncio.Future[Any], ticket: int) -> None:
        error = self.core.withdraw(ticket)
        self.on_news()  # the answer, if there was nothing to withdraw
        if error is not None and not answer.done():
            answer.set_exception(error)

    async def subscribe(self, begin: Callable[[int], _core.RemoteSubscription]) -> LoopSubscription:
        """Creates a subscription at the server.

        Raises:
            StoreError, WrongType, InvalidArgument: As `AsyncClient.subscribe`.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        number = next(self._numbers)
        self._answers[number] = answer
        try:
            core = begin(number)
            try:
                await asyncio.wait((answer,), timeout=self._timeout_s)
            except BaseException:
                core.abandon()
                answer.cancel()
                raise
        finally:
            self._answers.pop(number, None)
        error = answer.exception() if answer.done() else None
        if error is None and answer.done():
            return LoopSubscription(self, core)
        unanswered = core.abandon()
        raise error or unanswered

    def watch(self, subscription: int, token: int) -> None:
        """From now on, the watcher of the token is notified of messages of a subscription."""
        self._watched[subscription] = token

    def unwatch(self, subscription: int) -> None:
        """Ends `watch`."""
        self._watched.pop(subscription, None)

    def on_news(self) -> None:
        """Completes answers, and notifies subscriptions."""
        answers, subscriptions = self.core.drain()
        for number, value, error in answers:
            answer = self._answers.get(number)
            if answer is None or answer.done():
                continue
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)
        for subscription in subscriptions:
            token = self._watched.get(subscription)
            if token is not None:
                self.watchers.notify(token)

    def end(self) -> None:
        """Ends the client, and closes its connection."""
        self._has_ended = True
        self._loop.remove_reader(self._descriptor)
        self.core.end()
        self.on_news()

    def abandon(self) -> None:
        """As `end`, from any thread, for a client that was dropped; it does nothing after `end`."""
        if self._has_ended:
            return
        self._has_ended = True
        if not self._loop.is_closed():
            # The argument keeps the core, and its descriptor, alive until the loop has removed the reader.
            self._loop.call_soon_threadsafe(_remove_reader, self._loop, self._descriptor, self.core)
        self.core.end()


class LoopSubscription:
    """The source of an `AsyncSubscription` of a client. All methods but `stop` are called on the loop."""

    def __init__(self, connection: LoopConnection, core: _core.RemoteSubscription) -> None:
        """A subscription that the server has."""
        self._connection = connection
        self._core = core
        self._is_closed = False
        # The methods of the core that wait for nothing.
        self.acknowledge = core.acknowledge
        self.acknowledge_many = core.acknowledge_many
        self.give_back = core.give_back
        self.dead_letter = core.dead_letter
        self.extend = core.extend
        self.receipt = core.receipt
        self.stop = core.stop
        self.try_pull = core.try_pull

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._core.is_open

    def watch(self, token: int, /) -> None:
        """Sets the token by which its watcher is known."""
        self._connection.watch(self._core.id, token)

    async def pull(self, count_max: int, _timeout_ms: int, settling: Settling, /) -> list[_core.AsyncMessage]:
        """Messages that have arrived once the server has sent all that were ready.

        Raises:
            Closed, ForkedProcess, StoreError: As `AsyncSubscription.get`.
        """
        with contextlib.suppress(AmbiguousError):  # the connection was lost, and its messages with it
            await self._connection.answer(self._core.begin_ready)
        return self._core.try_pull(count_max, False, settling) or []

    def begin_flush(self) -> None:
        """Returns None: there is no position to wait for, since `flush` asks the server."""

    async def flush(self, timeout_ms: int | None) -> None:
        """Waits until every acknowledgement, redelivery and dead letter so far is durable.

        Raises:
            TimedOut: The timeout is over first.
            AmbiguousError: A connection was lost before it was known.
            StoreError: As `AsyncSubscription.flush`.
        """
        try:
            await self._connection.answer(self._core.begin_flush, None if timeout_ms is None else timeout_ms / 1000)
        except TimedOut:
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    async def close(self, *, with_client: bool = False) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all messages that are not settled.

        Raises:
            AmbiguousError: A connection was lost before it was known.
            StoreError: As `AsyncSubscription.close`.
        """
        if self._is_closed:
            return
        self._is_closed = True
        was_confirmed = False

        def begin(number: int) -> int | None:
            nonlocal was_confirmed
            ticket = self._core.begin_close(number, with_client)
            was_confirmed = ticket is not None
            return ticket

        try:
            await self._connection.answer(begin)
        except AmbiguousError:
            was_confirmed = False  # the server ends it with the connection
        except BaseException:
            with contextlib.suppress(StoreError):
                self._core.finish_close(False)
            raise
        finally:
            self._connection.unwatch(self._core.id)
        self._core.finish_close(was_confirmed)


def _woken(reference: weakref.ref[LoopConnection]) -> None:
    connection = reference()
    if connection is not None:
        connection.on_news()


def _remove_reader(loop: asyncio.AbstractEventLoop, descriptor: int, _core: _core.Connection) -> None:
    loop.remove_reader(descriptor)
