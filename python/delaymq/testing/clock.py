"""A clock that stands still until a test advances it, or steps its wall clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from delaymq import _core
from delaymq._arguments.argument_errors import unexpected
from delaymq.durations import Duration, delay_ms, due_ms, moment

__all__ = ["Clock"]

START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """The clock of the stores that were opened with it. It moves only when it is advanced or stepped.

    ::

        clock = Clock()
        with delaymq.open(folder, clock=clock) as store:
            store.publish("reminder", b"pay the rent", delay=timedelta(days=30))
            clock.advance(timedelta(days=30))

    Several stores may share a clock; a store may not be opened with an earlier clock than before. The clock
    determines due times, delays and `lateness`. The timeout of a `get` is real time, since a thread waits.
    """

    def __init__(self, now: datetime = START, *, patience: Duration = 1.0) -> None:
        """A clock that shows `now`.

        Args:
            now: An aware datetime, from 1970 to 2499; the first of January 2030 by default.
            patience: How long `advance` waits, in real time, for the thread of a consumer that has messages and
                neither asks for more nor settles one.

        Raises:
            WrongType: `now` is not a datetime, or `patience` is not a duration.
            InvalidArgument: `now` has no time zone or is out of range, or `patience` is negative.
        """
        self._patience_ms = delay_ms(patience, "patience")
        self._core = _core.Clock(due_ms(now, "now"))

    @property
    def now(self) -> datetime:
        """The current time of the clock: an aware datetime, UTC, in whole milliseconds."""
        return moment(self._core.now_ms)

    def advance(self, by: Duration) -> None:
        """Advances the clock, and returns when every store on it is idle.

        All messages that became due are then dispatched, and visible to `get` and `ready`. The time that this
        takes depends on the number of messages, not on the duration.

        While other threads consume, the clock stops at each due time on the way until each of them has taken
        the ready messages and asks for more: whatever it does with a message (publish, `nack` with a delay)
        happens at that message's time. So retries with backoff are delivered as in real time. A thread counts
        from its first `get` on; see `await_consumers`. The clock does not wait for a thread that shows no
        activity for `patience`, nor for the calling thread.

        Args:
            by: A timedelta or seconds, zero or more; a fraction of a millisecond is rounded up.

        Raises:
            WrongType: `by` is neither a timedelta nor a number.
            InvalidArgument: `by` is negative (a clock never goes back) or not finite, or leads
                beyond the year 2499.
            Poisoned, StorageError: A store on this clock failed; the clock stays at that time.
        """
        self._core.advance(delay_ms(by, "by"), self._patience_ms)

    def advance_to(self, at: datetime) -> None:
        """Advances the clock until it shows `at`; see `advance`.

        Raises:
            WrongType: `at` is not a datetime.
            InvalidArgument: `at` has no time zone, or the clock is past it.
        """
        by_ms = due_ms(at) - self._core.now_ms
        if by_ms < 0:
            raise unexpected("at", f"{self.now.isoformat()} or later", at.isoformat())
        self._core.advance(by_ms, self._patience_ms)

    def step_ahead(self, by: Duration) -> None:
        """Sets the wall clock ahead while no time passes, as when a machine's clock is set right, or wrong.

        A step by more than 5 seconds holds dispatch: `store.status().held` is true until the step is undone or accepted
        (`store.accept_clock`). `now` is the time of the wall clock.

        Raises:
            WrongType: `by` is neither a timedelta nor a number.
            InvalidArgument: `by` is negative or not finite, or leads beyond the year 2499.
        """
        self._core.step(delay_ms(by, "by"))

    def step_back(self, by: Duration) -> None:
        """Sets the wall clock back while no time passes; see `step_ahead`. The stores' clocks never go back.

        Raises:
            WrongType: `by` is neither a timedelta nor a number.
            InvalidArgument: `by` is negative or not finite, or leads to before 1970.
        """
        self._core.step(-delay_ms(by, "by"))

    def await_consumers(self, count: int = 1, *, timeout: Duration = timedelta(seconds=10)) -> None:
        """Waits until `count` other threads consume from the stores on this clock.

        Call it after starting such threads and before `advance`, which otherwise may not know them yet.

        Args:
            count: Running threads that have called `get` or a similar method of a subscription.
            timeout: How long to wait, in real time.

        Raises:
            TimedOut: There are fewer.
        """
        self._core.await_consumers(count, delay_ms(timeout, "timeout"))

    def __repr__(self) -> str:
        return f"Clock({self.now.isoformat()})"
