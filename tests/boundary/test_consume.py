from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import median

import pytest

import delaymq
from crafting import wait_until
from delaymq import Message, Store, Subscription


def one(messages: Subscription) -> Message:
    message = messages.get(5)
    assert message is not None
    return message


def test_what_is_acknowledged_does_not_come_again(folder: Path) -> None:
    with delaymq.open(folder, durability="os") as store, store.subscribe("a", group="g") as messages:
        store.publish_many("a", [b"1", b"2", b"3"])
        for _ in range(3):
            with one(messages):
                pass
        messages.flush(5)
    with delaymq.open(folder, durability="os") as store, store.subscribe("a", group="g") as messages:
        assert messages.get(0.3) is None


def test_user_code_that_raises_gives_the_message_back(store: Store) -> None:
    with store.subscribe("a", group="g") as messages:
        store.publish("a", b"1")
        with pytest.raises(KeyError), one(messages):
            raise KeyError
        again = one(messages)
        assert again.body == b"1"
        assert again.attempt == 2
        again.ack()
        messages.flush(5)
        assert messages.get(0.3) is None


def test_leaving_the_subscription_gives_back_what_is_left(store: Store) -> None:
    store.publish_many("a", [b"1", b"2", b"3"])
    with store.subscribe("a", group="g") as messages:
        one(messages).ack()
        one(messages)
    with store.subscribe("a", group="g") as messages:
        found = sorted(one(messages).body for _ in range(2))
        assert found == [b"2", b"3"]
        assert messages.get(0.3) is None


def test_nack_waits_its_delay(store: Store) -> None:
    with store.subscribe("a", group="g") as messages:
        store.publish("a", b"1")
        first = one(messages)
        started = time.time()
        first.nack(delay=0.3)
        again = one(messages)
        assert time.time() - started >= 0.3
        assert (again.body, again.attempt, again.redelivered) == (b"1", 2, True)
        assert again.subject == "a"


def test_groups_each_get_everything_and_consumers_of_one_share(store: Store) -> None:
    with (
        store.subscribe("a", group="billing") as billing,
        store.subscribe("a", group="audit") as first,
        store.subscribe("a", group="audit") as second,
    ):
        store.publish_many("a", [b"%d" % number for number in range(100)])
        shared: list[bytes] = []
        while len(shared) < 100:
            for messages in (first, second):
                for message in next(messages.batches(10, wait=0.1)):
                    shared.append(message.body)
                    message.ack()
        assert sorted(shared, key=int) == [b"%d" % number for number in range(100)]
        assert [one(billing).body for _ in range(100)] == [b"%d" % number for number in range(100)]


def test_no_more_than_in_flight_max_are_out(store: Store) -> None:
    store.publish_many("a", [b""] * 20)
    with store.subscribe("a", group="g", in_flight_max=5) as messages:
        held = [one(messages) for _ in range(5)]
        assert messages.get(0.2) is None
        messages.ack(held)
        assert len(next(messages.batches(100, wait=5))) == 5


def test_a_new_group_begins_where_it_says(store: Store) -> None:
    store.publish("a", b"old")
    with store.subscribe("a", group="all") as earliest, store.subscribe("a", group="late", start="latest") as latest:
        store.publish("a", b"new")
        assert one(earliest).body == b"old"
        assert one(latest).body == b"new"


def test_what_came_before_the_start_of_the_only_group_is_finished(store: Store) -> None:
    store.publish("a", b"old")
    with store.subscribe("a", group="late", start="latest"):
        store.publish("a", b"new")
        with store.subscribe("a", group="all") as earliest:
            assert one(earliest).body == b"new"


def test_stop_ends_a_wait_from_another_thread(store: Store) -> None:
    messages = store.subscribe("a", group="g")
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(messages))
    thread.start()
    time.sleep(0.05)
    started = time.monotonic()
    messages.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert time.monotonic() - started < 2
    assert found == []
    assert messages.get() is None
    messages.close()


def test_a_timeout_is_kept(store: Store) -> None:
    with store.subscribe("a", group="g") as messages:
        started = time.monotonic()
        assert messages.get(0.25) is None
        assert 0.24 <= time.monotonic() - started < 1.5
        assert messages.get(0) is None


def test_a_waiting_consumer_leaves_python_to_others(store: Store) -> None:
    with store.subscribe("a", group="g") as messages:
        began, took = time.monotonic(), []
        thread = threading.Thread(target=messages.get, args=(10,))
        thread.start()
        time.sleep(0.1)
        for _ in range(15):
            counting = time.monotonic()
            for _counted in range(10_000):
                time.monotonic()
            took.append(time.monotonic() - counting)
        # Who kept Python to himself until his wait was over would have let this come so far only after it.
        assert time.monotonic() - began < 10
        assert thread.is_alive()
        messages.stop()
        thread.join()
        assert median(took) < 0.3


def test_threads_share_a_subscription(store: Store) -> None:
    bodies = [b"%d" % number for number in range(300)]
    store.publish_many("a", bodies)
    found: list[bytes] = []
    with store.subscribe("a", group="g") as messages:

        def consume() -> None:
            while (message := messages.get(20)) is not None:
                with message:
                    found.append(message.body)

        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(found) >= len(bodies))
        time.sleep(0.3)  # nothing comes after them
        messages.stop()
        for thread in threads:
            thread.join()
    assert sorted(found, key=int) == bodies
