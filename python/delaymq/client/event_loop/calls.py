"""How coroutines wait for answers, and the parts that an `AsyncSubscription` of a client finds on its loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from delaymq.client.session.requests import PendingRequest
from delaymq.client.session.session import Session


async def await_answer(session: Session, pending: PendingRequest, answer: asyncio.Future[Any], timeout_s: float) -> Any:  # noqa: ANN401
    """The answer of a request.

    Raises:
        StoreError: The answer is an error, or no answer came in time.
    """
    timer = answer.get_loop().call_later(timeout_s, _time_out, session, pending, answer)
    try:
        return await answer
    except asyncio.CancelledError:
        session.withdraw(pending)
        raise
    finally:
        timer.cancel()


def _time_out(session: Session, pending: PendingRequest, answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(session.withdraw(pending))


class LoopCalls:
    """Takes the place of `BlockingCalls` in a client: its calls are coroutines and need no threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun: set[asyncio.Task[Any]] = set()

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401 - whatever is called
        """Makes the call and awaits its result."""
        result = function(*args)
        return await result if inspect.isawaitable(result) else result

    def begin(self, function: Callable[..., Any], *args: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        """As `call`, without waiting. Await the result in `asyncio.shield` to keep the call uncancelled."""
        task = self._loop.create_task(self.call(function, *args))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task
