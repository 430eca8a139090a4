"""How long a consumer may hold a message: on all faces, on a turned clock, and of a program that is stuck."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import delaymq
from boundary.remote import Remote
from boundary.test_asyncio import run
from commanding import environment
from delaymq import AlreadySettled, AsyncMessage, Closed, HoldExpired, InvalidArgument, TooLarge, WrongType
from delaymq.testing import Clock, open_store, open_store_async
from faces import Face, Served

SHORT = 0.02
LONG = timedelta(hours=1)


class Held:
    """Messages that a subscription has, of which it holds each second one for longer, and the others, come again."""

    def __init__(self, face: Face, count: int) -> None:
        bodies = [b"%d" % number for number in range(count)]
        for attempt in itertools.count():
            self.subject = f"held-{attempt}"
            self.slow = face.call(lambda: face.store.subscribe(self.subject, group="g", handle_within=SHORT))
            face.call(lambda: face.store.publish_many(self.subject, bodies))
            self.messages: list[Any] = [face.call(lambda: self.slow.get(60)) for _ in range(count)]
            # On a slow machine, one may have been held for too long by now. Then it starts over.
            if sorted(message.body for message in self.messages) == bodies and self.extended(face):
                break
            face.call(self.slow.close)
        self.other = face.call(lambda: face.store.subscribe(self.subject, group="g"))
        self.again: list[Any] = [face.call(lambda: self.other.get(60)) for _ in self.messages[::2]]

    def extended(self, face: Face) -> bool:
        try:
            for message in self.messages[1::2]:
                face.call(partial(message.extend, LONG))
        except HoldExpired:
            return False
        return True

    def close(self, face: Face) -> None:
        face.call(self.slow.close)
        face.call(self.other.close)


def leaving(face: Face, message: Any, error: Exception | None = None) -> Any:
    """A function to call, which leaves a block of the message, or awaits that."""

    async def leave_async() -> None:
        async with message:
            if error is not None:
                raise error

    def leave() -> None:
        with message:
            if error is not None:
                raise error

    return leave_async if face.runner else leave


def test_a_message_that_is_held_for_too_long_comes_to_another_consumer_and_its_holder_hears_of_it(face: Face) -> None:
    found = Held(face, 1)
    (held,), (again,) = found.messages, found.again
    assert (again.body, again.attempt, again.redelivered) == (held.body, 2, True)
    for settle in (held.ack, held.nack, held.extend, lambda: held.dead_letter("late"), leaving(face, held)):
        with pytest.raises(HoldExpired, match="held for longer than handle_within") as raised:
            face.call(settle)
        assert (raised.value.expected, raised.value.count) == ("a message that is still held", 1)
    assert not held.settled
    with pytest.raises(KeyError):
        face.call(leaving(face, held, KeyError()))
    face.call(again.ack)
    found.close(face)
    with pytest.raises(Closed):
        face.call(held.ack)
    with pytest.raises(Closed):
        face.call(held.extend)


@pytest.mark.parametrize("how", ["ack", "nack", "dead_letter"])
def test_of_many_messages_those_that_are_still_held_are_settled(face: Face, how: str) -> None:
    found = Held(face, 5)
    slow, held = found.slow, found.messages
    for message in found.again:
        face.call(message.ack)
    settle = {"ack": slow.ack, "nack": slow.nack, "dead_letter": lambda all_: slow.dead_letter(all_, "late")}[how]
    with pytest.raises(HoldExpired, match="so were 2 others") as raised:
        face.call(lambda: settle([held[1], *held]))
    assert (raised.value.index, raised.value.count) == (1, 3)
    assert [message.settled for message in held] == [False, True, False, True, False]
    face.call(lambda: settle([held[1], held[3]]))  # settled before: they are skipped
    found.close(face)
    last = face.call(lambda: face.store.subscribe(found.subject, group="g"))
    come = [face.call(lambda: last.get(60)).body for _ in range(2 if how == "nack" else 0)]
    assert sorted(come) == ([b"1", b"3"] if how == "nack" else [])
    assert face.call(lambda: last.get(0)) is None
    face.call(last.close)


def test_a_subscription_with_a_limit_fetches_nothing_ahead(face: Face) -> None:
    slow = face.call(lambda: face.store.subscribe("held", group="g", handle_within=LONG))
    other = face.call(lambda: face.store.subscribe("held", group="g"))
    face.call(lambda: face.store.publish_many("held", [b"0", b"1"]))
    held = face.call(lambda: slow.get(60))
    free = face.call(lambda: other.get(60))
    assert sorted([held.body, free.body]) == [b"0", b"1"]
    assert (held.attempt, free.attempt) == (1, 1)
    face.call(slow.close)
    face.call(other.close)


def test_an_acknowledgement_at_the_end_of_the_time_counts_or_the_message_comes_again(face: Face) -> None:
    count = 100
    messages = face.call(lambda: face.store.subscribe("held", group="g", handle_within=0.003, in_flight_max=16))
    face.call(lambda: face.store.publish_many("held", [b"%d" % number for number in range(count)]))
    delivered, late, accepted = 0, 0, set()
    for turn in itertools.count():
        message = face.call(lambda: messages.get(60))
        delivered += 1
        assert message.body not in accepted, "it came after its acknowledgement was accepted"
        time.sleep(turn % 2 * (0.002 + turn % 7 * 0.0004))  # sometimes at once, and sometimes at about the end
        try:
            face.call(message.ack)
        except HoldExpired:
            late += 1
            continue
        accepted.add(message.body)
        if len(accepted) == count:
            break
    assert delivered == late + count
    face.call(messages.close)
    last = face.call(lambda: face.store.subscribe("held", group="g"))
    assert face.call(lambda: last.get(0)) is None
    face.call(last.close)


def test_without_a_limit_an_extension_changes_nothing_and_its_arguments_are_checked(face: Face) -> None:
    message = face.one()
    face.call(message.extend)
    face.call(lambda: message.extend(SHORT))
    for wrong, error in (
        (0, InvalidArgument),
        (-1, InvalidArgument),
        (float("inf"), InvalidArgument),
        (timedelta(0), InvalidArgument),
        (1e300, TooLarge),
        ("1 s", WrongType),
        (True, WrongType),
    ):
        with pytest.raises(error) as raised:
            face.call(partial(message.extend, wrong))
        assert raised.value.argument == "duration"

        def subscribe(within: Any = wrong) -> Any:
            return face.store.subscribe("held", group="g", handle_within=within)

        with pytest.raises(error) as raised:
            face.call(subscribe)
        assert raised.value.argument == "handle_within"
    face.call(message.ack)
    with pytest.raises(AlreadySettled):
        face.call(message.extend)


def test_an_event_loop_that_computes_keeps_no_message_from_another_client(served: Served, remote: Remote) -> None:
    passed_on = threading.Event()
    found: list[Any] = []

    def consume() -> None:
        with delaymq.connect(served.url) as other, other.subscribe("a", group="g") as messages:
            message = messages.get(60)
            assert message is not None
            found.append((message.body, message.redelivered))
            message.ack()
            messages.flush()
            passed_on.set()

    with remote.connected(served.url) as client:
        messages = remote.call(lambda: client.subscribe("a", group="g", handle_within=SHORT))
        remote.call(lambda: client.publish("a", b"x"))

        async def handle() -> None:
            message = await messages.get(60) if remote.runner else messages.get(60)
            assert message is not None
            other.start()
            while not passed_on.is_set() and other.is_alive():
                sum(range(1_000))  # no await: the loop has no other turn
            with pytest.raises(HoldExpired):
                message.ack()

        other = threading.Thread(target=consume)
        remote.call(handle) if remote.runner else asyncio.run(handle())
        other.join()
        remote.call(messages.flush)
        assert remote.call(lambda: messages.get(0)) is None
        remote.call(messages.close)
    assert found == [(b"x", True)]


STUCK = """
import ctypes, sys, delaymq
with delaymq.connect(sys.argv[1]) as client:
    message = client.subscribe("a", group="g", start="earliest", handle_within=0.02).get(60)
    print(message.body.decode(), flush=True)
    ctypes.PyDLL(None).pause()  # never returns, and no other thread of Python runs meanwhile
"""


def test_a_program_that_holds_the_interpreter_for_ever_keeps_no_message(served: Served) -> None:
    with delaymq.connect(served.url) as client:
        client.publish("a", b"x")
        command = (sys.executable, "-c", STUCK, served.url)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as stuck:
            try:
                assert stuck.stdout is not None
                assert stuck.stdout.readline() == "x\n"
                with client.subscribe("a", group="g") as messages:
                    message = messages.get(60)
                    assert message is not None
                    assert message.redelivered
                    message.ack()
                assert stuck.poll() is None
            finally:
                stuck.kill()


def test_the_time_is_that_of_the_stores_clock(tmp_path: Path) -> None:
    clock = Clock(patience=60)
    with (
        open_store(tmp_path / "store", clock) as store,
        store.subscribe("a", group="g", handle_within=30, in_flight_max=3) as slow,
        store.subscribe("a", group="g") as other,
    ):
        store.publish_many("a", [b"0", b"1", b"2", b"3"])
        batch = next(slow.batches(2))
        third = slow.get(0)
        assert third is not None
        assert [message.body for message in (*batch, third)] == [b"0", b"1", b"2"]
        assert slow.get(0) is None, "three are in flight"
        clock.advance(timedelta(seconds=29))
        batch[0].extend()
        third.extend(40)
        clock.advance(timedelta(seconds=1))
        found = [other.get(0), other.get(0)]
        assert sorted(message.body for message in found if message is not None) == [b"1", b"3"]
        assert other.get(0) is None
        batch[0].ack()
        with pytest.raises(HoldExpired):
            batch[1].ack()
        clock.advance(timedelta(seconds=38))
        assert other.get(0) is None
        clock.advance(timedelta(seconds=1))
        last = other.get(0)
        assert last is not None
        assert (last.body, last.attempt, last.redelivered) == (b"2", 2, True)


@pytest.mark.parametrize("away", [29, 30])
def test_a_message_that_a_cancelled_coroutine_was_given_is_held_from_its_next_hand_over_on(
    tmp_path: Path, away: int
) -> None:
    async def main() -> None:
        clock = Clock(patience=60)
        async with (
            open_store_async(tmp_path / "store", clock) as store,
            store.subscribe("a", group="g", handle_within=30) as messages,
        ):
            waiting = asyncio.create_task(messages.get())
            await asyncio.sleep(0.01)
            await store.publish("a", b"x")
            while messages._delivery._waiting:  # noqa: ASYNC110 - the moment between being given and being run
                await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            clock.advance(away)
            message = await messages.get(0)
            assert isinstance(message, AsyncMessage)
            assert message.attempt == (1 if away < 30 else 2)
            clock.advance(29)
            message.ack()

    run(main())
