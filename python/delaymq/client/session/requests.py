"""The requests of a client: those that wait for a connection, and those in progress on one.

When a connection is lost, a request in progress is repeated on the next one if that is safe; otherwise
it fails with `AmbiguousError`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from delaymq import _core
from delaymq.client.session.options import ClientOptions
from delaymq.errors import (
    AmbiguousError,
    DelaymqError,
    ProtocolError,
    Stopping,
    StoreError,
    TimedOut,
    Unauthorized,
    Unreachable,
)

OnAnswer: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called with the value of the answer, or with the error."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request.

    Attributes:
        request: The encoded request.
        on_answer: Called once, with the answer or the error.
        reads: The request changes nothing.
        retry: If the connection is lost before the answer came, the request is sent again on the next one.
        number: The subscription that the request belongs to, which ends with its connection; 0 for none.
        one_way: The request has no answer, except an error.
        call: The id of the call on the connection on which it was last sent; None before it was sent.
        retry_for_s: How long after it was first sent it may be repeated.
        sent_at: When it was first sent, in seconds of the monotonic clock.
        in_doubt: It may have been executed on a connection that was lost, and is to be repeated.
    """

    request: _core.Request
    on_answer: OnAnswer
    reads: bool = False
    retry: bool = False
    number: int = 0
    one_way: bool = False
    call: int | None = None
    retry_for_s: float = math.inf
    sent_at: float = 0.0
    in_doubt: bool = False

    def is_too_late(self, now: float) -> bool:
        """True if the request may have been executed, and repeating it could execute it twice."""
        return self.in_doubt and now - self.sent_at > self.retry_for_s


PERMANENT = (Unauthorized, ProtocolError)  # errors that reconnecting does not resolve: requests fail at once


class Requests:
    """The requests of one session. The caller holds the session's lock."""

    def __init__(self, options: ClientOptions) -> None:
        """Begins without a request and without a connection."""
        self._address = options.address
        self._timeout = f"{options.timeout_s:g} s"
        self._caller: _core.Caller | None = None
        self._cause: StoreError | None = None  # the error that ended the last connection
        self._is_permanent = False
        self._under_way: dict[int, PendingRequest] = {}
        self._waiting: deque[PendingRequest] = deque()
        self.last_sent_at = 0.0  # when a request was last passed to a connection, by the monotonic clock

    def add(self, pending: PendingRequest) -> None:
        """Adds a request; `send` sends it in its turn."""
        if self._is_permanent:
            pending.on_answer(None, self._cause)
        else:
            self._waiting.append(pending)

    def begin(self, caller: _core.Caller, *, is_other_store: bool = False) -> None:
        """Sets the connection that takes requests. If it leads to another store, requests in doubt fail."""
        self._caller, self._is_permanent = caller, False
        if is_other_store:
            self._fail_in_doubt()
        self.send()

    def _fail_in_doubt(self) -> None:
        """Fails requests in doubt: another store could not deduplicate them."""
        words = f"{self._address} has another store now: it may have been done in the one before or not"
        left = list(self._waiting)
        self._waiting = deque(pending for pending in left if not pending.in_doubt)
        for pending in left:
            if pending.in_doubt:
                pending.on_answer(None, AmbiguousError(words, reason=str(self._cause)))

    def send(self) -> None:
        """Passes as many requests to the connection as it has room for, in order."""
        caller, waiting = self._caller, self._waiting
        while caller is not None and waiting:
            pending = waiting.popleft()  # first, so that a KeyboardInterrupt in between cannot send it twice
            if not self.sent(caller, pending):
                waiting.appendleft(pending)
                return

    def sent(self, caller: _core.Caller, pending: PendingRequest) -> bool:
        """Passes a request to the connection; False if it has no room now."""
        now = self.last_sent_at = time.monotonic()
        if pending.is_too_late(now):
            words = f"{self._address} was lost for too long to ask again for what it may have done"
            pending.on_answer(None, AmbiguousError(words, reason=str(self._cause)))
            return True
        if pending.one_way:
            return caller.tell(pending.request)
        call = caller.ask(pending.request)
        if call is None:
            return False
        if not pending.in_doubt:
            pending.sent_at = now
        pending.call = call
        self._under_way[call] = pending
        return True

    def answered(self, call: int, value: Any, error: BaseException | None) -> None:  # noqa: ANN401 - of any request
        """Handles an answer; it is ignored if its request has been withdrawn."""
        pending = self._under_way.pop(call, None)
        if pending is None:
            return
        if isinstance(error, Stopping) and pending.retry:
            # The request was not executed. The connection is about to end; the request is repeated on the next one.
            self._under_way[call] = pending
            pending.call = call if pending.in_doubt else None
            return
        if error is not None and pending.in_doubt:  # the refusal tells nothing about the first attempt
            words = f"{self._address} refused it after a lost answer: it may have been done or not: {error}"
            doubt = AmbiguousError(words, reason=str(error))
            doubt.__cause__ = error
            error = doubt
        pending.on_answer(value, error)

    def withdraw(self, pending: PendingRequest) -> DelaymqError:
        """Removes a request, and returns the error that describes its state."""
        was_waiting = pending in self._waiting
        if was_waiting:
            self._waiting.remove(pending)
        elif pending.call is not None:
            self._under_way.pop(pending.call, None)
            if self._caller is not None:
                self._caller.forget(pending.call)
        reason = None if self._cause is None else str(self._cause)
        if pending.call is None and self._caller is None:
            return Unreachable(
                f"no connection to {self._address} within {self._timeout}; nothing was asked", reason=reason
            )
        if pending.call is None and was_waiting:
            return TimedOut(f"{self._address} took no more requests within {self._timeout}; nothing was asked")
        words = f"{self._address} did not answer within {self._timeout}"
        if pending.reads:
            return TimedOut(words, reason=reason)
        return AmbiguousError(f"{words}: it may have been done or not", reason="no answer in time")

    def lose(self, cause: StoreError, *, was_ready: bool) -> None:
        """Handles a lost or failed connection: each request waits for the next one, or fails."""
        self._caller, self._cause = None, cause
        is_permanent = self._is_permanent = not was_ready and isinstance(cause, PERMANENT)
        words = f"the connection to {self._address} was lost before the answer came: it may have been done or not"
        left = [*self._under_way.values(), *self._waiting]
        self._under_way.clear()
        self._waiting.clear()
        for pending in left:
            in_doubt = pending.call is not None and not pending.reads
            if pending.number or (in_doubt and (is_permanent or not pending.retry)):
                pending.on_answer(None, AmbiguousError(words, reason=str(cause)))
            elif is_permanent:
                pending.on_answer(None, cause)
            else:
                pending.in_doubt = in_doubt
                self._waiting.append(pending)

    def end(self, why: BaseException) -> None:
        """Fails all requests, with the reason."""
        left = [*self._under_way.values(), *self._waiting]
        self._under_way.clear()
        self._waiting.clear()
        words = f"{why} before the answer came: it may have been done or not"
        for pending in left:
            in_doubt = pending.call is not None and not pending.reads
            pending.on_answer(None, AmbiguousError(words, reason=str(why)) if in_doubt else type(why)(str(why)))
