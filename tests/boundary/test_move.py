"""Moving a message to another due time, in every face: truthful, durable, and one message throughout."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import ForeignReceipt, InvalidArgument, Moved, Outcome, Receipt, WrongType
from faces import Face, opened, opened_async

FAR = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def moved_to(face: Face, receipt: Receipt, **when: Any) -> Receipt:
    found: Moved = face.call(lambda: face.store.move(receipt, **when))
    assert found.outcome is Outcome.DONE
    assert found.receipt is not None
    return found.receipt


@pytest.fixture
def pending(face: Face) -> Receipt:
    receipt: Receipt = face.call(lambda: face.store.publish("consumed", b"one", delay=HOUR))
    return receipt


def test_a_moved_message_comes_once_under_its_new_due_time(face: Face, pending: Receipt) -> None:
    soon = moved_to(face, pending, delay=0.3)
    assert soon.due < pending.due
    assert soon.sequence > pending.sequence
    message = face.call(lambda: face.messages.get(5))
    assert (message.body, message.due, message.attempt) == (b"one", soon.due, 1)
    assert message.lateness >= timedelta(0)
    assert message.receipt == pending  # the one that it was published with, whatever it was moved to
    face.call(message.ack)
    assert face.call(lambda: face.messages.get(0.2)) is None
    assert face.call(lambda: face.store.move(soon, delay=1)) == Moved(Outcome.ALREADY_DISPATCHED, None)


def test_the_old_receipt_is_not_found_and_the_same_move_is_answered_the_same(face: Face, pending: Receipt) -> None:
    later = moved_to(face, pending, at=FAR)
    assert later.due == FAR
    assert moved_to(face, Receipt.parse(str(pending)), at=FAR) == later
    nothing = Moved(Outcome.NOT_FOUND, None)
    assert face.call(lambda: face.store.move(pending, at=FAR + HOUR)) == nothing
    assert face.call(lambda: face.store.move(pending, delay=5)) == nothing
    assert face.call(lambda: face.store.cancel(pending)) is Outcome.NOT_FOUND
    again = moved_to(face, later, delay=HOUR)
    assert moved_to(face, later, delay=HOUR) == again  # whatever the clock says by now
    assert face.call(lambda: face.store.move(later, delay=2 * HOUR)) == nothing
    assert face.call(lambda: face.store.cancel(again)) is Outcome.DONE
    assert face.call(lambda: face.store.move(again, delay=1)) == nothing
    assert face.call(face.store.status).pending == 0


def test_the_past_is_now(face: Face, pending: Receipt) -> None:
    due = datetime.now(UTC) - timedelta(minutes=1)
    moved = moved_to(face, pending, at=due)
    message = face.call(lambda: face.messages.get(5))
    assert (message.body, message.due) == (b"one", moved.due)


def test_many_are_judged_alone_and_answered_in_order(face: Face) -> None:
    receipts = list(face.call(lambda: face.store.publish_many("a", [b""] * 5, 3600)))
    face.call(lambda: face.store.cancel(receipts[2]))
    gone = face.call(lambda: face.store.publish("a", b""))
    found = face.call(lambda: face.store.move_many([*receipts, gone], delay=7200))
    done, not_found, late = Outcome.DONE, Outcome.NOT_FOUND, Outcome.ALREADY_DISPATCHED
    assert [one.outcome for one in found] == [done, done, not_found, done, done, late]
    assert [one.receipt is not None for one in found] == [True, True, False, True, True, False]
    again = [one.receipt for one in found if one.receipt]
    assert len(set(again)) == 4
    times = [FAR + timedelta(seconds=place) for place in range(4)]
    each = face.call(lambda: face.store.move_many(iter(again), at=times))
    assert [one.receipt.due for one in each] == times
    each = face.call(lambda: face.store.move_many([one.receipt for one in each], delay=[3600, HOUR, 3600.5, 0]))
    assert all(one.outcome is Outcome.DONE for one in each)
    assert face.call(lambda: face.store.move_many([], delay=5)) == []
    assert face.call(lambda: face.store.move_many([], at=[])) == []
    assert face.call(face.store.status).pending == 3


def test_more_than_one_request_takes(face: Face) -> None:
    receipts = [*face.call(lambda: face.store.publish_many("a", [b""] * 10_000, 3600))]
    receipts += face.call(lambda: face.store.publish_many("a", [b""] * 10, 3600))
    found = face.call(lambda: face.store.move_many(receipts, at=FAR))
    assert {one.outcome for one in found} == {Outcome.DONE}
    assert len({one.receipt for one in found}) == len(receipts)
    assert [one.receipt for one in face.call(lambda: face.store.move_many(receipts, at=FAR))] == [
        one.receipt for one in found
    ]
    times = [FAR] * 10_005 + [FAR.replace(year=2500)] * 5
    with pytest.raises(InvalidArgument, match="at most") as refused:
        face.call(lambda: face.store.move_many([one.receipt for one in found], at=times))
    assert (refused.value.argument, refused.value.index) == ("at", 10_005)


def test_what_is_refused_moves_nothing(face: Face, pending: Receipt, tmp_path: Path) -> None:
    @contextlib.contextmanager
    def refuses(kind: type[delaymq.DelaymqError], argument: str, index: int | None = None) -> Iterator[None]:
        with pytest.raises(kind) as refused:
            yield
        found: Any = refused.value
        assert (found.argument, found.index) == (argument, index)
        assert face.call(face.store.status).pending == 1

    move = face.store.move
    move_many = face.store.move_many
    with refuses(InvalidArgument, "delay"):
        face.call(lambda: move(pending))
    with refuses(InvalidArgument, "at"):
        face.call(lambda: move(pending, delay=1, at=FAR))
    with refuses(InvalidArgument, "delay"):
        face.call(lambda: move_many([pending]))
    with refuses(InvalidArgument, "at"):
        face.call(lambda: move_many([pending], delay=1, at=[FAR]))
    with refuses(InvalidArgument, "delay"):
        face.call(lambda: move_many([pending], delay=[1, 2]))
    with refuses(InvalidArgument, "at"):
        face.call(lambda: move_many([pending], at=[]))
    with refuses(InvalidArgument, "delay", 1):
        face.call(lambda: move_many([pending, pending], delay=[1, -1]))
    with refuses(WrongType, "at", 1):
        face.call(lambda: move_many([pending, pending], at=[FAR, "2030-01-01"]))
    with refuses(WrongType, "delay"):
        face.call(lambda: move_many([pending], delay=b"soon"))
    with refuses(WrongType, "delay"):
        face.call(lambda: move_many([], delay=True))
    with refuses(InvalidArgument, "delay", 0):
        face.call(lambda: move(pending, delay=timedelta(days=36_500)))
    with refuses(InvalidArgument, "at", 1):
        face.call(lambda: move_many([pending, pending], at=[FAR, FAR.replace(year=2500)]))
    text = str(pending)
    forged = Receipt.parse(text[:-1] + ("A" if text[-1] != "A" else "B"))
    with refuses(InvalidArgument, "receipt"):
        face.call(lambda: move_many([pending, forged], delay=5))
    with delaymq.open(tmp_path / "other", durability="os") as other:
        foreign = other.publish("a", b"", delay=HOUR)
        with refuses(ForeignReceipt, "receipt", 1):
            face.call(lambda: move_many([pending, foreign], delay=5))
        assert other.cancel(foreign) is Outcome.DONE
    # Nothing has changed: it is where it was.
    assert face.call(lambda: face.store.cancel(pending)) is Outcome.DONE


def test_a_move_survives_a_crash_and_checkpoints(folder: Path) -> None:
    with delaymq.open(folder, durability="os") as store:
        receipts = store.publish_many("a", [b"%d" % number for number in range(100)], 3600)
        store.checkpoint()
        found = [one.receipt for one in store.move_many(receipts, delay=[1800 + number for number in range(100)])]
        store.checkpoint()
        found += [one.receipt for one in store.move_many([one for one in found[50:] if one], at=FAR)]
    with delaymq.open(folder, durability="os") as store, store.subscribe("a", group="g") as messages:
        last = [one for one in [*found[:50], *found[100:]] if one]
        assert [one.outcome for one in store.move_many(receipts, delay=[1800 + number for number in range(100)])] == [
            Outcome.DONE
        ] * 100
        assert store.status().pending == 100
        assert {one.outcome for one in store.move_many(last, delay=0)} == {Outcome.DONE}
        bodies = []
        for _ in range(100):
            message = messages.get(5)
            assert message is not None
            bodies.append(int(message.body))
            message.ack()
        assert sorted(bodies) == list(range(100))


def test_seventy_thousand_moves_that_come_again_are_answered_as_the_first_time(folder: Path) -> None:
    """A store that remembered the last 65,536 alone did not find 4,464 of them."""
    with delaymq.open(folder, durability="os") as store:
        receipts = [one for _ in range(7) for one in store.publish_many("a", [b""] * 10_000, 3600)]
        first = store.move_many(receipts, delay=7200)
        assert {one.outcome for one in first} == {Outcome.DONE}
        assert store.move_many(receipts, delay=7200) == first
        store.checkpoint()
    with delaymq.open(folder, durability="os") as store:
        assert store.move_many(receipts, delay=7200) == first
        assert store.status().pending == len(receipts)


def test_many_coroutines_move_at_once(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            receipts = await store.publish_many("a", [b""] * 200, 3600)
            found = await asyncio.gather(*(store.move(receipt, delay=7200) for receipt in receipts))
            assert {one.outcome for one in found} == {Outcome.DONE}
            assert len({one.receipt for one in found}) == 200

    asyncio.run(main())


def test_a_closed_store_moves_nothing(folder: Path) -> None:
    with opened(folder) as store:
        receipt = store.publish("a", b"", delay=HOUR)
    with pytest.raises(delaymq.errors.Closed):
        store.move(receipt, delay=1)
