"""The state of a client's subscription, for coroutines."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq._asyncio.wakeups import Watchers
from delaymq.client.event_loop.calls import await_answer
from delaymq.client.session.requests import PendingRequest
from delaymq.client.session.session import Session
from delaymq.client.session.subscription_state import CLIENT_CLOSED, SubscriptionRequest, SubscriptionState
from delaymq.client.threads.waiting import callback_for
from delaymq.errors import AmbiguousError, TimedOut

if TYPE_CHECKING:
    from delaymq._core import Delivery


class AsyncSubscriptionState(SubscriptionState):
    """The source of an `AsyncSubscription` of a client. All methods but `stop` are called on the loop."""

    def __init__(self, session: Session, wanted: SubscriptionRequest, watchers: Watchers) -> None:
        """A subscription that the server does not have yet; see `open`."""
        super().__init__(session, wanted)
        self._watchers = watchers
        self._loop = asyncio.get_running_loop()
        self._token = 0
        self._is_scheduled = False

    def notify(self) -> None:
        """Serves the waiters soon, once for all news until then."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self._watchers.notify(self._token)

    def watch(self, token: int, /) -> None:
        """Sets the token by which its watcher is known."""
        self._token = token

    async def open(self) -> None:
        """Creates the subscription at the server.

        Raises:
            StoreError, WrongType, InvalidArgument: As `AsyncClient.subscribe`.
        """
        session = self._session
        self.subscribe(0)  # refuses invalid arguments before anything is sent
        opened: asyncio.Future[Any] = self._loop.create_future()
        self._opened = callback_for(opened)
        session.add_subscription(self)
        # A placeholder, to wait for: the session itself sends the request.
        pending = PendingRequest(_core.Request.ping(), self._opened, reads=True)
        try:
            await await_answer(session, pending, opened, session.options.timeout_s)
        except BaseException:
            session.abandon(self)
            raise

    def try_pull(self, count_max: int, at_once: bool, /) -> list[Delivery] | None:
        """Messages that have arrived; None if the server must be asked, since no coroutine will wait for news.

        Raises:
            Closed, ForkedProcess, StoreError: As `AsyncSubscription.get`.
        """
        self._session.check()
        found = self.take(count_max, tops_up=not at_once)
        return found if found or not at_once or self.stopped or not self.number else None

    async def pull(self, count_max: int, _timeout_ms: int, /) -> list[Delivery]:
        """Messages that have arrived once the server has sent all that were ready.

        Raises:
            Closed, ForkedProcess, StoreError: As `AsyncSubscription.get`.
        """
        session = self._session
        sent: asyncio.Future[Any] = self._loop.create_future()
        pending = self.request_ready(callback_for(sent))
        if pending is None:
            return []
        with contextlib.suppress(AmbiguousError):  # the connection was lost, and its messages with it
            await await_answer(session, pending, sent, session.options.timeout_s)
        return self.take(count_max)

    def begin_flush(self) -> None:
        """Returns None: there is no position to wait for, since `flush` asks the server."""

    async def flush(self, timeout_ms: int | None) -> None:
        """Waits until every acknowledgement, redelivery and dead letter so far is durable.

        Raises:
            TimedOut: The timeout is over first.
            AmbiguousError: A connection was lost before it was known.
            StoreError: As `AsyncSubscription.flush`.
        """
        session = self._session
        session.check()
        durable: asyncio.Future[Any] = self._loop.create_future()
        pending = self.request_flush(callback_for(durable))
        if pending is None:
            return
        timeout_s = session.options.timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            await await_answer(session, pending, durable, timeout_s)
        except TimedOut:
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    def stop(self) -> None:
        """Hands over no more messages; any thread may call it."""
        self.stopped = True

    async def close(self, *, with_client: bool = False) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all messages that are not settled.

        Raises:
            AmbiguousError: A connection was lost before it was known.
            StoreError: As `AsyncSubscription.close`.
        """
        session = self._session
        if self._closed is not None:
            return
        session.check()
        self.stop()
        self._ready.clear()
        self.push_settled()
        self._closed = CLIENT_CLOSED if with_client else "the subscription is closed"
        ended: asyncio.Future[Any] = self._loop.create_future()
        was_confirmed = False
        try:
            if self.number:
                pending = PendingRequest(
                    _core.Request.unsubscribe(self.number), callback_for(ended), number=self.number
                )
                session.ask(pending)
                with contextlib.suppress(AmbiguousError):  # the server ends it with the connection
                    await await_answer(session, pending, ended, session.options.timeout_s)
                    was_confirmed = True
        finally:
            session.remove_subscription(self)
        self.finish(was_confirmed=was_confirmed)
