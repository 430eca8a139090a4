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
from delaymq.client.session import session
from delaymq.client.session.requests import PendingRequest
from delaymq.client.session.session import Session
from delaymq.client.session.subscription_state import SubscriptionRequest, SubscriptionState
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
        self.asked: list[PendingRequest] = []

    def check(self) -> None:
        """Everybody is let in."""

    def ask(self, asked: PendingRequest) -> None:
        if not asked.one_way:
            self.asked.append(asked)

    def schedule_settling(self, _state: SubscriptionState) -> None:
        """It is sent by hand."""

    def schedule_confirmation(self) -> None:
        """Nothing is asked by itself."""


class Bare(SubscriptionState):
    """A subscription that is made, on a session that is none."""

    def __init__(self) -> None:
        self.recorded = Recorded()
        super().__init__(
            cast(Session, self.recorded), SubscriptionRequest(["a"], "g", "earliest", 100, ([], False, []))
        )
        self.subscribed(NUMBER, "c")

    def notify(self) -> None:
        """Nobody waits."""

    def settle(self, count: int) -> None:
        self._acks += [KEY] * count
        self.push_settled()


def on_answer(_value: Any, error: BaseException | None) -> None:
    assert error is None


def test_a_flush_confirms_only_what_was_sent_before_it_was_asked() -> None:
    state = Bare()
    state.settle(5)
    state.confirm()
    state.request_flush(on_answer)
    first, second = state.recorded.asked
    first.on_answer(None, None)
    state.settle(3)
    second.on_answer(None, None)
    state.disconnected()
    with pytest.raises(AmbiguousError, match="before 3 of"):
        state.raise_ambiguous()
    state.raise_ambiguous()


def test_what_was_given_back_is_confirmed_once() -> None:
    """By its own answer or by a flush's, whichever comes first."""
    state = Bare()
    state._nacks.append((KEY, 0))
    state.request_flush(on_answer)
    given_back, flush = state.recorded.asked
    flush.on_answer(None, None)
    state.settle(2)
    given_back.on_answer(None, None)
    state.disconnected()
    with pytest.raises(AmbiguousError, match="before 2 of"):
        state.raise_ambiguous()
