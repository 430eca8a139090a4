"""What a client has under way, whatever moves its bytes: no socket, no thread and no loop is in here.

A session outlives its connections. What is asked waits until there is one; subscriptions are made again
on each.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq._store.reports import log
from delaymq.client.session.options import ClientOptions
from delaymq.client.session.pending_request import OnAnswer, PendingRequest
from delaymq.client.session.requests import LASTING, Requests
from delaymq.errors import (
    AmbiguousError,
    Closed,
    DelaymqError,
    ForkedProcess,
    ProtocolError,
    StoreError,
    TimedOut,
)

if TYPE_CHECKING:
    from delaymq.client.session.subscription_state import SubscriptionState

__all__ = ["Session"]

SOON_S = 0.002  # how long acknowledgements are gathered before they are sent
CONFIRM_S = 1.0  # how often the server is asked whether acknowledgements are durable
AGAIN_S = 0.25  # how long after a refusal that passes a subscription is made again
HELLO = -1  # stands for the number of a subscription where a request is of its connection alone
NO_STREAM = bytes(16)  # no server was heard of yet


class Session:
    """The state of one client."""

    def __init__(self, options: ClientOptions, push: Callable[[], None], opened: OnAnswer) -> None:
        """A session without a connection.

        Args:
            options: The options of the client.
            push: Called, with the lock held, when there is something to write or to attend to.
            opened: Is told when the first connection is ready, or why there is none.
        """
        self.options = options
        self.lock = threading.RLock()
        self.caller: _core.Caller | None = None
        self.ready = False  # the connection's hello was answered
        self.stream = NO_STREAM
        self.delay_ms_max = 2**63 - 1
        self.closed: BaseException | None = None
        self._push = push
        self._opened: OnAnswer | None = opened
        self._opened_by = os.getpid()
        self._requests = Requests(options)
        self._numbers = itertools.count(1)
        self._by_number: dict[int, SubscriptionState] = {}
        self._subscriptions: dict[SubscriptionState, int] = {}  # open ones in order, each with its last number
        self._refused: dict[SubscriptionState, None] = {}  # those to ask for again, as the server did not make them yet
        self._dirty: dict[SubscriptionState, None] = {}
        self._due: dict[str, float] = {}  # what is to be attended to, and when
        self._server_ms, self._server_ms_at = 0, time.monotonic()
        self._heard_at = 0.0
        self._pinged = False

    # Who calls.

    def check(self) -> None:
        """Lets nobody in who cannot be served.

        Raises:
            ForkedProcess: The client was made by the parent process.
            Closed: It is closed.
        """
        caller = os.getpid()
        if caller != self._opened_by:
            raise ForkedProcess(
                f"the client belongs to process {self._opened_by}, this is process {caller}",
                owner=self._opened_by,
                caller=caller,
            )
        if self.closed is not None:
            raise type(self.closed)(str(self.closed))

    @property
    def is_here(self) -> bool:
        """True in the process that made it."""
        return os.getpid() == self._opened_by

    def now_ms(self) -> int:
        """The store's trusted clock, as it was told last, and the time since."""
        return self._server_ms + int((time.monotonic() - self._server_ms_at) * 1000)

    # What is asked.

    def ask(self, asked: PendingRequest) -> None:
        """Makes a request, now or when there is a connection.

        Raises:
            Closed, ForkedProcess: As `check`.
        """
        self.check()
        with self.lock:
            self._requests.add(asked)
            self._requests.send()
            self._push()

    def give_up(self, asked: PendingRequest) -> DelaymqError:
        """Nobody waits for this any more; the error that says what is known of it."""
        with self.lock:
            return self._requests.give_up(asked)

    # The life of a connection.

    def begin(self) -> None:
        """There is a new connection: says hello."""
        with self.lock:
            self.caller = _core.Caller()
            self._heard_at = time.monotonic()
            self._pinged = False
            self._due["hello"] = self._heard_at + self.options.hello_s
            self._requests.sent(self.caller, PendingRequest(self.options.hello(), self._welcomed, number=HELLO))
            self._push()

    def _welcomed(self, welcome: Any, error: BaseException | None) -> None:  # noqa: ANN401 - the dict of an answer
        if isinstance(error, AmbiguousError) or self.caller is None:
            return  # the connection was lost first
        if error is not None:
            if type(error) is StoreError:  # what a server says that does not know the command
                error = ProtocolError(f"{self.options.address} is no delaymq server of this version: {error}")
            raise error
        is_elsewhere = self.stream not in {NO_STREAM, welcome["stream"]}
        self.stream, self.delay_ms_max = welcome["stream"], welcome["delay_ms_max"]
        self._told_time(welcome["now_ms"])
        self._due.pop("hello", None)
        self._due["ping"] = time.monotonic() + self.options.ping_s
        self.ready = True
        self._requests.begin(self.caller, is_elsewhere=is_elsewhere)
        for state in self._subscriptions:
            self.resubscribe(state)
        self._tell_opened(None)

    def _tell_opened(self, error: BaseException | None) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(None, error)

    def received(self, data: bytes) -> None:
        """Bytes came.

        Raises:
            StoreError: What they say; the connection is to be closed, and `lost` to be called.
        """
        with self.lock:
            caller = self.caller
            if caller is None:
                return
            self._heard_at = time.monotonic()
            events, fault = caller.receive(self.stream, data)
            for call, of, third, fourth in events:
                if call >= 0:
                    self._requests.answered(call, third, fourth)
                elif (state := self._by_number.get(of)) is not None:
                    self._told_time(third)
                    state.delivered(fourth)
            if fault is not None:
                raise ProtocolError(f"{self.options.address} sent what no delaymq server sends: {fault}") from fault
            self._requests.send()
            self._push()

    def _told_time(self, now_ms: int) -> None:
        self._server_ms, self._server_ms_at = now_ms, time.monotonic()

    def lost(self, trouble: StoreError) -> None:
        """The connection is gone, or none could be made."""
        with self.lock:
            was_ready, self.ready = self.ready, False
            if self.caller is not None:
                self.caller.lost()
                self.caller = None
            self._by_number.clear()
            self._dirty.clear()
            self._refused.clear()
            self._due.clear()
            if was_ready and self.closed is None:
                log("warning", "connection_lost", f"the connection to {self.options.address} was lost: {trouble}")
            for state in self._subscriptions:
                state.disconnected()
            self._requests.lose(trouble, was_ready=was_ready)
            if self._opened is not None:
                self.end(trouble)
            self._tell_opened(trouble)

    def end(self, why: BaseException | None = None) -> None:
        """Nothing is asked from now on; what waits is told so."""
        with self.lock:
            if self.closed is None:
                self.closed = why or Closed("the client is closed")
            for state in list(self._subscriptions):
                state.ended()
            self._subscriptions.clear()
            self._refused.clear()
            self._requests.end(self.closed)

    def fail(self, error: Exception) -> None:
        """What moves the bytes cannot go on, for a reason that nobody foresaw: whoever waits is told so."""
        trouble = StoreError(f"the client of {self.options.address} failed: {error!r}")
        trouble.__cause__ = error
        log("error", "client_failed", str(trouble))
        with self.lock:
            self.end(trouble)
            self._tell_opened(trouble)

    # Subscriptions.

    def take_in(self, state: SubscriptionState) -> None:
        """A subscription of this client begins; it is made now, or when there is a connection.

        Raises:
            Closed, ForkedProcess: As `check`.
        """
        self.check()
        with self.lock:
            self._subscriptions[state] = 0
            if self.ready:
                self.resubscribe(state)
                self._push()

    def resubscribe(self, state: SubscriptionState) -> None:
        """Asks for a subscription, under the name that it has had so far."""
        number = next(self._numbers)
        request = state.subscribe(number)
        self._subscriptions[state] = number
        self._refused.pop(state, None)

        def heard(answer: Any, error: BaseException | None) -> None:  # noqa: ANN401
            if self._subscriptions.get(state) != number:  # it has ended, or was asked for under another number since
                if error is None:
                    self._requests.add(PendingRequest(_core.Request.unsubscribe(number), _unheard, number=number))
                return
            if error is None:
                self._by_number[number] = state
                state.subscribed(number, answer[0])
            elif isinstance(error, AmbiguousError):
                return  # the connection was lost: the next one asks
            elif state.consumer and isinstance(error, StoreError) and not isinstance(error, LASTING):
                # The server is overloaded, going down or not well: it, or the next one, is asked again.
                if state.refused_again(error):
                    log("warning", "subscription_refused", f"{state!r} cannot be made again yet: {error}")
                self._refused[state] = None
                self._due["resubscribe"] = time.monotonic() + AGAIN_S
            else:
                state.refused(error)

        self._requests.add(PendingRequest(request, heard, number=number))
        self._requests.send()

    def abandon(self, state: SubscriptionState) -> None:
        """A subscription that was to begin does not; where it has, it ends."""
        with self.lock:
            number = state.number
            self.let_go(state)
            if number and self.closed is None:
                self.ask(PendingRequest(_core.Request.unsubscribe(number), _unheard, number=number))

    def let_go(self, state: SubscriptionState) -> None:
        """A subscription has ended."""
        with self.lock:
            self._subscriptions.pop(state, None)
            self._refused.pop(state, None)
            self._dirty.pop(state, None)
            if self._by_number.get(state.number) is state:
                del self._by_number[state.number]

    def soon(self, state: SubscriptionState) -> None:
        """A subscription has something to send that can wait a little, so that more goes with it."""
        if not self._dirty and "settle" not in self._due:
            self._due["settle"] = time.monotonic() + SOON_S
            self._push()
        self._dirty[state] = None

    def unconfirmed(self) -> None:
        """Acknowledgements were sent: after a while the server is asked whether they are durable."""
        self._due.setdefault("confirm", time.monotonic() + CONFIRM_S)

    # Time.

    def next_due(self) -> float | None:
        """When `attend` is to be called, by the monotonic clock."""
        return min(self._due.values(), default=None)

    def attend(self) -> None:
        """Does what is due.

        Raises:
            TimedOut: The server says nothing; the connection is to be closed, and `lost` to be called.
        """
        now = time.monotonic()
        with self.lock:
            due = [what for what, at in self._due.items() if at <= now]
            for what in due:
                del self._due[what]
            for what in due:
                self._attend_to(what, now)
            if due:
                self._push()

    def _attend_to(self, what: str, now: float) -> None:
        """Raises TimedOut where the server says nothing."""
        if what == "hello":
            where, patience = self.options.address, self.options.hello_s
            raise TimedOut(f"{where} took the connection and said nothing within {patience:g} s")
        if what == "ping":
            self._listen_for_life(now)
        elif what == "settle":
            dirty, self._dirty = list(self._dirty), {}
            for state in dirty:
                state.push_settled()
        elif what == "confirm":
            for state in self._subscriptions:
                state.confirm()
        else:
            for state in list(self._refused):  # and for no other: one without a number may be under way
                self.resubscribe(state)

    def _listen_for_life(self, now: float) -> None:
        silent_s = now - self._heard_at
        if self._pinged and silent_s >= self.options.silence_s:
            raise TimedOut(f"{self.options.address} said nothing for {silent_s:.0f} s")
        self._pinged = silent_s >= self.options.ping_s
        # Who hears the server all the time says something, too: it closes who has subscriptions and is silent.
        if self._pinged or now - self._requests.said_at >= self.options.ping_s:
            self._requests.add(PendingRequest(_core.Request.ping(), _unheard, number=HELLO))
            self._requests.send()
        self._due["ping"] = now + self.options.ping_s / 2


def _unheard(_answer: Any, _error: BaseException | None) -> None:  # noqa: ANN401
    """Nobody waits for it."""
