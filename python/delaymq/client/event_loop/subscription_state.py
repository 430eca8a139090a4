"""A subscription as the coroutines of an event loop use it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq.client.event_loop.calls import awaited
from delaymq.client.session.pending_request import PendingRequest
from delaymq.client.session.subscription_state import CLIENT_CLOSED, SubscriptionState
from delaymq.client.threads.waiting import into
from delaymq.errors import AmbiguousError, TimedOut

if TYPE_CHECKING:
    from delaymq._core import Delivery
    from delaymq.client.event_loop.calls import Watchers
    from delaymq.client.session.session import Session

__all__ = ["AsyncSubscriptionState"]


class AsyncSubscriptionState(SubscriptionState):
    """What an `AsyncSubscription` of a client stands on. All but `stop` is called on the loop."""

    def __init__(
        self, session: Session, names: tuple[str, str], start: str, in_flight_max: int, watchers: Watchers
    ) -> None:
        """A subscription that is not made yet; `open` makes it."""
        super().__init__(session, names, start, in_flight_max)
        self._watchers = watchers
        self._loop = asyncio.get_running_loop()
        self._token = 0
        self._looks_soon = False

    def news(self) -> None:
        """Has those who wait looked after."""
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        self._watchers.look(self._token)

    def watch(self, token: int, /) -> None:
        """Who waits is known by this token."""
        self._token = token

    async def open(self) -> None:
        """Makes the subscription.

        Raises:
            StoreError, WrongType, InvalidArgument: As `AsyncClient.subscribe`.
        """
        session = self._session
        self.subscribe(0)  # refuses what can be refused here
        made: asyncio.Future[Any] = self._loop.create_future()
        self._opened = into(made)
        session.take_in(self)
        asked = PendingRequest(_core.Request.ping(), self._opened, reads=True)  # stands for it: the session asks
        try:
            await awaited(session, asked, made, session.options.timeout_s)
        except BaseException:
            session.abandon(self)
            raise

    def try_pull(self, count_max: int, at_once: bool, /) -> list[Delivery] | None:
        """What is there; None where the server must be asked, since nobody will wait for news.

        Raises:
            Closed, ForkedProcess, StoreError: As `AsyncSubscription.get`.
        """
        self._session.check()
        found = self.taken(count_max, tops_up=not at_once)
        return found if found or not at_once or self.stopped or not self.number else None

    async def pull(self, count_max: int, _timeout_ms: int, /) -> list[Delivery]:
        """What is there once the server has sent all that was ready.

        Raises:
            Closed, ForkedProcess, StoreError: As `AsyncSubscription.get`.
        """
        session = self._session
        sent: asyncio.Future[Any] = self._loop.create_future()
        asked = self.looked(into(sent))
        if asked is None:
            return []
        with contextlib.suppress(AmbiguousError):  # the connection was lost: nothing is there
            await awaited(session, asked, sent, session.options.timeout_s)
        return self.taken(count_max)

    def begin_flush(self) -> None:
        """There is no position to wait for: `flush` asks the server."""

    async def flush(self, timeout_ms: int | None) -> None:
        """Waits until what was settled is durable.

        Raises:
            TimedOut: It is not by the end of the timeout.
            AmbiguousError: Nobody knows.
            StoreError: As `AsyncSubscription.flush`.
        """
        session = self._session
        session.check()
        durable: asyncio.Future[Any] = self._loop.create_future()
        asked = self.flushed(into(durable))
        if asked is None:
            return
        timeout_s = session.options.timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            await awaited(session, asked, durable, timeout_s)
        except TimedOut:
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    def stop(self) -> None:
        """Nothing more is handed over; any thread may call it."""
        self.stopped = True

    async def close(self, *, with_client: bool = False) -> None:
        """Stops, waits until what was settled is durable, and gives back what is left.

        Raises:
            AmbiguousError: Nobody knows whether it is.
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
        was_told = False
        try:
            if self.number:
                asked = PendingRequest(_core.Request.unsubscribe(self.number), into(ended), number=self.number)
                session.ask(asked)
                with contextlib.suppress(AmbiguousError):  # the server ends it with the connection
                    await awaited(session, asked, ended, session.options.timeout_s)
                    was_told = True
        finally:
            session.let_go(self)
        self.leave(was_told=was_told)
