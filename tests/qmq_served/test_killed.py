"""The server is killed at any moment: clients come back, and nothing that was answered is lost."""

from __future__ import annotations

import random
from pathlib import Path

from qmq_client import frame
from qmq_client.bodies import Consumer, Pull
from qmq_client.connection import ClosedError, Connection
from qmq_client.message import Message, send_body
from qmq_served.serving import HOLD_MS, QmqServed, ids, join, taken

ROUNDS = 4
BATCHES = 40
BATCH = 5
SEED = 20_260_714
SUBJECT = "killed"
KEEPING = Consumer(SUBJECT, "keeping", "host@@one")
WORKING = Consumer(SUBJECT, "working", "host@@one")


def batch_of(name: str, now: int, chance: random.Random) -> list[Message]:
    """Some are due now, some a little later."""
    found = []
    for number in range(BATCH):
        delay = chance.choice((0, 0, 50, 300))
        found.append(Message(SUBJECT, f"{name}.{number}", now, now + delay, delayed=delay > 0))
    return found


def send_until_killed(served: QmqServed, name: str, chance: random.Random, answered: set[str]) -> None:
    """Sends without waiting, kills the server somewhere, and notes what it answered before."""
    now = served.now_ms()
    batches = {opaque: batch_of(f"{name}.{opaque}", now, chance) for opaque in range(BATCHES)}
    killed_after = chance.randrange(1, BATCHES)
    with served.connected() as client:
        try:
            for opaque, batch in batches.items():
                client.ask(frame.SEND, send_body(batch), opaque=opaque)
                if opaque == 0:
                    # One at least is answered, so that there is something to lose.
                    assert client.answer(0).code == frame.SUCCESS
                    answered |= {message.message_id for message in batch}
                if opaque == killed_after:
                    served.kill()
        except OSError:
            pass
        for answer in client.until_closed():
            assert (answer.code, answer.body) == (frame.SUCCESS, b"")
            answered |= {message.message_id for message in batches[answer.opaque]}


def work_until_killed(served: QmqServed, client: Connection, done: set[str], steps: int) -> None:
    """Pulls and acknowledges; the last acknowledgement may or may not arrive before the kill."""
    for step in range(steps):
        # What was answered a moment ago comes first or soon.
        pulled = client.pull(Pull(WORKING, count=3, hold_ms=HOLD_MS if step == 0 else -1))
        if pulled is None:
            break
        assert not done & set(ids(pulled)), "what was acknowledged does not come again"
        if step == steps - 1:
            served.kill()
        try:
            code = client.acknowledge(WORKING, pulled.first, pulled.last)
        except (ClosedError, OSError):
            return
        assert code == frame.SUCCESS
        done |= set(ids(pulled))
    served.kill()


def test_what_was_answered_survives_every_kill_and_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    answered: set[str] = set()
    done: set[str] = set()
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            join(client, KEEPING, WORKING)
        for number in range(ROUNDS):
            send_until_killed(served, str(number), chance, answered)
            served.start()
            with served.connected() as client:
                work_until_killed(served, client, done, chance.randrange(2, 8))
            served.start()
        assert answered
        assert done
        with served.connected() as client:
            found: set[str] = set()
            while not answered <= found:
                pulled = client.pull(Pull(KEEPING, hold_ms=HOLD_MS))
                assert pulled is not None, sorted(answered - found)
                found |= set(ids(pulled))
                assert client.acknowledge(KEEPING, pulled.first, pulled.last) == frame.SUCCESS
            rest = answered - done
            while rest:
                pulled = client.pull(Pull(WORKING, hold_ms=HOLD_MS))
                assert pulled is not None, sorted(rest)
                assert not done & set(ids(pulled)), "what was acknowledged does not come again"
                rest -= set(ids(pulled))
                assert client.acknowledge(WORKING, pulled.first, pulled.last) == frame.SUCCESS


def test_a_kill_while_garbage_comes_loses_nothing(tmp_path: Path) -> None:
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            join(client, KEEPING)
            assert client.send(Message(SUBJECT, "before")) == ()
        for garbage in (b"\xff" * 100, bytes(100), frame.request(frame.SEND, bytes(50), opaque=1).encoded()[:-1]):
            with served.connected() as bad, served.connected() as good:
                bad.write(garbage)
                assert good.send(Message(SUBJECT, "during")) == ()
                served.kill()
                assert good.until_closed() == []
            served.start()
        with served.connected() as client:
            pulled = client.pull(Pull(KEEPING, hold_ms=HOLD_MS))
            found = ids(pulled)
            while len(found) < 4:
                found += ids(client.pull(Pull(KEEPING, last_received=len(found) - 1, hold_ms=HOLD_MS)))
            assert found == ["before", "during", "during", "during"]


def test_a_pull_that_was_answered_and_lost_on_its_way_comes_again(tmp_path: Path) -> None:
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            join(client, KEEPING)
            assert client.send(*(Message(SUBJECT, f"m{number}") for number in range(10))) == ()
            client.ask_pull(Pull(KEEPING, hold_ms=HOLD_MS))
            assert client.heartbeat(KEEPING) == frame.SUCCESS
            served.kill()
        served.start()
        with served.connected() as client:
            assert sorted(taken(client, KEEPING, 10)) == [f"m{number}" for number in range(10)]
