"""A clock that stands still until a test turns it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from delaymq import _core
from delaymq.durations import Duration, delay_ms, due_ms, moment
from delaymq.errors import InvalidArgument

__all__ = ["Clock"]

START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """The time of the stores that were opened with it, which moves only when it is told to.

    ::

        clock = Clock()
        with delaymq.open(folder, clock=clock) as store:
            store.publish("reminder", b"pay the rent", delay=timedelta(days=30))
            clock.advance(timedelta(days=30))

    Several stores may share one; none may go back to an earlier clock. Only due times, delays and
    `lateness` live by it: the timeout of a `get` is real time, since it is a thread that waits.
    """

    def __init__(self, now: datetime = START, *, patience: Duration = 1.0) -> None:
        """A clock that shows `now`.

        Args:
            now: An aware datetime, from 1970 to 2499; the first of January 2030 by default.
            patience: How long `advance` waits, in real time, for a consumer's thread that has taken
                messages and neither comes back for more nor settles one.

        Raises:
            WrongType: `now` is no datetime, or `patience` no duration.
            InvalidArgument: `now` has no time zone or is out of range, or `patience` is negative.
        """
        self._patience_ms = delay_ms(patience, "patience")
        self._core = _core.Clock(due_ms(now, "now"))

    @property
    def now(self) -> datetime:
        """What it shows: an aware datetime, UTC, in whole milliseconds."""
        return moment(self._core.now_ms)

    def advance(self, by: Duration) -> None:
        """Lets time pass, and returns when every store on this clock is idle.

        Everything that became due is dispatched then, and seen by `get` and `ready`. How long that
        takes depends on how many messages there are, and not on how much time passes.

        While other threads consume, the clock stops at each due time on the way until each of
        them has taken what is there and asks for more: what it does with a message (publish, `nack`
        with a delay) happens at that message's time. So retries with backoff come as they would have
        come. A thread is known from its first `get` on: see `await_consumers`. One that shows no
        sign for `patience` is left behind, and the clock moves on; so is the thread that calls this.

        Args:
            by: A timedelta or seconds, zero or more; parts of a millisecond round up.

        Raises:
            WrongType: `by` is neither a timedelta nor a number.
            InvalidArgument: `by` is negative (a clock never goes back) or not finite, or leads
                beyond the year 2499.
            Poisoned, StorageError: A store on this clock failed; the clock stays where that was.
        """
        self._core.advance(delay_ms(by, "by"), self._patience_ms)

    def advance_to(self, at: datetime) -> None:
        """Lets time pass until the clock shows `at`; see `advance`.

        Raises:
            WrongType: `at` is not a datetime.
            InvalidArgument: `at` has no time zone, or the clock is past it.
        """
        by_ms = due_ms(at) - self._core.now_ms
        if by_ms < 0:
            raise InvalidArgument(
                f"at: expected {self.now.isoformat()} or later, found {at.isoformat()}",
                argument="at",
                expected=f"{self.now.isoformat()} or later",
                found=at.isoformat(),
            )
        self._core.advance(by_ms, self._patience_ms)

    def await_consumers(self, count: int = 1, *, timeout: Duration = timedelta(seconds=10)) -> None:
        """Waits until so many other threads consume from the stores on this clock.

        Call it between starting such threads and `advance`, which otherwise may know nothing of them.

        Args:
            count: Threads that have asked one of the stores' subscriptions for messages, and still run.
            timeout: How long to wait, in real time.

        Raises:
            TimedOut: There are fewer.
        """
        self._core.await_consumers(count, delay_ms(timeout, "timeout"))

    def __repr__(self) -> str:
        return f"Clock({self.now.isoformat()})"
