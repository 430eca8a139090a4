"""The calls that an `AsyncSubscription` of a client makes on its loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


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
