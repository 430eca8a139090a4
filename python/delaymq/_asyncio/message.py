"""A message in the hands of an asyncio consumer."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from delaymq.message import Received

__all__ = ["AsyncMessage"]


class AsyncMessage(Received):
    """A message that is due, in the hands of a consumer on an event loop.

    With `async with` it is acknowledged at the end of the block and given back if the block raises
    or is cancelled::

        async with message:
            await handle(message.body)
    """

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(kind is not None)
