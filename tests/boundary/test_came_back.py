"""A client whose try to connect is answered by its own end, where no server listens."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import delaymq
from boundary.remote import Remote
from delaymq import Unreachable
from delaymq.client.session.options import Address
from delaymq.client.session.self_connection import self_connection_error
from ports import lone_port
from serving import Served

PATIENCE_S = 60


def met(port: int, *, shares_port: bool = False) -> socket.socket:
    """A socket that is connected to itself."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shares_port)
    found.bind(("127.0.0.1", port))
    found.connect(("127.0.0.1", port))
    return found


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], socket.socket]], list[int]]:
    """Has the next try come to the socket given, and those after it go on; the list says that it has."""

    def begin(next_one: Callable[[], socket.socket]) -> list[int]:
        tries: list[int] = []
        connect, connect_on_loop = socket.create_connection, asyncio.BaseEventLoop.create_connection

        def plain(*args: Any, **options: Any) -> socket.socket:
            if tries:
                return connect(*args, **options)
            tries.append(1)
            return next_one()

        async def on_loop(loop: asyncio.BaseEventLoop, factory: Any, *args: Any) -> Any:
            if tries:
                return await connect_on_loop(loop, factory, *args)
            tries.append(1)
            return await connect_on_loop(loop, factory, sock=next_one())

        monkeypatch.setattr(socket, "create_connection", plain)
        monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", on_loop)
        return tries

    return begin


def test_it_is_nobody_who_answers_and_the_port_is_free_at_once(remote: Remote, meet: Any) -> None:
    port = lone_port()
    meet(lambda: met(port))
    with pytest.raises(Unreachable, match=f"no server answers at .*:{port}: the connection came back to itself"):
        remote.connect(f"delaymq://127.0.0.1:{port}")
    remote.rest()  # a loop closes what was aborted in its next round
    socket.create_server(("127.0.0.1", port)).close()


def test_who_waits_is_answered_once_there_is_a_server_again(remote: Remote, meet: Any, process: Served) -> None:
    def met_late() -> socket.socket:
        time.sleep(0.1)  # by then somebody waits
        return met(int(process.address.rpartition(":")[2]), shares_port=True)

    with remote.connected(process.url, deduplicate=True, timeout=PATIENCE_S) as client:
        tries = meet(met_late)
        process.kill()
        starting = threading.Timer(0.5, process.start)
        starting.start()
        try:
            receipt = remote.call(lambda: client.publish("a", b"waited", delay=3600))
        finally:
            starting.join()
        assert tries
        assert remote.call(lambda: client.cancel(receipt)) is delaymq.Outcome.DONE


def test_a_connection_that_is_over_is_none_that_came_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connected = socket.create_connection(listener.getsockname())
        assert self_connection_error(connected, Address("127.0.0.1", 1)) is None
        connected.close()
    assert self_connection_error(connected, Address("127.0.0.1", 1)) is None
