"""Filters of a subscription by tags and attributes, on every face."""

from __future__ import annotations

from typing import Any

import pytest

from delaymq import InvalidArgument, Present, Publish, StartsWith, TooLarge, WrongType, all_of, any_of
from faces import Face

MESSAGES = [
    Publish("orders", b"0"),
    Publish("orders", b"1", tags=("eu",), attributes={"kind": "payment"}),
    Publish("orders", b"2", tags=("eu", "vip"), attributes={"kind": "pay"}),
    Publish("orders", b"3", tags=("vip",), attributes={"other": "pay", "kind": "refund"}),
]


def taken(face: Face, count: int, group: str, **filters: Any) -> list[bytes]:
    """The bodies of so many messages that a consumer with filters receives. It gets no further one."""
    messages = face.call(lambda: face.store.subscribe("orders", group=group, **filters))
    found = []
    for _ in range(count):
        message = face.call(lambda: messages.get(30))
        assert message is not None
        found.append(message.body)
        face.call(message.ack)
    assert face.call(lambda: messages.get(0)) is None
    face.call(messages.flush)
    face.call(messages.close)
    return found


@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        ({}, [b"0", b"1", b"2", b"3"]),
        ({"tags": ["eu"]}, [b"1", b"2"]),
        ({"tags": ("eu", "vip")}, [b"1", b"2", b"3"]),
        ({"tags": any_of("eu", "vip")}, [b"1", b"2", b"3"]),
        ({"tags": all_of("eu", "vip")}, [b"2"]),
        ({"tags": all_of()}, [b"0", b"1", b"2", b"3"]),
        ({"attributes": {"kind": Present()}}, [b"1", b"2", b"3"]),
        ({"attributes": {"kind": "pay"}}, [b"2"]),
        ({"attributes": {"kind": StartsWith("pay")}}, [b"1", b"2"]),
        ({"attributes": {"kind": StartsWith(""), "other": "pay"}}, [b"3"]),
        ({"tags": ["vip"], "attributes": {"kind": StartsWith("p")}}, [b"2"]),
    ],
)
def test_what_passes_comes_and_what_does_not_is_finished(
    face: Face, filters: dict[str, Any], passing: list[bytes]
) -> None:
    face.call(lambda: face.store.start_group("orders", "h"))
    face.call(lambda: face.store.publish_many(MESSAGES))
    assert taken(face, len(passing), "g", **filters) == passing
    # The group has finished the others, and another group has its own filters.
    assert taken(face, 0, "g") == []
    assert taken(face, 4, "h") == [b"0", b"1", b"2", b"3"]


def test_one_message_of_a_hundred_fills_a_batch(face: Face) -> None:
    rows = [Publish("orders", b"%d" % number, tags=("rare",) if number % 100 == 0 else ()) for number in range(5000)]
    face.call(lambda: face.store.publish_many(rows))
    assert taken(face, 50, "g", tags=["rare"], in_flight_max=8) == [b"%d" % number for number in range(0, 5000, 100)]


@pytest.mark.parametrize(
    ("filters", "kind", "argument"),
    [
        ({"tags": "eu"}, WrongType, "tags"),
        ({"tags": 1}, WrongType, "tags"),
        ({"tags": [1]}, WrongType, "tags"),
        ({"tags": ["x" * 256]}, TooLarge, "filters"),
        ({"tags": ["x"] * 128}, TooLarge, "tags"),
        ({"attributes": ["kind"]}, WrongType, "attributes"),
        ({"attributes": {1: "x"}}, WrongType, "attributes"),
        ({"attributes": {"kind": 1}}, WrongType, "attributes"),
        ({"attributes": {"kind": "\ud800"}}, InvalidArgument, "attributes"),
        ({"attributes": {"kind": "x" * 256}}, TooLarge, "filters"),
        ({"attributes": {f"k{number}": Present() for number in range(17)}}, TooLarge, "filters"),
    ],
)
def test_a_filter_that_is_none_is_refused(
    face: Face, filters: dict[str, Any], kind: type[InvalidArgument], argument: str
) -> None:
    with pytest.raises(kind) as caught:
        face.call(lambda: face.store.subscribe("orders", group="g", **filters))
    assert caught.value.argument == argument
    assert not [one for one in face.call(face.store.groups) if one.subject == "orders"]
