"""How a thread waits: for an answer, or for whatever comes next.

A signal's handler may raise anywhere in the main thread, so nothing that waits here holds a lock which somebody
else needs, or takes one again on its way out, as a condition variable does: Ctrl-C in such a moment would leave it
taken for ever, or let go of what it does not have.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from delaymq.client.session.pending_request import OnAnswer, PendingRequest

if TYPE_CHECKING:
    from delaymq.client.session.session import Session

__all__ = ["Answer", "Reply", "Wakeup", "into", "waited"]

LOOK_S = 0.1  # a signal that comes just before the main thread waits is seen no later than this


class Wakeup:
    """Wakes the one thread that waits for it."""

    __slots__ = ("_lock", "is_raised")

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.is_raised = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """It has happened."""
        self.is_raised = True
        with contextlib.suppress(RuntimeError):  # somebody has said so before, or a signal's handler meanwhile
            self._lock.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until it has happened; False where it has not by the end of the timeout."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        longest = LOOK_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
        while not self.is_raised:
            left = longest if end is None else min(longest, end - time.monotonic())
            if left <= 0:
                return False
            self._lock.acquire(timeout=left)  # taken or not, what counts is whether it was raised
        return True


class Answer:
    """What one thread will be told, once."""

    __slots__ = ("_came", "_error", "_value")

    def __init__(self) -> None:
        """There is none yet."""
        self._came = Wakeup()
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """True where it came."""
        return self._came.is_raised

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - of any request
        """It came."""
        self._value = result
        self._came.wake()

    def set_exception(self, exception: BaseException, /) -> None:
        """An error came."""
        self._error = exception
        self._came.wake()

    def result(self, timeout_s: float | None = None) -> Any:  # noqa: ANN401 - of any request
        """Waits for it, for ever where no timeout is given.

        Raises:
            TimeoutError: It did not come in time.
            BaseException: The error that came.
        """
        if not self._came.wait(timeout_s):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value


class Reply(Protocol):
    """A future, of threads or of an event loop."""

    def done(self) -> bool:
        """True where it has a result."""

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - of any request
        """It was answered."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It failed."""


def into(future: Reply) -> OnAnswer:
    """Puts what came of a request into a future."""

    def heard(value: Any, error: BaseException | None) -> None:  # noqa: ANN401 - whatever the request is answered with
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    return heard


def waited(session: Session, asked: PendingRequest, answer: Answer, timeout_s: float) -> Any:  # noqa: ANN401
    """The answer of a request.

    Raises:
        StoreError: What came instead, or that nothing came in time.
    """
    try:
        return answer.result(timeout_s)
    except TimeoutError:
        if answer.done():  # the answer is that something took too long
            raise
        raise session.give_up(asked) from None
    except BaseException:
        if not answer.done():  # Ctrl-C: nobody waits any more
            session.give_up(asked)
        raise
