"""Stores for tests: opened in milliseconds, looked into, crashed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, overload
from weakref import WeakKeyDictionary

from delaymq import _core
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.store import AsyncStore
from delaymq.durations import moment
from delaymq.store import Durability, Store

if TYPE_CHECKING:
    from delaymq.testing.clock import Clock

__all__ = ["ReadyMessage", "crash", "last_life", "open_store", "open_store_async", "ready"]

SEGMENT_BYTES = 4 * 1024 * 1024  # makes an open quick; a call may publish half of it

_NEXT_LIFE: WeakKeyDictionary[Store, Store] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """A message that is ready, seen and not taken.

    Attributes:
        subject: The subject that it was published on.
        body: The bytes that were published.
        due: When it was due, UTC; for a retry, when that was.
        published: When the store received it, UTC.
        attempt: Which delivery it would be, from 1.
        redelivered: True where it may have been handed over before.
        sequence: Its place in the store's order of facts.
        message_id: The id it was published with, or `""`.
        tags: The tags it was published with.
        attributes: The attributes it was published with.
    """

    subject: str
    body: bytes
    due: datetime
    published: datetime
    attempt: int
    redelivered: bool
    sequence: int
    message_id: str
    tags: tuple[str, ...]
    attributes: dict[str, str]


def open_store(
    path: str | os.PathLike[str],
    clock: Clock | None = None,
    *,
    durability: Durability = "os",
    segment_bytes: int = SEGMENT_BYTES,
) -> Store:
    """Opens a store for a test, in milliseconds: as `delaymq.open`, with small files.

    Args:
        path: The folder; it is made where it does not exist.
        clock: The clock to live by; None is the system's.
        durability: `"os"`, which by a clock of yours spares the disk all syncs; `"disk"` syncs as in earnest.
        segment_bytes: The size of a file of the log, when the store is made, 4 MiB by default; no call
            may publish more than half of it.

    Raises:
        InvalidArgument: The store has seen a later time than `clock` shows, or an option is refused.
        Locked, NotAStore, Corrupt, StorageError, WrongType: As `delaymq.open`.
    """
    return Store.open(path, durability=durability, segment_bytes=segment_bytes, clock=clock)


def open_store_async(
    path: str | os.PathLike[str],
    clock: Clock | None = None,
    *,
    durability: Durability = "os",
    segment_bytes: int = SEGMENT_BYTES,
) -> Opening[AsyncStore]:
    """As `open_store`, for a test on an event loop: to be awaited, or entered with `async with`."""
    return AsyncStore.open(path, durability=durability, segment_bytes=segment_bytes, clock=clock)


def ready(store: Store | AsyncStore, subject: str, group: str | None = None) -> list[ReadyMessage]:
    """The messages of a subject that are ready, in the order in which they would be handed over.

    Nothing is taken: what is asserted here is what a consumer gets next.

    Args:
        store: An open store.
        subject: The subject; one that does not exist has no messages.
        group: The group to look for: what it has neither finished nor in its hands, its retries at
            the end. Without it, or for a group that does not exist yet: what some group of the
            subject has not finished, in somebody's hands or not.

    Raises:
        WrongType, InvalidArgument: A name is not a `str`, or is refused.
        Poisoned, Closed, ForkedProcess: As `Store.publish`.
    """
    found = _core.ready(store._core, subject, group)  # noqa: SLF001 - the other side of the store
    return [_seen(one) for one in found]


@overload
def crash(store: Store) -> Store: ...
@overload
def crash(store: AsyncStore) -> Opening[AsyncStore]: ...
def crash(store: Store | AsyncStore) -> Store | Opening[AsyncStore]:
    """Ends a store as `kill -9` ends its process, and opens it again: same folder, options and clock.

    What was answered is there. What consumers held unacknowledged comes again, with `attempt` 2 or
    more and `redelivered` set; so may be the next few, since nobody knows what else a dead process
    had taken. What was queued and not flushed (an `ack` just before) is lost, and a
    publish under way raises Closed and may or may not be there. The old store and all that came from
    it raise Closed. As after a real kill, the operating system keeps what was written to it.

    Returns:
        The store of the next life; close it as any other. Of an `AsyncStore`, what is to be awaited, or
        entered with `async with`, for it to crash and be opened again.

    Raises:
        Closed: The store is closed already.
        ForkedProcess: The store was opened by the parent process.
    """
    if isinstance(store, AsyncStore):
        return Opening(lambda: _crash_async(store))
    core = store._core  # noqa: SLF001 - the other side of the store
    _core.abandon(core)
    store.close()  # what Python keeps beside the core
    _NEXT_LIFE[store] = born = type(store)(_core.reopen(core), store.path)
    return born


def _seen(found: _core.ReadyTuple) -> ReadyMessage:
    subject, body, due_ms, published_ms, attempt, redelivered, sequence, meta = found
    due, published = moment(due_ms), moment(published_ms)
    return ReadyMessage(subject, body, due, published, attempt, redelivered, sequence, *_core.decode_meta(meta))


async def _crash_async(store: AsyncStore) -> AsyncStore:
    await asyncio.to_thread(_core.abandon, store._core)  # noqa: SLF001 - the other side of the store
    await store.close()
    return await store._opened_again()  # noqa: SLF001


def last_life(store: Store) -> Store:
    """The store that is left after every `crash` of this one; itself where there was none."""
    while (later := _NEXT_LIFE.get(store)) is not None:
        store = later
    return store
