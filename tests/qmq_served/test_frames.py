"""§1 of the protocol: frames, and what stands in their headers."""

from __future__ import annotations

import pytest

from qmq_client import frame
from qmq_client.bodies import CONSUMER, Consumer, Pull, register, registration
from qmq_client.connection import Connection
from qmq_client.frame import Frame
from qmq_client.message import Message, send_body
from qmq_served.serving import HOLD_MS, QmqServed, ids, join

# Of QMQ's own servers to each other, of others, and of nobody.
NOT_SERVED = (0, 1, 9, 13, 20, 21, 24, 26, 27, 30, 40, 50, 51, 100, 199, -1, -32_768)


def test_1_an_answer_names_its_request_and_says_that_it_is_one(client: Connection, subject: str) -> None:
    for version, opaque in ((9, 0), (8, 7), (4, -1), (7, 2**31 - 1), (9, -(2**31))):
        client.ask(frame.SEND, Message(subject, "m").sent(), opaque=opaque, version=version)
        answer = client.answer(opaque)
        assert answer == Frame(frame.SUCCESS, version, opaque, frame.RESPONSE, frame.SEND)
        assert len(answer.encoded()) == 24


def test_1_the_code_of_a_request_may_stand_there_a_second_time_or_not(client: Connection, subject: str) -> None:
    for request_code in (frame.SEND, frame.PLACEHOLDER, 0, frame.PULL):
        number = client.ask(frame.SEND, Message(subject, "m").sent(), request_code=request_code)
        assert client.answer(number).request_code == frame.SEND


def test_1_a_command_that_nobody_serves_is_answered_with_3(client: Connection) -> None:
    for code in NOT_SERVED:
        answer = client.call(code, b"whatever")
        assert (answer.code, answer.request_code, answer.body) == (frame.UNKNOWN_CODE, code, b"")


def test_1_an_answer_in_place_of_a_request_is_dropped(client: Connection, subject: str) -> None:
    sent = Message(subject, "m").sent()
    for code, body in ((frame.SUCCESS, b""), (frame.SEND, sent), (frame.UNKNOWN_CODE, b"x" * 100_000)):
        client.write(Frame(code, 9, 5, frame.RESPONSE, frame.SEND, body).encoded())
    assert client.send(Message(subject, "n")) == ()
    assert client.order.count(5) == 0, "nobody answers an answer"


def test_1_a_frame_may_come_byte_by_byte(client: Connection, subject: str) -> None:
    whole = frame.request(frame.SEND, Message(subject, "m").sent(), opaque=5).encoded()
    for place in range(len(whole)):
        client.write(whole[place : place + 1])
    assert client.answer(5).code == frame.SUCCESS


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 23, 24, 25, 60, 100])
def test_1_many_frames_may_come_in_pieces_of_any_length(cut: int, client: Connection, subject: str) -> None:
    whole = b"".join(
        frame.request(frame.SEND, Message(subject, f"m{opaque}").sent(), opaque=opaque).encoded()
        for opaque in range(20)
    )
    for place in range(0, len(whole), cut):
        client.write(whole[place : place + cut])
    assert {client.answer(opaque).code for opaque in range(20)} == {frame.SUCCESS}


def test_1_requests_of_two_connections_are_told_apart(served: QmqServed, client: Connection, subject: str) -> None:
    with served.connected() as other:
        client.ask(frame.SEND, Message(subject, "m").sent(), opaque=5)
        other.ask(frame.SEND, Message("", "of the other").sent(), opaque=5)
        assert client.answer(5).body == b""
        assert other.answer(5).body != b""


def test_1_who_wants_no_answer_gets_none_to_a_send(client: Connection, subject: str) -> None:
    quiet = client.ask(frame.SEND, Message(subject, "m").sent(), flag=frame.ONE_WAY)
    assert client.send(Message(subject, "n")) == ()
    assert client.call(frame.HEARTBEAT, b"").code == frame.UNKNOWN_CODE
    assert quiet not in client.order


def test_1_a_registration_is_answered_even_to_who_wants_no_answer(client: Connection, subject: str) -> None:
    values = registration(subject, CONSUMER, client_id="host@@one", group="group")
    number = client.ask(frame.REGISTER, register(values), opaque=0, flag=frame.ONE_WAY)
    assert client.answer(number).code == frame.SUCCESS


def test_1_a_pull_is_answered_even_to_who_wants_no_answer(client: Connection, consumer: Consumer) -> None:
    number = client.ask(frame.PULL, Pull(consumer).encoded(9), flag=frame.ONE_WAY)
    assert client.answer(number).code == frame.NO_MESSAGE


def test_1_what_wanted_no_answer_was_stored_all_the_same(served: QmqServed, consumer: Consumer) -> None:
    with served.connected() as client:
        join(client, consumer)
        client.ask(frame.SEND, send_body([Message(consumer.subject, "quiet")]), flag=frame.ONE_WAY)
        assert ids(client.pull(Pull(consumer, hold_ms=HOLD_MS))) == ["quiet"]
