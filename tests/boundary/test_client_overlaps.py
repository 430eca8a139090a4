"""Requests of one client that are under way at once: what the answer of each is for, and is not."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

from boundary.remote import Remote
from delaymq.client import options
from proxies import GROUPS, HELLO, SUBSCRIBE, UNSUBSCRIBE, answer, error_body, frames, hello_answer, played

pytestmark = pytest.mark.timeout(60)

BUSY = 1031


class Slow:
    """Subscribes two at once on the second connection: one is refused at first, the other answered late."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.done = threading.Event()

    def play(self, connection: socket.socket, number: int) -> None:
        late = 0
        for code, opaque, _of, whole in frames(connection):
            if code == HELLO:
                connection.sendall(hello_answer(opaque))
            elif code == GROUPS:
                connection.sendall(answer(code, opaque, struct.pack(">QI", 0, 0)))
                if number == 0:
                    return  # the connection is lost, and both are to be made again
            elif code == SUBSCRIBE:
                name = b"hasty" if b"hasty" in whole else b"tardy"
                made = struct.pack(">h", 1) + b"c" + b"\0"
                if number == 0:
                    connection.sendall(answer(code, opaque, made))
                    continue
                self.asked.append(name)
                if name == b"tardy":
                    late = late or opaque
                elif self.asked.count(name) == 1:
                    connection.sendall(answer(code, opaque, error_body("not now"), code=BUSY))
                else:
                    connection.sendall(answer(code, opaque, made))
                    connection.sendall(answer(code, late, made))
                    self.done.set()
            elif code == UNSUBSCRIBE:
                connection.sendall(answer(code, opaque))


def test_what_was_not_refused_is_not_subscribed_twice(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "AGAIN_S", 0.02)
    slow = Slow()
    with played(slow.play) as url:
        client = remote.connect(url)
        hasty = remote.call(lambda: client.subscribe("hasty", group="g"))
        tardy = remote.call(lambda: client.subscribe("tardy", group="g"))
        remote.call(client.groups)
        while not slow.done.is_set():
            remote.call(lambda: asyncio.sleep(0.01)) if remote.runner else slow.done.wait(0.01)
        remote.call(client.groups)  # is asked after all that was
        assert slow.asked == [b"hasty", b"tardy", b"hasty"]
        for messages in (hasty, tardy):
            remote.call(messages.close)
        remote.call(client.close)
