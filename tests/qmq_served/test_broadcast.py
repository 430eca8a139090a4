"""A broadcast consumer receives again what it did not acknowledge, over its own restart and the server's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import delaymq
from delaymq.administration import Consumer as Listed
from delaymq.errors import InvalidArgument
from qmq_client import frame
from qmq_client.bodies import Consumer, Pull
from qmq_client.connection import Connection
from qmq_client.message import Message
from qmq_served.serving import HOLD_MS, QmqServed, ids, messages_of

HOST = "host@@one"
PATIENCE_SECONDS = 30
# 0.36 seconds.
SHORT = "server.qmq_broadcast_lease_hours=0.0001"


def pulled(client: Connection, consumer: Consumer, count: int) -> dict[str, int]:
    """So many messages for a consumer that says that it received nothing; their pull offsets by their ids."""
    found: dict[str, int] = {}
    last = -1
    while len(found) < count:
        run = client.pull(Pull(consumer, broadcast=True, last_received=last, hold_ms=HOLD_MS))
        assert run is not None, f"{len(found)} of {count} came"
        assert not found.keys() & run.offsets.keys()
        found |= run.offsets
        last = run.last
    return found


def nothing_more(client: Connection, consumer: Consumer, found: dict[str, int]) -> bool:
    return client.pull(Pull(consumer, broadcast=True, last_received=max(found.values()))) is None


def test_four_of_six_come_again_under_their_offsets_to_one_that_starts_anew(client: Connection, subject: str) -> None:
    consumer = Consumer(subject, HOST, HOST)
    assert client.pull(Pull(consumer, broadcast=True)) is None
    assert client.send(*messages_of(subject, 6)) == ()
    six = pulled(client, consumer, 6)
    first = min(six.values())
    assert client.acknowledge(consumer, first, first + 1, broadcast=True) == frame.SUCCESS
    again = pulled(client, consumer, 4)
    assert again == {f"m{number}": first + number for number in range(2, 6)}
    assert nothing_more(client, consumer, again)


def test_they_come_again_after_the_server_was_killed_with_what_came_meanwhile(tmp_path: Path) -> None:
    consumer = Consumer("order", HOST, HOST)
    others = Consumer("order", "billing", "host@@two")
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            assert client.pull(Pull(consumer, broadcast=True)) is None
            assert client.pull(Pull(others)) is None
            assert client.send(*messages_of("order", 6)) == ()
            six = pulled(client, consumer, 6)
            # A group that finishes everything takes nothing from it.
            run = client.pull(Pull(others, hold_ms=HOLD_MS))
            assert run is not None
            assert client.acknowledge(others, run.first, run.last) == frame.SUCCESS
            assert client.acknowledge(consumer, six["m0"], six["m1"], broadcast=True) == frame.SUCCESS
        for _ in range(2):
            served.kill()
            served.start()
            with served.connected() as client:
                again = pulled(client, consumer, 4)
                assert again == {f"m{number}": six[f"m{number}"] for number in range(2, 6)}
                assert nothing_more(client, consumer, again)
        served.stop()
        served.start()
        with served.connected() as client:
            assert client.send(Message("order", "new")) == ()
            # It acknowledges before its first pull on this server.
            assert client.acknowledge(consumer, six["m2"], six["m4"], broadcast=True) == frame.SUCCESS
            again = pulled(client, consumer, 2)
            assert list(again) == ["m5", "new"]
            assert again["m5"] == six["m5"]
            assert client.acknowledge(consumer, again["m5"], again["new"], broadcast=True) == frame.SUCCESS
            assert client.pull(Pull(consumer, broadcast=True)) is None


def test_it_ends_with_its_lease_and_holds_nothing_any_more(tmp_path: Path) -> None:
    consumer = Consumer("order", HOST, HOST)
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            assert client.pull(Pull(consumer, broadcast=True)) is None
            assert client.send(*messages_of("order", 2)) == ()
            pulled(client, consumer, 2)
        with delaymq.connect(served.url) as store:
            assert store.consumers("order", HOST) == [Listed(HOST, "order", 2, is_lasting=True, is_broadcast=True)]
    with QmqServed(tmp_path / "store", SHORT) as served:
        with delaymq.connect(served.url) as store:
            until = time.monotonic() + PATIENCE_SECONDS
            while store.groups():
                assert time.monotonic() < until, "its group does not end"
                time.sleep(0.02)
        with served.connected() as client:
            assert client.pull(Pull(consumer, broadcast=True)) is None
            assert client.send(Message("order", "new")) == ()
            assert ids(client.pull(Pull(consumer, broadcast=True, hold_ms=HOLD_MS))) == ["new"]


def test_an_operator_ends_it_without_a_server_too(tmp_path: Path) -> None:
    consumer = Consumer("order", HOST, HOST)
    with QmqServed(tmp_path / "store") as served, served.connected() as client:
        assert client.pull(Pull(consumer, broadcast=True)) is None
        assert client.send(*messages_of("order", 3)) == ()
        pulled(client, consumer, 3)
    with delaymq.open(tmp_path / "store") as store:
        assert [group.name for group in store.groups()] == [HOST]
        assert store.end_consumer("order", HOST, HOST) == 3
        assert store.groups() == []
        with pytest.raises(InvalidArgument, match="group"):
            store.end_consumer("order", HOST, HOST)
