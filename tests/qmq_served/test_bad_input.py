"""What must not be sent: what it gets, and that nobody else notices."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from qmq_client import frame
from qmq_client.bodies import PRODUCER, register, registration
from qmq_client.connection import Connection
from qmq_client.message import Message
from qmq_client.pages import META_ADDRESS, page
from qmq_served.serving import QmqServed

# With the four bytes that say how long the rest is.
FRAME_MAX = 8 << 20
SEED = 20_260_714


@pytest.fixture(autouse=True)
def other(served: QmqServed, subject: str) -> Iterator[Connection]:
    """Another client, that is served before and after, on the same connection."""
    with served.connected() as connection:
        assert connection.send(Message(subject, "before")) == ()
        yield connection
        assert connection.send(Message(subject, "after")) == ()
        assert page(served.http_address, META_ADDRESS).content == served.address


def good(subject: str, opaque: int = 1) -> bytes:
    return frame.request(frame.SEND, Message(subject, "m").sent(), opaque=opaque).encoded()


WHOLE = frame.request(frame.SEND, b"", opaque=2)
UNREADABLE = {
    "wrong magic": WHOLE.encoded(magic=0xDEC10ADF),
    "no magic": WHOLE.encoded(magic=0),
    "magic the other way round": WHOLE.encoded(magic=0xDE0AC1DE),
    "negative length": WHOLE.encoded(total=-1),
    "most negative length": WHOLE.encoded(total=-(2**31)),
    "no length": WHOLE.encoded(total=0),
    "a length below the header's": WHOLE.encoded(total=19),
    "the longest length": WHOLE.encoded(total=2**31 - 1),
    "one byte more than a frame may have": WHOLE.encoded(total=FRAME_MAX - 3),
    "a header of another size": WHOLE.encoded(header_bytes=17),
    "a header of negative size": WHOLE.encoded(header_bytes=-1),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "HTTP": b"GET /meta/address HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030102000100") + bytes(60),
}


@pytest.mark.parametrize("garbage", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_frame_ends_its_connection(garbage: bytes, client: Connection) -> None:
    client.write(garbage)
    assert client.until_closed() == []


@pytest.mark.parametrize("garbage", UNREADABLE.values(), ids=UNREADABLE)
def test_what_came_before_garbage_is_answered_and_what_came_behind_is_not(
    garbage: bytes, client: Connection, subject: str
) -> None:
    client.write(good(subject) + garbage + good(subject, 3))
    assert [(answer.opaque, answer.code) for answer in client.until_closed()] == [(1, frame.SUCCESS)]


def test_random_bytes_end_their_connections(served: QmqServed) -> None:
    chance = random.Random(SEED)
    for _ in range(100):
        with served.connected() as connection:
            connection.write(chance.randbytes(chance.randrange(24, 400)))
            assert connection.until_closed() == []


def test_random_bodies_are_answered_and_their_connection_goes_on(client: Connection) -> None:
    chance = random.Random(SEED)
    for _ in range(500):
        code = chance.choice((frame.SEND, frame.PULL, frame.ACK, frame.CONSUME_MANAGE, frame.REGISTER))
        answer = client.call(code, chance.randbytes(chance.randrange(200)))
        assert answer.request_code == code
        assert answer.code != frame.BROKER_REJECT


def test_flipped_bytes_of_good_requests_are_answered_or_end_their_connection(served: QmqServed, subject: str) -> None:
    chance = random.Random(SEED)
    whole = (
        good(subject)
        + frame.request(frame.REGISTER, register(registration(subject, PRODUCER, client_id="c")), opaque=2).encoded()
    )
    for _ in range(200):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        with served.connected() as connection:
            connection.write(bytes(flipped))
            connection.end_writing()
            assert len(connection.until_closed()) <= 2


def test_halves_of_frames_silent_and_halting_peers_are_closed(served: QmqServed, subject: str) -> None:
    whole = good(subject)
    with ExitStack() as stack:
        silent = [stack.enter_context(served.connected()) for _ in range(3)]
        halting = [stack.enter_context(served.connected()) for _ in range(len(whole) - 1)]
        for length, connection in enumerate(halting, start=1):
            connection.write(whole[:length])
        half_open = [stack.enter_context(served.connected()) for _ in range(5)]
        for length, connection in zip((0, 1, 4, 24, len(whole) - 1), half_open, strict=True):
            connection.write(whole[:length])
            connection.end_writing()
        for connection in half_open + halting + silent:
            assert connection.until_closed() == []


def test_who_says_that_nothing_more_comes_is_still_answered(client: Connection, subject: str) -> None:
    client.write(good(subject, 1) + good(subject, 2))
    client.end_writing()
    assert sorted(answer.opaque for answer in client.until_closed()) == [1, 2]


def test_who_hangs_up_in_the_middle_harms_nobody(served: QmqServed, subject: str) -> None:
    host, port = served.address.split(":")
    for length in (0, 3, 10, 30, None):
        with socket.create_connection((host, int(port))) as abrupt:
            # Closed without a goodbye: the peer sees a reset.
            abrupt.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            abrupt.sendall(good(subject)[:length])


@pytest.mark.parametrize("version", [-32_768, -1, 0, 1, 3, 4, 7, 10, 99, 32_767])
def test_a_version_that_nobody_knows_changes_nothing_of_a_send(version: int, client: Connection, subject: str) -> None:
    client.ask(frame.SEND, Message(subject, "m").sent(), opaque=1, version=version)
    answer = client.answer(1)
    assert (answer.code, answer.body, answer.version) == (frame.SUCCESS, b"", version)


def test_a_frame_at_the_limit_is_read_and_answered(client: Connection) -> None:
    body = bytes(FRAME_MAX - 24)
    assert client.call(frame.SEND, body).code == frame.BROKER_ERROR
    assert client.call(frame.HEARTBEAT, body).code == frame.UNKNOWN_CODE


def test_a_flood_of_connections_leaves_room(served: QmqServed, subject: str) -> None:
    with ExitStack() as stack:
        flood = [stack.enter_context(served.connected()) for _ in range(500)]
        with served.connected() as connection:
            assert connection.send(Message(subject, "m")) == ()
        for connection in flood:
            assert connection.send() == ()


def test_a_flood_of_requests_is_answered_in_full(client: Connection, subject: str) -> None:
    # More than may be under way: they wait unread.
    count = 5_000
    whole = b"".join(good(subject, opaque) for opaque in range(count))
    client.write(whole)
    assert {client.answer(opaque).code for opaque in range(count)} == {frame.SUCCESS}


def test_a_client_that_never_reads_costs_the_server_little(served: QmqServed, other: Connection, subject: str) -> None:
    piece = b"".join(
        frame.request(
            frame.REGISTER, register(registration("s" * 100, PRODUCER, client_id="c", group="g" * 90)), opaque=number
        ).encoded()
        for number in range(2_000)
    )
    before = served.memory_bytes()
    with served.connected() as deaf:
        pieces = 0
        # Its answers wait until there are too many of them; then its requests do.
        while deaf.has_room_for(piece, seconds=2):
            pieces += 1
            assert pieces * len(piece) < 512 << 20, "it would take all that there is"
            assert other.send(Message(subject, "m")) == ()
        assert pieces > 0
        assert other.send(Message(subject, "m")) == ()
        assert served.memory_bytes() - before < 96 << 20


def test_lengths_that_lie_cost_nothing(served: QmqServed) -> None:
    before = served.memory_bytes()
    with ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(served.connected())
            connection.write(WHOLE.encoded(total=FRAME_MAX - 4))
        assert served.memory_bytes() - before < 96 << 20
