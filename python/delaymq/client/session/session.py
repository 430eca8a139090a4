"""The state of a client, independent of its transport: no socket, thread or event loop is used here.

A session outlives its connections. Requests wait until there is a connection, and subscriptions are
created again on each.
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
from delaymq.client.session.requests import PERMANENT, OnAnswer, PendingRequest, Requests
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

SOON_S = 0.002  # how long acknowledgements are collected before they are sent
CONFIRM_S = 1.0  # how often the client asks the server whether acknowledgements are durable
AGAIN_S = 0.25  # delay before a subscription is requested again after a temporary refusal
HELLO = -1  # the subscription number of requests that belong to the connection alone
NO_STREAM = bytes(16)  # before the first connection


class Session:
    """The state of one client."""

    def __init__(self, options: ClientOptions, push: Callable[[], None], opened: OnAnswer) -> None:
        """Begins without a connection.

        Args:
            options: The options of the client.
            push: Called, with the lock held, when there is output to write or a new timer.
            opened: Called when the first connection is ready, or with the error that prevents it.
        """
        self.options = options
        self.lock = threading.RLock()
        self.caller: _core.Caller | None = None
        self.ready = False  # True once the server has answered the hello of this connection
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
        self._refused: dict[SubscriptionState, None] = {}  # refused temporarily, to be requested again
        self._dirty: dict[SubscriptionState, None] = {}
        self._due: dict[str, float] = {}  # timers: task and time by the monotonic clock
        self._server_ms, self._server_ms_at = 0, time.monotonic()
        self._heard_at = 0.0
        self._pinged = False

    # Checks.

    def check(self) -> None:
        """Checks that the caller may use the client.

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
        """The store's trusted clock: the last time that the server sent, plus the time since."""
        return self._server_ms + int((time.monotonic() - self._server_ms_at) * 1000)

    # Requests.

    def ask(self, pending: PendingRequest) -> None:
        """Sends a request, now or when there is a connection.

        Raises:
            Closed, ForkedProcess: As `check`.
        """
        self.check()
        with self.lock:
            self._requests.add(pending)
            self._requests.send()
            self._push()

    def withdraw(self, pending: PendingRequest) -> DelaymqError:
        """Removes a request, and returns the error that describes its state."""
        with self.lock:
            return self._requests.withdraw(pending)

    # Connections.

    def begin(self) -> None:
        """Begins a new connection with a hello."""
        with self.lock:
            self.caller = _core.Caller()
            self._heard_at = time.monotonic()
            self._pinged = False
            self._due["hello"] = self._heard_at + self.options.hello_s
            self._requests.sent(self.caller, PendingRequest(self.options.hello(), self._on_hello, number=HELLO))
            self._push()

    def _on_hello(self, welcome: Any, error: BaseException | None) -> None:  # noqa: ANN401 - the dict of an answer
        if isinstance(error, AmbiguousError) or self.caller is None:
            return  # the connection was lost first
        if error is not None:
            if type(error) is StoreError:  # the answer of a server that does not know the command
                error = ProtocolError(f"{self.options.address} is no delaymq server of this version: {error}")
            raise error
        is_other_store = self.stream not in {NO_STREAM, welcome["stream"]}
        self.stream, self.delay_ms_max = welcome["stream"], welcome["delay_ms_max"]
        self._set_clock(welcome["now_ms"])
        self._due.pop("hello", None)
        self._due["ping"] = time.monotonic() + self.options.ping_s
        self.ready = True
        self._requests.begin(self.caller, is_other_store=is_other_store)
        for state in self._subscriptions:
            self.resubscribe(state)
        self._report_opened(None)

    def _report_opened(self, error: BaseException | None) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(None, error)

    def received(self, data: bytes) -> None:
        """Handles received bytes.

        Raises:
            StoreError: They are invalid, or an error of the server; close the connection, then call `lost`.
        """
        with self.lock:
            caller = self.caller
            if caller is None:
                return
            self._heard_at = time.monotonic()
            events, violation = caller.receive(self.stream, data)
            for call, of, third, fourth in events:
                if call >= 0:
                    self._requests.answered(call, third, fourth)
                elif (state := self._by_number.get(of)) is not None:
                    self._set_clock(third)
                    state.delivered(fourth)
            if violation is not None:
                raise ProtocolError(
                    f"{self.options.address} sent what no delaymq server sends: {violation}"
                ) from violation
            self._requests.send()
            self._push()

    def _set_clock(self, now_ms: int) -> None:
        self._server_ms, self._server_ms_at = now_ms, time.monotonic()

    def lost(self, cause: StoreError) -> None:
        """Handles a connection that was lost, or could not be made."""
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
                log("warning", "connection_lost", f"the connection to {self.options.address} was lost: {cause}")
            for state in self._subscriptions:
                state.disconnected()
            self._requests.lose(cause, was_ready=was_ready)
            if self._opened is not None:
                self.end(cause)
            self._report_opened(cause)

    def end(self, why: BaseException | None = None) -> None:
        """Ends the session; requests that wait fail."""
        with self.lock:
            if self.closed is None:
                self.closed = why or Closed("the client is closed")
            for state in list(self._subscriptions):
                state.ended()
            self._subscriptions.clear()
            self._refused.clear()
            self._requests.end(self.closed)

    def fail(self, error: Exception) -> None:
        """Ends the session after an unexpected error of the transport, which all waiters get."""
        cause = StoreError(f"the client of {self.options.address} failed: {error!r}")
        cause.__cause__ = error
        log("error", "client_failed", str(cause))
        with self.lock:
            self.end(cause)
            self._report_opened(cause)

    # Subscriptions.

    def add_subscription(self, state: SubscriptionState) -> None:
        """Adds a subscription of this client, which is requested now, or when there is a connection.

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
        """Requests a subscription from the server, under the consumer name that it has had so far."""
        number = next(self._numbers)
        request = state.subscribe(number)
        self._subscriptions[state] = number
        self._refused.pop(state, None)

        def on_answer(answer: Any, error: BaseException | None) -> None:  # noqa: ANN401
            if self._subscriptions.get(state) != number:  # it has ended, or was asked for under another number since
                if error is None:
                    self._requests.add(PendingRequest(_core.Request.unsubscribe(number), _ignore, number=number))
                return
            if error is None:
                self._by_number[number] = state
                state.subscribed(number, answer[0])
            elif isinstance(error, AmbiguousError):
                return  # the connection was lost: the subscription is requested on the next one
            elif state.consumer and isinstance(error, StoreError) and not isinstance(error, PERMANENT):
                # A temporary error, such as an overloaded server: the subscription is requested again.
                if state.refused_temporarily(error):
                    log("warning", "subscription_refused", f"{state!r} cannot be made again yet: {error}")
                self._refused[state] = None
                self._due["resubscribe"] = time.monotonic() + AGAIN_S
            else:
                state.refused(error)

        self._requests.add(PendingRequest(request, on_answer, number=number))
        self._requests.send()

    def abandon(self, state: SubscriptionState) -> None:
        """Removes a subscription whose creation was given up, and ends it at the server if it exists."""
        with self.lock:
            number = state.number
            self.remove_subscription(state)
            if number and self.closed is None:
                self.ask(PendingRequest(_core.Request.unsubscribe(number), _ignore, number=number))

    def remove_subscription(self, state: SubscriptionState) -> None:
        """Removes a subscription that has ended."""
        with self.lock:
            self._subscriptions.pop(state, None)
            self._refused.pop(state, None)
            self._dirty.pop(state, None)
            if self._by_number.get(state.number) is state:
                del self._by_number[state.number]

    def schedule_settling(self, state: SubscriptionState) -> None:
        """Sends the settled messages of a subscription soon, so that more can go with them."""
        if not self._dirty and "settle" not in self._due:
            self._due["settle"] = time.monotonic() + SOON_S
            self._push()
        self._dirty[state] = None

    def schedule_confirmation(self) -> None:
        """Asks the server soon whether the acknowledgements that were sent are durable."""
        self._due.setdefault("confirm", time.monotonic() + CONFIRM_S)

    # Timers.

    def next_due(self) -> float | None:
        """When `run_due` is to be called, by the monotonic clock."""
        return min(self._due.values(), default=None)

    def run_due(self) -> None:
        """Runs the tasks that are due.

        Raises:
            TimedOut: The server is silent; close the connection, then call `lost`.
        """
        now = time.monotonic()
        with self.lock:
            due = [task for task, at in self._due.items() if at <= now]
            for task in due:
                del self._due[task]
            for task in due:
                self._run_task(task, now)
            if due:
                self._push()

    def _run_task(self, task: str, now: float) -> None:
        """Runs one task. Raises TimedOut if the server is silent."""
        if task == "hello":
            address, patience = self.options.address, self.options.hello_s
            raise TimedOut(f"{address} took the connection and said nothing within {patience:g} s")
        if task == "ping":
            self._check_liveness(now)
        elif task == "settle":
            dirty, self._dirty = list(self._dirty), {}
            for state in dirty:
                state.push_settled()
        elif task == "confirm":
            for state in self._subscriptions:
                state.confirm()
        else:
            for state in list(self._refused):  # the request of any other one without a number is in progress
                self.resubscribe(state)

    def _check_liveness(self, now: float) -> None:
        silent_s = now - self._heard_at
        if self._pinged and silent_s >= self.options.silence_s:
            raise TimedOut(f"{self.options.address} said nothing for {silent_s:.0f} s")
        self._pinged = silent_s >= self.options.ping_s
        # A client that only receives must send, too: the server disconnects subscribers that are silent.
        if self._pinged or now - self._requests.last_sent_at >= self.options.ping_s:
            self._requests.add(PendingRequest(_core.Request.ping(), _ignore, number=HELLO))
            self._requests.send()
        self._due["ping"] = now + self.options.ping_s / 2


def _ignore(_answer: Any, _error: BaseException | None) -> None:  # noqa: ANN401
    """Ignores an answer."""
