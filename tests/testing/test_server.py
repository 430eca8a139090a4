"""A served store of a test: its fixture, its address, and what ends it."""

from __future__ import annotations

import errno
import gc
import socket
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

import delaymq
from delaymq import AmbiguousError, Closed, StorageError, Subscription, Unreachable
from delaymq.testing import Clock, Server, open_store, ready, serve


def test_the_fixtures_belong_together(
    delaymq_server: Server, delaymq_store: delaymq.Store, delaymq_clock: Clock
) -> None:
    with delaymq.connect(delaymq_server.url) as client:
        receipt = client.publish("reminder", b"pay the rent", delay=timedelta(days=30))
        assert receipt.due - delaymq_clock.now == timedelta(days=30)
        delaymq_clock.advance(timedelta(days=30))
        assert [message.body for message in ready(delaymq_store, "reminder")] == [b"pay the rent"]
        assert delaymq_server.store is delaymq_store
        assert delaymq_server.url in repr(delaymq_server)


def test_consumers_over_tcp_live_by_the_clock(delaymq_server: Server, delaymq_clock: Clock) -> None:
    with delaymq.connect(delaymq_server.url) as client, client.subscribe("a", group="g") as messages:
        client.publish_many("a", [b"1", b"2"], [timedelta(days=1), timedelta(days=2)])
        delaymq_clock.advance(timedelta(days=3))
        found = [messages.get(10), messages.get(10)]
        assert [message.body for message in found if message] == [b"1", b"2"]
        assert all(message.lateness >= timedelta(0) for message in found if message)


def test_clients_outlive_a_restart_and_a_crash(delaymq_server: Server) -> None:
    url = delaymq_server.url
    with delaymq.connect(url) as client, client.subscribe("a", group="g") as messages:
        for number, end in enumerate((delaymq_server.restart, delaymq_server.crash, delaymq_server.restart)):
            delaymq_server.store.publish("a", b"%d" % number)
            end()
            assert delaymq_server.url == url
            finish(messages, b"%d" % number)


def finish(messages: Subscription, body: bytes) -> None:
    """Takes messages up to this one. What the server handed over that has ended may have to be said again."""
    taken = b""
    while taken != body:
        message = messages.get(20)
        assert message is not None, f"{body!r} does not come"
        taken = message.body
        message.ack()
        with suppress(AmbiguousError):
            messages.flush(20)


def test_a_stopped_server_leaves_nobody_at_its_address(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        server = serve(store)
        delaymq.connect(server.url).close()
        server.stop()
        server.stop()
        with pytest.raises(Unreachable):
            delaymq.connect(server.url)
        server.restart()
        with delaymq.connect(server.url) as client:
            client.publish("a", b"x")
        server.stop()
        assert store.status().ready == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server share what is held for it")
def test_a_stopped_server_keeps_its_port_until_nobody_has_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        server = serve(store)
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        server.stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(place)
        server.restart()
        server.stop()
        del server
        gc.collect()
        with socket.socket() as other:
            other.bind(place)


@pytest.mark.skipif(sys.platform != "linux", reason="the port is held by nobody elsewhere")
def test_where_the_system_gives_no_port_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(*_: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(socket.socket, "bind", bind)
    with open_store(tmp_path / "store") as store, pytest.raises(StorageError, match="no port") as caught:
        serve(store)
    assert caught.value.errno == errno.EADDRINUSE


def test_a_closed_store_is_not_served(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    store.close()
    with pytest.raises(Closed):
        serve(store)
