"""§2.4 and §2.7 of the protocol: ACK, and CONSUME_MANAGE."""

from __future__ import annotations

from pathlib import Path

import pytest

from qmq_client import bodies, frame
from qmq_client.bodies import Consumer, Pull, acknowledgement, reset
from qmq_client.connection import Connection
from qmq_client.layout import i64, text
from qmq_client.message import Message
from qmq_served.serving import HOLD_MS, QmqServed, ids, join, messages_of, taken


def given(client: Connection, consumer: Consumer, count: int) -> list[str]:
    """Sends so many and pulls them all, acknowledging nothing; the ids by pull offset."""
    join(client, consumer)
    assert client.send(*messages_of(consumer.subject, count)) == ()
    found: list[str] = []
    while len(found) < count:
        pulled = client.pull(Pull(consumer, last_received=len(found) - 1, hold_ms=HOLD_MS))
        assert pulled is not None
        assert pulled.first == len(found)
        found += ids(pulled)
    return found


def unacknowledged(client: Connection, consumer: Consumer) -> list[int]:
    """The pull offsets that come again to a consumer that knows of none."""
    pulled = client.pull(Pull(consumer))
    return [] if pulled is None else list(range(pulled.first, pulled.last + 1))


def test_2_4_a_heartbeat_is_answered_and_changes_nothing(client: Connection, consumer: Consumer) -> None:
    assert client.heartbeat(consumer) == frame.SUCCESS, "also of who never pulled"
    given(client, consumer, 3)
    assert client.heartbeat(consumer) == frame.SUCCESS
    assert client.acknowledge(consumer, -5, 2) == frame.SUCCESS
    assert unacknowledged(client, consumer) == [0, 1, 2]


@pytest.mark.parametrize(
    "nobody", [Consumer("", "g", "c"), Consumer("s", "", "c"), Consumer("s", "g", "")], ids=["subject", "group", "id"]
)
def test_2_4_who_has_no_name_acknowledges_nothing(nobody: Consumer, client: Connection) -> None:
    assert client.acknowledge(nobody, 0, 0) == frame.BROKER_ERROR
    assert client.heartbeat(nobody) == frame.BROKER_ERROR


def test_2_4_a_body_that_cannot_be_read_is_an_error(client: Connection, consumer: Consumer) -> None:
    whole = acknowledgement(consumer, 0, 0, 9)
    for body in (b"", whole[:-1], whole[:-2], whole + b"\0", consumer.encoded()):
        answer = client.call(frame.ACK, body)
        assert (answer.code, answer.body) == (frame.BROKER_ERROR, b""), body.hex()
    assert client.heartbeat(consumer) == frame.SUCCESS


def test_2_4_a_range_is_done_with(served: QmqServed, client: Connection, consumer: Consumer) -> None:
    given(client, consumer, 5)
    assert client.acknowledge(consumer, 0, 2) == frame.SUCCESS
    assert unacknowledged(client, consumer) == [3, 4]
    with served.connected() as again:
        assert again.acknowledge(consumer, 3, 4) == frame.SUCCESS
        assert unacknowledged(again, consumer) == []


def test_2_4_a_range_that_is_done_with_is_answered_again(client: Connection, consumer: Consumer) -> None:
    given(client, consumer, 5)
    assert client.acknowledge(consumer, 0, 2) == frame.SUCCESS
    for first, last in ((0, 2), (0, 0), (2, 2), (1, 2), (2, 1)):
        assert client.acknowledge(consumer, first, last) == frame.SUCCESS
    assert unacknowledged(client, consumer) == [3, 4]


def test_2_4_a_range_that_overlaps_is_cut(client: Connection, consumer: Consumer) -> None:
    given(client, consumer, 5)
    assert client.acknowledge(consumer, 0, 2) == frame.SUCCESS
    assert client.acknowledge(consumer, 1, 3) == frame.SUCCESS
    assert unacknowledged(client, consumer) == [4]


def retry_of(consumer: Consumer) -> Consumer:
    return Consumer(f"%RETRY%{consumer.subject}%{consumer.group}", consumer.group, consumer.consumer_id)


def test_2_4_what_a_range_passes_over_goes_to_the_retry_subject_once(client: Connection, consumer: Consumer) -> None:
    found = given(client, consumer, 10)
    assert client.acknowledge(consumer, 5, 9) == frame.SUCCESS
    assert unacknowledged(client, consumer) == [], "all up to the last are done with here"
    assert sorted(taken(client, retry_of(consumer), 5)) == sorted(found[:5])
    assert client.pull(Pull(retry_of(consumer))) is None


def test_2_4_more_than_was_given_is_not_done_with_beforehand(client: Connection, consumer: Consumer) -> None:
    given(client, consumer, 3)
    assert client.acknowledge(consumer, 0, 1_000_000) == frame.SUCCESS
    assert client.acknowledge(consumer, 2**62, 2**63 - 1) == frame.SUCCESS
    batch = messages_of(consumer.subject, 5, prefix="later")
    assert client.send(*batch) == ()
    found: list[str] = []
    while len([one for one in found if one.startswith("later")]) < 5:
        pulled = client.pull(Pull(consumer, last_received=2 + len(found), hold_ms=HOLD_MS))
        assert pulled is not None, found
        found += ids(pulled)
    assert sorted(found) == [message.message_id for message in batch]


def test_2_4_one_consumer_acknowledges_nothing_of_another(client: Connection, subject: str) -> None:
    one, other = Consumer(subject, "group", "one"), Consumer(subject, "group", "other")
    given(client, one, 3)
    assert client.acknowledge(other, 0, 2) == frame.SUCCESS
    assert client.acknowledge(Consumer(subject, "elsewhere", "one"), 0, 2) == frame.SUCCESS
    assert unacknowledged(client, one) == [0, 1, 2]


def test_2_4_before_version_8_there_is_no_byte_for_broadcast(served: QmqServed, consumer: Consumer) -> None:
    with served.connected(version=7) as client:
        given(client, consumer, 3)
        body = consumer.encoded() + i64(0) + i64(2)
        assert client.call(frame.ACK, body).code == frame.SUCCESS
        assert client.call(frame.ACK, body + b"\0").code == frame.BROKER_ERROR
        assert unacknowledged(client, consumer) == []


def test_2_4_acknowledgements_outlive_the_connection(served: QmqServed, client: Connection, consumer: Consumer) -> None:
    given(client, consumer, 5)
    assert client.acknowledge(consumer, 0, 4) == frame.SUCCESS
    with served.connected() as again:
        assert unacknowledged(again, consumer) == []


def test_2_4_a_broadcast_is_acknowledged_and_passes_nothing_to_the_retry_subject(
    client: Connection, subject: str
) -> None:
    consumer = Consumer(subject, "host@@one", "host@@one")
    assert client.pull(Pull(consumer, broadcast=True)) is None
    assert client.send(*messages_of(subject, 4)) == ()
    pulled = client.pull(Pull(consumer, broadcast=True, hold_ms=HOLD_MS))
    assert pulled is not None
    assert client.acknowledge(consumer, pulled.last, pulled.last, broadcast=True) == frame.SUCCESS
    assert client.pull(Pull(retry_of(consumer), hold_ms=1_000)) is None


def test_2_7_a_group_is_moved_to_the_earliest_and_to_the_latest(client: Connection, subject: str) -> None:
    consumer = Consumer(subject, "group", "one")
    join(client, consumer)
    assert client.send(*messages_of(subject, 5)) == ()
    expected = [f"m{number}" for number in range(5)]
    before = taken(client, consumer, 5)
    assert sorted(before) == expected
    assert client.pull(Pull(consumer)) is None
    # No other group has them left: they are finished, and kept.
    assert client.reset(subject, "group", bodies.EARLIEST) == frame.SUCCESS
    again = taken(client, consumer, 5)
    assert list(again) == expected
    assert min(again.values()) > max(before.values()), "no offset stands for two messages"
    assert client.reset(subject, "group", bodies.EARLIEST) == frame.SUCCESS
    assert client.reset(subject, "group", bodies.LATEST) == frame.SUCCESS
    assert client.pull(Pull(consumer, hold_ms=300)) is None
    assert client.send(Message(subject, "new")) == ()
    assert list(taken(client, consumer, 1)) == ["new"]
    assert client.reset(subject, "group", bodies.EARLIEST) == frame.SUCCESS
    assert list(taken(client, consumer, 6)) == [*expected, "new"]


def test_2_7_a_reset_to_the_earliest_is_of_one_group(client: Connection, subject: str) -> None:
    one, other = Consumer(subject, "group", "one"), Consumer(subject, "other", "one")
    join(client, one, other)
    assert client.send(*messages_of(subject, 3)) == ()
    for consumer in (one, other):
        assert len(taken(client, consumer, 3)) == 3
    assert client.reset(subject, "group", bodies.EARLIEST) == frame.SUCCESS
    assert client.pull(Pull(other, hold_ms=300)) is None
    assert list(taken(client, one, 3)) == ["m0", "m1", "m2"]


def test_2_7_what_was_sent_before_a_restart_is_kept_for_a_reset(tmp_path: Path) -> None:
    consumer = Consumer("subject", "group", "one")
    with QmqServed(tmp_path / "store") as served:
        with served.connected() as client:
            join(client, consumer)
            assert client.send(*messages_of("subject", 5)) == ()
            assert len(taken(client, consumer, 5)) == 5
        served.kill()
        served.start()
        with served.connected() as client:
            assert client.pull(Pull(consumer, hold_ms=300)) is None
            assert client.reset("subject", "group", bodies.EARLIEST) == frame.SUCCESS
            assert list(taken(client, consumer, 5)) == [f"m{number}" for number in range(5)]


def test_2_7_a_pull_that_waits_hears_of_a_reset(client: Connection, subject: str) -> None:
    consumer = Consumer(subject, "group", "one")
    join(client, consumer)
    assert client.send(*messages_of(subject, 3)) == ()
    assert len(taken(client, consumer, 3)) == 3
    held = client.ask_pull(Pull(consumer, last_received=2, hold_ms=HOLD_MS))
    assert client.heartbeat(consumer) == frame.SUCCESS
    assert client.reset(subject, "group", bodies.EARLIEST) == frame.SUCCESS
    pulled = client.pulled(held)
    assert pulled is not None
    assert pulled.first > 2, "no offset stands for two messages"
    assert set(ids(pulled)) <= {"m0", "m1", "m2"}


def test_2_7_another_code_changes_nothing(client: Connection, consumer: Consumer) -> None:
    given(client, consumer, 3)
    for code in (0, 3, -1, 2**31 - 1):
        assert client.reset(consumer.subject, consumer.group, code) == frame.SUCCESS
    assert unacknowledged(client, consumer) == [0, 1, 2]


def test_2_7_names_that_cannot_be_are_refused(client: Connection, subject: str) -> None:
    for names in (("", "group"), (subject, ""), ("a/b", "group"), (subject, "a\nb"), (subject, "a%b")):
        assert client.reset(*names, bodies.LATEST) == frame.PARAM_ERROR
    for body in (b"", text("s"), reset("s", "g", 1)[:-1], reset("s", "g", 1) + b"\0"):
        assert client.call(frame.CONSUME_MANAGE, body).code == frame.PARAM_ERROR


def test_2_7_a_group_that_is_not_there_is_not_made_by_a_reset(client: Connection, subject: str) -> None:
    assert client.send(Message(subject, "m")) == ()
    assert client.reset(subject, "nobody", bodies.EARLIEST) == frame.PARAM_ERROR
    # It begins as every new one does.
    join(client, Consumer(subject, "nobody", "one"))
