"""The requests of a client: those that wait for a connection, and those that are under way on one.

What is under way when a connection is lost is asked again on the next where that does no harm, and else
is told that nobody knows its end.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from delaymq import _core
    from delaymq.client.session.options import ClientOptions
    from delaymq.client.session.pending_request import PendingRequest

__all__ = ["LASTING", "Requests"]

LASTING = (Unauthorized, ProtocolError)  # troubles that time does not heal: nobody waits for their end


class Requests:
    """Whoever calls this has the session's lock."""

    def __init__(self, options: ClientOptions) -> None:
        """No request yet, and no connection."""
        self._where = options.address
        self._timeout = f"{options.timeout_s:g} s"
        self._caller: _core.Caller | None = None
        self._trouble: StoreError | None = None  # why the last connection ended
        self._is_lasting = False
        self._under_way: dict[int, PendingRequest] = {}
        self._waiting: deque[PendingRequest] = deque()
        self.said_at = 0.0  # when something was handed to a connection last

    def add(self, asked: PendingRequest) -> None:
        """One more; it is sent by `send`, in its turn."""
        if self._is_lasting:
            asked.heard(None, self._trouble)
        else:
            self._waiting.append(asked)

    def begin(self, caller: _core.Caller, *, is_elsewhere: bool = False) -> None:
        """There is a connection that takes requests; where it leads to another store, what is in doubt stays so."""
        self._caller, self._is_lasting = caller, False
        if is_elsewhere:
            self._leave_in_doubt()
        self.send()

    def _leave_in_doubt(self) -> None:
        """Another store knows nothing again, and would do it a second time."""
        words = f"{self._where} has another store now: it may have been done in the one before or not"
        left = list(self._waiting)
        self._waiting = deque(asked for asked in left if not asked.in_doubt)
        for asked in left:
            if asked.in_doubt:
                asked.heard(None, AmbiguousError(words, reason=str(self._trouble)))

    def send(self) -> None:
        """Hands over to the connection what it has room for, in order."""
        caller, waiting = self._caller, self._waiting
        while caller is not None and waiting:
            asked = waiting.popleft()  # before it is sent: Ctrl-C in between must not have it sent twice
            if not self.sent(caller, asked):
                waiting.appendleft(asked)
                return

    def sent(self, caller: _core.Caller, asked: PendingRequest) -> bool:
        """Hands one over; False where there is no room for it now."""
        now = self.said_at = time.monotonic()
        if asked.is_too_late(now):
            words = f"{self._where} was lost for too long to ask again for what it may have done"
            asked.heard(None, AmbiguousError(words, reason=str(self._trouble)))
            return True
        if asked.one_way:
            return caller.tell(asked.request)
        call = caller.ask(asked.request)
        if call is None:
            return False
        if not asked.in_doubt:
            asked.sent_at = now
        asked.call = call
        self._under_way[call] = asked
        return True

    def answered(self, call: int, value: Any, error: BaseException | None) -> None:  # noqa: ANN401 - of any request
        """An answer came; one that nobody waits for is let be."""
        asked = self._under_way.pop(call, None)
        if asked is None:
            return
        if isinstance(error, Stopping) and asked.again:
            # Nothing was done; the connection is about to end, and the next one is asked.
            self._under_way[call] = asked
            asked.call = call if asked.in_doubt else None
            return
        if error is not None and asked.in_doubt:  # that it is refused now says nothing of the first time
            words = f"{self._where} refused it after a lost answer: it may have been done or not: {error}"
            doubt = AmbiguousError(words, reason=str(error))
            doubt.__cause__ = error
            error = doubt
        asked.heard(value, error)

    def give_up(self, asked: PendingRequest) -> DelaymqError:
        """Nobody waits for this any more; the error that says what is known of it."""
        was_waiting = asked in self._waiting
        if was_waiting:
            self._waiting.remove(asked)
        elif asked.call is not None:
            self._under_way.pop(asked.call, None)
            if self._caller is not None:
                self._caller.forget(asked.call)
        reason = None if self._trouble is None else str(self._trouble)
        if asked.call is None and self._caller is None:
            return Unreachable(
                f"no connection to {self._where} within {self._timeout}; nothing was asked", reason=reason
            )
        if asked.call is None and was_waiting:
            return TimedOut(f"{self._where} took no more requests within {self._timeout}; nothing was asked")
        words = f"{self._where} did not answer within {self._timeout}"
        if asked.reads:
            return TimedOut(words, reason=reason)
        return AmbiguousError(f"{words}: it may have been done or not", reason="no answer in time")

    def lose(self, trouble: StoreError, *, was_ready: bool) -> None:
        """The connection is gone, or none could be made: each goes on, or is told why not."""
        self._caller, self._trouble = None, trouble
        is_lasting = self._is_lasting = not was_ready and isinstance(trouble, LASTING)
        words = f"the connection to {self._where} was lost before the answer came: it may have been done or not"
        left = [*self._under_way.values(), *self._waiting]
        self._under_way.clear()
        self._waiting.clear()
        for asked in left:
            in_doubt = asked.call is not None and not asked.reads
            if asked.number or (in_doubt and (is_lasting or not asked.again)):
                asked.heard(None, AmbiguousError(words, reason=str(trouble)))
            elif is_lasting:
                asked.heard(None, trouble)
            else:
                asked.in_doubt = in_doubt
                self._waiting.append(asked)

    def end(self, why: BaseException) -> None:
        """Nothing is asked from now on; what is left is told so, and why."""
        left = [*self._under_way.values(), *self._waiting]
        self._under_way.clear()
        self._waiting.clear()
        words = f"{why} before the answer came: it may have been done or not"
        for asked in left:
            in_doubt = asked.call is not None and not asked.reads
            asked.heard(None, AmbiguousError(words, reason=str(why)) if in_doubt else type(why)(str(why)))
