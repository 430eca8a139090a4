"""Calls that may wait, made from an event loop: on at most two threads, never on the loop's."""

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
    """The threads of one asyncio store; each is started when it is needed first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS_MAX, "delaymq-blocking")

    async def call(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """Calls it and waits. Cancelled before a thread took it up, it is not called at all."""
        return await asyncio.wrap_future(self._threads.submit(function, *args, **kwargs), loop=self._loop)

    def begin(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> asyncio.Future[Answer]:
        """As `call`, without waiting; await it in a shield, so that cancelling does not take it back."""
        return asyncio.wrap_future(self._threads.submit(function, *args, **kwargs), loop=self._loop)

    def end(self) -> None:
        """Lets the threads go once they have done what they were given."""
        self._threads.shutdown(wait=False)
