"""The client for threads: `delaymq.connect(url)`."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from datetime import datetime
from typing import Self, Unpack

from delaymq import _core
from delaymq._arguments.subjects import Subjects, SubscribeOptions, subscribed
from delaymq._core import Connection, RemoteSubscription
from delaymq._store.lifecycle import Closing
from delaymq._verbs import Methods
from delaymq._verbs.calls import Call, Result, with_options_of
from delaymq._verbs.pending import pending_filter, pending_page
from delaymq.client.commands.carrying import Carrier
from delaymq.client.commands.publishing import Steps
from delaymq.client.options import ClientOptions, ConnectArguments, log_report
from delaymq.client.sources import OpenSources
from delaymq.client.threads.publishing import ClientPublishing
from delaymq.errors import DelaymqError, StoreError
from delaymq.pending import PAGE, PendingList
from delaymq.subscription import Subscription


class Client(
    ClientPublishing,
    Methods,
    Closing,
):
    """A connection to a delaymq server, with the methods of a `Store`.

    Threads may share a client; a forked child may not use it. Close it, or use it as a context manager. If
    the connection is lost, the client reconnects by itself, and calls made meanwhile wait for it.
    """

    def __init__(self, options: ClientOptions, connection: Connection) -> None:
        """Use `connect` instead."""
        self._options = options
        self._connection = connection
        self._carrier = Carrier(self._stream, options)
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        # A subscription that the user has dropped is closed with the client.
        self._sources = OpenSources[RemoteSubscription]()

    @classmethod
    @with_options_of(ClientOptions.made)
    def connect(cls, url: str, **options: Unpack[ConnectArguments]) -> Self:
        """Connects to the server at `delaymq://host:port`, or to one of its nodes: `delaymq://host:port,host:port`.

        ::

            with delaymq.connect("delaymq://127.0.0.1:20801") as store:
                store.publish("order.timeout", b"42", delay=30)

        Args:
            url: The address of the server; the default port is 20801. With several addresses, the client uses one
                at a time. It goes over to another when the connection is lost, or when the node is not the primary of
                its copies. The other options hold for all addresses.
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
            Unreachable: No server answers at any of the addresses.
            NotPrimary: Nodes answered, and refused the greeting because none is the primary.
            TimedOut: The peer is silent.
            ProtocolError: The peer is no delaymq server, or of another version.
            Unauthorized: The server requires a token, or another one.
        """
        made = ClientOptions.made(url, **options)
        return cls(made, Connection.open(made.of_core(), log_report))

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that made it; also while the connection is lost."""
        return self._connection.is_here and not self._connection.is_closed

    @property
    def url(self) -> str:
        """The addresses of the server's nodes, as `connect` takes them."""
        return str(self._options.addresses)

    def pending(
        self,
        subject: str | None = None,
        *,
        prefix: str | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        after: str | None = None,
    ) -> PendingList:
        """Lists pending messages in order of due time and sequence, as `delaymq.Store.pending`.

        Raises:
            WrongType, InvalidArgument, StorageError: As `delaymq.Store.pending`.
            Poisoned, Closed, ForkedProcess, Unreachable, TimedOut: As `publish`, during iteration.
        """
        stream, wanted = self._stream(), pending_filter(subject, prefix, due_from, due_before)
        _core.pending_request(wanted, after, PAGE, stream)  # refuses at once
        return PendingList(lambda behind: self._run(pending_page(wanted, behind, stream)), after)

    @with_options_of(subscribed)
    def subscribe(self, subject: Subjects, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Adds a consumer to a group, as `delaymq.Store.subscribe`.

        If the connection is lost, the subscription is created again. Messages that were delivered before and are
        acknowledged later may be delivered again.

        Raises:
            WrongType, InvalidArgument, TooLarge, Poisoned: As `delaymq.Store.subscribe`.
            Busy, Stopping, Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
        """
        self._connection.check()
        subjects, group, start, in_flight_max, filters, within_ms = subscribed(subject, **options)
        source = self._connection.subscribe((list(subjects), group), start, in_flight_max, filters, within_ms)
        self._sources.add(source)
        subscription = Subscription(
            source, subjects, group, in_flight_max, self, pull_messages=1, handle_within_ms=within_ms
        )
        self._subscriptions.add(subscription)
        return subscription

    def _stream(self) -> bytes:
        self._connection.check()
        return self._connection.stream

    def _run(self, call: Call[Result], /) -> Result:
        return self._ended(self._carrier.steps(call))

    def _ended(self, steps: Steps[Result]) -> Result:
        """Sends the requests of the steps, and waits for their answers, until the steps return."""
        try:
            sent = next(steps)
            while True:
                try:
                    answer = self._connection.call(*sent)
                except DelaymqError as error:
                    sent = steps.throw(error)
                else:
                    sent = steps.send(answer)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]

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
