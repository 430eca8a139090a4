"""The state of a client's subscription, for threads."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from delaymq import _core
from delaymq.client.session.requests import PendingRequest
from delaymq.client.session.session import Session
from delaymq.client.session.subscription_state import CLIENT_CLOSED, SubscriptionRequest, SubscriptionState
from delaymq.client.threads.waiting import Answer, Wakeup, callback_for, wait_for
from delaymq.errors import AmbiguousError, TimedOut

if TYPE_CHECKING:
    from delaymq._core import Delivery


class BlockingSubscriptionState(SubscriptionState):
    """The source of a `Subscription` of a client."""

    def __init__(self, session: Session, wanted: SubscriptionRequest) -> None:
        """A subscription that the server does not have yet; see `open`."""
        super().__init__(session, wanted)
        self._waiting: set[Wakeup] = set()

    def notify(self) -> None:
        """Wakes the waiters."""
        for waiting in tuple(self._waiting):
            waiting.wake()

    def open(self) -> None:
        """Creates the subscription at the server.

        Raises:
            StoreError, WrongType, InvalidArgument: As `Client.subscribe`.
        """
        session = self._session
        self.subscribe(0)  # refuses invalid arguments before anything is sent
        opened = Answer()
        self._opened = callback_for(opened)
        session.add_subscription(self)
        # A placeholder, to wait for: the session itself sends the request.
        pending = PendingRequest(_core.Request.ping(), self._opened, reads=True)
        try:
            wait_for(session, pending, opened, session.options.timeout_s)
        except BaseException:
            session.abandon(self)
            raise

    def pull(self, count_max: int, timeout_ms: int | None) -> list[Delivery]:
        """Waits until a message is there; an empty list at the timeout or after `stop`.

        Raises:
            Closed, ForkedProcess, StoreError: As `Subscription.get`.
        """
        session = self._session
        session.check()
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        with session.lock:
            found = self.take(count_max, tops_up=timeout_ms != 0)
        while not found and not self.stopped and timeout_ms != 0:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return []
            found = self._wait_and_take(count_max, left)
        return found or self._ask_and_take(count_max)

    def _wait_and_take(self, count_max: int, left_s: float | None) -> list[Delivery]:
        """Waits for news or the timeout, then takes what has arrived."""
        came, lock = Wakeup(), self._session.lock
        try:
            with lock:
                self._waiting.add(came)
                found = self.take(count_max, tops_up=False)
            if not found and not self.stopped:
                came.wait(left_s)
        finally:
            self._waiting.discard(came)
        if found:
            return found
        with lock:
            return self.take(count_max)

    def _ask_and_take(self, count_max: int) -> list[Delivery]:
        """Takes what has arrived once the server has sent all ready messages."""
        session = self._session
        sent = Answer()
        with session.lock:
            pending = None if self.stopped else self.request_ready(callback_for(sent))
        if pending is None:
            return []
        with contextlib.suppress(AmbiguousError):  # the connection was lost, and its messages with it
            wait_for(session, pending, sent, session.options.timeout_s)
        with session.lock:
            return self.take(count_max)

    def flush(self, timeout_ms: int | None) -> None:
        """Waits until every acknowledgement, redelivery and dead letter so far is durable.

        Raises:
            TimedOut: The timeout is over first.
            AmbiguousError: A connection was lost before it was known.
            StoreError: As `Subscription.flush`.
        """
        session = self._session
        session.check()
        durable = Answer()
        with session.lock:
            pending = self.request_flush(callback_for(durable))
        if pending is None:
            return
        timeout_s = session.options.timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            wait_for(session, pending, durable, timeout_s)
        except TimedOut:
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    def stop(self) -> None:
        """Ends all pulls, from any thread."""
        self.stopped = True
        if self._session.is_here:
            with self._session.lock:
                self.notify()

    def close(self, *, with_client: bool = False) -> None:
        """Stops, waits until acknowledgements are durable, and gives back all messages that are not settled.

        Raises:
            AmbiguousError: A connection was lost before it was known.
            StoreError: As `Subscription.close`.
        """
        session = self._session
        if self._closed is not None:
            return
        session.check()
        self.stop()
        ended = Answer()
        pending: PendingRequest | None = None
        with session.lock:
            self._ready.clear()
            self.push_settled()
            self._closed = CLIENT_CLOSED if with_client else "the subscription is closed"
            if self.number:
                pending = PendingRequest(
                    _core.Request.unsubscribe(self.number), callback_for(ended), number=self.number
                )
                session.ask(pending)
        was_confirmed = False
        try:
            if pending is not None:
                with contextlib.suppress(AmbiguousError):  # the server ends it with the connection
                    wait_for(session, pending, ended, session.options.timeout_s)
                    was_confirmed = True
        finally:
            session.remove_subscription(self)
        with session.lock:
            self.finish(was_confirmed=was_confirmed)
