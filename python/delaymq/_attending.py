"""What an asyncio store has done on other threads, beside what it is asked."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from delaymq._retire import EVERY_S

if TYPE_CHECKING:
    from delaymq._blocking import BlockingCalls
    from delaymq._node import Node
    from delaymq.async_store import AsyncStore

__all__ = ["abandon", "look_after"]


def look_after(reference: weakref.ref[AsyncStore]) -> None:
    """Has expiry looked after on another thread, now and then while the store is open."""
    store = reference()
    if store is None or store._closing is not None:  # noqa: SLF001 - the store's own timer
        return
    event_loop = store._event_loop  # noqa: SLF001
    looking = event_loop.blocking.begin(store._node.retiring.look)  # noqa: SLF001
    # A store that is closed or poisoned meanwhile tells those who use it.
    looking.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    event_loop.loop.call_later(EVERY_S, look_after, reference)


def abandon(starting: asyncio.Future[Node], blocking: BlockingCalls) -> None:
    """The one who opened a store was cancelled meanwhile: nobody will close it."""
    if not starting.cancelled() and starting.exception() is None:
        blocking.begin(starting.result().stop)
    blocking.end()
