"""The bases of objects that are closed at the end of a `with` or `async with`."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """An object whose `close` is called at the end of a `with`."""

    def close(self) -> None:
        """Closes it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing:
    """An object whose `close` is awaited at the end of an `async with`."""

    async def close(self) -> None:
        """Closes it."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
