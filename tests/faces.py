"""One store of any face, driven by the same calls: in this process, or over TCP."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import delaymq
import delaymq.testing

__all__ = ["Face", "Served", "is_over_tcp", "opened", "opened_async", "over_tcp"]

SMALL: Any = {"durability": "os", "segment_bytes": 1 << 20}
_SERVES = contextvars.ContextVar("_SERVES", default=False)


class Served:
    """A store of this process, and a server over it."""

    def __init__(self, folder: str | Path, **options: Any) -> None:
        self.store = delaymq.open(folder, **{"durability": "os", "segment_bytes": 4 << 20, **options})
        self.server = delaymq.testing.serve(self.store)
        self.url = self.server.url

    def close(self) -> None:
        self.server.stop()
        self.store.close()


class Face:
    """A store of one face, and calls to it."""

    EMBEDDED: ClassVar = ["plain", "asyncio"]
    REMOTE: ClassVar = ["client", "asyncio client"]
    NAMES: ClassVar = [*EMBEDDED, *REMOTE]

    def __init__(self, folder: Path, name: str) -> None:
        self.runner = asyncio.Runner() if "asyncio" in name else None
        self.folder = folder
        self.is_remote = "client" in name
        self.served: list[Served] = []
        self.store = self.call(lambda: self.opening(folder))
        self.messages: Any = self.call(lambda: self.store.subscribe("consumed", group="g"))

    def opening(self, folder: Any, **options: Any) -> Any:
        if self.is_remote:
            self.served.append(Served(folder, **options))
            connect: Any = delaymq.connect_async if self.runner else delaymq.connect
            return connect(self.served[-1].url)
        open_: Any = delaymq.open_async if self.runner else delaymq.open
        return open_(folder, **{"durability": "os", "segment_bytes": 4 << 20, **options})

    def call(self, call: Callable[[], Any]) -> Any:
        async def called() -> Any:
            found = call()
            return await found if hasattr(found, "__await__") else found

        return self.runner.run(called()) if self.runner else call()

    def one(self) -> Any:
        self.call(lambda: self.store.publish("consumed", b"x"))
        return self.call(lambda: self.messages.get(5))

    def close(self) -> None:
        self.call(self.messages.close)
        self.call(self.store.close)
        if self.runner:
            self.runner.close()
        for served in self.served:
            served.close()


@contextmanager
def over_tcp(serves: bool) -> Iterator[None]:
    """Until its end `opened` and `opened_async` give clients of a server over the store, or the store itself."""
    before = _SERVES.set(serves)
    try:
        yield
    finally:
        _SERVES.reset(before)


def is_over_tcp() -> bool:
    return _SERVES.get()


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[delaymq.Store]:
    """A store, or a client of a server over it, which has the same face but for what speaks of a folder."""
    if not is_over_tcp():
        with delaymq.open(folder, **{**SMALL, **options}) as store:
            yield store
        return
    served = Served(folder, **{**SMALL, **options})
    try:
        with delaymq.connect(served.url) as client:
            yield cast("delaymq.Store", client)
    finally:
        served.close()


@asynccontextmanager
async def opened_async(folder: Path, **options: Any) -> AsyncIterator[delaymq.AsyncStore]:
    """As `opened`, on an event loop."""
    if not is_over_tcp():
        async with delaymq.open_async(folder, **{**SMALL, **options}) as store:
            yield store
        return
    served = Served(folder, **{**SMALL, **options})
    try:
        async with delaymq.connect_async(served.url) as client:
            yield cast("delaymq.AsyncStore", client)
    finally:
        served.close()
