"""Stores for tests: opened in milliseconds, inspected for ready messages, crashed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime
from typing import overload
from weakref import WeakKeyDictionary

from delaymq import _core
from delaymq._asyncio.opening import Opening
from delaymq._asyncio.store import AsyncStore
from delaymq.durations import moment
from delaymq.store import Durability, Store
from delaymq.testing.clock import Clock

__all__ = ["ReadyMessage", "crash", "last_life", "open_store", "open_store_async", "ready"]

SEGMENT_BYTES = 4 * 1024 * 1024  # small segments open quickly; one call may publish half of one

_REOPENED: WeakKeyDictionary[Store, Store] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """A message that is ready, as `ready` shows it without delivering it.

    Attributes:
        subject: The subject that it was published on.
        body: The bytes that were published.
        due: When it was due, UTC; for a retry, when the retry was due.
        published: When the store received it, UTC.
        attempt: The number of its next delivery, from 1.
        redelivered: True if a consumer may have received it before.
        sequence: Its place in the store's order of facts.
        message_id: The id that it was published with, or `""`.
        tags: The tags that it was published with.
        attributes: The attributes that it was published with.
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
    """Opens a store for a test in milliseconds, as `delaymq.open` but with small segments.

    Args:
        path: The folder. It is created if it does not exist.
        clock: The clock of the store; None is the system's.
        durability: `"os"`, which with a `Clock` syncs nothing; `"disk"` syncs as in production.
        segment_bytes: Size of a log segment, in bytes, used when the store is created; 4 MiB by default. One call
            may publish half of it at most.

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
    """As `open_store`, for a test on an event loop; await it, or enter it with `async with`."""
    return AsyncStore.open(path, durability=durability, segment_bytes=segment_bytes, clock=clock)


def ready(store: Store | AsyncStore, subject: str, group: str | None = None) -> list[ReadyMessage]:
    """The ready messages of a subject, in order of delivery.

    No message is delivered: the result is what a consumer gets next.

    Args:
        store: An open store.
        subject: The subject; an unknown one has no messages.
        group: The group to look at: messages that it has neither finished nor in flight, with its retries at
            the end. Without it, or for an unknown group: messages that some group of the subject has not
            finished, in flight or not.

    Raises:
        WrongType, InvalidArgument: A name is not a `str`, or is refused.
        Poisoned, Closed, ForkedProcess: As `Store.publish`.
    """
    found = _core.ready(store._core, subject, group)  # noqa: SLF001 - part of the package
    return [_ready_message(one) for one in found]


@overload
def crash(store: Store) -> Store: ...
@overload
def crash(store: AsyncStore) -> Opening[AsyncStore]: ...
def crash(store: Store | AsyncStore) -> Store | Opening[AsyncStore]:
    """Ends a store like `kill -9` ends its process, and opens it again: same folder, options and clock.

    Everything that was answered is there. Messages in flight come again, with `attempt` 2 or
    more and `redelivered` set; so may the next few, since it is unknown what else a dead process
    had received. Anything that was queued and not flushed (an `ack` just before) is lost. A publish in
    progress raises Closed, and its messages may or may not be there. The old store and its subscriptions and
    messages raise Closed. As after a real kill, the operating system keeps the data that was written.

    Returns:
        The store, opened again; close it as usual. For an `AsyncStore`, an object to await or to enter with
        `async with`, which crashes the store and opens it again.

    Raises:
        Closed: The store is closed already.
        ForkedProcess: The store was opened by the parent process.
    """
    if isinstance(store, AsyncStore):
        return Opening(lambda: _crash_async(store))
    core = store._core  # noqa: SLF001 - part of the package
    _core.abandon(core)
    store.close()  # the parts that are in Python
    _REOPENED[store] = reopened = type(store)(_core.reopen(core), store.path)
    return reopened


def _ready_message(found: _core.ReadyTuple) -> ReadyMessage:
    subject, body, due_ms, published_ms, attempt, redelivered, sequence, meta = found
    due, published = moment(due_ms), moment(published_ms)
    return ReadyMessage(subject, body, due, published, attempt, redelivered, sequence, *_core.decode_meta(meta))


async def _crash_async(store: AsyncStore) -> AsyncStore:
    await asyncio.to_thread(_core.abandon, store._core)  # noqa: SLF001 - part of the package
    await store.close()
    return await store._opened_again()  # noqa: SLF001


def last_life(store: Store) -> Store:
    """The store after every `crash` of this one, or the store itself."""
    while (later := _REOPENED.get(store)) is not None:
        store = later
    return store
