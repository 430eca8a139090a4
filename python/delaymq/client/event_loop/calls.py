"""How coroutines wait for answers, and what an `AsyncSubscription` of a client finds on its loop."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from delaymq.client.session.pending_request import PendingRequest

if TYPE_CHECKING:
    from delaymq._asyncio.wakeups import Watcher
    from delaymq.client.session.session import Session

__all__ = ["LoopCalls", "Watchers", "awaited"]


async def awaited(session: Session, asked: PendingRequest, answer: asyncio.Future[Any], timeout_s: float) -> Any:  # noqa: ANN401
    """The answer of a request.

    Raises:
        StoreError: What came instead, or that nothing came in time.
    """
    timer = answer.get_loop().call_later(timeout_s, _late, session, asked, answer)
    try:
        return await answer
    except asyncio.CancelledError:
        session.give_up(asked)
        raise
    finally:
        timer.cancel()


def _late(session: Session, asked: PendingRequest, answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(session.give_up(asked))


class LoopCalls:
    """Stands where a store on a loop has threads for what may wait: here that is coroutines, and needs none."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun: set[asyncio.Task[Any]] = set()

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401 - whatever is called
        """Calls it and waits."""
        result = function(*args)
        return await result if inspect.isawaitable(result) else result

    def begin(self, function: Callable[..., Any], *args: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        """As `call`, without waiting; await it in a shield, so that cancelling does not take it back."""
        task = self._loop.create_task(self.call(function, *args))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task


class Watchers:
    """Who waits for news of which subscription."""

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._watchers: weakref.WeakValueDictionary[int, Watcher] = weakref.WeakValueDictionary()

    def watch(self, watcher: Watcher) -> int:
        """From now on it is looked after under the token returned."""
        token = next(self._tokens)
        self._watchers[token] = watcher
        return token

    def look(self, token: int) -> None:
        """There is news under this token."""
        watcher = self._watchers.get(token)
        if watcher is not None:
            watcher.look()
