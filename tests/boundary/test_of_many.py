"""Settling many messages at once, on both faces: all of them are looked at before any is settled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import Closed, InvalidArgument, WrongType
from faces import Face

Settle = Callable[[Any, Any], Any]

SETTLING: dict[str, Settle] = {
    "ack": lambda messages, many: messages.ack(many),
    "nack": lambda messages, many: messages.nack(many),
    "dead_letter": lambda messages, many: messages.dead_letter(many, "why"),
}


@pytest.fixture(params=SETTLING)
def settle(request: pytest.FixtureRequest) -> Settle:
    return SETTLING[request.param]


def ready(face: Face, count: int) -> list[Any]:
    """So many messages in hand."""
    face.call(lambda: face.store.publish_many("consumed", [b"%d" % number for number in range(count)]))
    return [face.call(lambda: face.messages.get(5)) for _ in range(count)]


def test_a_message_of_another_subscription_finishes_nothing(face: Face, settle: Settle) -> None:
    own = ready(face, 1)[0]
    other = face.call(lambda: face.store.subscribe("consumed", group="other"))
    foreign = face.call(lambda: other.get(5))
    # Their places have the same number, which is what makes it dangerous; a client's keys say whose they are.
    assert (foreign.key == own.key) is not face.is_remote
    with pytest.raises(InvalidArgument, match="one of another") as caught:
        face.call(lambda: settle(face.messages, [own, foreign]))
    assert (caught.value.argument, caught.value.index) == ("messages", 1)
    assert not own.settled
    assert not foreign.settled
    # Neither group has lost its message.
    face.call(other.close)
    face.call(face.messages.close)
    other = face.call(lambda: face.store.subscribe("consumed", group="other"))
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g"))
    assert face.call(lambda: other.get(5)).body == face.call(lambda: face.messages.get(5)).body == b"0"
    face.call(other.close)


def test_a_message_of_a_closed_subscription_is_refused(face: Face, settle: Settle) -> None:
    message = ready(face, 1)[0]
    face.call(face.messages.close)
    with pytest.raises(Closed, match="comes again"):
        face.call(lambda: settle(face.messages, [message]))
    with pytest.raises(Closed):
        face.call(lambda: settle(face.messages, []))
    face.messages = face.call(lambda: face.store.subscribe("consumed", group="g"))
    with pytest.raises(InvalidArgument, match="one of another"):
        face.call(lambda: settle(face.messages, [message]))
    assert not message.settled
    assert face.call(lambda: face.messages.get(5)).body == message.body


def test_one_that_is_no_message_settles_none(face: Face, settle: Settle) -> None:
    first, second = ready(face, 2)
    with pytest.raises(WrongType) as caught:
        face.call(lambda: settle(face.messages, [first, "x", second]))
    assert caught.value.index == 1
    for iterable in (first, 5):
        with pytest.raises(WrongType):
            face.call(lambda iterable=iterable: settle(face.messages, iterable))  # type: ignore[misc]

    def failing() -> Iterator[Any]:
        yield first
        raise KeyError("the user's own")

    with pytest.raises(KeyError):
        face.call(lambda: settle(face.messages, failing()))
    assert not first.settled
    assert not second.settled
    face.call(lambda: settle(face.messages, iter([first, second, first])))
    assert first.settled
    assert second.settled


def test_a_message_of_the_other_face_is_refused(face: Face, settle: Settle, tmp_path: Path) -> None:
    other = Face(tmp_path / "other", "plain" if face.runner else "asyncio")
    message = ready(other, 1)[0]
    with pytest.raises(WrongType):
        face.call(lambda: settle(face.messages, [message]))
    assert not message.settled
    other.close()


def test_those_that_were_settled_before_are_passed_over(face: Face, settle: Settle) -> None:
    batch = ready(face, 3)
    face.call(lambda: batch[1].dead_letter("no such order"))
    face.call(lambda: settle(face.messages, batch))
    assert all(message.settled for message in batch)
    face.call(lambda: face.messages.flush(5))
    assert next(group for group in groups(face) if group.name == "g").dead_letters == (
        3 if settle is SETTLING["dead_letter"] else 1
    )


def groups(face: Face) -> list[delaymq.Group]:
    found: list[delaymq.Group] = face.call(face.store.groups)
    return found
