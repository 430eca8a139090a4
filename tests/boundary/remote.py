"""A client of either face, driven by the same calls, beside what it is connected to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import delaymq
from proxies import Relay

FACES = ["client", "asyncio client"]


class Remote:
    """Calls to a client of one face."""

    def __init__(self, face: str) -> None:
        self.runner = asyncio.Runner() if "asyncio" in face else None

    def call(self, call: Callable[[], Any]) -> Any:
        async def called() -> Any:
            found = call()
            return await found if hasattr(found, "__await__") else found

        return self.runner.run(called()) if self.runner else call()

    def connect(self, url: str, **options: Any) -> Any:
        connect: Any = delaymq.connect_async if self.runner else delaymq.connect
        return self.call(lambda: connect(url, **options))

    @contextmanager
    def connected(self, url: str, **options: Any) -> Iterator[Any]:
        client = self.connect(url, **options)
        try:
            yield client
        finally:
            self.call(client.close)

    def next_of(self, messages: Any, timeout: float = 20) -> Any:
        message = self.call(lambda: messages.get(timeout))
        assert message is not None
        return message

    def rest(self, seconds: float = 0.001) -> None:
        """Waits, while the client does what it does by itself."""
        self.call(lambda: asyncio.sleep(seconds)) if self.runner else time.sleep(seconds)

    def cut(self, relay: Relay, client: Any) -> None:
        """Cuts the connection, and waits until the client knows."""
        lost_count = client._connection.lost_count
        relay.cut()
        while client._connection.lost_count == lost_count:
            self.rest()

    def close(self) -> None:
        if self.runner:
            self.runner.close()
