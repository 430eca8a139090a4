"""Publishing to a store in this process, for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Unpack, overload

from delaymq import _core
from delaymq._asyncio.event_loop import EventLoop
from delaymq._verbs import storing
from delaymq._verbs.calls import with_options_of
from delaymq._verbs.storing import ColumnOptions
from delaymq.durations import Duration
from delaymq.message import Publish, PublishOptions
from delaymq.receipt import Receipt, Receipts

TURN = 64  # publishes after which other tasks of the loop run


class AsyncPublishing:
    """The methods of `AsyncStore` that store messages."""

    _unblocked: _core.Unblocked
    _event_loop: EventLoop
    _published = 0

    @with_options_of(Publish)
    async def publish(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[PublishOptions]
    ) -> Receipt:
        """Stores one message, as `delaymq.Store.publish`.

        If the coroutine is cancelled while it waits, the message may or may not be stored, and never twice.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, Closed: As
                `delaymq.Store.publish`.
            ForkedProcess, WrongLoop: This is not the process, or the loop, that opened the store.
        """
        self._event_loop.check()
        return (await self._settled(self._unblocked.publish(subject, body, options)))[0]

    @overload
    async def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts: ...
    @overload
    async def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    @with_options_of(storing.publish_many)
    async def publish_many(
        self,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts:
        """Stores up to 10,000 messages, all or none, as `delaymq.Store.publish_many`.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, Closed, ForkedProcess: As
                `delaymq.Store.publish_many`.
            WrongLoop: This is not the loop that opened the store.
        """
        self._event_loop.check()
        publishing = storing.publish_many(self._unblocked, False, messages, bodies, delays, **options)
        return await self._settled(publishing)

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
