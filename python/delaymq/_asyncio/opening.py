"""What can be awaited, or entered with `async with`, to get something that is closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Opening"]


class Closable(Protocol):
    """What is closed at the end."""

    async def close(self) -> None:
        """Closes it."""


Opened = TypeVar("Opened", bound=Closable)


class Opening(Generic[Opened]):
    """Opens when it is awaited or entered: `async with opening as opened` or `opened = await opening`."""

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
