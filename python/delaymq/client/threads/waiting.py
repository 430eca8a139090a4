"""How a thread waits for an answer or for news.

A signal handler may raise at any place in the main thread. So a waiter here never holds a lock that another
thread needs, and never takes one again when it wakes, as a condition variable does: a KeyboardInterrupt at that
moment would leave the lock taken forever, or release one that is not held.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any, Protocol

from delaymq.client.session.requests import OnAnswer, PendingRequest
from delaymq.client.session.session import Session

SIGNAL_POLL_S = 0.1  # the latest time at which a signal just before a wait of the main thread is handled


class Wakeup:
    """An event for one waiting thread."""

    __slots__ = ("_lock", "is_raised")

    def __init__(self) -> None:
        """Begins unset."""
        self.is_raised = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """Sets the event."""
        self.is_raised = True
        with contextlib.suppress(RuntimeError):  # it was set before, or by a signal handler meanwhile
            self._lock.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until it is set; False if the timeout is over first."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        longest = SIGNAL_POLL_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
        while not self.is_raised:
            left = longest if end is None else min(longest, end - time.monotonic())
            if left <= 0:
                return False
            self._lock.acquire(timeout=left)  # the result does not matter: `is_raised` is what counts
        return True


class Answer:
    """A future for one waiting thread."""

    __slots__ = ("_came", "_error", "_value")

    def __init__(self) -> None:
        """Begins without a result."""
        self._came = Wakeup()
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """True if it has a result or an error."""
        return self._came.is_raised

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - of any request
        """Sets the result."""
        self._value = result
        self._came.wake()

    def set_exception(self, exception: BaseException, /) -> None:
        """Sets the error."""
        self._error = exception
        self._came.wake()

    def result(self, timeout_s: float | None = None) -> Any:  # noqa: ANN401 - of any request
        """Waits for the result, forever without a timeout.

        Raises:
            TimeoutError: The timeout is over first.
            BaseException: The error that was set.
        """
        if not self._came.wait(timeout_s):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value


class Reply(Protocol):
    """A future, of threads or of an event loop."""

    def done(self) -> bool:
        """True if it has a result or an error."""

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - of any request
        """Sets the result."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Sets the error."""


def callback_for(future: Reply) -> OnAnswer:
    """A callback that completes a future with the answer of a request."""

    def on_answer(value: Any, error: BaseException | None) -> None:  # noqa: ANN401 - whatever the request is answered with
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    return on_answer


def wait_for(session: Session, pending: PendingRequest, answer: Answer, timeout_s: float) -> Any:  # noqa: ANN401
    """The answer of a request.

    Raises:
        StoreError: The answer is an error, or no answer came in time.
    """
    try:
        return answer.result(timeout_s)
    except TimeoutError:
        if answer.done():  # the answer itself is a TimeoutError
            raise
        raise session.withdraw(pending) from None
    except BaseException:
        if not answer.done():  # KeyboardInterrupt: no thread waits any more
            session.withdraw(pending)
        raise
