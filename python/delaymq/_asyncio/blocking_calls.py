"""Blocking calls from an event loop: they run on at most two threads, never on the loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

__all__ = ["BlockingCalls"]

THREADS_MAX = 2

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class BlockingCalls:
    """The threads of one asyncio store. Each is started on first use."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS_MAX, "delaymq-blocking")

    async def call(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """Makes the call and waits for it. Cancelled before a thread has begun, the call is not made."""
        return await asyncio.wrap_future(self._threads.submit(function, *args, **kwargs), loop=self._loop)

    def begin(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> asyncio.Future[Answer]:
        """As `call`, without waiting. Await the result in `asyncio.shield` to keep the call uncancelled."""
        return asyncio.wrap_future(self._threads.submit(function, *args, **kwargs), loop=self._loop)

    def end(self) -> None:
        """Ends the threads once they have made their calls."""
        self._threads.shutdown(wait=False)
