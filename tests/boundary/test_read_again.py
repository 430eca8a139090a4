"""Groups that read finished messages again, on every face: by a clock of the test, so that no test waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import DelaymqError, InvalidArgument, Outcome, PublishedSince, Receipt
from delaymq.starts import Start
from delaymq.testing import Clock
from faces import Face

SUBJECT = "orders"
# A message as its consumer sees it: the body, the attempt, and whether it is marked as redelivered.
Seen = tuple[bytes, int, bool]


def first_time(*bodies: bytes) -> list[Seen]:
    return [(body, 1, False) for body in bodies]


def marked(*bodies: bytes) -> list[Seen]:
    return [(body, 1, True) for body in bodies]


def bodies(found: list[Seen]) -> list[bytes]:
    return [body for body, _, _ in found]


class Kept:
    """A store of one face whose time is the test's, and that can be closed and opened again."""

    def __init__(self, face: Face, folder: Path) -> None:
        self.face, self.folder = face, folder
        self.clock = Clock(datetime(2027, 1, 15, 8, tzinfo=UTC))
        self.ends = 0
        self.open()

    def open(self, **options: Any) -> None:
        self.store: Any = self.face.call(lambda: self.face.opening(self.folder, clock=self.clock, **options))

    def close(self) -> None:
        self.face.call(self.store.close)
        if self.face.is_remote:
            self.face.served.pop().close()

    def restart(self, **options: Any) -> None:
        self.close()
        self.open(**options)

    def publish(self, body: bytes, **options: Any) -> Any:
        return self.face.call(lambda: self.store.publish(SUBJECT, body, **options))

    def reset(self, group: str, start: Start) -> None:
        self.face.call(lambda: self.store.reset_group(SUBJECT, group, start))

    def taken(self, group: str, start: Start = "unfinished") -> list[Seen]:
        """All that a consumer of the group receives and acknowledges, up to a message that is published now."""
        messages = self.face.call(lambda: self.store.subscribe(SUBJECT, group=group, start=start))
        self.ends += 1
        end = b"end %d" % self.ends
        self.publish(end)
        found: list[Seen] = []
        while not found or found[-1][0] != end:
            message = self.face.call(lambda: messages.get(30))
            assert message is not None, found
            found.append((message.body, message.attempt, message.redelivered))
            self.face.call(message.ack)
        self.face.call(messages.flush)
        self.face.call(messages.close)
        return [seen for seen in found if not seen[0].startswith(b"end")]


@pytest.fixture
def kept(face: Face, tmp_path: Path) -> Iterator[Kept]:
    made = Kept(face, tmp_path / "kept")
    yield made
    made.close()


def finished_by(kept: Kept, group: str) -> None:
    """Three messages, taken and acknowledged by the group."""
    for body in (b"1", b"2", b"3"):
        kept.publish(body)
    assert kept.taken(group) == first_time(b"1", b"2", b"3")


def test_a_group_that_begins_at_the_earliest_reads_what_others_have_finished(kept: Kept) -> None:
    finished_by(kept, "g")
    assert kept.taken("h", "earliest") == first_time(b"1", b"2", b"3")
    kept.restart()
    kept.face.call(lambda: kept.store.start_group(SUBJECT, "started", "earliest"))
    kept.restart()
    assert kept.taken("started") == first_time(b"1", b"2", b"3")
    assert kept.taken("g") == kept.taken("h") == [], "a group that is there goes on where it was"


def test_a_group_that_is_reset_to_the_earliest_receives_marked_messages(kept: Kept) -> None:
    finished_by(kept, "g")
    kept.reset("g", "earliest")
    kept.publish(b"4")
    found = kept.taken("g")
    # The mark may cover what was reserved for the group and not delivered: the fourth.
    assert (found[:3], bodies(found)) == (marked(b"1", b"2", b"3"), [b"1", b"2", b"3", b"4"])
    kept.restart()
    kept.reset("g", "earliest")
    kept.restart()
    assert kept.taken("g") == marked(b"1", b"2", b"3", b"4")
    assert kept.taken("h", "earliest") == first_time(b"1", b"2", b"3", b"4"), "the marks are those of one group"


def test_attempts_of_a_message_that_is_read_again_begin_at_1(kept: Kept) -> None:
    kept.publish(b"1")
    messages = kept.face.call(lambda: kept.store.subscribe(SUBJECT, group="g"))
    attempts = []
    for settle in ("nack", "ack"):
        message = kept.face.call(lambda: messages.get(30))
        attempts.append(message.attempt)
        kept.face.call(getattr(message, settle))
    kept.face.call(messages.close)
    assert attempts == [1, 2]
    kept.reset("g", "earliest")
    # The retry was the group's own, and it is not read again.
    assert kept.taken("g") == marked(b"1")
    assert kept.taken("h", "earliest") == first_time(b"1")


def test_unfinished_is_what_some_group_has_not_finished(kept: Kept) -> None:
    finished_by(kept, "g")
    assert kept.taken("h", "unfinished") == []
    kept.face.call(lambda: kept.store.start_group(SUBJECT, "behind", "unfinished"))
    kept.publish(b"4")
    assert kept.taken("g") == first_time(b"4")
    # The group that is behind has not finished it.
    assert kept.taken("new", "unfinished") == first_time(b"4")
    kept.reset("g", "unfinished")
    assert kept.taken("g") == marked(b"4")
    kept.restart()
    assert kept.taken("behind") == first_time(b"4")


def test_latest_is_only_what_is_new(kept: Kept) -> None:
    finished_by(kept, "g")
    kept.publish(b"4")
    assert kept.taken("h", "latest") == []
    kept.reset("g", "latest")
    kept.restart()
    assert kept.taken("g") == []
    kept.reset("g", "earliest")
    assert bodies(kept.taken("g")) == [b"1", b"2", b"3", b"4"]


def test_what_was_cancelled_or_expired_is_never_read_again(kept: Kept) -> None:
    cancelled = kept.publish(b"cancelled", delay=10)
    kept.publish(b"due later", delay=10)
    kept.publish(b"due much later", delay=3600)
    kept.publish(b"of no use", delay=10, expires=5)
    assert kept.face.call(lambda: kept.store.cancel(cancelled)) is Outcome.DONE
    kept.clock.advance(20)
    assert kept.taken("g") == first_time(b"due later")
    kept.publish(b"ended by an operator")
    kept.clock.advance(60)
    assert kept.face.call(lambda: kept.store.expire(SUBJECT, 30)) == 1
    kept.publish(b"last")
    assert kept.taken("g") == first_time(b"last")
    for _ in range(2):
        kept.reset("g", "earliest")
        assert kept.taken("g") == marked(b"due later", b"last")
        kept.restart()
    assert kept.taken("h", "earliest") == first_time(b"due later", b"last")


def test_a_group_that_reads_again_keeps_its_place_over_a_restart(kept: Kept) -> None:
    finished_by(kept, "g")
    kept.reset("g", "earliest")
    messages = kept.face.call(lambda: kept.store.subscribe(SUBJECT, group="g", in_flight_max=1))
    first = kept.face.call(lambda: messages.get(30))
    assert first.body == b"1"
    kept.face.call(first.ack)
    kept.face.call(messages.flush)
    kept.face.call(messages.close)
    kept.restart()
    assert bodies(kept.taken("g")) == [b"2", b"3"]


def test_finished_messages_that_are_not_kept_are_not_read_again(kept: Kept) -> None:
    kept.restart(keep_finished=0)
    finished_by(kept, "g")
    kept.face.call(lambda: kept.store.start_group(SUBJECT, "behind", "unfinished"))
    kept.publish(b"4")
    assert kept.taken("g") == first_time(b"4")
    assert kept.taken("h", "earliest") == first_time(b"4"), "all that some group has not finished is kept"


def test_a_start_that_is_none_names_those_that_are(kept: Kept) -> None:
    start: Any = "new"
    calls = [
        lambda: kept.store.subscribe(SUBJECT, group="g", start=start),
        lambda: kept.store.start_group(SUBJECT, "g", start),
        lambda: kept.store.reset_group(SUBJECT, "g", start),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument) as refused:
            kept.face.call(call)
        assert refused.value.argument == "start"
        words = '"earliest", "unfinished", "latest", a datetime, a timedelta, PublishedSince(…) or a receipt'
        assert str(refused.value) == f"start: expected {words}, found 'new'"
    assert kept.face.call(kept.store.groups) == []


def published_in_turn(kept: Kept) -> list[Receipt]:
    """Four messages, one each ten seconds, of which the second is due last; all are finished by `g`."""
    receipts = []
    for body, delay in ((b"1", 0), (b"2", 35), (b"3", 0), (b"4", 0)):
        receipts.append(kept.publish(body, delay=delay))
        kept.clock.advance(10)
    assert kept.taken("g") == first_time(b"1", b"3", b"4")
    kept.clock.advance(10)
    assert kept.taken("g") == first_time(b"2")
    return receipts


BEGIN = datetime(2027, 1, 15, 8, tzinfo=UTC)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (BEGIN, b"1342"),
        (BEGIN + seconds(0.001), b"342"),
        (BEGIN + seconds(20), b"342"),
        (BEGIN + seconds(20.0005), b"42"),
        (BEGIN + seconds(45), b"2"),
        (BEGIN + seconds(50), b"2"),
        (BEGIN + seconds(50.001), b""),
        (BEGIN - seconds(1e9), b"1342"),
        (BEGIN + seconds(1e9), b""),
        (seconds(30), b"342"),
        (seconds(29.9), b"42"),
        (seconds(0), b"2"),
        (timedelta(days=9999), b"1342"),
        (PublishedSince(BEGIN), b"1342"),
        (PublishedSince(BEGIN + seconds(1)), b"342"),
        (PublishedSince(BEGIN + seconds(20)), b"342"),
        (PublishedSince(seconds(20)), b"42"),
        # Behind the first one that was published since then, one that was published before became ready.
        (PublishedSince(seconds(19)), b"2"),
        (PublishedSince(seconds(9)), b""),
    ],
    ids=str,
)
def test_a_group_begins_at_a_time(kept: Kept, start: Start, expected: bytes) -> None:
    published_in_turn(kept)
    kept.restart()
    kept.face.call(lambda: kept.store.start_group(SUBJECT, "h", start))
    assert b"".join(bodies(kept.taken("h"))) == expected
    # `subscribe` and `reset_group` begin at the same places.
    assert b"".join(bodies(kept.taken("i", start))) == expected
    kept.reset("g", start)
    assert b"".join(bodies(kept.taken("g"))) == expected


def test_a_group_begins_at_the_message_of_a_receipt(kept: Kept) -> None:
    receipts = published_in_turn(kept)
    kept.restart()
    for group, receipt, expected in zip("abcd", receipts, (b"1342", b"2", b"342", b"42"), strict=True):
        assert b"".join(bodies(kept.taken(group, receipt))) == expected
    kept.reset("g", receipts[2])
    assert kept.taken("g") == marked(b"3", b"4", b"2")
    pending = kept.publish(b"5", delay=100)
    assert kept.taken("pending", pending) == []
    kept.clock.advance(200)
    assert kept.taken("pending") == first_time(b"5")
    # A group that is there goes on where it was, even if the message of the receipt could not be found.
    assert kept.taken("pending", cancelled(kept)) == []


def cancelled(kept: Kept) -> Receipt:
    receipt: Receipt = kept.publish(b"cancelled", delay=100)
    assert kept.face.call(lambda: kept.store.cancel(receipt)) is Outcome.DONE
    return receipt


def test_a_start_that_is_none_is_refused(kept: Kept, tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "other") as other:
        foreign = other.publish(SUBJECT, b"1")
    elsewhere = kept.face.call(lambda: kept.store.publish("elsewhere", b"1"))
    refused: list[tuple[Any, str]] = [
        (BEGIN.replace(tzinfo=None), "time zone"),
        (datetime(1969, 1, 1, tzinfo=UTC), "1970"),
        (-seconds(1), "zero or more"),
        (PublishedSince(-seconds(1)), "zero or more"),
        (PublishedSince("2h"), "PublishedSince"),  # type: ignore[arg-type]
        ("new", '"earliest", "unfinished", "latest"'),
        (17, "PublishedSince"),
        (None, "PublishedSince"),
        (cancelled(kept), "start: expected the receipt of a message of the subject"),
        (elsewhere, "another subject"),
        (foreign, "another store"),
    ]
    for start, said in refused:
        for ask in (
            lambda: kept.store.start_group(SUBJECT, "h", start),  # noqa: B023 - called at once
            lambda: kept.store.subscribe(SUBJECT, group="h", start=start),  # noqa: B023 - called at once
        ):
            with pytest.raises(DelaymqError, match=said):
                kept.face.call(ask)
    assert kept.face.call(kept.store.groups) == []
    kept.publish(b"1")
    assert kept.taken("h", "earliest") == first_time(b"1")
