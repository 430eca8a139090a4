"""The client writes and reads the bytes that the description of the protocol gives."""

from __future__ import annotations

import zlib

import pytest

from qmq_client import bodies, frame
from qmq_client.bodies import BrokerGroup, Consumer, Pull, Refused, Registered, TagFilter
from qmq_client.frame import Frame, read_frame
from qmq_client.layout import Cursor, MalformedError
from qmq_client.message import Message, attributes_of, read_messages, send_body

CREATED = 1_700_000_000_000
DUE = 1_700_000_060_000
CONSUMER = Consumer("t.delay", "g", "h@@x")
MESSAGE = Message("t.delay", "m1", CREATED, DUE, delayed=True, attributes=attributes_of(CREATED, DUE, k="v"))

SEND = (
    "0000008b0012dec10ade000a00090000000700000000000a0000000011fcac47020000018bcfe568000000018bcfe652600007742e64656c617900"
    "026d310000004d000e716d715f63726561746554696d65000d313730303030303030303030300017716d715f7363686564756c6552656365697665"
    "54696d65000d3137303030303030363030303000016b000176"
)
SEND_STORED = "000000140012dec10ade000000090000000700000001000a"
SEND_READ_ONLY = "0000002e0012dec10ade000000090000000700000001000a00026d3100000004001042524f4b45522052454144204f4e4c59"
REGISTER = (
    "0000007a0012dec10ade0023000900000000000000000023000600077375626a6563740007742e64656c6179000e636c69656e7454797065436f64"
    "650001340008636c69656e744964000468404078000d636f6e73756d657247726f757000000007617070436f64650003617070000b726571756573"
    "7454797065000131"
)
REGISTERED = (
    "000000490012dec10ade00000009000000000000000100230000018bcfe568000007742e64656c617900000004000100026431000f3132372e302e"
    "302e313a32303830310000018bcfe5680001"
)
PULL = (
    "000000540012dec10ade000b00090000000800000000000b0007742e64656c617900016700046840407800000032ffffffffffffffffffffffffff"
    "ffffffffffffffffffffff00000000000009c400000000010001000000"
)
ACK = (
    "000000370012dec10ade000c00090000000900000000000c0007742e64656c6179000167000468404078000000000000000000000000000000"
    "0000"
)


def read(text: str) -> Frame:
    found = read_frame(bytes.fromhex(text))
    assert found is not None
    answer, length = found
    assert length == len(text) // 2
    return answer


def written(code: int, opaque: int, body: bytes) -> str:
    return frame.request(code, body, opaque=opaque).encoded().hex()


def test_the_check_of_a_message_is_the_usual_one() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926


def test_a_send_is_written_as_given() -> None:
    assert written(frame.SEND, 7, send_body([MESSAGE])) == SEND
    asked = read(SEND)
    assert (asked.code, asked.version, asked.opaque, asked.flag, asked.request_code) == (10, 9, 7, 0, 10)
    assert read_messages(asked.body[8:]) == (MESSAGE,)


def test_answers_to_a_send_are_read_as_given() -> None:
    stored, refused = read(SEND_STORED), read(SEND_READ_ONLY)
    assert stored == Frame(frame.SUCCESS, 9, 7, frame.RESPONSE, frame.SEND)
    assert bodies.read_refused(stored.body) == ()
    assert bodies.read_refused(refused.body) == (Refused("m1", 4, "BROKER READ ONLY"),)


def test_a_registration_and_its_answer_are_as_given() -> None:
    values = bodies.registration("t.delay", bodies.DELAY_PRODUCER, client_id="h@@x")
    assert written(frame.REGISTER, 0, bodies.register(values)) == REGISTER
    group = BrokerGroup("d1", "127.0.0.1:20801", CREATED, bodies.READ_WRITE)
    expected = Registered(CREATED, "t.delay", "", False, bodies.DELAY_PRODUCER, (group,))
    assert bodies.read_registered(read(REGISTERED).body) == expected


def test_a_pull_and_an_acknowledgement_are_written_as_given() -> None:
    pull = Pull(CONSUMER, hold_ms=2500, filters=(TagFilter(),))
    assert written(frame.PULL, 8, pull.encoded(9)) == PULL
    assert written(frame.ACK, 9, bodies.acknowledgement(CONSUMER, 0, 0, 9)) == ACK


@pytest.mark.parametrize("text", [SEND, SEND_READ_ONLY, REGISTERED, PULL])
def test_no_part_of_a_frame_is_taken_for_a_whole(text: str) -> None:
    whole = bytes.fromhex(text)
    assert not any(read_frame(whole[:length]) for length in range(len(whole)))


def test_what_is_malformed_is_seen() -> None:
    whole = bytes.fromhex(SEND_STORED)
    for place, value in ((3, 0x13), (5, 0x13), (6, 0xDF)):
        with pytest.raises(MalformedError):
            read_frame(whole[:place] + bytes([value]) + whole[place + 1 :])
    with pytest.raises(MalformedError):
        read_messages(MESSAGE.encoded()[:-1])
    with pytest.raises(MalformedError):
        read_messages(MESSAGE.encoded(flag=8))
    with pytest.raises(MalformedError):
        Cursor(b"\0").end()
