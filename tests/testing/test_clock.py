"""Time that moves only when it is told to. Nothing here measures or waits for real time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq.testing import Clock, open_store, ready

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(patience=60)  # a busy machine is no reason to move on


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[delaymq.Store]:
    with open_store(tmp_path / "store", clock) as opened:
        yield opened


@contextmanager
def consuming(store: delaymq.Store, clock: Clock, handle: Callable[[delaymq.Message], object]) -> Iterator[None]:
    """A thread that handles what comes on "jobs" for as long as the block runs."""
    with store.subscribe("jobs", group="workers") as messages:

        def run() -> None:
            for message in messages:
                handle(message)

        thread = threading.Thread(target=run)
        thread.start()
        clock.await_consumers()
        try:
            yield
        finally:
            messages.stop()
            thread.join()


def test_remind_in_thirty_days(store: delaymq.Store, clock: Clock) -> None:
    store.publish("reminder", b"pay the rent", delay=timedelta(days=30))
    with store.subscribe("reminder", group="app") as messages:
        clock.advance(timedelta(days=30) - timedelta(milliseconds=1))
        assert messages.get(timeout=0) is None
        clock.advance(0.001)
        message = messages.get(timeout=0)
        assert message is not None
        message.ack()
    assert message.body == b"pay the rent"
    assert message.due == clock.now == START + timedelta(days=30)
    assert message.published == START
    assert message.lateness == timedelta(0)
    # By any clock of the machine it is not due yet: no real time can have had a part in this.
    assert datetime.now(UTC) < message.due


def test_a_clock_stands_still_until_it_is_turned() -> None:
    clock = Clock()
    assert clock.now == START
    assert clock.now.tzinfo is UTC
    clock.advance(HOUR)
    clock.advance(0.0005)  # a part of a millisecond is one
    clock.advance(0)
    assert clock.now == START + HOUR + timedelta(milliseconds=1)
    clock.advance_to(START + DAY)
    assert clock.now == START + DAY
    assert repr(clock) == "Clock(2030-01-02T00:00:00+00:00)"
    assert Clock(datetime(1999, 12, 31, 23, tzinfo=UTC)).now.year == 1999


def test_a_clock_goes_neither_back_nor_nowhere() -> None:
    clock = Clock()
    for by in (-1, -0.001, timedelta(days=-1), float("nan"), float("inf"), timedelta(days=365 * 1000)):
        with pytest.raises(delaymq.InvalidArgument) as refused:
            clock.advance(by)
        assert refused.value.argument == "by"
    for wrong in (True, "1", None):
        with pytest.raises(delaymq.WrongType):
            clock.advance(wrong)  # type: ignore[arg-type]
    for at in (START - timedelta(milliseconds=1), datetime(2031, 1, 1)):  # noqa: DTZ001 - naive on purpose
        with pytest.raises(delaymq.InvalidArgument) as refused:
            clock.advance_to(at)
        assert refused.value.argument == "at"
    assert clock.now == START


@pytest.mark.parametrize(
    ("now", "error"),
    [
        (datetime(2030, 1, 1), delaymq.InvalidArgument),  # noqa: DTZ001 - naive on purpose
        (datetime(1969, 1, 1, tzinfo=UTC), delaymq.InvalidArgument),
        (datetime(2500, 1, 2, tzinfo=UTC), delaymq.InvalidArgument),
        (1_900_000_000, delaymq.WrongType),
    ],
)
def test_a_clock_starts_at_an_aware_time_in_range(now: datetime, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^now:"):
        Clock(now)
    with pytest.raises(delaymq.InvalidArgument, match=r"^patience:"):
        Clock(patience=-1)


def test_only_a_clock_is_a_clock(tmp_path: Path) -> None:
    for wrong in (datetime.now(UTC), object(), 5, Clock):
        with pytest.raises(delaymq.WrongType, match=r"clock: expected a delaymq\.testing\.Clock"):
            delaymq.open(tmp_path / "store", clock=wrong)  # type: ignore[arg-type]


def test_what_lies_between_comes_by_due_time(store: delaymq.Store, clock: Clock) -> None:
    delays = [(number * 7919) % 10_000 * 4 * MINUTE for number in range(10_000)]
    store.publish_many("jobs", [b"%d" % number for number in range(10_000)], delays)
    store.publish("jobs", b"not yet", delay=timedelta(days=31))
    clock.advance(timedelta(days=30))
    bodies = [message.body for message in ready(store, "jobs")]
    assert bodies == [b"%d" % number for number in sorted(range(10_000), key=delays.__getitem__)]
    with store.subscribe("jobs", group="workers") as messages:
        first = messages.get(timeout=0)
        assert first is not None
        assert first.lateness == timedelta(days=30), "nobody took it before"


def test_absolute_times_are_the_clocks(store: delaymq.Store, clock: Clock) -> None:
    store.publish("jobs", b"at", at=START + DAY)
    store.publish("jobs", b"past", at=START - DAY)
    assert [message.body for message in ready(store, "jobs")] == [b"past"]
    clock.advance_to(START + DAY)
    assert [message.body for message in ready(store, "jobs")] == [b"past", b"at"]


def test_what_is_given_back_comes_again_when_its_delay_has_passed(store: delaymq.Store, clock: Clock) -> None:
    store.publish("jobs", b"work")
    with store.subscribe("jobs", group="workers") as messages:
        for attempt in range(1, 6):
            message = messages.get(timeout=0)
            assert message is not None
            assert message.attempt == attempt
            message.nack(delay=HOUR * attempt)
            clock.advance(HOUR * attempt - timedelta(milliseconds=1))
            assert messages.get(timeout=0) is None
            clock.advance(0.001)


def test_a_consumer_acts_at_each_time_on_the_way(store: delaymq.Store, clock: Clock) -> None:
    handled: list[tuple[timedelta, int, timedelta]] = []

    def fail_three_times(message: delaymq.Message) -> None:
        handled.append((clock.now - START, message.attempt, message.lateness))
        if message.attempt <= 3:
            message.nack(delay=HOUR * 2**message.attempt)
        else:
            message.ack()

    store.publish("jobs", b"work", delay=DAY)
    with consuming(store, clock, fail_three_times):
        clock.advance(timedelta(days=30))
        assert clock.now == START + timedelta(days=30)
        zero = timedelta(0)
        expected = [(DAY, 1, zero), (DAY + 2 * HOUR, 2, zero), (DAY + 6 * HOUR, 3, zero), (DAY + 14 * HOUR, 4, zero)]
        assert handled == expected, "all of it is done when advance returns"


def test_a_consumer_that_publishes_makes_its_own_future(store: delaymq.Store, clock: Clock) -> None:
    times: list[timedelta] = []

    def every_day(message: delaymq.Message) -> None:
        with message:
            times.append(clock.now - START)
            store.publish("jobs", b"tick", delay=DAY)

    store.publish("jobs", b"tick", delay=DAY)
    with consuming(store, clock, every_day):
        clock.advance(timedelta(days=30))
        assert times == [number * DAY for number in range(1, 31)]


def test_a_collector_that_settles_nothing_holds_nothing_up(store: delaymq.Store, clock: Clock) -> None:
    taken: list[delaymq.Message] = []
    store.publish_many("jobs", [b"x"] * 100, [number * HOUR for number in range(100)])
    with consuming(store, clock, taken.append):
        clock.advance(timedelta(days=30))
        assert [message.lateness for message in taken] == [timedelta(0)] * 100


def test_a_thread_that_took_one_and_ended_is_not_waited_for(store: delaymq.Store, clock: Clock) -> None:
    found: list[delaymq.Message | None] = []
    store.publish("jobs", b"x", delay=DAY)
    with store.subscribe("jobs", group="workers") as messages:
        thread = threading.Thread(target=lambda: found.append(messages.get(timeout=60)))
        thread.start()
        clock.await_consumers()
        clock.advance(2 * DAY)
        thread.join()
    assert found[0] is not None
    assert found[0].lateness == timedelta(0)


def test_a_thread_that_stays_away_is_left_behind_after_patience(tmp_path: Path) -> None:
    clock = Clock(patience=0.05)
    over = threading.Event()
    with open_store(tmp_path / "store", clock) as store:
        store.publish("jobs", b"x", delay=HOUR)
        store.publish_many("jobs", [b"y"] * 50, [number * DAY for number in range(1, 51)])
        with consuming(store, clock, lambda _message: over.wait(60)):
            clock.advance(100 * DAY)
            assert len(ready(store, "jobs", "workers")) == 50
            over.set()


def test_consumers_that_are_not_there_are_told(store: delaymq.Store, clock: Clock) -> None:
    with pytest.raises(delaymq.TimedOut, match="2 threads asking for messages"):
        clock.await_consumers(2, timeout=0)
    with store.subscribe("jobs", group="workers") as messages:
        messages.get(timeout=0)
        with pytest.raises(delaymq.TimedOut):  # this thread turns the clock and is not waited for
            clock.await_consumers(timeout=0)


def test_stores_share_a_clock(tmp_path: Path, clock: Clock) -> None:
    with open_store(tmp_path / "one", clock) as one, open_store(tmp_path / "two", clock) as two:
        one.publish("jobs", b"relay", delay=DAY)

        def relay(message: delaymq.Message) -> None:
            with message:
                two.publish("done", message.body, delay=DAY)

        with consuming(one, clock, relay):
            clock.advance(3 * DAY)
        (arrived,) = ready(two, "done")
        assert (arrived.published, arrived.due) == (START + DAY, START + 2 * DAY)


def test_a_closed_store_does_not_hold_the_clock(tmp_path: Path, clock: Clock) -> None:
    open_store(tmp_path / "store", clock).close()
    clock.advance(DAY)
    with open_store(tmp_path / "store", clock) as store:
        assert store.status().now_ms == int((START + DAY).timestamp() * 1000)


def test_a_store_is_not_opened_in_its_past(tmp_path: Path, clock: Clock) -> None:
    with open_store(tmp_path / "store", clock) as store:
        clock.advance(DAY)
        store.publish("jobs", b"x")
    with pytest.raises(delaymq.InvalidArgument) as refused:
        open_store(tmp_path / "store", Clock())
    assert refused.value.argument == "clock"
    open_store(tmp_path / "store", Clock(START + DAY)).close()


def test_control_c_ends_turning(store: delaymq.Store, clock: Clock) -> None:
    holding, over = threading.Event(), threading.Event()

    def hold(_message: delaymq.Message) -> None:
        holding.set()
        over.wait(60)

    def interrupt() -> None:
        holding.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    store.publish("jobs", b"x", delay=HOUR)
    with consuming(store, clock, hold):
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            clock.advance(DAY)
        assert clock.now == START + HOUR
        over.set()


def test_two_threads_turn_one_after_the_other(store: delaymq.Store, clock: Clock) -> None:
    store.publish_many("jobs", [b"x"] * 1000, [number * MINUTE for number in range(1000)])
    threads = [threading.Thread(target=clock.advance, args=(HOUR,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now == START + 8 * HOUR
    assert len(ready(store, "jobs")) == 481


def test_lateness_is_by_the_stores_clock(tmp_path: Path, clock: Clock) -> None:
    with open_store(tmp_path / "store", clock) as store, store.subscribe("jobs", group="workers") as messages:
        store.publish("jobs", b"x", delay=MINUTE)
        clock.advance(HOUR)
        message = messages.get(timeout=0)
        assert message is not None
        assert message.lateness == HOUR - MINUTE
    with delaymq.open(tmp_path / "real", durability="os") as store, store.subscribe("a", group="g") as messages:
        store.publish("a", b"x", delay=0.02)
        message = messages.get(timeout=10)
        assert message is not None
        assert timedelta(0) <= message.lateness < timedelta(seconds=10)


def test_a_step_turns_the_wall_clock_while_no_time_passes(store: delaymq.Store, clock: Clock) -> None:
    store.publish("jobs", b"in a minute", delay=MINUTE)
    clock.step_ahead(HOUR)
    assert clock.now == START + HOUR
    assert store.status().held
    clock.advance(MINUTE)
    assert clock.now == START + HOUR + MINUTE
    assert ready(store, "jobs") == []
    clock.step_back(HOUR)
    assert clock.now == START + MINUTE
    clock.advance(0)
    assert not store.status().held
    assert [message.body for message in ready(store, "jobs")] == [b"in a minute"]


def test_a_held_store_lets_a_clock_pass_on_at_once_also_with_a_consumer(store: delaymq.Store, clock: Clock) -> None:
    handled: list[bytes] = []

    def handle(message: delaymq.Message) -> None:
        handled.append(message.body)
        message.ack()

    with consuming(store, clock, handle):
        store.publish("jobs", b"in a minute", delay=MINUTE)
        clock.step_ahead(HOUR)
        clock.advance(366 * DAY)
        assert handled == []
        store.accept_clock(store.clock().ahead_ms)
        clock.advance(0)
        assert handled == [b"in a minute"]


def test_a_step_out_of_range_is_refused(clock: Clock) -> None:
    with pytest.raises(delaymq.InvalidArgument, match="by"):
        clock.step_back(timedelta(days=40_000))
    with pytest.raises(delaymq.InvalidArgument, match="by"):
        clock.step_ahead(timedelta(days=400_000))
    with pytest.raises(delaymq.InvalidArgument, match="by"):
        clock.step_ahead(-1)
    assert clock.now == START
