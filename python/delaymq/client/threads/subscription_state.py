"""A subscription as threads use it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from delaymq import _core
from delaymq.client.session.pending_request import PendingRequest
from delaymq.client.session.subscription_state import CLIENT_CLOSED, SubscriptionState
from delaymq.client.threads.waiting import Answer, Wakeup, into, waited
from delaymq.errors import AmbiguousError, TimedOut

if TYPE_CHECKING:
    from delaymq._core import Delivery
    from delaymq.client.session.session import Session

__all__ = ["BlockingSubscriptionState"]


class BlockingSubscriptionState(SubscriptionState):
    """What a `Subscription` of a client stands on."""

    def __init__(self, session: Session, names: tuple[str, str], start: str, in_flight_max: int) -> None:
        """A subscription that is not made yet; `open` makes it."""
        super().__init__(session, names, start, in_flight_max)
        self._waiting: set[Wakeup] = set()

    def news(self) -> None:
        """Wakes those who wait."""
        for waiting in tuple(self._waiting):
            waiting.wake()

    def open(self) -> None:
        """Makes the subscription.

        Raises:
            StoreError, WrongType, InvalidArgument: As `Client.subscribe`.
        """
        session = self._session
        self.subscribe(0)  # refuses what can be refused here
        made = Answer()
        self._opened = into(made)
        session.take_in(self)
        asked = PendingRequest(_core.Request.ping(), self._opened, reads=True)  # stands for it: the session asks
        try:
            waited(session, asked, made, session.options.timeout_s)
        except BaseException:
            session.abandon(self)
            raise

    def pull(self, count_max: int, timeout_ms: int | None) -> list[Delivery]:
        """Waits until something is there; an empty list at the timeout or after `stop`.

        Raises:
            Closed, ForkedProcess, StoreError: As `Subscription.get`.
        """
        session = self._session
        session.check()
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        with session.lock:
            found = self.taken(count_max, tops_up=timeout_ms != 0)
        while not found and not self.stopped and timeout_ms != 0:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return []
            found = self._taken_later(count_max, left)
        return found or self._looked_for(count_max)

    def _taken_later(self, count_max: int, left_s: float | None) -> list[Delivery]:
        """What is there after something has happened, or the time is over."""
        came, lock = Wakeup(), self._session.lock
        try:
            with lock:
                self._waiting.add(came)
                found = self.taken(count_max, tops_up=False)
            if not found and not self.stopped:
                came.wait(left_s)
        finally:
            self._waiting.discard(came)
        if found:
            return found
        with lock:
            return self.taken(count_max)

    def _looked_for(self, count_max: int) -> list[Delivery]:
        """What is there once the server has sent all that was ready."""
        session = self._session
        sent = Answer()
        with session.lock:
            asked = None if self.stopped else self.looked(into(sent))
        if asked is None:
            return []
        with contextlib.suppress(AmbiguousError):  # the connection was lost: nothing is there
            waited(session, asked, sent, session.options.timeout_s)
        with session.lock:
            return self.taken(count_max)

    def flush(self, timeout_ms: int | None) -> None:
        """Waits until what was settled is durable.

        Raises:
            TimedOut: It is not by the end of the timeout.
            AmbiguousError: Nobody knows.
            StoreError: As `Subscription.flush`.
        """
        session = self._session
        session.check()
        durable = Answer()
        with session.lock:
            asked = self.flushed(into(durable))
        if asked is None:
            return
        timeout_s = session.options.timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            waited(session, asked, durable, timeout_s)
        except TimedOut:
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    def stop(self) -> None:
        """Ends all pulls, from any thread."""
        self.stopped = True
        if self._session.is_here:
            with self._session.lock:
                self.news()

    def close(self, *, with_client: bool = False) -> None:
        """Stops, waits until what was settled is durable, and gives back what is left.

        Raises:
            AmbiguousError: Nobody knows whether it is.
            StoreError: As `Subscription.close`.
        """
        session = self._session
        if self._closed is not None:
            return
        session.check()
        self.stop()
        ended = Answer()
        asked: PendingRequest | None = None
        with session.lock:
            self._ready.clear()
            self.push_settled()
            self._closed = CLIENT_CLOSED if with_client else "the subscription is closed"
            if self.number:
                asked = PendingRequest(_core.Request.unsubscribe(self.number), into(ended), number=self.number)
                session.ask(asked)
        was_told = False
        try:
            if asked is not None:
                with contextlib.suppress(AmbiguousError):  # the server ends it with the connection
                    waited(session, asked, ended, session.options.timeout_s)
                    was_told = True
        finally:
            session.let_go(self)
        with session.lock:
            self.leave(was_told=was_told)
