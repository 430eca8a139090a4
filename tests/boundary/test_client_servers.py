"""What answers at an address may be no delaymq server, or one in trouble: each is a typed error, in time."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import delaymq
from boundary.remote import Remote
from delaymq import (
    AmbiguousError,
    Busy,
    Closed,
    DelaymqError,
    InvalidArgument,
    NotPrimary,
    Poisoned,
    ProtocolError,
    Stopping,
    StoreError,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unreachable,
    WrongType,
)
from delaymq.client import options
from delaymq.client.options import Address, Addresses
from ports import lone_port
from proxies import HELLO, PING, SUBSCRIBE, answer, error_body, frame, frames, hello_answer, played

EMPTY_LIST = struct.pack(">QI", 0, 0)
PendingRequest = Callable[[socket.socket, int, int], object]


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("delaymq://127.0.0.1:5", "127.0.0.1", 5),
        ("delaymq://localhost", "localhost", 20801),
        ("delaymq://queue.example:65535/", "queue.example", 65535),
        ("delaymq://[::1]:7", "::1", 7),
    ],
)
def test_an_address_is_read_from_its_url(url: str, host: str, port: int) -> None:
    found = Addresses.of(url)
    assert found == Addresses(Address(host, port))
    assert Addresses.of(str(found)) == found


def test_the_addresses_of_several_nodes_are_read_in_order_and_each_once() -> None:
    found = Addresses.of("delaymq://b.example:5,a,[::1]:7,[2001:db8::2],a:20801/")
    others = (Address("a", 20801), Address("::1", 7), Address("2001:db8::2", 20801))
    assert found == Addresses(Address("b.example", 5), others)
    assert str(found) == "delaymq://b.example:5,a:20801,[::1]:7,[2001:db8::2]:20801"
    assert Addresses.of(str(found)) == found


@pytest.mark.parametrize(
    ("nodes", "bad"),
    [
        *(("a:1,", ""), (",a:1", ""), ("a,,b", ""), ("a:1,b:x,c", "b:x"), ("a:0,b", "a:0"), ("a,me@b", "me@b")),
        *(("a/,b", "a/"), ("a,b?c", "b?c"), ("a,delaymq://b", "delaymq://b"), ("[::1]:1,[::2", "[::2")),
    ],
)
def test_the_part_of_a_list_that_is_no_address_is_named(remote: Remote, nodes: str, bad: str) -> None:
    with pytest.raises(InvalidArgument, match="delaymq://host:port,host:port") as caught:
        remote.connect(f"delaymq://{nodes}")
    assert (caught.value.argument, caught.value.found) == ("url", repr(bad))


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:20801", "http://127.0.0.1:20801", "delaymq://", "delaymq://:20801", "delaymq://a:0"),
        *("delaymq://a:65536", "delaymq://a:x", "delaymq://a/b", "delaymq://a?b", "delaymq://a#b", "delaymq://me@a"),
        *("delaymq://me:secret@a", "delaymq://[::1", "delaymq://a..b:1", f"delaymq://{'a' * 70}:1", "delaymq://a\0b:1"),
    ],
)
def test_what_is_no_address_is_refused(remote: Remote, url: str) -> None:
    with pytest.raises(InvalidArgument, match="delaymq://host:port") as caught:
        remote.connect(url)
    assert caught.value.argument == "url"


@pytest.mark.parametrize(
    ("options", "kind", "argument"),
    [
        ({"url": 5}, WrongType, "url"),
        ({"token": 5}, WrongType, "token"),
        ({"token": "x" * 1025}, TooLarge, "token"),
        ({"timeout": 0}, InvalidArgument, "timeout"),
        ({"timeout": -1}, InvalidArgument, "timeout"),
        ({"timeout": "1"}, WrongType, "timeout"),
        ({"retry_ambiguous": 1}, WrongType, "retry_ambiguous"),
        ({"deduplicate": None}, WrongType, "deduplicate"),
    ],
)
def test_an_option_of_no_sense_is_refused(
    remote: Remote, options: dict[str, Any], kind: type[DelaymqError], argument: str
) -> None:
    with pytest.raises(kind) as caught:
        remote.connect(**{"url": "delaymq://127.0.0.1:1", **options})
    assert getattr(caught.value, "argument", None) == argument


def test_where_nobody_listens_it_is_said_at_once(remote: Remote) -> None:
    with pytest.raises(Unreachable, match="no server answers") as caught:
        remote.connect(f"delaymq://127.0.0.1:{lone_port()}")
    assert isinstance(caught.value, ConnectionError)
    assert caught.value.reason


def test_a_server_that_says_nothing(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "HELLO_S", 0.2)
    with (
        played(lambda connection, _: list(frames(connection))) as url,
        pytest.raises(TimedOut, match=r"said nothing within 0\.2 s"),
    ):
        remote.connect(url)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError, "no delaymq server sends"),
        (b"\0" * 64, ProtocolError, "no delaymq server sends"),
        (b"\xff" * 64, ProtocolError, "no delaymq server sends"),
        (frame(STATUS := 220, b""), ProtocolError, "no delaymq server sends"),
        (answer(HELLO, 0, b"\0"), ProtocolError, "version"),
        (answer(HELLO, 0, b"", code=3), ProtocolError, "no delaymq server of this version"),
        (answer(HELLO, 0, error_body("version 1 alone"), code=1021), ProtocolError, "version 1 alone"),
        (answer(HELLO, 0, error_body("a token, please"), code=1030), Unauthorized, "a token, please"),
        (answer(HELLO, 0, error_body("come later"), code=1032), Stopping, "come later"),
        (answer(HELLO, 0, error_body("not here"), code=1033), NotPrimary, "not here"),
        (b"", Unreachable, "closed the connection"),
    ],
)
def test_a_hello_that_is_answered_by_something_else(
    remote: Remote, said: bytes, kind: type[StoreError], words: str
) -> None:
    def play(connection: socket.socket, _: int) -> None:
        next(frames(connection))
        connection.sendall(said)
        if said:
            list(frames(connection))

    with played(play) as url, pytest.raises(kind, match=words):
        remote.connect(url)


def greeted(asked: PendingRequest) -> Callable[[socket.socket, int], None]:
    """Answers a hello, and tells the rest to `asked`."""

    def play(connection: socket.socket, _: int) -> None:
        for code, opaque, _of, _whole in frames(connection):
            if code == HELLO:
                connection.sendall(hello_answer(opaque))
            else:
                asked(connection, code, opaque)

    return play


@pytest.mark.parametrize(
    ("code", "kind"), [(1031, Busy), (1032, Stopping), (1030, Unauthorized), (1012, Poisoned), (1999, StoreError)]
)
def test_an_error_of_the_server_has_its_class(remote: Remote, code: int, kind: type[StoreError]) -> None:
    def refuse(connection: socket.socket, command: int, opaque: int) -> None:
        connection.sendall(answer(command, opaque, error_body("why not"), code=code))

    with played(greeted(refuse)) as url, remote.connected(url) as client:
        calls: list[Callable[[], Any]] = [
            lambda: client.publish("a", b""),
            lambda: client.subscribe("a", group="g"),
        ]
        if kind is not Stopping:  # what changes nothing is asked again then, on the next connection
            calls.append(client.status)
        for call in calls:
            with pytest.raises(kind, match="why not") as caught:
                remote.call(call)
            assert type(caught.value) is kind


def test_who_would_try_again_is_not_told_that_a_server_stops_and_is_in_no_doubt(remote: Remote) -> None:
    seen: list[int] = []

    def play(connection: socket.socket, number: int) -> None:
        def stop(to: socket.socket, command: int, opaque: int) -> None:
            seen.append(number)
            code = 1032 if number == 0 else 1031
            to.sendall(answer(command, opaque, error_body("why not"), code=code))
            if number == 0:
                to.shutdown(socket.SHUT_RDWR)

        greeted(stop)(connection, number)

    # Had the first try left a doubt, the second could not say that nothing was done.
    with (
        played(play) as url,
        remote.connected(url, deduplicate=True) as client,
        pytest.raises(Busy, match="why not"),
    ):
        remote.call(lambda: client.publish("a", b""))
    assert seen == [0, 1]


def test_a_server_that_answers_nothing_more_is_not_waited_for_for_ever(remote: Remote) -> None:
    with played(greeted(lambda *_: None)) as url, remote.connected(url, timeout=0.2) as client:
        with pytest.raises(AmbiguousError, match=r"did not answer within 0\.2 s"):
            remote.call(lambda: client.publish("a", b""))
        with pytest.raises(AmbiguousError):
            remote.call(lambda: client.start_group("a", "g"))
        for call in (client.status, lambda: client.subscribe("a", group="g")):
            with pytest.raises(TimedOut, match=r"did not answer within 0\.2 s"):
                remote.call(call)


def test_garbage_after_a_hello_ends_the_connection_and_another_is_made(remote: Remote) -> None:
    seen: list[int] = []

    def play(connection: socket.socket, number: int) -> None:
        seen.append(number)

        def misbehave(to: socket.socket, command: int, opaque: int) -> None:
            if number == 0:
                to.sendall(b"garbage" * 10)
            else:
                to.sendall(answer(command, opaque, EMPTY_LIST))

        greeted(misbehave)(connection, number)

    with played(play) as url, remote.connected(url) as client:
        assert remote.call(client.groups) == []
    assert seen == [0, 1]


def test_a_token_that_is_not_taken_any_more_is_said_at_once_and_tried_again(remote: Remote) -> None:
    is_taken = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        for code, opaque, _of, _whole in frames(connection):
            if code == HELLO and (number == 0 or is_taken.is_set()):
                connection.sendall(hello_answer(opaque))
            elif code == HELLO:
                connection.sendall(answer(HELLO, opaque, error_body("another token"), code=1030))
            elif number == 0:
                return
            else:
                connection.sendall(answer(code, opaque, EMPTY_LIST))

    with played(play) as url, remote.connected(url, timeout=20) as client:
        for _ in range(2):
            with pytest.raises(Unauthorized, match="another token"):
                remote.call(client.groups)
        is_taken.set()
        while True:
            try:
                assert remote.call(client.groups) == []
                break
            except Unauthorized:
                remote.call(lambda: asyncio.sleep(0.01)) if remote.runner else time.sleep(0.01)


def test_a_server_that_falls_silent_is_left_for_another_connection(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "PING_S", 0.05)
    monkeypatch.setattr(options, "SILENCE_S", 0.2)
    pinged, again = threading.Event(), threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        def heard(to: socket.socket, command: int, opaque: int) -> None:
            if number == 0:
                pinged.set()
                return
            again.set()
            to.sendall(
                answer(command, opaque) if command == PING else answer(command, opaque, struct.pack(">QI", 0, 0))
            )

        greeted(heard)(connection, number)

    with played(play) as url, remote.connected(url) as client:
        assert remote.call(client.groups) == [], "asked on the first connection, answered on the second"
        assert pinged.is_set()
        assert again.is_set()


@pytest.mark.parametrize("code", [1031, 1032, 1012, 1013])
def test_a_subscription_that_is_refused_for_a_while_is_made_again(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A server that goes down, or comes up, is no reason for a consumer to end."""
    monkeypatch.setattr(options, "AGAIN_S", 0.02)
    asked: list[int] = []

    def play(connection: socket.socket, number: int) -> None:
        def heard(to: socket.socket, command: int, opaque: int) -> None:
            if command != SUBSCRIBE:
                return
            asked.append(number)
            if number == 1 and asked.count(1) < 3:
                to.sendall(answer(command, opaque, error_body("not now"), code=code))
                return
            to.sendall(answer(command, opaque, struct.pack(">h", 1) + b"c" + b"\0"))
            if number == 0:
                to.shutdown(socket.SHUT_RDWR)

        greeted(heard)(connection, number)

    with played(play) as url:
        client = remote.connect(url, timeout=20)
        messages = remote.call(lambda: client.subscribe("a", group="g"))
        while asked.count(1) < 3:
            assert remote.call(lambda: messages.get(0.02)) is None, "and nothing is raised"
        client._connection.end()
        with pytest.raises(Closed):
            remote.call(lambda: messages.get(0))
        remote.call(client.close)


def test_a_token_is_what_the_server_gets(remote: Remote) -> None:
    tokens: list[bytes] = []

    def play(connection: socket.socket, _: int) -> None:
        for _code, opaque, _of, whole in frames(connection):
            tokens.append(whole)
            connection.sendall(hello_answer(opaque))

    with played(play) as url:
        for token in ("geheim", b"geheim"):
            remote.call(remote.connect(url, token=token).close)
    assert [whole[-10:] for whole in tokens] == [struct.pack(">I", 6) + b"geheim"] * 2


def test_a_client_says_where_it_is(remote: Remote) -> None:
    with played(greeted(lambda *_: None)) as url:
        client = remote.connect(url)
        assert client.url == url
        assert url in repr(client)
        assert client.is_open
        remote.call(client.close)
        remote.call(client.close)
        assert not client.is_open
        assert delaymq.Client is not None
