"""A look at what is ready, and a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq.testing import Clock, ReadyMessage, crash, last_life, open_store, ready

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["os", "disk"])
def store(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[delaymq.Store]:
    opened = open_store(tmp_path / "store", clock, durability=request.param)
    yield opened
    last_life(opened).close()


def bodies(messages: list[ReadyMessage]) -> list[bytes]:
    return [message.body for message in messages]


def taken(messages: delaymq.Subscription) -> list[delaymq.Message]:
    return list(iter(lambda: messages.get(timeout=0), None))


def test_ready_sees_and_does_not_take(store: delaymq.Store, clock: Clock) -> None:
    assert ready(store, "jobs") == []
    start = clock.now
    store.publish_many("jobs", [b"a", b"b", b"c"])
    store.publish("jobs", b"later", delay=1)
    assert bodies(ready(store, "jobs")) == bodies(ready(store, "jobs")) == [b"a", b"b", b"c"]
    clock.advance(1)
    last = ready(store, "jobs")[-1]
    due = start + timedelta(seconds=1)
    assert (last.subject, last.body, last.due, last.published) == ("jobs", b"later", due, start)
    assert (last.attempt, last.redelivered) == (1, False)
    with store.subscribe("jobs", group="workers") as messages:
        assert [message.sequence for message in taken(messages)] == [one.sequence for one in ready(store, "jobs")]


def test_ready_for_a_group_is_what_it_gets_next(store: delaymq.Store, clock: Clock) -> None:
    store.publish_many("jobs", [b"a", b"b", b"c"])
    with store.subscribe("jobs", group="workers", in_flight_max=2) as messages:
        first, second = taken(messages)
        assert bodies(ready(store, "jobs", "workers")) == [b"c"]
        assert bodies(ready(store, "jobs", "others")) == [b"a", b"b", b"c"]
        first.ack()
        second.nack(delay=HOUR)
        clock.advance(0)
        assert bodies(ready(store, "jobs", "workers")) == [b"c"]
        clock.advance(HOUR)
        retried = ready(store, "jobs", "workers")
        assert [(one.body, one.attempt, one.redelivered) for one in retried] == [(b"c", 1, False), (b"b", 2, True)]
        assert retried[1].due == clock.now
    assert bodies(ready(store, "jobs", "workers")) == [b"c", b"b"], "leaving gives nothing away"


def test_ready_refuses_what_is_no_name(store: delaymq.Store) -> None:
    with pytest.raises(delaymq.InvalidArgument, match=r"^subject:"):
        ready(store, "a/b")
    with pytest.raises(delaymq.InvalidArgument, match=r"^group:"):
        ready(store, "a", "")
    with pytest.raises(delaymq.WrongType, match=r"^subject:"):
        ready(store, 5)  # type: ignore[arg-type]


def test_ready_works_by_the_systems_clock(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.publish("jobs", b"x")
        store.publish("jobs", b"y", delay=3600)
        assert bodies(ready(store, "jobs")) == [b"x"]


def test_a_crash_keeps_what_was_answered(store: delaymq.Store, clock: Clock) -> None:
    store.publish("jobs", b"pending", delay=HOUR)
    cancelled = store.publish("jobs", b"cancelled", delay=HOUR)
    waiting = store.publish("jobs", b"waiting", delay=2 * HOUR)
    assert store.cancel(cancelled) is delaymq.Outcome.DONE
    store.publish_many("jobs", [b"done", b"ready"])
    with store.subscribe("jobs", group="workers") as messages:
        done = messages.get(timeout=0)
        assert done is not None
        done.ack()
    born = crash(store)
    assert born is last_life(store)
    assert born.path == store.path
    assert born.status().epoch == store.status().epoch + 1
    assert born.status().durability == store.status().durability
    assert bodies(ready(born, "jobs", "workers")) == [b"ready"]
    clock.advance(HOUR)
    assert bodies(ready(born, "jobs", "workers")) == [b"ready", b"pending"]
    assert born.cancel(cancelled) is delaymq.Outcome.DONE
    assert born.cancel(waiting) is delaymq.Outcome.DONE


def test_what_was_unacknowledged_comes_again_marked(store: delaymq.Store) -> None:
    store.publish_many("jobs", [b"%d" % number for number in range(10)])
    messages = store.subscribe("jobs", group="workers")
    held = taken(messages)
    messages.ack(held[:4])
    messages.flush()
    messages.ack(held[4:6])  # queued: it may or may not have been written when the process died
    with crash(store) as born, born.subscribe("jobs", group="workers") as messages:
        again = taken(messages)
        assert {message.body for message in again} >= {b"6", b"7", b"8", b"9"}
        assert not {message.body for message in again} & {b"0", b"1", b"2", b"3"}
        assert all(message.redelivered and message.attempt == 2 for message in again)


def test_old_handles_are_closed(store: delaymq.Store) -> None:
    store.publish_many("jobs", [b"a", b"b"])
    messages = store.subscribe("jobs", group="workers")
    message, other = taken(messages)
    born = crash(store)
    calls: list[Callable[[], object]] = [
        lambda: store.publish("jobs", b"x"),
        lambda: store.publish_many("jobs", [b"x"]),
        lambda: store.subscribe("jobs", group="workers"),
        lambda: store.cancel_many([]),
        store.checkpoint,
        lambda: ready(store, "jobs"),
        lambda: messages.get(timeout=0),
        message.ack,
        other.nack,
        lambda: crash(store),
    ]
    for call in calls:
        with pytest.raises(delaymq.Closed):
            call()
    assert store.status().closed
    messages.close()
    store.close()
    assert not born.status().closed


def test_a_thread_that_waits_is_let_go(store: delaymq.Store, clock: Clock) -> None:
    errors: list[type[BaseException]] = []
    messages = store.subscribe("jobs", group="workers")

    def wait() -> None:
        with pytest.raises(delaymq.Closed) as caught:
            messages.get(timeout=60)
        errors.append(caught.type)

    thread = threading.Thread(target=wait)
    thread.start()
    clock.await_consumers()
    crash(store)
    thread.join()
    assert errors == [delaymq.Closed]


def test_a_store_survives_many_crashes(store: delaymq.Store, clock: Clock) -> None:
    life = store
    for number in range(12):
        life.publish("jobs", b"%d" % number, delay=HOUR)
        if number % 3 == 0:
            life.checkpoint()
        clock.advance(HOUR / 4)
        life = crash(life)
    assert last_life(store) is life
    clock.advance(HOUR)
    assert bodies(ready(life, "jobs")) == [b"%d" % number for number in range(12)]


def test_what_cannot_crash_any_more_says_so(store: delaymq.Store) -> None:
    store.close()
    with pytest.raises(delaymq.Closed):
        crash(store)


def test_a_store_for_tests_takes_a_large_publish(store: delaymq.Store) -> None:
    store.publish("jobs", bytes(2_000_000))
    assert len(store.publish_many("jobs", [bytes(100)] * 10_000, HOUR)) == 10_000
