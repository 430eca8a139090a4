"""How a thread waits for an answer."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from delaymq.client.asked import Asked, Heard

if TYPE_CHECKING:
    from delaymq.client.session import Session

__all__ = ["Reply", "into", "waited"]


class Reply(Protocol):
    """A future, of threads or of an event loop."""

    def done(self) -> bool:
        """True where it has a result."""

    def set_result(self, result: Any, /) -> None:  # noqa: ANN401 - of any request
        """It was answered."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It failed."""


def into(future: Reply) -> Heard:
    """Puts what came of a request into a future."""

    def heard(value: Any, error: BaseException | None) -> None:  # noqa: ANN401 - whatever the request is answered with
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    return heard


def waited(session: Session, asked: Asked, answer: Future[Any], timeout_s: float) -> Any:  # noqa: ANN401
    """The answer of a request.

    Raises:
        StoreError: What came instead, or that nothing came in time.
    """
    try:
        return answer.result(min(timeout_s, threading.TIMEOUT_MAX))
    except TimeoutError:
        if answer.done():  # the answer is that something took too long
            raise
        raise session.give_up(asked) from None
    except BaseException:
        if not answer.done():  # Ctrl-C: nobody waits any more
            session.give_up(asked)
        raise
