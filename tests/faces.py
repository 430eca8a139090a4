"""One store of either face, driven by the same calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import delaymq

__all__ = ["Face"]


class Face:
    """A store of one face, and calls to it."""

    NAMES: ClassVar = ["plain", "asyncio"]

    def __init__(self, folder: Path, name: str) -> None:
        self.runner = asyncio.Runner() if name == "asyncio" else None
        self.folder = folder
        self.store = self.call(lambda: self.opening(folder))
        self.messages: Any = self.call(lambda: self.store.subscribe("consumed", group="g"))

    def opening(self, folder: Any, **options: Any) -> Any:
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
