"""What operators do: groups, subjects, dead letters and expiry, through the public face."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delaymq import AlreadySettled, DeadLetter, Group, InvalidArgument, Message, Store, TooLarge, WrongType


def taken(store: Store, count: int, act: Callable[[Message], object]) -> list[bytes]:
    """Takes so many messages of subject `s` for group `g`, and does this with each."""
    bodies = []
    with store.subscribe("s", group="g") as messages:
        for _ in range(count):
            message = messages.get(timeout=20)
            assert message is not None
            bodies.append(message.body)
            act(message)
    return bodies


def test_a_dead_letter_is_listed_and_brought_back(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    store.publish_many("s", [b"a", b"b"])
    assert taken(store, 2, lambda message: message.dead_letter(f"kein {message.body!r} größer")) == [b"a", b"b"]
    first, second = store.dead_letters("s", "g")
    assert (first.body, first.reason, first.attempt, first.damage) == (b"a", "kein b'a' größer", 1, None)
    assert first.number == 0
    assert first.published is not None
    assert before < first.published <= first.died <= datetime.now(UTC) + timedelta(seconds=1)
    assert isinstance(second, DeadLetter)
    assert store.dead_letters("s", "g", limit=1) == [first]
    assert store.redrive("s", "g", limit=1) == 1
    assert store.dead_letters("s", "g") == [second]
    again: list[Message] = []
    assert taken(store, 1, again.append) == [b"a"]
    assert [message.attempt for message in again] == [1]
    # Nobody acknowledged it: it is the group's again.
    assert taken(store, 1, Message.ack) == [b"a"]
    assert (store.redrive("s", "g"), store.redrive("s", "g")) == (1, 0)
    assert taken(store, 1, Message.ack) == [b"b"]


def test_a_dead_letter_is_settled_and_cannot_be_settled_again(store: Store) -> None:
    store.publish("s", b"a")

    def settle(message: Message) -> None:
        message.dead_letter("first")
        assert message.settled
        with pytest.raises(AlreadySettled):
            message.dead_letter("second")
        for settle_again in (message.ack, message.nack):
            with pytest.raises(AlreadySettled):
                settle_again()

    taken(store, 1, settle)
    assert [letter.reason for letter in store.dead_letters("s", "g")] == ["first"]


def test_groups_and_subjects_are_listed(store: Store) -> None:
    store.start_group("s", "g")
    store.start_group("t", "late", start="latest")
    store.publish_many("s", [b"a", b"b", b"c"])
    taken(store, 1, Message.ack)
    mine, late = store.groups()
    assert (mine.name, mine.subject, mine.start, mine.next_number, mine.lag) == ("g", "s", 0, 3, 2)
    assert 1 <= mine.cursor <= 3
    assert late == Group("late", "t", 0, 0, next_number=0, lag=0, in_flight=0, consumers=0, dead_letters=0)
    assert [
        (one.name, one.ready, one.next_number, one.groups, one.expired, one.expiry) for one in store.subjects()
    ] == [
        ("s", 2, 3, ("g",), 0, None),
        ("t", 0, 0, ("late",), 0, None),
    ]


def test_a_group_is_reset_and_removed_only_where_nobody_consumes(store: Store) -> None:
    store.publish_many("s", [b"a", b"b"])
    store.start_group("s", "keeps")
    with store.subscribe("s", group="g") as messages:
        assert messages.get(timeout=20) is not None
        with pytest.raises(InvalidArgument, match="consumers") as refused:
            store.reset_group("s", "g", "latest")
        assert refused.value.argument == "group"
        with pytest.raises(InvalidArgument, match="consumers") as refused:
            store.remove_group("s", "g")
        assert refused.value.argument == "group"
    assert sorted(taken(store, 2, Message.ack)) == [b"a", b"b"]
    store.reset_group("s", "g", "earliest")
    again: list[Message] = []

    def note_and_ack(message: Message) -> None:
        again.append(message)
        message.ack()

    assert sorted(taken(store, 2, note_and_ack)) == [b"a", b"b"]
    assert [message.redelivered for message in again] == [True, True]
    store.publish("s", b"c")
    store.reset_group("s", "g", "latest")
    store.publish("s", b"d")
    assert taken(store, 1, Message.ack) == [b"d"]
    store.remove_group("s", "g")
    assert [group.name for group in store.groups()] == ["keeps"]


def test_old_messages_expire_and_others_do_not(store: Store) -> None:
    store.publish_many("s", [b"a", b"b"])
    store.publish("s", b"waits", delay=3600)
    assert store.expire("s", timedelta(hours=1)) == 0
    assert store.expire("s", 0) in {0, 1, 2}
    while store.subjects()[0].ready:
        store.expire("s", 0)
    subject = store.subjects()[0]
    assert subject.expired == store.status().expired == 2
    assert subject.expiry is not None
    assert store.status().pending == 1
    with store.subscribe("s", group="g") as messages:
        assert messages.get(timeout=0.1) is None


REFUSED: list[tuple[str, Callable[[Store], object], type[Exception], str]] = [
    ("group there", lambda store: store.start_group("s", "g"), InvalidArgument, "group"),
    ("bad subject", lambda store: store.start_group("a b", "g"), InvalidArgument, "subject"),
    ("bad group", lambda store: store.start_group("s", "%"), InvalidArgument, "group"),
    ("bad start", lambda store: store.start_group("s", "n", "now"), InvalidArgument, "start"),  # type: ignore[arg-type]
    ("no start", lambda store: store.reset_group("s", "g", 1), WrongType, "start"),  # type: ignore[arg-type]
    ("reset none", lambda store: store.reset_group("s", "n", "latest"), InvalidArgument, "group"),
    ("remove none", lambda store: store.remove_group("n", "g"), InvalidArgument, "group"),
    ("subject of int", lambda store: store.remove_group(1, "g"), WrongType, "subject"),  # type: ignore[arg-type]
    ("dead of none", lambda store: store.dead_letters("s", "n"), InvalidArgument, "group"),
    ("limit 0", lambda store: store.dead_letters("s", "g", 0), InvalidArgument, "limit"),
    ("limit of bool", lambda store: store.dead_letters("s", "g", True), WrongType, "limit"),
    ("limit of float", lambda store: store.redrive("s", "g", 1.0), WrongType, "limit"),  # type: ignore[arg-type]
    ("limit below 0", lambda store: store.redrive("s", "g", -1), InvalidArgument, "limit"),
    ("redrive of none", lambda store: store.redrive("s", "n"), InvalidArgument, "group"),
    ("expire unknown", lambda store: store.expire("n", 1), InvalidArgument, "subject"),
    ("expire negative", lambda store: store.expire("s", -1), InvalidArgument, "older_than"),
    ("expire of str", lambda store: store.expire("s", "1"), WrongType, "older_than"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("act", "error", "argument"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused_names_its_argument(
    store: Store, act: Callable[[Store], Any], error: type[Exception], argument: str
) -> None:
    store.start_group("s", "g")
    with pytest.raises(error) as refused:
        act(store)
    assert getattr(refused.value, "argument", None) == argument


@pytest.mark.parametrize(
    ("reason", "error"), [("ä" * 513, TooLarge), (b"bytes", WrongType), (None, WrongType), ("\ud800", InvalidArgument)]
)
def test_a_reason_that_is_refused_leaves_the_message_in_hand(store: Store, reason: Any, error: type[Exception]) -> None:
    store.publish("s", b"a")

    def settle(message: Message) -> None:
        with pytest.raises(error) as refused:
            message.dead_letter(reason)
        assert getattr(refused.value, "argument", None) == "reason"
        assert not message.settled
        message.dead_letter("ä" * 512)

    taken(store, 1, settle)
    assert len(store.dead_letters("s", "g")[0].reason) == 512
