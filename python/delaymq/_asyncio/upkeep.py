"""What an asyncio store has done on other threads, beside what it is asked."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from delaymq._store.retention import EVERY_S

if TYPE_CHECKING:
    from delaymq._asyncio.blocking_calls import BlockingCalls
    from delaymq._asyncio.store import AsyncStore
    from delaymq._store.lifecycle import Lifecycle

__all__ = ["abandon", "schedule_expiry"]


def schedule_expiry(reference: weakref.ref[AsyncStore]) -> None:
    """Has expiry looked after on another thread, now and then while the store is open."""
    store = reference()
    if store is None or store._closing is not None:  # noqa: SLF001 - the store's own timer
        return
    event_loop = store._event_loop  # noqa: SLF001
    looking = event_loop.blocking.begin(store._lifecycle.expiry.look)  # noqa: SLF001
    # A store that is closed or poisoned meanwhile tells those who use it.
    looking.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    event_loop.loop.call_later(EVERY_S, schedule_expiry, reference)


def abandon(starting: asyncio.Future[Lifecycle], blocking: BlockingCalls) -> None:
    """The one who opened a store was cancelled meanwhile: nobody will close it."""
    if not starting.cancelled() and starting.exception() is None:
        blocking.begin(starting.result().stop)
    blocking.end()
