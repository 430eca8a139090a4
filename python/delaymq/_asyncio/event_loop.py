"""The event loop that an asyncio store belongs to, with the parts that serve the store there.

Blocking calls run on at most two threads, never on the thread of the loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from delaymq._asyncio.wakeups import Wakeups
from delaymq.errors import ForkedProcess, WrongLoop

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


@dataclass(frozen=True, slots=True)
class EventLoop:
    """One loop, and the parts of one store on it.

    Attributes:
        loop: The loop that opened the store.
        blocking: Threads for blocking calls.
        wakeups: The coroutines that wait for the store, and the descriptor that wakes them.
        opened_by: The process.
    """

    loop: asyncio.AbstractEventLoop
    blocking: BlockingCalls
    wakeups: Wakeups
    opened_by: int = field(default_factory=os.getpid)

    def check(self) -> None:
        """Checks that the caller is a coroutine or callback of this loop.

        Raises:
            WrongLoop: This is another loop or thread.
            ForkedProcess: The store was opened by the parent process.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self.loop:
            if os.getpid() != self.opened_by:
                raise ForkedProcess(
                    f"the store belongs to process {self.opened_by}, this is process {os.getpid()}",
                    owner=self.opened_by,
                    caller=os.getpid(),
                )
            found = "no running loop" if running is None else "another loop"
            raise WrongLoop(
                f"expected the event loop that opened the store, found {found}; "
                "from elsewhere hand it over with asyncio.run_coroutine_threadsafe, or open a store of your own",
                expected="the event loop that opened the store",
                found=found,
            )
