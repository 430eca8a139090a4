"""Publishing to a server."""

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


class ClientPublishing:
    """The methods of `Client` that store messages."""

    _carrier: Carrier

    def _ended(self, steps: Steps[Result], /) -> Result:
        """Sends the requests of the steps, and waits for their answers, until the steps return."""
        raise NotImplementedError

    @with_options_of(Publish)
    def publish(self, subject: str, body: bytes | bytearray | memoryview, **options: Unpack[PublishOptions]) -> Receipt:
        """Stores one message, to be delivered when it is due, as `delaymq.Store.publish`.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned: As `delaymq.Store.publish`.
            AmbiguousError: The connection was lost, or the timeout was over, before the answer came: the message may
                or may not be stored. With `deduplicate`, or a key and no `message_id`, this is raised only if the
                repeated request was refused or had no answer in time. The same call with `deduplicate` and the
                same `message_id` stores the message once.
            Unreachable: There was no connection in time; nothing was stored.
            Busy, Stopping: The server accepts no requests now; nothing was stored.
            Closed: The client is closed.
            ForkedProcess: The client was made by the parent process.
        """
        return self._ended(self._carrier.publish(subject, body, options))[0]

    @overload
    def publish_many(
        self,
        subject: str | Sequence[str],
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts: ...
    @overload
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    @with_options_of(storing.publish_many)
    def publish_many(
        self,
        messages: str | Sequence[str] | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        **options: Unpack[ColumnOptions],
    ) -> Receipts:
        """Stores up to 10,000 messages of 8 MiB in total, all or none, as `delaymq.Store.publish_many`.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.Store.publish_many`.
            DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable, Busy, Stopping, Closed,
                ForkedProcess: As `publish`.
        """
        return self._ended(self._carrier.publish_many(messages, bodies, delays, options))
