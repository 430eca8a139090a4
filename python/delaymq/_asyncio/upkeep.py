"""Background work of an asyncio store: expiry, and closing a store whose opening was cancelled."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from delaymq._store.retention import SWEEP_INTERVAL_S

if TYPE_CHECKING:
    from delaymq._asyncio.event_loop import BlockingCalls
    from delaymq._asyncio.store import AsyncStore
    from delaymq._store.lifecycle import Lifecycle


def schedule_expiry(reference: weakref.ref[AsyncStore]) -> None:
    """Runs expiry on a thread of the store, once a minute while the store is open."""
    store = reference()
    if store is None or store._closing is not None:  # noqa: SLF001 - the store's own timer
        return
    event_loop = store._event_loop  # noqa: SLF001
    sweep = event_loop.blocking.begin(store._lifecycle.expiry.run)  # noqa: SLF001
    # If the store is closed or poisoned meanwhile, its users get that error; here it is only retrieved.
    sweep.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    event_loop.loop.call_later(SWEEP_INTERVAL_S, schedule_expiry, reference)


def abandon(starting: asyncio.Future[Lifecycle], blocking: BlockingCalls) -> None:
    """Closes a store whose opening coroutine was cancelled, since no other code will close it."""
    if not starting.cancelled() and starting.exception() is None:
        blocking.begin(starting.result().stop)
    blocking.end()
