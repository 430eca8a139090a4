"""The state of a client's subscription: messages that have arrived, and messages that were settled.

It is the source of a `Subscription`, as the core's subscription is for a store. When a connection is
lost, the messages that it delivered go back to the group: those that were not handed over are dropped,
and settling the others is ambiguous, which `flush` reports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq._arguments.argument_errors import shown, unexpected
from delaymq.client.session.requests import OnAnswer, PendingRequest
from delaymq.client.session.session import Session
from delaymq.errors import AmbiguousError, Closed

if TYPE_CHECKING:
    from delaymq._core import Delivery, Receipt
    from delaymq.filters import Filters
    from delaymq.starts import CoreStart

PREFETCH = 256  # messages that are requested ahead of the consumer, at first
CLIENT_CLOSED = "the client is closed"
SETTLED_MAX = 256  # settled messages that are sent at once, without waiting for more


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """The arguments of `subscribe`, which are sent again on a new connection."""

    subjects: Sequence[str]
    group: str
    start: CoreStart
    in_flight_max: int
    filters: Filters

    def again(self) -> SubscriptionRequest:
        """The same for a further connection: a subject that was made meanwhile is read from its first message."""
        has_prefix = any(subject.endswith("*") for subject in self.subjects)
        return replace(self, start="earliest") if has_prefix else self

    def request(self, number: int, consumer: str) -> _core.Request:
        """The request that creates the subscription under this number, for this consumer.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.subscribe`.
        """
        names = (self.subjects, self.group, consumer)
        return _core.Request.subscribe(number, names, self.start, self.in_flight_max, self.filters)


class SubscriptionState:
    """The state that the subscriptions for threads and for event loops share, guarded by the session's lock."""

    def __init__(self, session: Session, wanted: SubscriptionRequest) -> None:
        """A subscription that the server does not have yet."""
        self._session = session
        self._wanted = wanted
        self.number = 0  # the number on this connection; 0 without one
        self.consumer = ""
        self.stopped = False
        self._closed: str | None = None
        self._opened: OnAnswer | None = None
        self._cause: BaseException | None = None
        self._last_refusal = ""
        self._ready: deque[Delivery] = deque()
        self._prefetch = 0
        self._credit = 0
        self._acks: list[int] = []
        self._nacks: list[tuple[int, int]] = []
        self._dead: dict[str, list[int]] = {}
        self._settled = 0  # acknowledgements sent so far; those after the first `_confirmed` may still be lost
        self._confirmed = 0
        self._unanswered: dict[PendingRequest, int] = {}  # other settling requests, with their numbers of messages
        self._ambiguous = 0
        self._refusal: BaseException | None = None

    def notify(self) -> None:
        """Wakes the waiters."""
        raise NotImplementedError

    # The subscription itself. The session calls these methods, with its lock held.

    def subscribe(self, number: int) -> _core.Request:
        """The request that creates it under this number.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.subscribe`.
        """
        self.number = 0
        return self._wanted.request(number, self.consumer)

    def subscribed(self, number: int, consumer: str) -> None:
        """Handles its creation at the server."""
        self.number, self.consumer, self._cause, self._credit = number, consumer, None, 0
        self._wanted = self._wanted.again()
        self._last_refusal = ""
        self._report_opened(None)
        self._top_up()
        self.notify()

    def refused(self, error: BaseException) -> None:
        """Handles a permanent refusal."""
        self._cause = error
        self._report_opened(error)
        self.notify()

    def refused_temporarily(self, error: BaseException) -> bool:
        """Handles a temporary refusal; True if its reason is new."""
        words, self._last_refusal = self._last_refusal, str(error)
        return words != self._last_refusal

    def _report_opened(self, error: BaseException | None) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(None, error)

    def disconnected(self) -> None:
        """Handles a lost connection, whose messages go back to the group."""
        self.number, self._cause = 0, None
        queued = len(self._acks) + len(self._nacks) + sum(map(len, self._dead.values()))
        self._ambiguous += self._unconfirmed + queued
        self._clear_unconfirmed()
        self._credit = 0
        for left in (self._ready, self._acks, self._nacks, self._dead):
            left.clear()

    def ended(self) -> None:
        """Handles the end of the client."""
        self.disconnected()
        if self._closed is None:
            self._closed = CLIENT_CLOSED
        self._report_opened(Closed(self._closed))
        self.notify()

    # Deliveries.

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Buffers messages."""
        self._credit = max(0, self._credit - len(deliveries))
        if not self.stopped:
            self._ready.extend(deliveries)
            self.notify()

    def take(self, count_max: int, *, tops_up: bool = True) -> list[Delivery]:
        """Up to `count_max` buffered messages. With `tops_up`, more are requested if few are left.

        Raises:
            StoreError: The server refused to create the subscription again.
        """
        if self._closed == CLIENT_CLOSED:
            raise Closed(CLIENT_CLOSED)
        if self.stopped:
            return []
        ready = self._ready
        if len(ready) <= count_max:
            found = list(ready)
            ready.clear()
        else:
            found = [ready.popleft() for _ in range(count_max)]
        if not found and self._cause is not None:
            raise self._cause
        self._prefetch = min(self._wanted.in_flight_max, max(self._prefetch, count_max, PREFETCH))
        if tops_up and (not found or len(ready) + self._credit <= self._prefetch // 2):
            self._top_up()
        if not ready:
            self.push_settled()
        return found

    def _top_up(self) -> None:
        """Gives the server credit for as many messages as the buffer has room for."""
        room = self._prefetch - len(self._ready) - self._credit
        if self.number and room > 0 and not self.stopped:
            self._credit += room
            self._tell(_core.Request.credit(self.number, room))

    def request_ready(self, on_answer: OnAnswer) -> PendingRequest | None:
        """Asks the server to send all ready messages and then an answer; None without a connection."""
        if not self.number:
            return None
        room = max(0, self._prefetch - len(self._ready) - self._credit)
        self._credit += room
        pending = PendingRequest(_core.Request.credit(self.number, room), on_answer, reads=True, number=self.number)
        self._session.ask(pending)
        return pending

    def _tell(self, request: _core.Request) -> None:
        self._session.ask(PendingRequest(request, _ignore, number=self.number, one_way=True))

    # Settling.

    def _check_open(self) -> None:
        self._session.check()
        if self._closed is not None:
            raise Closed("the subscription is closed: what it had not settled went back to its group and comes again")

    def acknowledge(self, key: int, /) -> None:
        """Queues an acknowledgement.

        Raises:
            Closed, ForkedProcess: As `Message.ack`.
        """
        self.acknowledge_many([key])

    def acknowledge_many(self, keys: list[int], /) -> None:
        """Queues acknowledgements; an empty list checks whether any would be accepted.

        Raises:
            Closed, ForkedProcess: As `Subscription.ack`.
        """
        self._check_open()
        with self._session.lock:
            if self.number:
                of, number = _core.Caller.delivered_to, self.number
                current = [key for key in keys if of(key, number)]
            else:
                current = []
            self._ambiguous += len(keys) - len(current)
            self._acks += current
            self._after_queueing(len(self._acks))

    def give_back(self, key: int, delay_ms: int, /) -> None:
        """Queues a redelivery.

        Raises:
            InvalidArgument: The delay is longer than the store's `delay_max`.
            Closed, ForkedProcess: As `Message.nack`.
        """
        self._check_open()
        longest = self._session.delay_ms_max
        if delay_ms > longest:
            raise unexpected("delay", f"at most {longest} ms", f"{shown(delay_ms)} ms")
        with self._session.lock:
            if self._is_current(key):
                self._nacks.append((key, delay_ms))
                self._after_queueing(len(self._nacks))

    def dead_letter(self, key: int, reason: str, /) -> None:
        """Queues a dead letter.

        Raises:
            WrongType, TooLarge: `reason` is refused.
            Closed, ForkedProcess: As `Message.dead_letter`.
        """
        self._check_open()
        _core.Request.put_away(self.number, [], reason)  # checks the reason
        with self._session.lock:
            if self._is_current(key):
                self._dead.setdefault(reason, []).append(key)
                self._after_queueing(len(self._dead[reason]))

    def _is_current(self, key: int) -> bool:
        if self.number and _core.Caller.delivered_to(key, self.number):
            return True
        self._ambiguous += 1
        return False

    def _after_queueing(self, count: int) -> None:
        if count >= SETTLED_MAX:
            self.push_settled()
        elif count:
            self._session.schedule_settling(self)

    def push_settled(self) -> None:
        """Sends all queued acknowledgements, redeliveries and dead letters."""
        if not self.number:
            return
        if self._acks:
            done, self._acks = self._acks, []
            self._settled += len(done)
            self._tell(_core.Request.acknowledge(self.number, done))
            self._session.schedule_confirmation()
        if self._nacks:
            backs, self._nacks = self._nacks, []
            self._settle(_core.Request.give_back(self.number, backs), len(backs))
        for reason, keys in self._dead.items():
            self._settle(_core.Request.put_away(self.number, keys, reason), len(keys))
        self._dead.clear()

    def _settle(self, request: _core.Request, count: int) -> None:
        def on_answer(_answer: Any, error: BaseException | None) -> None:  # noqa: ANN401 - there is none
            if isinstance(error, AmbiguousError):
                return  # the connection was lost: `disconnected` has counted the messages
            self._unanswered.pop(pending, None)
            if error is not None:
                self._refusal = error

        pending = PendingRequest(request, on_answer, number=self.number)
        self._unanswered[pending] = count
        self._session.ask(pending)

    @property
    def _unconfirmed(self) -> int:
        """How many messages were settled on this connection and may not be durable."""
        return self._settled - self._confirmed + sum(self._unanswered.values())

    def _clear_unconfirmed(self) -> None:
        self._confirmed = self._settled
        self._unanswered.clear()

    def confirm(self) -> None:
        """Asks whether acknowledgements are durable, so that few are ambiguous if the connection is lost."""
        if self.number and self._unconfirmed:
            self.request_flush(_ignore)

    def request_flush(self, on_answer: OnAnswer) -> PendingRequest | None:
        """Asks the server to make everything settled durable; None if there is nothing to ask.

        Raises:
            AmbiguousError: Some of it is ambiguous.
            StoreError: Some of it was refused.
        """
        self.push_settled()
        if on_answer is not _ignore:
            self.raise_ambiguous()
        if not self.number:
            return None
        # Several may be in progress: each answer covers only the messages that were sent before its request.
        settled_before, unanswered_before = self._settled, list(self._unanswered)

        def on_flushed(_answer: Any, error: BaseException | None) -> None:  # noqa: ANN401
            if error is None:
                self._confirmed = max(self._confirmed, settled_before)
                for settled in unanswered_before:
                    self._unanswered.pop(settled, None)
                if on_answer is not _ignore and (self._refusal is not None or self._ambiguous):
                    error = self._pop_error()
            elif isinstance(error, AmbiguousError) and on_answer is not _ignore:
                self._ambiguous = 0  # this error reports them
            on_answer(None, error)

        pending = PendingRequest(_core.Request.flush(self.number), on_flushed, reads=True, number=self.number)
        self._session.ask(pending)
        return pending

    def finish(self, *, was_confirmed: bool) -> None:
        """Ends the subscription.

        Args:
            was_confirmed: The server has confirmed the end, after everything settled was durable.

        Raises:
            AmbiguousError: Some settled messages are ambiguous.
            StoreError: Some were refused.
        """
        if not was_confirmed:
            self._ambiguous += self._unconfirmed
        self._clear_unconfirmed()
        self.raise_ambiguous()

    def raise_ambiguous(self) -> None:
        """Raises, once, for settled messages that may not be durable.

        Raises:
            AmbiguousError: A connection was lost before it was known.
            StoreError: The server refused some.
        """
        error = self._pop_error()
        if error is not None:
            raise error

    def _pop_error(self) -> BaseException | None:
        refusal, self._refusal = self._refusal, None
        ambiguous, self._ambiguous = self._ambiguous, 0
        if refusal is not None:
            return refusal
        if not ambiguous:
            return None
        return AmbiguousError(
            f"a connection was lost before {ambiguous} of the messages that were settled were known to be: "
            "they may come again",
            reason="the connection was lost",
        )

    def __repr__(self) -> str:
        return f"the subscription of {', '.join(self._wanted.subjects[:3])} for {self._wanted.group}"

    def receipt(self, delivery: Delivery, /) -> Receipt:
        """The receipt that a message was published with.

        Raises:
            ForkedProcess: The client was made by the parent process.
        """
        if not self._session.is_here:
            self._session.check()
        return _core.receipt_of(delivery)

    def now_ms(self) -> int:
        """The store's trusted clock."""
        return self._session.now_ms()


def _ignore(_answer: Any, _error: BaseException | None) -> None:  # noqa: ANN401
    """Ignores an answer."""
