"""One subscription of a client: what was delivered and not handed over, and what of it was settled.

It is what a `Subscription` stands on, as the core's own is for a store. What an older connection
delivered goes back to the group there, so none of it is handed over any more; the settling of such a
message is in doubt, and `flush` says so.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from delaymq import _core
from delaymq._arguments.argument_errors import shown
from delaymq.client.session.pending_request import OnAnswer, PendingRequest
from delaymq.errors import AmbiguousError, Closed, InvalidArgument

if TYPE_CHECKING:
    from delaymq._core import Delivery, Receipt
    from delaymq.client.session.session import Session

__all__ = ["CLIENT_CLOSED", "SubscriptionState"]

PREFETCH = 256  # messages that are asked for ahead of those who take them, at first
CLIENT_CLOSED = "the client is closed"
SETTLED_MAX = 256  # settled messages that are sent without waiting for more


class SubscriptionState:
    """The side of a subscription that threads and event loops share. The lock is the session's."""

    def __init__(self, session: Session, names: tuple[str, str], start: str, in_flight_max: int) -> None:
        """A subscription that is not made yet; `open` makes it."""
        self._session = session
        self._names = names
        self._start = start
        self._in_flight_max = in_flight_max
        self.number = 0  # on this connection; 0 while there is none
        self.consumer = ""
        self.stopped = False
        self._closed: str | None = None
        self._opened: OnAnswer | None = None
        self._trouble: BaseException | None = None
        self._refused_for = ""
        self._ready: deque[Delivery] = deque()
        self._prefetch = 0
        self._credit = 0
        self._done: list[int] = []
        self._backs: list[tuple[int, int]] = []
        self._away: dict[str, list[int]] = {}
        self._settled = 0  # acknowledgements sent, ever; those after the first `_confirmed` may be lost yet
        self._confirmed = 0
        self._unanswered: dict[PendingRequest, int] = {}  # what else was settled, with how many messages each
        self._doubtful = 0
        self._refusal: BaseException | None = None

    def news(self) -> None:
        """Something came for those who wait."""
        raise NotImplementedError

    # Being subscribed. All of this is called by the session, with its lock held.

    def subscribe(self, number: int) -> _core.Request:
        """The request that makes it, under this number.

        Raises:
            WrongType, InvalidArgument, TooLarge: As `Store.subscribe`.
        """
        self.number = 0
        return _core.Request.subscribe(number, (*self._names, self.consumer), self._start, self._in_flight_max)

    def subscribed(self, number: int, consumer: str) -> None:
        """It is made."""
        self.number, self.consumer, self._trouble, self._credit = number, consumer, None, 0
        self._refused_for = ""
        self._tell_opened(None)
        self._top_up()
        self.news()

    def refused(self, error: BaseException) -> None:
        """It cannot be made, or not made again."""
        self._trouble = error
        self._tell_opened(error)
        self.news()

    def refused_again(self, error: BaseException) -> bool:
        """It cannot be made again now; True where that was not known."""
        words, self._refused_for = self._refused_for, str(error)
        return words != self._refused_for

    def _tell_opened(self, error: BaseException | None) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(None, error)

    def disconnected(self) -> None:
        """The connection is lost, and what it delivered goes back to the group."""
        self.number, self._trouble = 0, None
        queued = len(self._done) + len(self._backs) + sum(map(len, self._away.values()))
        self._doubtful += self._unconfirmed + queued
        self._forget_unconfirmed()
        self._credit = 0
        for left in (self._ready, self._done, self._backs, self._away):
            left.clear()

    def ended(self) -> None:
        """The client is closed."""
        self.disconnected()
        if self._closed is None:
            self._closed = CLIENT_CLOSED
        self._tell_opened(Closed(self._closed))
        self.news()

    # What comes.

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Messages came."""
        self._credit = max(0, self._credit - len(deliveries))
        if not self.stopped:
            self._ready.extend(deliveries)
            self.news()

    def taken(self, count_max: int, *, tops_up: bool = True) -> list[Delivery]:
        """Up to so many of what came; more is asked for, unless that is done otherwise.

        Raises:
            StoreError: The subscription cannot be made again.
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
        if not found and self._trouble is not None:
            raise self._trouble
        self._prefetch = min(self._in_flight_max, max(self._prefetch, count_max, PREFETCH))
        if tops_up and (not found or len(ready) + self._credit <= self._prefetch // 2):
            self._top_up()
        if not ready:
            self.push_settled()
        return found

    def _top_up(self) -> None:
        """Lets the server send as many as there is room for here."""
        room = self._prefetch - len(self._ready) - self._credit
        if self.number and room > 0 and not self.stopped:
            self._credit += room
            self._tell(_core.Request.credit(self.number, room))

    def looked(self, heard: OnAnswer) -> PendingRequest | None:
        """Has the server send what is ready, and then say so; None where there is no connection."""
        if not self.number:
            return None
        room = max(0, self._prefetch - len(self._ready) - self._credit)
        self._credit += room
        asked = PendingRequest(_core.Request.credit(self.number, room), heard, reads=True, number=self.number)
        self._session.ask(asked)
        return asked

    def _tell(self, request: _core.Request) -> None:
        self._session.ask(PendingRequest(request, _unheard, number=self.number, one_way=True))

    # What is settled.

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
        """Queues acknowledgements; with none it says whether any would be taken.

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
            self._doubtful += len(keys) - len(current)
            self._done += current
            self._queued(len(self._done))

    def give_back(self, key: int, delay_ms: int, /) -> None:
        """Queues a redelivery.

        Raises:
            InvalidArgument: The delay is longer than the store's longest.
            Closed, ForkedProcess: As `Message.nack`.
        """
        self._check_open()
        longest = self._session.delay_ms_max
        if delay_ms > longest:
            expected, found = f"at most {longest} ms", f"{shown(delay_ms)} ms"
            raise InvalidArgument(
                f"delay: expected {expected}, found {found}", argument="delay", expected=expected, found=found
            )
        with self._session.lock:
            if self._is_current(key):
                self._backs.append((key, delay_ms))
                self._queued(len(self._backs))

    def dead_letter(self, key: int, reason: str, /) -> None:
        """Queues that a message is put away.

        Raises:
            WrongType, TooLarge: `reason` is refused.
            Closed, ForkedProcess: As `Message.dead_letter`.
        """
        self._check_open()
        _core.Request.put_away(self.number, [], reason)  # refuses what is no reason
        with self._session.lock:
            if self._is_current(key):
                self._away.setdefault(reason, []).append(key)
                self._queued(len(self._away[reason]))

    def _is_current(self, key: int) -> bool:
        if self.number and _core.Caller.delivered_to(key, self.number):
            return True
        self._doubtful += 1
        return False

    def _queued(self, count: int) -> None:
        if count >= SETTLED_MAX:
            self.push_settled()
        elif count:
            self._session.soon(self)

    def push_settled(self) -> None:
        """Sends what was settled."""
        if not self.number:
            return
        if self._done:
            done, self._done = self._done, []
            self._settled += len(done)
            self._tell(_core.Request.acknowledge(self.number, done))
            self._session.unconfirmed()
        if self._backs:
            backs, self._backs = self._backs, []
            self._settle(_core.Request.give_back(self.number, backs), len(backs))
        for reason, keys in self._away.items():
            self._settle(_core.Request.put_away(self.number, keys, reason), len(keys))
        self._away.clear()

    def _settle(self, request: _core.Request, count: int) -> None:
        def heard(_answer: Any, error: BaseException | None) -> None:  # noqa: ANN401 - there is none
            if isinstance(error, AmbiguousError):
                return  # the connection was lost, and `disconnected` has counted them
            self._unanswered.pop(asked, None)
            if error is not None:
                self._refusal = error

        asked = PendingRequest(request, heard, number=self.number)
        self._unanswered[asked] = count
        self._session.ask(asked)

    @property
    def _unconfirmed(self) -> int:
        """How many messages were settled on this connection and may not be durable."""
        return self._settled - self._confirmed + sum(self._unanswered.values())

    def _forget_unconfirmed(self) -> None:
        self._confirmed = self._settled
        self._unanswered.clear()

    def confirm(self) -> None:
        """Asks whether what was acknowledged is durable, so that little is in doubt when a connection is lost."""
        if self.number and self._unconfirmed:
            self.flushed(_unheard)

    def flushed(self, heard: OnAnswer) -> PendingRequest | None:
        """Asks for everything that was settled to be durable; None where nothing needs to be asked.

        Raises:
            AmbiguousError: Some of it is in doubt.
            StoreError: Some of it was refused.
        """
        self.push_settled()
        if heard is not _unheard:
            self.raise_doubts()
        if not self.number:
            return None
        # Several may be under way at once: each answer is for what was sent before it was asked, and no more.
        mark, before = self._settled, list(self._unanswered)

        def told(_answer: Any, error: BaseException | None) -> None:  # noqa: ANN401
            if error is None:
                self._confirmed = max(self._confirmed, mark)
                for settled in before:
                    self._unanswered.pop(settled, None)
                if heard is not _unheard and (self._refusal is not None or self._doubtful):
                    error = self._doubt()
            elif isinstance(error, AmbiguousError) and heard is not _unheard:
                self._doubtful = 0  # this tells of them
            heard(None, error)

        asked = PendingRequest(_core.Request.flush(self.number), told, reads=True, number=self.number)
        self._session.ask(asked)
        return asked

    def leave(self, *, was_told: bool) -> None:
        """The subscription has ended.

        Args:
            was_told: The server said so, after all that was settled was durable.

        Raises:
            AmbiguousError: Some of what was settled is in doubt.
            StoreError: Some of it was refused.
        """
        if not was_told:
            self._doubtful += self._unconfirmed
        self._forget_unconfirmed()
        self.raise_doubts()

    def raise_doubts(self) -> None:
        """Says once what may not have been done.

        Raises:
            AmbiguousError: A connection was lost before it was known.
            StoreError: It was refused.
        """
        error = self._doubt()
        if error is not None:
            raise error

    def _doubt(self) -> BaseException | None:
        refusal, self._refusal = self._refusal, None
        doubtful, self._doubtful = self._doubtful, 0
        if refusal is not None:
            return refusal
        if not doubtful:
            return None
        return AmbiguousError(
            f"a connection was lost before {doubtful} of the messages that were settled were known to be: "
            "they may come again",
            reason="the connection was lost",
        )

    def __repr__(self) -> str:
        subject, group = self._names
        return f"the subscription of {subject} for {group}"

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


def _unheard(_answer: Any, _error: BaseException | None) -> None:  # noqa: ANN401
    """Nobody waits for it."""
