"""A subscription as threads use it."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq.client.asked import Asked
from delaymq.client.intake import CLIENT_CLOSED, Intake
from delaymq.client.waiting import into, waited
from delaymq.errors import AmbiguousError, TimedOut

if TYPE_CHECKING:
    from delaymq._core import Delivery
    from delaymq.client.session import Session

__all__ = ["BlockingIntake"]


class BlockingIntake(Intake):
    """What a `Subscription` of a client stands on."""

    def __init__(self, session: Session, names: tuple[str, str], start: str, in_flight_max: int) -> None:
        """A subscription that is not made yet; `open` makes it."""
        super().__init__(session, names, start, in_flight_max)
        self._came = threading.Condition(session.lock)

    def news(self) -> None:
        """Wakes those who wait."""
        self._came.notify_all()

    def open(self) -> None:
        """Makes the subscription.

        Raises:
            StoreError, WrongType, InvalidArgument: As `Client.subscribe`.
        """
        session = self._session
        self.subscribe(0)  # refuses what can be refused here
        made: Future[Any] = Future()
        self._opened = into(made)
        session.take_in(self)
        asked = Asked(_core.Request.ping(), self._opened, reads=True)  # stands for it: the session asks
        try:
            waited(session, asked, made, session.chosen.timeout_s)
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
        probed = timeout_ms != 0
        with self._came:
            while True:
                found = self.taken(count_max)
                if found or self.stopped:
                    return found
                left = None if end is None else end - time.monotonic()
                if left is None or left > 0:
                    self._came.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
                elif probed:
                    return []
                else:
                    break
        self._probe()
        with self._came:
            return self.taken(count_max)

    def _probe(self) -> None:
        """Waits until the server has sent what it had when it was asked."""
        session = self._session
        if not self.number:
            return
        answered: Future[Any] = Future()
        asked = Asked(_core.Request.ping(), into(answered), reads=True, number=self.number)
        session.ask(asked)
        try:
            waited(session, asked, answered, session.chosen.timeout_s)
        except AmbiguousError:
            return  # the connection was lost: nothing is there

    def flush(self, timeout_ms: int | None) -> None:
        """Waits until what was settled is durable.

        Raises:
            TimedOut: It is not by the end of the timeout.
            AmbiguousError: Nobody knows.
            StoreError: As `Subscription.flush`.
        """
        session = self._session
        session.check()
        durable: Future[Any] = Future()
        with session.lock:
            asked = self.flushed(into(durable))
        if asked is None:
            return
        timeout_s = session.chosen.timeout_s if timeout_ms is None else timeout_ms / 1000
        try:
            waited(session, asked, durable, timeout_s)
        except TimedOut:
            raise TimedOut("making the acknowledgements durable did not happen in time") from None

    def stop(self) -> None:
        """Ends all pulls, from any thread."""
        self.stopped = True
        if self._session.is_here:
            with self._came:
                self._came.notify_all()

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
        ended: Future[Any] = Future()
        asked: Asked | None = None
        with session.lock:
            self._ready.clear()
            self.push_settled()
            self._closed = CLIENT_CLOSED if with_client else "the subscription is closed"
            if self.number:
                asked = Asked(_core.Request.unsubscribe(self.number), into(ended), number=self.number)
                session.ask(asked)
        was_told = False
        try:
            if asked is not None:
                with contextlib.suppress(AmbiguousError):  # the server ends it with the connection
                    waited(session, asked, ended, session.chosen.timeout_s)
                    was_told = True
        finally:
            session.let_go(self)
        with session.lock:
            self.leave(was_told=was_told)
