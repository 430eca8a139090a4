"""Messages as an asyncio consumer receives them."""

from __future__ import annotations

from delaymq._core import AsyncMessage

__all__ = ["AsyncMessage"]


async def entered(message: AsyncMessage) -> AsyncMessage:
    """The coroutine of `AsyncMessage.__aenter__`."""
    return message
