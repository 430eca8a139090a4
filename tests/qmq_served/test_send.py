"""§2.1 and §2.2 of the protocol: SEND, what is stored of it and what is said of the rest."""

from __future__ import annotations

import pytest

from qmq_client import frame
from qmq_client.bodies import Consumer, Pull, Refused, read_refused
from qmq_client.connection import AnsweredError, Connection
from qmq_client.layout import i8, i64, text
from qmq_client.message import Message, attributes_of, checked
from qmq_served.serving import HOLD_MS, HOUR_MS, QmqServed, ids, join, messages_of

NEVER = 1
LATER = 6
BATCH_MAX = 10_000
BODY_MAX = 4_194_304


def codes(refused: tuple[Refused, ...]) -> dict[str, int]:
    assert all(one.remark for one in refused), "why it was not stored"
    return {one.message_id: one.code for one in refused}


def test_2_2_a_send_of_nothing_is_stored(client: Connection) -> None:
    answer = client.call(frame.SEND, b"")
    assert (answer.code, answer.body) == (frame.SUCCESS, b"")


def test_2_2_only_what_was_not_stored_is_listed(client: Connection, subject: str) -> None:
    batch = [Message(subject, "one"), Message(f"{subject}/x", "bad"), Message(f"{subject}.other", "two")]
    assert codes(client.send(*batch)) == {"bad": NEVER}


def test_2_2_what_cannot_be_read_is_refused_whole_and_the_connection_goes_on(client: Connection, subject: str) -> None:
    good = Message(subject, "m").sent()
    broken = {
        "half of a message": good[:-1],
        "a check and nothing": good[:8],
        "half of a check": good[:5],
        "a good one, then a piece": good + good[:30],
        "a body longer than the frame": checked(Message(subject, "m").encoded(body_bytes=1_000_000)),
        "a body of negative length": checked(Message(subject, "m").encoded(body_bytes=-1)),
        "a subject of negative length": checked(i8(0) + i64(1) + i64(1) + b"\xff\xff" + b"rest"),
        "a subject that is no text": checked(i8(0) + i64(1) + i64(1) + b"\0\2\xff\xfe" + text("m") + b"\0\0\0\0"),
        "tags of negative number": checked(i8(4) + i64(1) + i64(1) + text("s") + text("m") + b"\xff" + b"\0\0\0\0"),
    }
    for what, body in broken.items():
        answer = client.call(frame.SEND, body)
        assert (answer.code, answer.body) == (frame.BROKER_ERROR, b""), what
    assert client.send(Message(subject, "m")) == ()


@pytest.mark.parametrize("message", [Message("", "m"), Message("subject", "")], ids=["subject", "id"])
def test_2_2_an_empty_id_or_subject_is_never_stored(message: Message, client: Connection, subject: str) -> None:
    # QMQ fails the whole request, after some of it was stored (D26); here the one is listed.
    refused = client.send(Message(subject, "good"), message, Message(subject, "other"))
    assert codes(refused) == {message.message_id: NEVER}


ILLEGAL = {
    "slash": "a/b",
    "carriage return": "a\rb",
    "line feed": "a\nb",
    "tab": "a\tb",
    "space": "a b",
    "space in front": " a",
    "space behind": "a ",
    "wide space": "a\u3000b",
    "line separator": "a\u2028b",
    "zero": "a\0b",
    "delete": "a\x7fb",
    "percent": "a%b",
    "101 characters": "a" * 101,
    "half of a retry subject": "%RETRY%a",
    "a retry subject of too many": "%RETRY%a%b%c",
    "a retry subject of none": "%RETRY%%",
}


@pytest.mark.parametrize("illegal", ILLEGAL.values(), ids=ILLEGAL)
def test_2_2_a_subject_with_illegal_characters_is_never_stored(illegal: str, client: Connection) -> None:
    assert codes(client.send(Message(illegal, "m"))) == {"m": NEVER}


@pytest.mark.parametrize(
    "name", ["a" * 100, "ü" * 100, "a.b-c_d:e", "%RETRY%a%b", f"%DEAD_RETRY%{'a' * 100}%{'b' * 100}"]
)
def test_2_1_names_up_to_the_limit_are_stored(name: str, client: Connection) -> None:
    assert client.send(Message(name, "m")) == ()


@pytest.mark.parametrize("message_id", ["i" * 101, "a/b", "a b", "a\nb", "a%b"])
def test_2_1_an_id_that_poisons_a_consumer_is_never_stored(message_id: str, client: Connection, subject: str) -> None:
    assert codes(client.send(Message(subject, message_id))) == {message_id: NEVER}


def test_2_1_ten_tags_are_stored_and_eleven_or_empty_ones_are_not(client: Connection, subject: str) -> None:
    tags = tuple(f"tag{number}" for number in range(11))
    batch = [
        Message(subject, "ten", tags=tags[:10]),
        Message(subject, "eleven", tags=tags),
        Message(subject, "empty", tags=("a", "")),
    ]
    assert codes(client.send(*batch)) == {"eleven": NEVER, "empty": NEVER}


def test_2_1_a_check_that_does_not_fit_may_be_sent_again(client: Connection, subject: str) -> None:
    encoded = Message(subject, "m").encoded()
    for crc in (0, 1, 0x1_0000_0000 | 0xCBF4_3926, -1):
        answer = client.call(frame.SEND, checked(encoded, crc=crc) + Message(subject, "good").sent())
        assert answer.code == frame.SUCCESS
        assert [(one.message_id, one.code) for one in read_refused(answer.body)] == [("m", LATER)], crc


def body_of(length: int) -> bytes:
    """Attributes that take so many bytes."""
    whole, large = b"", 32_000
    while length - len(whole) > large + 100:
        whole += text(f"key#part{len(whole):08}") + text("x" * (large - 20))
    rest = length - len(whole) - len(text("last")) - 2
    return whole + text("last") + text("y" * rest)


def test_2_1_a_body_at_the_limit_is_stored_and_one_over_it_is_not(client: Connection, subject: str) -> None:
    exact, over = body_of(BODY_MAX), body_of(BODY_MAX + 1)
    assert (len(exact), len(over)) == (BODY_MAX, BODY_MAX + 1)
    for body, expected in ((exact, b""), (over, text("m") + b"\0\0\0\1")):
        answer = client.call(frame.SEND, checked(Message(subject, "m").encoded(body=body)))
        assert answer.code == frame.SUCCESS
        assert answer.body[:7] == expected


def test_2_1_a_body_that_is_no_attributes_is_never_stored(client: Connection, subject: str) -> None:
    for body in (b"x", text("key"), text("key") + b"\0\5abc", b"\xff\xff"):
        answer = client.call(frame.SEND, checked(Message(subject, "m").encoded(body=body)))
        assert codes(read_refused(answer.body)) == {"m": NEVER}


def test_2_2_ten_thousand_messages_are_a_batch_and_one_more_is_not(client: Connection, subject: str) -> None:
    assert client.send(*messages_of(subject, BATCH_MAX)) == ()
    with pytest.raises(AnsweredError) as caught:
        client.send(*messages_of(subject, BATCH_MAX + 1))
    assert caught.value.code == frame.BROKER_ERROR


def test_2_2_one_send_may_have_many_subjects(served: QmqServed, subject: str) -> None:
    consumers = [Consumer(f"{subject}.{number}", "group", "host@@one") for number in range(50)]
    with served.connected() as client:
        join(client, *consumers)
        assert client.send(*(Message(one.subject, one.subject) for one in consumers)) == ()
        for one in consumers:
            assert ids(client.pull(Pull(one, hold_ms=HOLD_MS))) == [one.subject]


def test_2_2_a_schedule_in_the_past_is_now_and_one_in_the_future_is_not(
    served: QmqServed, client: Connection, consumer: Consumer
) -> None:
    join(client, consumer)
    now = served.now_ms()
    past = [now - 1, now - HOUR_MS, 0, 1, -1]
    batch = [Message(consumer.subject, f"past{due}", expire_time=due, delayed=True) for due in past]
    future = Message(consumer.subject, "future", expire_time=now + HOUR_MS, delayed=True)
    assert client.send(future, *batch) == ()
    pulled = client.pull(Pull(consumer, hold_ms=HOLD_MS))
    found = ids(pulled)
    while len(found) < len(past):
        pulled = client.pull(Pull(consumer, last_received=len(found) - 1, hold_ms=HOLD_MS))
        assert pulled is not None
        found += ids(pulled)
    assert sorted(found) == sorted(message.message_id for message in batch)


def test_2_2_nothing_is_clamped_a_time_beyond_the_limit_is_refused(
    served: QmqServed, client: Connection, subject: str
) -> None:
    # QMQ makes it two years from now without a word to the producer.
    now, day = served.now_ms(), 24 * HOUR_MS
    three_years, twenty_years = now + 3 * 365 * day, now + 20 * 365 * day
    batch = [
        Message(subject, "far", expire_time=three_years, delayed=True),
        Message(subject, "too.far", expire_time=twenty_years, delayed=True),
        Message(subject, "for.ever", expire_time=2**63 - 1, delayed=True),
    ]
    assert codes(client.send(*batch)) == {"too.far": NEVER, "for.ever": NEVER}


def test_2_1_a_message_without_the_delay_bit_is_due_whatever_its_times_say(
    served: QmqServed, client: Connection, consumer: Consumer
) -> None:
    join(client, consumer)
    later = served.now_ms() + HOUR_MS
    message = Message(consumer.subject, "m", expire_time=later, attributes=attributes_of(later, later))
    assert client.send(message) == ()
    assert ids(client.pull(Pull(consumer, hold_ms=HOLD_MS))) == ["m"]


def test_2_1_all_bits_and_texts_come_back_as_they_went(client: Connection, consumer: Consumer) -> None:
    join(client, consumer)
    texts = {"empty": "", "umlaut": "äöü", "emoji": "😀", "zero": "\0", "long": "x" * 32_767, "": "no key"}
    attributes = (*attributes_of(1_700_000_000_000), *texts.items(), ("empty", "twice"))
    sent = [
        Message(consumer.subject, "low", low_reliability=True),
        Message(consumer.subject, "tags", tags=("a", "ß"), attributes=attributes),
        Message(consumer.subject, "bare", attributes=()),
        Message(consumer.subject, "past", delayed=True, tags=("t",)),
    ]
    assert client.send(*sent) == ()
    pulled = client.pull(Pull(consumer, hold_ms=HOLD_MS))
    assert pulled is not None
    assert sorted(message.encoded_as for message in pulled.messages) == sorted(one.encoded() for one in sent)
