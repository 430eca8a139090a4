"""Messages that are of no use any more, on every face: by a clock of the test, so that no test waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import InvalidArgument, Publish, WrongType
from delaymq.testing import Clock
from faces import Face

START = datetime(2027, 1, 15, 8, tzinfo=UTC)
MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)


class Timed:
    """A store of one face whose time is the test's."""

    def __init__(self, face: Face, folder: Path) -> None:
        self.face, self.clock = face, Clock(START)
        self.store: Any = face.call(lambda: face.opening(folder, clock=self.clock))

    def publish(self, body: bytes, **options: Any) -> Any:
        return self.face.call(lambda: self.store.publish("offers", body, **options))

    def taken(self, group: str = "g") -> list[bytes]:
        """The bodies that a new consumer of the group receives, up to a message that does not expire."""
        self.publish(b"end")
        messages = self.face.call(lambda: self.store.subscribe("offers", group=group))
        found: list[bytes] = []
        while not found or found[-1] != b"end":
            message = self.face.call(lambda: messages.get(30))
            found.append(message.body)
            self.face.call(message.ack)
        self.face.call(messages.flush)
        self.face.call(messages.close)
        return found[:-1]

    def reasons(self, group: str = "g") -> list[str]:
        return [one.reason for one in self.face.call(lambda: self.store.dead_letters("offers", group))]

    def expired(self) -> list[int]:
        return [one.expired for one in self.face.call(self.store.subjects) if one.name == "offers"]


@pytest.fixture
def timed(face: Face, tmp_path: Path) -> Iterator[Timed]:
    made = Timed(face, tmp_path / "timed")
    yield made
    made.face.call(made.store.close)


def options_of_a_second() -> list[dict[str, Any]]:
    """Ways to say that a message which is due in a second is of use for a second more."""
    return [
        {"delay": 1, "expires": 1},
        {"delay": SECOND, "expires": SECOND},
        {"at": START + SECOND, "expires": START + 2 * SECOND},
        {"delay": 1.0, "expires": START + 2 * SECOND},
    ]


@pytest.mark.parametrize("way", range(4))
def test_a_message_is_handed_over_before_its_expiry_and_not_at_it(timed: Timed, way: int) -> None:
    options = options_of_a_second()[way]
    timed.publish(b"early enough", **options)
    timed.clock.advance(2 * SECOND - MS)
    assert timed.taken() == [b"early enough"]
    rows = [Publish("offers", b"too late", delay=1, expires=1), Publish("offers", b"of use", delay=1)]
    timed.face.call(lambda: timed.store.publish_many(rows))
    timed.clock.advance(2 * SECOND)
    assert timed.taken() == [b"of use"]
    assert timed.expired() == [1]
    assert timed.reasons() == []


def test_a_message_that_expires_may_become_a_dead_letter(timed: Timed) -> None:
    timed.publish(b"one", expires=5, on_expiry="dead_letter")
    rows = [Publish("offers", b"two", expires=5, on_expiry="dead_letter", key="2", message_id="2")]
    timed.face.call(lambda: timed.store.publish_many(rows))
    timed.clock.advance(5)
    assert timed.taken() == []
    assert timed.reasons() == ["expired", "expired"]
    assert timed.expired() == [2]
    assert timed.face.call(timed.store.status).expired == 2
    # It stays of no use when it is redriven.
    assert timed.face.call(lambda: timed.store.redrive("offers", "g")) == 2
    timed.clock.advance(1)
    assert timed.taken() == []
    assert timed.reasons() == ["expired", "expired"]


def test_a_retry_is_not_handed_over_from_the_expiry_on(timed: Timed) -> None:
    timed.publish(b"again", expires=5)
    messages = timed.face.call(lambda: timed.store.subscribe("offers", group="g"))
    first = timed.face.call(lambda: messages.get(30))
    timed.face.call(lambda: first.nack(4))
    timed.face.call(messages.flush)
    timed.clock.advance(4)
    second = timed.face.call(lambda: messages.get(30))
    assert (second.body, second.attempt) == (b"again", 2)
    timed.face.call(lambda: second.nack(1))
    timed.face.call(messages.flush)
    timed.clock.advance(1)
    timed.face.call(messages.close)
    assert timed.taken() == []
    # A retry that lies in the group's retry subject is counted there.
    assert timed.face.call(timed.store.status).expired == 1


def test_a_series_says_how_long_each_message_is_of_use(timed: Timed) -> None:
    begun = timed.face.call(
        lambda: timed.store.recur(
            "offers", b"hourly", name="hourly", every=3600, expires_after=60, on_expiry="dead_letter"
        )
    )
    assert (begun.expires_after, begun.on_expiry) == (timedelta(minutes=1), "dead_letter")
    listed = timed.face.call(timed.store.recurring)
    assert listed == [begun]
    timed.clock.advance(3600 + 59)
    assert timed.taken() == [b"hourly"]
    timed.clock.advance(3600 + 1)
    assert timed.taken() == []
    assert timed.reasons() == ["expired"]
    plain = timed.face.call(lambda: timed.store.recur("offers", b"x", name="plain", every=3600))
    assert (plain.expires_after, plain.on_expiry) == (None, None)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"delay": 5, "expires": 0}, InvalidArgument, "expires"),
    ({"delay": 5, "expires": START + 5 * SECOND}, InvalidArgument, "expires"),
    ({"at": START + SECOND, "expires": START}, InvalidArgument, "expires"),
    ({"expires": -1}, InvalidArgument, "expires"),
    ({"expires": float("nan")}, InvalidArgument, "expires"),
    ({"expires": datetime(2030, 1, 1)}, InvalidArgument, "expires"),  # noqa: DTZ001 - it must be refused
    ({"expires": "1h"}, WrongType, "expires"),
    ({"expires": True}, WrongType, "expires"),
    ({"expires": 5, "on_expiry": "keep"}, InvalidArgument, "on_expiry"),
    ({"expires": 5, "on_expiry": 1}, WrongType, "on_expiry"),
    ({"on_expiry": "drop"}, InvalidArgument, "on_expiry"),
]


@pytest.mark.parametrize(("options", "kind", "argument"), REFUSED)
def test_what_is_refused_names_its_argument_and_stores_nothing(
    timed: Timed, options: dict[str, Any], kind: type[delaymq.DelaymqError], argument: str
) -> None:
    with pytest.raises(kind) as one:
        timed.publish(b"x", **options)
    assert (one.value.argument, one.value.index) == (argument, None)
    with pytest.raises(kind) as many:
        timed.face.call(lambda: timed.store.publish_many([Publish("offers", b""), Publish("offers", b"", **options)]))
    assert (many.value.argument, many.value.index) == (argument, 1)
    assert timed.face.call(timed.store.status).ready == 0


@pytest.mark.parametrize(
    ("options", "kind", "argument"),
    [
        ({"expires_after": 0}, InvalidArgument, "expires_after"),
        ({"expires_after": START}, WrongType, "expires_after"),
        ({"on_expiry": "drop"}, InvalidArgument, "on_expiry"),
        ({"expires_after": 1, "on_expiry": "keep"}, InvalidArgument, "on_expiry"),
    ],
)
def test_what_a_series_refuses_names_its_argument(
    timed: Timed, options: dict[str, Any], kind: type[delaymq.DelaymqError], argument: str
) -> None:
    with pytest.raises(kind) as refused:
        timed.face.call(lambda: timed.store.recur("offers", b"x", name="x", every=60, **options))
    assert refused.value.argument == argument
    assert timed.face.call(timed.store.recurring) == []
