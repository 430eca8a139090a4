"""One subscription over many subjects, on every face."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from delaymq import InvalidArgument, Publish, TooLarge, WrongType
from faces import Face

SUBJECTS = ("order.made", "order.paid", "refund")


def publish(face: Face, subjects: Iterable[str], count: int) -> None:
    """Publishes so many messages to each subject, to each in turn."""
    rows = [Publish(subject, f"{subject} {number}".encode()) for number in range(count) for subject in subjects]
    face.call(lambda: face.store.publish_many(rows))


def subscribed(face: Face, subjects: Any, **options: Any) -> Any:
    return face.call(lambda: face.store.subscribe(subjects, group="billing", **options))


def taken(face: Face, messages: Any, count: int) -> list[Any]:
    """So many messages, acknowledged one by one. There is no further one."""
    found = []
    for _ in range(count):
        message = face.call(lambda: messages.get(30))
        assert message is not None
        assert message.body.decode().startswith(f"{message.subject} ")
        found.append(message)
        face.call(message.ack)
    assert face.call(lambda: messages.get(0)) is None
    return found


def lags(face: Face) -> dict[str, int]:
    return {group.subject: group.lag for group in face.call(face.store.groups) if group.name == "billing"}


def reasons(face: Face, subject: str) -> list[str]:
    return [letter.reason for letter in face.call(lambda: face.store.dead_letters(subject, "billing"))]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_the_messages_of_every_listed_subject_come_under_their_own_name(face: Face, kind: Any) -> None:
    messages = subscribed(face, kind(SUBJECTS))
    assert (messages.subjects, messages.subject, messages.group) == (SUBJECTS, "order.made", "billing")
    publish(face, [*SUBJECTS, "other"], 10)
    found = taken(face, messages, 30)
    for subject in SUBJECTS:
        own = [message.body for message in found if message.subject == subject]
        assert own == [f"{subject} {number}".encode() for number in range(10)], "in the order of the subject"
    face.call(messages.close)
    assert lags(face) == dict.fromkeys(SUBJECTS, 0)


def test_a_prefix_selects_what_exists_and_what_is_made_later(face: Face) -> None:
    publish(face, SUBJECTS, 2)
    messages = subscribed(face, "order.*")
    assert (messages.subjects, messages.subject) == (("order.*",), "order.*")
    assert Counter(message.subject for message in taken(face, messages, 4)) == {"order.made": 2, "order.paid": 2}
    publish(face, ["refund", "order.sent", "order.lost"], 3)
    found = Counter(message.subject for message in taken(face, messages, 6))
    assert found == {"order.sent": 3, "order.lost": 3}
    face.call(messages.close)
    every = subscribed(face, "*")
    assert Counter(message.subject for message in taken(face, every, 5)) == {"refund": 5}
    face.call(every.close)


def test_a_later_subject_is_read_from_its_first_message_wherever_the_group_starts(face: Face) -> None:
    publish(face, ["order.made"], 1)
    messages = subscribed(face, "order.*", start="latest")
    assert taken(face, messages, 0) == []
    publish(face, ["order.paid"], 2)
    assert len(taken(face, messages, 2)) == 2
    face.call(messages.close)


def test_each_message_is_settled_in_its_own_subject(face: Face) -> None:
    messages = subscribed(face, ["a", "b", "c"], in_flight_max=100)
    publish(face, ["a", "b", "c"], 5)
    held: dict[str, list[Any]] = {"a": [], "b": [], "c": []}
    for _ in range(15):
        message = face.call(lambda: messages.get(30))
        held[message.subject].append(message)
    face.call(lambda: messages.ack([*held["a"][:2], held["b"][0]]))
    face.call(lambda: held["b"][1].nack(0))
    face.call(lambda: held["c"][0].dead_letter("broken"))
    face.call(lambda: messages.nack([held["c"][1], held["a"][2]]))
    face.call(lambda: messages.dead_letter(held["a"][3:4], "torn"))
    again = [face.call(lambda: messages.get(30)) for _ in range(3)]
    bodies = sorted((message.subject, message.body, message.attempt) for message in again)
    assert bodies == [("a", b"a 2", 2), ("b", b"b 1", 2), ("c", b"c 1", 2)]
    face.call(lambda: messages.ack(again))
    face.call(lambda: messages.ack([message for each in held.values() for message in each]))
    face.call(messages.flush)
    dead = {name: reasons(face, name) for name in held}
    assert dead == {"a": ["torn"], "b": [], "c": ["broken"]}
    face.call(messages.close)
    # What was given back, dead or acknowledged twice was settled once.
    assert lags(face) == {"a": 0, "b": 0, "c": 0}


def test_what_is_not_settled_goes_back_to_the_group_of_its_subject(face: Face) -> None:
    messages = subscribed(face, ["a", "b"])
    publish(face, ["a", "b"], 2)
    for _ in range(4):
        message = face.call(lambda: messages.get(30))
        if message.body in {b"a 0", b"b 1"}:
            face.call(message.ack)
    face.call(messages.close)
    only = subscribed(face, "b")
    [message] = taken(face, only, 1)
    assert (message.body, message.redelivered) == (b"b 0", True)
    face.call(only.close)
    assert lags(face) == {"a": 1, "b": 0}


def test_a_batch_has_messages_of_every_subject(face: Face) -> None:
    names = [f"s.{number}" for number in range(50)]
    publish(face, names, 4)
    messages = subscribed(face, "s.*", in_flight_max=1000)
    found = taken(face, messages, 200)
    assert Counter(message.subject for message in found) == dict.fromkeys(names, 4)
    face.call(messages.close)


@pytest.mark.parametrize(
    ("subjects", "kind", "argument"),
    [
        ([], InvalidArgument, "subject"),
        (["a", "a"], InvalidArgument, "subject"),
        (["a", "order.*"], InvalidArgument, "subject"),
        (["a", "b c"], InvalidArgument, "subject"),
        ([""], InvalidArgument, "subject"),
        ("a b*", InvalidArgument, "subject"),
        ("%RETRY%a%g", InvalidArgument, "subject"),
        (["a", "\ud800"], InvalidArgument, "subject"),
        (["a", 1], WrongType, "subject"),
        (1, WrongType, "subject"),
        (b"a", WrongType, "subject"),
        ([f"s{number}" for number in range(10_001)], TooLarge, "subjects"),
    ],
)
def test_what_is_no_list_of_subjects_is_refused(
    face: Face, subjects: Any, kind: type[InvalidArgument], argument: str
) -> None:
    with pytest.raises(kind) as refused:
        subscribed(face, subjects)
    assert refused.value.argument == argument
    assert lags(face) == {}
    # The face works on.
    messages = subscribed(face, ["a", "b"])
    publish(face, ["a", "b"], 1)
    assert len(taken(face, messages, 2)) == 2
    face.call(messages.close)
