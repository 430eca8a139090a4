"""Requests of one client that are under way at once: what the answer of each is for, and is not."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from typing import Any, cast

import pytest

from boundary.remote import Remote
from delaymq import AmbiguousError
from delaymq.client import session
from delaymq.client.asked import Asked
from delaymq.client.intake import Intake
from delaymq.client.session import Session
from proxies import GROUPS, HELLO, SUBSCRIBE, UNSUBSCRIBE, answer, error_body, frames, hello_answer, played

pytestmark = pytest.mark.timeout(60)

BUSY = 1031
NUMBER = 1
KEY = NUMBER << 32


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
    monkeypatch.setattr(session, "AGAIN_S", 0.02)
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


class Recorded:
    """Stands for a session, and keeps what is asked."""

    delay_ms_max = 2**40

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.asked: list[Asked] = []

    def check(self) -> None:
        """Everybody is let in."""

    def ask(self, asked: Asked) -> None:
        if not asked.one_way:
            self.asked.append(asked)

    def soon(self, _intake: Intake) -> None:
        """It is sent by hand."""

    def unconfirmed(self) -> None:
        """Nothing is asked by itself."""


class Bare(Intake):
    """A subscription that is made, on a session that is none."""

    def __init__(self) -> None:
        self.recorded = Recorded()
        super().__init__(cast(Session, self.recorded), ("a", "g"), "earliest", 100)
        self.subscribed(NUMBER, "c")

    def news(self) -> None:
        """Nobody waits."""

    def settle(self, count: int) -> None:
        self._done += [KEY] * count
        self.push_settled()


def heard(_value: Any, error: BaseException | None) -> None:
    assert error is None


def test_a_flush_confirms_only_what_was_sent_before_it_was_asked() -> None:
    intake = Bare()
    intake.settle(5)
    intake.confirm()
    intake.flushed(heard)
    first, second = intake.recorded.asked
    first.heard(None, None)
    intake.settle(3)
    second.heard(None, None)
    intake.disconnected()
    with pytest.raises(AmbiguousError, match="before 3 of"):
        intake.raise_doubts()
    intake.raise_doubts()


def test_what_was_given_back_is_confirmed_once() -> None:
    """By its own answer or by a flush's, whichever comes first."""
    intake = Bare()
    intake._backs.append((KEY, 0))
    intake.flushed(heard)
    given_back, flush = intake.recorded.asked
    flush.heard(None, None)
    intake.settle(2)
    given_back.heard(None, None)
    intake.disconnected()
    with pytest.raises(AmbiguousError, match="before 2 of"):
        intake.raise_doubts()
