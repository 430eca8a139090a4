"""What is pending, on every face: looked up by receipt, listed, counted."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import Fate, ForeignReceipt, InvalidArgument, Outcome, Receipt, WrongType
from delaymq.pending import PAGE
from faces import Face

HOUR = timedelta(hours=1)


def shown(face: Face, *, limit: int | None = None, **asked: Any) -> tuple[list[Any], Any]:
    """What a list shows, at most so many, and the list."""
    entries: list[Any] = []

    async def gathered() -> Any:
        listed = face.store.pending(**asked)
        async for one in listed:
            entries.append(one)
            if len(entries) == limit:
                break
        return listed

    if face.runner:
        return entries, face.runner.run(gathered())
    listed = face.store.pending(**asked)
    for one in listed:
        entries.append(one)
        if len(entries) == limit:
            break
    return entries, listed


def publish(face: Face, subject: str, *hours: float) -> list[Receipt]:
    bodies = [b"body"] * len(hours)
    return list(face.call(lambda: face.store.publish_many(subject, bodies, [HOUR * one for one in hours])))


def test_a_receipt_says_what_became_of_its_message(face: Face) -> None:
    pending, cancelled = publish(face, "orders", 1, 2)
    dispatched = face.call(lambda: face.store.publish("orders", b"now"))
    assert face.call(lambda: face.store.cancel(cancelled)) is Outcome.DONE
    found = face.call(lambda: face.store.look_up_many([pending, cancelled, dispatched]))
    assert [one.fate for one in found] == [Fate.PENDING, Fate.CANCELLED, Fate.DISPATCHED]
    assert {one.subject for one in found} == {"orders"}
    assert [one.size for one in found] == [4, 4, 3]
    assert [one.due for one in found] == [pending.due, cancelled.due, dispatched.due]
    assert face.call(lambda: face.store.look_up(pending)) == found[0]
    assert face.call(lambda: face.store.look_up_many([])) == []


def test_a_receipt_that_is_none_of_the_store_is_refused(face: Face, tmp_path: Path) -> None:
    (mine,) = publish(face, "orders", 1)
    with delaymq.open(tmp_path / "other", durability="os") as other:
        foreign = other.publish("orders", b"x", delay=HOUR)
    with pytest.raises(ForeignReceipt) as refused:
        face.call(lambda: face.store.look_up_many([mine, foreign]))
    assert refused.value.index == 1
    altered = "dmq1-" + str(mine)[5:].translate({ord(str(mine)[40]): "A" if str(mine)[40] != "A" else "B"})
    with pytest.raises((InvalidArgument, ForeignReceipt)):
        face.call(lambda: face.store.look_up(Receipt.parse(altered)))
    wrong_types: list[Any] = ["text", 7, [str(mine)]]
    for wrong in wrong_types:
        with pytest.raises(WrongType):
            face.call(functools.partial(face.store.look_up_many, wrong))


def test_a_list_is_in_order_and_of_what_was_asked_for(face: Face) -> None:
    orders = publish(face, "orders", 3, 1)
    (eu,) = publish(face, "orders.eu", 2)
    entries, listed = shown(face)
    assert [one.receipt for one in entries] == [orders[1], eu, orders[0]]
    assert {one.receipt for one in entries} == {*orders, eu}
    assert [(one.subject, one.attempt) for one in entries] == [("orders", 1), ("orders.eu", 1), ("orders", 1)]
    assert [one.sequence for one in entries] == [one.receipt.sequence for one in entries]
    assert [one.due for one in entries] == sorted(one.due for one in [*orders, eu])
    assert listed.hidden == []

    def sequences(**asked: Any) -> list[int]:
        return [one.sequence for one in shown(face, **asked)[0]]

    assert sequences(subject="orders.eu") == [eu.sequence]
    assert sequences(subject="nobody") == []
    assert sequences(prefix="orders.") == [eu.sequence]
    assert sequences(prefix="") == [one.sequence for one in entries]
    assert sequences(due_from=eu.due) == [eu.sequence, orders[0].sequence]
    assert sequences(due_before=eu.due) == [orders[1].sequence]
    assert sequences(due_from=eu.due, due_before=eu.due) == []


def test_a_list_goes_on_behind_its_cursor_in_pages(face: Face) -> None:
    count = PAGE + 40
    face.call(lambda: face.store.publish_many("orders", [b"x"] * (count // 2), HOUR))
    face.call(lambda: face.store.publish_many("orders", [b"x"] * (count - count // 2), HOUR))
    whole, _ = shown(face)
    assert len({one.sequence for one in whole}) == len(whole) == count
    first, listed = shown(face, limit=PAGE + 7)
    assert first == whole[: PAGE + 7]
    publish(face, "orders", 0.5)
    face.call(lambda: face.store.cancel(whole[-1].receipt))
    rest, ended = shown(face, after=listed.after)
    assert rest == whole[PAGE + 7 : -1]
    assert shown(face, after=ended.after)[0] == []
    assert len(shown(face)[0]) == count


def test_what_a_list_shows_cancels_as_any_other(face: Face) -> None:
    publish(face, "orders", 1, 2)
    entries, _ = shown(face)
    assert [one.receipt.size for one in entries] == [None, None]
    again = Receipt.parse(str(entries[0].receipt))
    assert face.call(lambda: face.store.cancel_many([again, entries[1].receipt])) == [Outcome.DONE, Outcome.DONE]
    assert face.call(lambda: face.store.look_up(again)).fate is Fate.CANCELLED
    assert face.call(lambda: face.store.look_up(again)).size is None
    assert shown(face)[0] == []


def test_what_a_group_gave_back_is_listed_under_its_own_name(face: Face) -> None:
    message = face.one()
    face.call(lambda: message.nack(HOUR))
    face.call(face.messages.flush)
    assert shown(face)[0] == []
    assert face.call(face.store.pending_counts) == {"consumed": 0}
    (entry,), _ = shown(face, prefix="%")
    assert (entry.subject, entry.attempt, entry.sequence) == ("%RETRY%consumed%g", 2, message.sequence)
    assert entry.receipt.sequence > message.sequence
    assert shown(face, subject="%RETRY%consumed%g")[0] == [entry]
    assert face.call(lambda: face.store.pending_counts(prefix="%RETRY%")) == {"%RETRY%consumed%g": 1}
    assert face.call(lambda: face.store.look_up(entry.receipt)).subject == "%RETRY%consumed%g"
    assert face.call(lambda: face.store.cancel(entry.receipt)) is Outcome.DONE


def test_counts_are_by_subject(face: Face) -> None:
    receipts = publish(face, "a", 1, 2, 3)
    publish(face, "ab", 1)
    counts = face.store.pending_counts
    assert face.call(counts) == {"a": 3, "ab": 1, "consumed": 0}
    face.call(lambda: face.store.cancel(receipts[0]))
    assert face.call(lambda: counts("a")) == {"a": 2}
    assert face.call(lambda: counts(prefix="a")) == {"a": 2, "ab": 1}
    assert face.call(lambda: counts("nobody")) == {}
    assert sum(face.call(lambda: counts(prefix="")).values()) == face.call(face.store.status).pending


def test_what_cannot_be_asked_for_is_refused(face: Face) -> None:
    now = datetime.now(UTC)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"due_from": now, "due_before": now - HOUR}, "due_before"),
        ({"due_from": datetime(2030, 1, 1)}, "due_from"),  # noqa: DTZ001 - refused for that
        ({"subject": "a", "prefix": "b"}, "prefix"),
        ({"subject": ""}, "subject"),
        ({"after": "no cursor"}, "after"),
        ({"after": "dmqp1-" + "A" * 48}, "after"),
    ]
    for asked, argument in cases:
        with pytest.raises(InvalidArgument) as refused:
            shown(face, **asked)
        assert refused.value.argument == argument, asked
    for asked, argument in cases[2:4]:
        with pytest.raises(InvalidArgument) as refused:
            face.call(lambda: face.store.pending_counts(**asked))  # noqa: B023 - called at once
        assert refused.value.argument == argument, asked
    wrong_types: list[dict[str, Any]] = [{"subject": 7}, {"prefix": b"x"}, {"after": 7}, {"due_from": 7}]
    for asked in wrong_types:
        with pytest.raises(WrongType):
            shown(face, **asked)


def test_a_cursor_of_another_store_is_refused(face: Face, tmp_path: Path) -> None:
    with delaymq.open(tmp_path / "other", durability="os") as other:
        other.publish("orders", b"x", delay=HOUR)
        listed = other.pending()
        next(listed)
        foreign = listed.after
    with pytest.raises(InvalidArgument, match="another store"):
        shown(face, after=foreign)
