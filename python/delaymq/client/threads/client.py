"""The client of threads: `delaymq.connect(url)`."""

from __future__ import annotations

import contextlib
import math
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from delaymq._arguments.batches import listed
from delaymq._arguments.moves import Row, move_of, moved, moves_of
from delaymq._core import Request
from delaymq.client.commands.batches import cancels, moves, refused_move
from delaymq.client.commands.keys import ClientKeyCommands
from delaymq.client.commands.loading import ClientBulkLoads
from delaymq.client.commands.publishing import AGAIN_FOR_S, Publication
from delaymq.client.commands.recurring import ClientRecurringCommands
from delaymq.client.session.options import TIMEOUT_S, ClientOptions
from delaymq.client.session.pending_request import PendingRequest
from delaymq.client.threads.administration import ClientAdministration
from delaymq.client.threads.pending import ClientPendingQueries
from delaymq.client.threads.subscription_state import BlockingSubscriptionState
from delaymq.client.threads.transport import SocketThread
from delaymq.client.threads.waiting import Answer, into, waited
from delaymq.durations import Duration
from delaymq.errors import InvalidArgument, NamesFull, StoreError
from delaymq.message import NO_TAGS, Publish
from delaymq.receipt import Moved, Outcome, Receipt, Receipts
from delaymq.status import Status
from delaymq.subscription import Subscription

if TYPE_CHECKING:
    from delaymq.keys import IfExists
    from delaymq.store import Start

__all__ = ["Client", "connect"]

IN_FLIGHT_MAX = 256  # messages that one consumer holds unacknowledged at most


class Client(ClientAdministration, ClientPendingQueries, ClientKeyCommands, ClientRecurringCommands, ClientBulkLoads):
    """A connection to a delaymq server, with the face of a `Store`.

    Threads may share it; a forked child may not use it. Close it, or use it as a context manager. Where
    the connection is lost another is made by itself, and what is asked meanwhile waits for it.
    """

    def __init__(self, options: ClientOptions, thread: SocketThread) -> None:
        """Made by `connect`."""
        self._chosen = options
        self._thread = thread
        self._session = thread.session
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._consuming: weakref.WeakSet[BlockingSubscriptionState] = weakref.WeakSet()  # the session holds them

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
            url: Where the server is; without a port it is 20801.
            token: What proves to the server that it may connect, where it asks for that.
            timeout: How long a call waits for its answer, a timedelta or seconds; 30 seconds by default.
            deduplicate: Publishes everything with `deduplicate`, so that a publish whose answer was lost is sent again
                by itself and stored once. What has no id is given one. Each takes its place among the ids that the
                server remembers, 1,747 a second for ever, and waits to be applied.
            retry_ambiguous: True sends again by itself what the server knows again by its id, and so does once: what
                is published with `deduplicate`, or with a key and no `message_id`, and what is asked by keys.
                Where one of these had no id, AmbiguousError is raised, as for every other publish: nothing is
                ever done twice. False raises it for these, too. What names receipts is asked again in any case.

        Raises:
            WrongType, InvalidArgument, TooLarge: An argument is refused.
            Unreachable: No server answers there.
            TimedOut: What answers there says nothing.
            ProtocolError: What answers there is no delaymq server, or of another version.
            Unauthorized: The server wants a token, or another one.
        """
        options = ClientOptions.made(url, token, timeout, deduplicate=deduplicate, retry_ambiguous=retry_ambiguous)
        opened = Answer()
        thread = SocketThread(options, into(opened))
        try:
            opened.result()
        except BaseException:
            thread.end()
            raise
        return cls(options, thread)

    @property
    def is_open(self) -> bool:
        """True until it is closed, in the process that made it; also while there is no connection."""
        return self._session.closed is None and self._session.is_here

    @property
    def url(self) -> str:
        """Where the server is."""
        return str(self._chosen.address)

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
    ) -> Receipt:
        """Stores one message, to be delivered when it is due, as `delaymq.Store.publish` does.

        Raises:
            WrongType, InvalidArgument, TooLarge, DiskFull, KeyTaken, NamesFull, Poisoned: As there.
            AmbiguousError: The connection was lost, or the time over, before the answer came: it may
                have been stored or not. With `deduplicate`, or a key and no `message_id`, only where it was sent
                again and was refused then, or had no answer in time. The same call again, with `deduplicate` and
                the same `message_id`, stores it once.
            Unreachable: There was no connection in time; nothing was stored.
            Busy, Stopping: The server takes nothing now; nothing was stored.
            Closed: The client is closed.
            ForkedProcess: The client was made by the parent process.
        """
        message = Publish(
            subject, body, delay, at, level, tags, attributes, message_id, key, if_exists, deduplicate, jitter
        )
        return self._published(Publication.one(message, names=self._chosen.deduplicate))[0]

    @overload
    def publish_many(
        self,
        subject: str,
        bodies: Sequence[bytes | bytearray | memoryview],
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        jitter: Duration | None = None,
    ) -> Receipts: ...
    @overload
    def publish_many(self, messages: Iterable[Publish], /) -> Receipts: ...
    def publish_many(
        self,
        messages: str | Iterable[Publish],
        bodies: Sequence[bytes | bytearray | memoryview] | None = None,
        delays: Duration | Sequence[Duration] = 0,
        /,
        *,
        jitter: Duration | None = None,
    ) -> Receipts:
        """Stores up to 10,000 messages of 8 MiB together, all or none, as `delaymq.Store.publish_many` does.

        Raises:
            WrongType, InvalidArgument, TooLarge: As there.
            DiskFull, KeyTaken, NamesFull, Poisoned, AmbiguousError, Unreachable, Busy, Stopping, Closed,
                ForkedProcess: As `publish`.
        """
        return self._published(
            Publication.many(messages, bodies, delays, names=self._chosen.deduplicate, jitter=jitter)
        )

    def _published(self, publication: Publication) -> Receipts:
        receipts: Receipts
        try:
            request, again = publication.request, publication.is_safe and self._chosen.retry_ambiguous
            receipts = self._call(request, again=again, again_for_s=AGAIN_FOR_S)
        except NamesFull as error:
            if publication.plain is None or error.argument != "message_id":
                raise
            receipts = self._call(publication.plain())
        except InvalidArgument as error:
            raise publication.raised(error) from None
        return receipts

    def cancel(self, receipt: Receipt) -> Outcome:
        """Takes a message back, if it is still pending, for all groups. The answer is durable.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.cancel`.
            AmbiguousError: As `cancel_many`.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self.cancel_many((receipt,))[0]

    def cancel_many(self, receipts: Iterable[Receipt]) -> list[Outcome]:
        """Takes messages back, if they are still pending, with one wait for all; each is judged alone.

        A lost answer is asked for again: the same cancel has the same outcome. More than 10,000 are
        cancelled in several requests: where one is refused, those before it are done.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument: As `delaymq.Store.cancel_many`.
            AmbiguousError: An answer was lost, and none came in time when it was asked again, or the
                client was closed: they may be cancelled or not. The same call says so later.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        self._session.check()
        requests = cancels(listed(receipts, "receipts", "an iterable of Receipt"), self._session.stream)
        return [Outcome(word) for request in requests for word in self._call(request, again=True)]

    def move(self, receipt: Receipt, *, delay: Duration | None = None, at: datetime | None = None) -> Moved:
        """Gives a message that is still pending another due time, for all groups, and a new receipt. It is durable.

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
        """Gives messages another due time, with one wait for all; each is judged alone.

        A lost answer is asked for again: the same move has the same outcome, as long as the server remembers
        it, which is for ten minutes, or until 1,048,576 more were made. More than 10,000 are moved in several requests:
        where one is refused, those before it are done.

        Raises:
            WrongType, ForeignReceipt, InvalidArgument, TooLarge: As `delaymq.Store.move_many`.
            AmbiguousError: An answer was lost, and none came in time when it was asked again, or the
                client was closed: they may be moved or not. The same call says so later.
            Poisoned, Unreachable, Busy, Stopping, Closed, ForkedProcess: As `publish`.
        """
        return self._moved(moves_of(receipts, delay, at))

    def _moved(self, rows: list[Row]) -> list[Moved]:
        self._session.check()
        found: list[Moved] = []
        for place, request in enumerate(moves(rows, self._session.stream)):
            try:
                found.extend(moved(self._call(request, again=True, again_for_s=AGAIN_FOR_S)))
            except InvalidArgument as error:
                raise refused_move(error, rows, place) from None
        return found

    def subscribe(
        self,
        subject: str,
        *,
        group: str,
        start: Start = "earliest",
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> Subscription:
        """Becomes a consumer of a group, as `delaymq.Store.subscribe` does.

        Where the connection is lost the subscription is made again. What was handed over before and is
        acknowledged only then may come again.

        Raises:
            WrongType, InvalidArgument, Poisoned: As there.
            Busy, Stopping, Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
        """
        self._session.check()
        state = BlockingSubscriptionState(self._session, (subject, group), start, in_flight_max)
        state.open()
        self._consuming.add(state)
        subscription = Subscription(state, subject, group, in_flight_max, self, pull_messages=1)
        self._subscriptions.add(subscription)
        return subscription

    def status(self) -> Status:
        """What the store of the server holds and how it is.

        Raises:
            Unreachable, TimedOut, Closed, ForkedProcess: As `publish`.
        """
        return Status(**self._call(Request.status(), reads=True))

    def _stream(self) -> bytes:
        self._session.check()
        return self._session.stream

    def _call(
        self, request: Request, *, reads: bool = False, again: bool = False, again_for_s: float = math.inf
    ) -> Any:  # noqa: ANN401
        session = self._session
        answer = Answer()
        asked = PendingRequest(request, into(answer), reads=reads, again=reads or again, again_for_s=again_for_s)
        session.ask(asked)
        return waited(session, asked, answer, self._chosen.timeout_s)

    def close(self) -> None:
        """Ends all subscriptions, waits until what they acknowledged is durable, and disconnects.

        A second call does nothing.

        Raises:
            AmbiguousError: The connection was lost before some of that was known to be durable.
            StoreError: The server refused it.
            ForkedProcess: The client was made by the parent process; nothing was touched.
        """
        if not self._session.is_here:
            self._session.check()
        try:
            if self._session.closed is None:
                self._close_subscriptions()
        finally:
            self._thread.end()

    def _close_subscriptions(self) -> None:
        """Raises what the first of them raises."""
        failures: list[StoreError] = []
        for subscription in list(self._subscriptions):
            subscription._forget()  # noqa: SLF001 - nobody is warned any more
        for state in list(self._consuming):
            try:
                state.close(with_client=True)
            except StoreError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and session.closed is None and session.is_here:
            try:
                warnings.warn(
                    f"{self!r} was not closed: use it in a `with`", ResourceWarning, source=self, stacklevel=2
                )
            finally:
                with contextlib.suppress(StoreError):
                    if self._thread.is_current:  # nobody else would read the answers
                        self._thread.end()
                    else:
                        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


connect = Client.connect
"""`Client.connect`, for those who name no class; `delaymq.connect` is this."""
