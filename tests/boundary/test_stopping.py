"""The end that `stop` is, and the buffer between the core and who consumes, on both faces."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import delaymq
from faces import Face, opened

COUNT = 200


def fill(face: Face) -> None:
    """So many are ready, and one look into the core brings them all."""
    face.call(lambda: face.store.publish_many("consumed", [b"%d" % number for number in range(COUNT)]))


def batch_of(face: Face, most: int, wait: float) -> list[Any]:
    batches = face.messages.batches(most, wait)
    found: list[Any] = face.call(lambda: anext(batches)) if face.runner else next(batches)
    return found


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_a_loop_ends_while_messages_are_buffered(face: Face, how: str) -> None:
    fill(face)
    handled: list[bytes] = []

    def end() -> None:
        if len(handled) > 1:
            return
        if how == "stop":
            face.messages.stop()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    async def consume() -> None:
        async for message in face.messages:
            message.ack()
            handled.append(message.body)
            end()

    with delaymq.stop_on_signals(face.messages):
        if face.runner:
            face.call(consume)
        else:
            for message in face.messages:
                message.ack()
                handled.append(message.body)
                end()
    assert handled == [b"0"]
    assert face.call(lambda: face.messages.get(0)) is None
    assert face.call(face.messages.get) is None
    # What nobody was given comes to the next one.
    face.call(face.messages.close)
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g"))
    found = [face.call(lambda: face.messages.get(5)).body for _ in range(COUNT - 1)]
    assert found == [b"%d" % number for number in range(1, COUNT)]


def test_batches_end_while_messages_are_buffered(face: Face) -> None:
    fill(face)
    first = face.call(lambda: face.messages.get(5))
    batches = face.messages.batches(10)
    assert len(face.call(lambda: anext(batches)) if face.runner else next(batches)) == 10
    face.messages.stop()
    if face.runner:
        with pytest.raises(StopAsyncIteration):
            face.call(lambda: anext(batches))
    else:
        with pytest.raises(StopIteration):
            next(batches)
    face.call(first.ack)


def test_batches_begin_with_what_is_buffered(face: Face) -> None:
    fill(face)
    face.call(face.messages.close)
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g", in_flight_max=COUNT))
    found = [face.call(lambda: face.messages.get(5)).body]
    # No more than these may be out, so that nothing comes but from the buffer.
    found += [message.body for message in batch_of(face, 50, 1)]
    assert len(found) == 51
    found += [face.call(lambda: face.messages.get(1)).body]
    while batch := batch_of(face, 100, 0):
        found += [message.body for message in batch]
    assert found == [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize(("in_flight_max", "attempt"), [(COUNT, 2), (1, 1)])
def test_what_was_fetched_and_never_taken_counts_as_an_attempt(face: Face, in_flight_max: int, attempt: int) -> None:
    """As docs/how-to/retry.md says, with the way around it."""
    face.call(face.messages.close)
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g", in_flight_max=in_flight_max))
    face.call(lambda: face.store.publish_many("consumed", [b"taken", b"untouched"]))
    # Not acknowledged: over TCP the server may send the next one as soon as it hears that a place is free.
    assert face.call(lambda: face.messages.get(5)).body == b"taken"
    face.call(face.messages.close)
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g"))
    found = [face.call(lambda: face.messages.get(5)) for _ in range(2)]
    assert {message.body: (message.attempt, message.redelivered) for message in found} == {
        b"taken": (2, True),
        b"untouched": (attempt, attempt > 1),
    }


@pytest.mark.usefixtures("over_tcp")
def test_threads_that_get_and_threads_that_take_batches_share_all_and_end_at_a_stop(folder: Path) -> None:
    bodies = [b"%d" % number for number in range(2000)]
    found: list[bytes] = []
    with (
        opened(folder) as store,
        store.subscribe("a", group="g", in_flight_max=64) as messages,
    ):

        def one_by_one() -> None:
            for message in messages:
                found.append(message.body)
                message.ack()
                if len(found) == len(bodies):
                    messages.stop()

        def in_batches() -> None:
            for batch in messages.batches(7):
                found.extend(message.body for message in batch)
                messages.ack(batch)
                if len(found) == len(bodies):
                    messages.stop()

        threads = [threading.Thread(target=target, daemon=True) for target in (one_by_one, in_batches) * 2]
        for thread in threads:
            thread.start()
        store.publish_many("a", bodies)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert sorted(found, key=int) == bodies
