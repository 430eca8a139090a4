"""What a message has, made once it is looked at, on all faces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from delaymq import Publish
from faces import Face

ATTRIBUTES = {"order": "42", "name": "Ж"}


@contextmanager
def taken(face: Face, *messages: Publish) -> Iterator[list[Any]]:
    """These messages, as a consumer receives them, which is closed at the end."""
    subjects = sorted({message.subject for message in messages})
    consumer = face.call(lambda: face.store.subscribe(subjects, group="g"))
    face.call(lambda: face.store.publish_many(list(messages)))
    found = [face.call(lambda: consumer.get(60)) for _ in messages]
    yield sorted(found, key=lambda message: message.sequence)
    face.call(consumer.close)


@pytest.mark.parametrize("name", ["subject", "body", "tags", "attributes"])
def test_a_value_is_one_object_however_often_it_is_looked_at(face: Face, name: str) -> None:
    with taken(face, Publish("s", b"x" * 100, tags=("a", "b"), attributes=ATTRIBUTES)) as (message,):
        assert getattr(message, name) is getattr(message, name)


def test_what_a_consumer_changes_stays_with_the_message(face: Face) -> None:
    with taken(face, *[Publish("s", b"", attributes=ATTRIBUTES)] * 2) as (changed, other):
        changed.attributes["seen"] = "yes"
        assert changed.attributes == {**ATTRIBUTES, "seen": "yes"}
        assert other.attributes == ATTRIBUTES


def test_neighbours_of_other_subjects_have_their_own(face: Face) -> None:
    published = [Publish(subject, subject.encode(), message_id=f"id-{subject}") for subject in ("a", "b", "b", "a")]
    with taken(face, *published) as messages:
        found = [(message.subject, message.body, message.message_id) for message in messages]
    assert sorted(found) == sorted((one.subject, one.body, one.message_id) for one in published)


def test_all_can_be_looked_at_once_the_store_is_closed(face: Face) -> None:
    with taken(face, Publish("s", b"body", tags=("a",), attributes=ATTRIBUTES)) as (message,):
        receipt = message.receipt
        face.call(message.ack)
    face.call(face.store.close)
    assert (message.body, message.tags, message.attributes) == (b"body", ("a",), ATTRIBUTES)
    assert message.due == receipt.due
