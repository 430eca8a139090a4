"""Publishing to a store in this process, for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import overload

from delaymq import _core
from delaymq._arguments.columns import ColumnOptions, Moments
from delaymq._arguments.publishes import publish_all
from delaymq._asyncio.event_loop import EventLoop
from delaymq.durations import Duration, Expires, OnExpiry, due_of, jittered
from delaymq.keys import IfExists, id_for, terms_of
from delaymq.message import NO_TAGS, Publish, meta_of
from delaymq.receipt import Receipt, Receipts

TURN = 64  # publishes after which other tasks of the loop run


class AsyncPublishing:
    """The methods of `AsyncStore` that publish."""

    _unblocked: _core.Unblocked
    _event_loop: EventLoop
    _published = 0

    async def publish(
        self,
        subject: str,
        body: bytes | bytearray | memoryview,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        level: int | None = None,
        tags: Sequence[str] = NO_TAGS,
        attributes: Mapping[str, str] | None = None,
        message_id: str | None = None,
        key: str | None = None,
        if_exists: IfExists | None = None,
        deduplicate: bool = False,
        jitter: Duration | None = None,
        expires: Expires | None = None,
        on_expiry: OnExpiry | None = None,
    ) -> Receipt:
        """Stores one message, as `delaymq.Store.publish`.

        If the coroutine is cancelled while it waits, the message may or may not be stored, and never twice.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, Closed: As
                `delaymq.Store.publish`.
            ForkedProcess, WrongLoop: This is not the process, or the loop, that opened the store.
        """
        due, absolute = due_of(delay, at, level)
        self._event_loop.check()
        terms = terms_of(key, if_exists, deduplicate, expires, on_expiry)
        meta = meta_of(id_for(message_id, deduplicate), tags, attributes)
        publishing = self._unblocked.publish(subject, body, jittered(due, jitter), absolute, meta, terms)
        return (await self._settled(publishing))[0]

    @overload
    async def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        at: Moments | None = None,
        keys: Sequence[str | None] | None = None,
        if_exists: IfExists | None = None,
        jitter: Duration | None = None,
    ) -> Receipts: ...
    @overload
    async def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    async def publish_many(
        self,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        at: Moments | None = None,
        keys: Sequence[str | None] | None = None,
        if_exists: IfExists | None = None,
        jitter: Duration | None = None,
    ) -> Receipts:
        """Stores up to 10,000 messages, all or none, as `delaymq.Store.publish_many`.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, Closed, ForkedProcess: As
                `delaymq.Store.publish_many`.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        options = ColumnOptions(at, keys, if_exists, jitter)
        return await self._settled(publish_all(self._unblocked, messages, bodies, delays, options))

    async def _settled(self, publishing: _core.Publishing | Receipts) -> Receipts:
        self._published += 1  # other tasks run after the submission: coroutines that begin in order stay in order
        if self._published % TURN == 0:
            await asyncio.sleep(0)
        if isinstance(publishing, Receipts):
            return publishing
        if publishing.position is None:
            await self._event_loop.blocking.call(publishing.submit)
        if publishing.position is not None:
            await self._event_loop.wakeups.reached(publishing.position)
        # With conditions, the result is known once the publish is applied, for which a thread waits.
        if publishing.is_on_terms:
            return await self._event_loop.blocking.call(publishing.receipts)
        return publishing.receipts()
