"""Consumers that an administrator switches off by HTTP: what they are told and given, until they are on again."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from commanding import ANY_PORTS, refused
from qmq_client import bodies
from qmq_client.bodies import Consumer, Pull, registration
from qmq_client.connection import Connection
from qmq_served.serving import HOLD_MS, QmqServed, ids, join, messages_of, taken

TOKEN = "dmqt_the-administrator-s"
SETTING = f"server.admin_token_hash=sha256:{sha256(TOKEN.encode()).hexdigest()}"
FIRST, SECOND = Consumer("order", "billing", "host@@1"), Consumer("order", "billing", "host@@2")
RETRIES = "%RETRY%order%billing"


@pytest.fixture
def switching(tmp_path: Path) -> Iterator[QmqServed]:
    with QmqServed(tmp_path / "store", SETTING) as server:
        yield server


def switch(served: QmqServed, consumer_id: str, subject: str, group: str, *, off: bool) -> None:
    names = {"clientId": consumer_id, "subject": subject, "consumerGroup": group, "state": str(int(off))}
    query = urllib.parse.urlencode({"operation": "update", **names})
    status, said = served.page(f"/onoffline?{query}", Authorization=f"Bearer {TOKEN}")
    assert (status, json.loads(said)) == (200, {"status": 0, "message": "OFF" if off else "ON", "data": None})


def is_off(client: Connection, consumer: Consumer) -> bool:
    values = registration(consumer.subject, bodies.CONSUMER, client_id=consumer.consumer_id, group=consumer.group)
    return client.register(values).is_off


def test_one_that_is_off_is_told_so_and_given_nothing_and_the_others_are(switching: QmqServed) -> None:
    with switching.connected() as client, switching.connected() as other:
        for consumer in (FIRST, SECOND):
            join(client, consumer)
            assert not is_off(client, consumer)
        switch(switching, FIRST.consumer_id, "order", "billing", off=True)
        assert (is_off(client, FIRST), is_off(client, SECOND)) == (True, False)
        client.send(*messages_of("order", 3))
        assert client.pull(Pull(FIRST, hold_ms=50)) is None
        assert sorted(taken(other, SECOND, 3)) == ["m0", "m1", "m2"]
        switch(switching, FIRST.consumer_id, "order", "billing", off=False)
        assert not is_off(client, FIRST)


def test_one_that_waits_gets_what_came_meanwhile_once_it_is_on_again(switching: QmqServed) -> None:
    with switching.connected() as client:
        join(client, FIRST)
        switch(switching, FIRST.consumer_id, "order", "billing", off=True)
        client.send(*messages_of("order", 2))
        assert client.pull(Pull(FIRST, hold_ms=50)) is None
        switch(switching, FIRST.consumer_id, "order", "billing", off=False)
        assert sorted(taken(client, FIRST, 2)) == ["m0", "m1"]


def test_what_it_holds_can_still_be_acknowledged_and_its_retries_are_kept_back_too(switching: QmqServed) -> None:
    with switching.connected() as client:
        join(client, FIRST)
        client.send(*messages_of("order", 1))
        pulled = client.pull(Pull(FIRST, hold_ms=HOLD_MS))
        assert ids(pulled) == ["m0"]
        assert pulled is not None
        switch(switching, FIRST.consumer_id, "order", "billing", off=True)
        assert client.acknowledge(FIRST, pulled.first, pulled.last) == 0
        client.send(*messages_of(RETRIES, 1, prefix="again"))
        retries = Consumer(RETRIES, "billing", FIRST.consumer_id)
        assert client.pull(Pull(retries, hold_ms=50)) is None
        assert is_off(client, retries)
        assert client.pull(Pull(FIRST, hold_ms=50)) is None
        switch(switching, FIRST.consumer_id, "order", "billing", off=False)
        assert list(taken(client, retries, 1)) == ["again0"]


@pytest.mark.parametrize("everybody", [("*", "order", "billing"), (FIRST.consumer_id, "*", "*")])
def test_many_are_switched_off_by_one_word(switching: QmqServed, everybody: tuple[str, str, str]) -> None:
    with switching.connected() as client:
        join(client, FIRST)
        switch(switching, *everybody, off=True)
        client.send(*messages_of("order", 1))
        assert client.pull(Pull(FIRST, hold_ms=50)) is None
        assert is_off(client, FIRST)
        switch(switching, *everybody, off=False)
        assert list(taken(client, FIRST, 1)) == ["m0"]


def test_it_stays_off_over_a_kill_and_a_file_that_is_not_believed_is_no_start(switching: QmqServed) -> None:
    with switching.connected() as client:
        join(client, FIRST)
        client.send(*messages_of("order", 1))
        switch(switching, FIRST.consumer_id, "order", "billing", off=True)
    switching.kill()
    switching.start()
    with switching.connected() as client:
        assert is_off(client, FIRST)
        assert client.pull(Pull(FIRST, hold_ms=50)) is None
        switch(switching, FIRST.consumer_id, "order", "billing", off=False)
    switching.kill()
    switching.start()
    with switching.connected() as client:
        assert not is_off(client, FIRST)
        assert list(taken(client, FIRST, 1)) == ["m0"]
    switching.kill()
    file = switching.folder / "switched_off"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    assert "switched_off is damaged" in refused(4, "serve", "--store", switching.folder, *ANY_PORTS)
    file.write_bytes(whole)
    switching.start()
