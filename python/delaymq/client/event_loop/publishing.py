"""Publishing to a server, for coroutines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack, overload

from delaymq._verbs import storing
from delaymq._verbs.calls import Result, with_options_of
from delaymq._verbs.storing import ColumnOptions
from delaymq.client.commands.carrying import Carrier
from delaymq.client.commands.publishing import Steps
from delaymq.durations import Duration
from delaymq.message import Publish, PublishOptions
from delaymq.receipt import Receipt, Receipts


class AsyncClientPublishing:
    """The methods of `AsyncClient` that store messages."""

    _carrier: Carrier

    async def _ended(self, steps: Steps[Result], /) -> Result:
        """Sends the requests of the steps, and waits for their answers, until the steps return."""
        raise NotImplementedError

    @with_options_of(Publish)
    async def publish(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[PublishOptions]
    ) -> Receipt:
        """Stores one message, as `delaymq.Client.publish`.

        If the coroutine is cancelled while it waits, the message may or may not be stored, and never twice.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable,
                Busy, Stopping, Closed, ForkedProcess: As `delaymq.Client.publish`.
            WrongLoop: This is not the loop that made the client.
        """
        return (await self._ended(self._carrier.publish(subject, body, options)))[0]

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
        """Stores up to 10,000 messages of 8 MiB in total, all or none, as `delaymq.Client.publish_many`.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable,
                Busy, Stopping, Closed, ForkedProcess: As `delaymq.Client.publish_many`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._ended(self._carrier.publish_many(messages, bodies, delays, options))
