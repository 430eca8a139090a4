"""Messages as an asyncio consumer receives them."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from delaymq.message import Received


class AsyncMessage(Received):
    """A message that is due, delivered to a consumer on an event loop.

    Used with `async with`, the message is acknowledged at the end of the block, and given back if the block
    raises or is cancelled. The end of the block raises HoldExpired if the message was held for too long::

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
