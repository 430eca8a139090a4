"""Publishing to a server, recurring messages, and bulk loads, for coroutines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Unpack, overload

from delaymq._verbs import storing
from delaymq._verbs.calls import AsyncPart, Result, with_options_of
from delaymq._verbs.storing import ColumnOptions, RecurOptions
from delaymq.bulk_load import Loaded
from delaymq.client.commands.carrying import Carrier
from delaymq.client.commands.publishing import Steps
from delaymq.durations import Duration
from delaymq.message import Publish, PublishOptions
from delaymq.receipt import Receipt, Receipts
from delaymq.recurring import Recurring

if TYPE_CHECKING:
    from delaymq.loading import StagedRun


class AsyncClientPublishing(AsyncPart):
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

    @with_options_of(storing.recur)
    async def recur(
        self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[RecurOptions]
    ) -> Recurring:
        """Publishes a message again and again, as `delaymq.Client.recur`."""
        return await self._run(storing.recur(subject, body, **options))

    async def end_recurring(self, subject: str, name: str) -> bool:
        """Ends a series; its pending message is cancelled, as `delaymq.Client.end_recurring`."""
        return await self._run(storing.end_recurring(subject, name))

    async def recurring(self, subject: str | None = None) -> list[Recurring]:
        """Lists the series of one subject, or of all, as `delaymq.Client.recurring`."""
        return await self._run(storing.recurring(subject))

    async def load(self, job: str, runs: Iterable[StagedRun]) -> Loaded:
        """Stores all messages of staged runs, or none, once for each job, as `delaymq.Client.load`.

        Raises:
            WrongType, InvalidArgument, TooLarge, MissingFile, Corrupt, NewerFormat, NamesFull, DiskFull,
                AmbiguousError, Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `delaymq.Client.load`.
            WrongLoop: This is not the loop that made the client.
        """
        return await self._run(storing.load(job, runs))
