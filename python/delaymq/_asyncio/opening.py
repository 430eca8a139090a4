"""An object to await, or to enter with `async with`, that opens something and closes it at the end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """An object with an asynchronous `close`."""

    async def close(self) -> None:
        """Closes it."""


Opened = TypeVar("Opened", bound=Closable)


class Opening(Generic[Opened]):
    """Opens on `await` or `async with`: `async with opening as opened` or `opened = await opening`."""

    __slots__ = ("_open", "_opened")

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._open = open_

    def __await__(self) -> Generator[Any, Any, Opened]:
        return self._open().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opened.close()
