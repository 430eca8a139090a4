"""The client for threads: `delaymq.connect(url)`."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, overload

from delaymq._arguments.batches import receipt_list
from delaymq._arguments.columns import ColumnOptions, Moments
from delaymq._arguments.moves import Row, move_of, moved, moves_of
from delaymq._arguments.subjects import Subjects, subjects_of
from delaymq._core import Connection, RemoteSubscription, Request
from delaymq._store.closing import Closing
from delaymq.client.commands.batches import cancels, moves, refused_move
from delaymq.client.commands.keys import ClientKeyCommands
from delaymq.client.commands.loading import ClientBulkLoads
from delaymq.client.commands.publishing import RETRY_FOR_MS, Publication
from delaymq.client.commands.recurring import ClientRecurringCommands
from delaymq.client.options import TIMEOUT_S, ClientOptions, log_report
from delaymq.client.sources import OpenSources
from delaymq.client.threads.administration import ClientAdministration
from delaymq.client.threads.pending import ClientPendingQueries
from delaymq.durations import Duration, Expires, OnExpiry, hold_ms
from delaymq.errors import InvalidArgument, NamesFull, StoreError
from delaymq.filters import AttributeConditions, Tags, filters_of
from delaymq.keys import IfExists
from delaymq.message import NO_TAGS, Publish
from delaymq.receipt import Moved, Outcome, Receipt, Receipts
from delaymq.starts import Start, start_of
from delaymq.status import Status
from delaymq.subscription import Subscription

IN_FLIGHT_MAX = 256  # unacknowledged messages that one consumer may hold


class Client(
    ClientAdministration, ClientPendingQueries, ClientKeyCommands, ClientRecurringCommands, ClientBulkLoads, Closing
):
    """A connection to a delaymq server, with the methods of a `Store`.

    Threads may share a client; a forked child may not use it. Close it, or use it as a context manager. If
    the connection is lost, the client reconnects by itself, and calls made meanwhile wait for it.
    """

    def __init__(self, options: ClientOptions, connection: Connection) -> None:
        """Use `connect` instead."""
        self._options = options
        self._connection = connection
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        # A subscription that the user has dropped is closed with the client.
        self._sources = OpenSources[RemoteSubscription]()

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str | bytes | None = None,
        timeout: Duration = TIMEOUT_S,
        deduplicate: bool = False,
        retry_ambiguous: bool = True,
    ) -> Self:
        """Connects to the server at `delaymq://host:port`.

        ::

            with delaymq.connect("delaymq://127.0.0.1:20801") as store:
                store.publish("order.timeout", b"42", delay=30)

        Args:
            url: The address of the server; the default port is 20801.
            token: The token that authorizes the client, if the server requires one.
            timeout: How long a call waits for its answer, a timedelta or seconds; 30 seconds by default.
            deduplicate: True publishes everything with `deduplicate`, so that a publish whose answer was lost is
                repeated and stored once. Messages without an id are given one. The server has room for 1,747 ids a
                second on average, and each publish waits until it is applied.
            retry_ambiguous: True repeats a request whose answer was lost, if the server deduplicates it: publishes
                with `deduplicate`, or with a key and no `message_id`, and commands by keys. If such a request
                had no id, AmbiguousError is raised, as for every other publish: no request is ever executed twice.
                False raises it for these requests, too. Commands with receipts are repeated in any case.

        Raises:
            WrongType, InvalidArgument, TooLarge: An argument is refused.
            Unreachable: No server answers at the address.
            TimedOut: The peer is silent.
            ProtocolError: The peer is no delaymq server, or of another version.
            Unauthorized: The server requires a token, or another one.
        """
        options = ClientOptions.made(url, token, timeout, deduplicate=deduplicate, retry_ambiguous=retry_ambiguous)
        return cls(options, Connection.open(options.of_core(), log_report))

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that made it; also while the connection is lost."""
        return self._connection.is_here and not self._connection.is_closed

    @property
    def url(self) -> str:
        """The address of the server."""
        return str(self._options.address)

    def publish(
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
        options = (tags, attributes, message_id, key, if_exists, deduplicate, jitter, expires, on_expiry)
        message = Publish(subject, body, delay, at, level, *options)
        return self._published(Publication.one(message, with_ids=self._options.deduplicate))[0]

    @overload
    def publish_many(
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
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    def publish_many(
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
        """Stores up to 10,000 messages of 8 MiB in total, all or none, as `delaymq.Store.publish_many`.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `delaymq.Store.publish_many`.
            DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable, Busy, Stopping, Closed,
                ForkedProcess: As `publish`.
        """
        options = ColumnOptions(at, keys, if_exists, jitter)
        return self._published(Publication.many(messages, bodies, delays, options, with_ids=self._options.deduplicate))

    def _published(self, publication: Publication) -> Receipts:
        receipts: Receipts
        try:
            request, retry = publication.request, publication.is_safe and self._options.retry_ambiguous
            receipts = self._call(request, retry=retry, retry_for_ms=RETRY_FOR_MS)
        except NamesFull as error:
            if publication.without_ids is None or error.argument != "message_id":
                raise
            receipts = self._call(publication.without_ids())
        except InvalidArgument as error:
            raise publication.raised(error) from None
        return receipts

    def cancel(self, receipt: Receipt) -> Outcome:
        """Cancels a message that is still pending, for all groups. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.cancel`.
            AmbiguousError: As `cancel_many`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self.cancel_many((receipt,))[0]

    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Cancels messages that are still pending, with one wait for all; each has its own outcome.

        A request whose answer was lost is repeated: the same cancel has the same outcome. More than 10,000 messages
        take several requests: if one is refused, the earlier ones have taken effect.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.cancel_many`.
            AmbiguousError: An answer was lost, and the repeated request had none in time, or the client was
                closed: the messages may or may not be cancelled. The same call tells later.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        self._connection.check()
        requests = cancels(receipt_list(receipts), self._connection.stream)
        return [Outcome(word) for request in requests for word in self._call(request, retry=True)]

    def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a pending message another due time and a new receipt, for all groups. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge: As `delaymq.Store.move`.
            AmbiguousError: As `move_many`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._moved(move_of(receipt, delay, at))[0]

    def move_many(
        self,
        receipts: Iterable[Receipt],
        *,
        delay: Duration | Sequence[Duration] | None = None,
        at: datetime | Sequence[datetime] | None = None,
    ) -> list[Moved]:
        """Gives pending messages another due time, with one wait for all; each has its own outcome.

        A request whose answer was lost is repeated: the same move has the same outcome while the server remembers it,
        which is for ten minutes, or until 1,048,576 more moves. More than 10,000 messages take several requests: if one
        is refused, the earlier ones have taken effect.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge: As `delaymq.Store.move_many`.
            AmbiguousError: An answer was lost, and the repeated request had none in time, or the client was
                closed: the messages may or may not be moved. The same call tells later.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._moved(moves_of(receipts, delay, at))

    def _moved(self, rows: list[Row]) -> list[Moved]:
        self._connection.check()
        found: list[Moved] = []
        for place, request in enumerate(moves(rows, self._connection.stream)):
            try:
                found.extend(moved(self._call(request, retry=True, retry_for_ms=RETRY_FOR_MS)))
            except InvalidArgument as error:
                raise refused_move(error, rows, place) from None
        return found

    def subscribe(
        self,
        subject: Subjects,
        *,
        group: str,
        start: Start = "unfinished",
        in_flight_max: int = IN_FLIGHT_MAX,
        handle_within: Duration | None = None,
        tags: Tags = (),
        attributes: AttributeConditions | None = None,
    ) -> Subscription:
        """Adds a consumer to a group, as `delaymq.Store.subscribe`.

        If the connection is lost, the subscription is created again. Messages that were delivered before and are
        acknowledged later may be delivered again.

        Raises:
            WrongType, InvalidArgument, TooLarge, Poisoned: As `delaymq.Store.subscribe`.
            Busy, Stopping, Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
        """
        self._connection.check()
        subjects, filters = subjects_of(subject), filters_of(tags, attributes)
        names, within_ms = (list(subjects), group), hold_ms(handle_within)
        source = self._connection.subscribe(names, start_of(start), in_flight_max, filters, within_ms)
        self._sources.add(source)
        subscription = Subscription(
            source, subjects, group, in_flight_max, self, pull_messages=1, handle_within_ms=within_ms
        )
        self._subscriptions.add(subscription)
        return subscription

    def status(self) -> Status:
        """The state of the server's store, as counts and flags.

        Raises:
            Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
        """
        return Status(**self._call(Request.status(), reads=True))

    def _stream(self) -> bytes:
        self._connection.check()
        return self._connection.stream

    def _call(
        self, request: Request, *, reads: bool = False, retry: bool = False, retry_for_ms: int | None = None
    ) -> Any:  # noqa: ANN401
        return self._connection.call(request, reads, retry, retry_for_ms)

    def close(self) -> None:
        """Closes all subscriptions, waits until their acknowledgements are durable, and disconnects.

        A second call does nothing.

        Raises:
            AmbiguousError: The connection was lost before all acknowledgements were known to be durable.
            StoreError: The server refused one.
            ForkedProcess: The client was made by the parent process; nothing was touched.
        """
        connection = self._connection
        if not connection.is_here:
            connection.check()
        try:
            if not connection.is_closed:
                self._close_subscriptions()
        finally:
            connection.end()

    def _close_subscriptions(self) -> None:
        """Closes every subscription, then raises the first error, if any."""
        failures: list[StoreError] = []
        for subscription in list(self._subscriptions):
            subscription._forget()  # noqa: SLF001 - disarms its warning
        for source in self._sources:
            try:
                source.close(with_client=True)
            except StoreError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None and self.is_open:
            try:
                warnings.warn(
                    f"{self!r} was not closed: use it in a `with`", ResourceWarning, source=self, stacklevel=2
                )
            finally:
                with contextlib.suppress(StoreError):
                    self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


connect = Client.connect
"""Connects to a server: `Client.connect` as a function, which is `delaymq.connect`."""
