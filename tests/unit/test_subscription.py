from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from delaymq import AlreadySettled, DelaymqError, InvalidArgument, Message, Subscription, WrongType
from delaymq._core import Subscription as CoreSubscription
from unit.fake_core import FakeSubscription


def subscription_over(fake: FakeSubscription) -> Subscription:
    return Subscription(cast("CoreSubscription", fake), "orders", "billing")


def only(messages: Subscription) -> Message:
    message = messages.get(0)
    assert message is not None
    return message


def test_a_message_is_acknowledged_at_the_end_of_its_block() -> None:
    fake = FakeSubscription(1)
    with only(subscription_over(fake)) as message:
        assert message.body == b"body 0"
        assert fake.acknowledged == []
    assert fake.acknowledged == [0]
    assert message.settled


def test_a_message_is_given_back_where_its_block_raises() -> None:
    fake = FakeSubscription(1)
    with pytest.raises(KeyError), only(subscription_over(fake)):
        raise KeyError
    assert fake.acknowledged == []
    assert fake.given_back == [(0, 0)]


def test_a_message_is_settled_once() -> None:
    fake = FakeSubscription(1)
    with only(subscription_over(fake)) as message:
        message.nack(timedelta(seconds=2))
        for settle in (message.ack, message.nack):
            with pytest.raises(AlreadySettled, match="once"):
                settle()
    assert (fake.acknowledged, fake.given_back) == ([], [(0, 2000)])


def test_a_refused_delay_settles_nothing() -> None:
    fake = FakeSubscription(1)
    message = only(subscription_over(fake))
    with pytest.raises(InvalidArgument):
        message.nack(-1)
    assert not message.settled
    assert fake.given_back == []


def test_a_message_says_what_it_is() -> None:
    message = only(subscription_over(FakeSubscription(1)))
    assert (message.subject, message.attempt, message.redelivered, message.sequence) == ("orders", 1, False, 50)
    assert message.due == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert message.published == datetime(1970, 1, 1, 0, 0, 0, 900_000, tzinfo=UTC)
    assert message.lateness == timedelta(milliseconds=5)
    assert "orders" in repr(message)


def test_one_crossing_brings_many_messages() -> None:
    fake = FakeSubscription(100)
    messages = subscription_over(fake)
    assert [only(messages).sequence for _ in range(100)] == list(range(50, 150))
    assert fake.pulls == [(256, 0)]
    assert messages.get(0.5) is None
    assert fake.pulls[-1][0] == 256
    assert fake.pulls[-1][1] in range(450, 501)


def test_batches_come_as_they_are_pulled_and_empty_ones_only_where_a_wait_is_set() -> None:
    fake = FakeSubscription(5)
    messages = subscription_over(fake)
    batches = messages.batches(3, wait=timedelta(milliseconds=20))
    assert [len(next(batches)) for _ in range(3)] == [3, 2, 0]
    assert fake.pulls[0] == (3, 20)
    messages.stop()
    assert list(batches) == []


@pytest.mark.parametrize(
    ("max_messages", "kind"),
    [(0, InvalidArgument), (-1, InvalidArgument), (10_001, InvalidArgument), (True, WrongType), (1.0, WrongType)],
)
def test_a_batch_of_no_sense_is_refused(max_messages: Any, kind: type[DelaymqError]) -> None:
    with pytest.raises(kind) as caught:
        subscription_over(FakeSubscription(0)).batches(max_messages)
    assert caught.value.argument == "max_messages"


@pytest.mark.parametrize(
    ("timeout", "kind"), [(-1, InvalidArgument), (float("nan"), InvalidArgument), ("1", WrongType)]
)
def test_a_timeout_of_no_sense_is_refused(timeout: Any, kind: type[Exception]) -> None:
    messages = subscription_over(FakeSubscription(1))
    with pytest.raises(kind):
        messages.get(timeout)
    assert only(messages).sequence == 50


def test_many_are_acknowledged_in_one_crossing_and_each_once() -> None:
    fake = FakeSubscription(4)
    messages = subscription_over(fake)
    batch = next(messages.batches())
    batch[1].ack()
    messages.ack(batch[:3])
    messages.ack(batch[:3])
    messages.nack(batch, delay=1)
    assert fake.acknowledged == [1, 0, 2]
    assert fake.given_back == [(3, 1000)]


def test_leaving_closes_and_closing_stops() -> None:
    fake = FakeSubscription(3)
    with subscription_over(fake) as messages:
        only(messages)
    assert fake.calls == ["stop", "close"]
    assert messages.get() is None
    assert list(messages) == []
