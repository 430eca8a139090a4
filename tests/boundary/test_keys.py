"""Keys, and messages that are told by their ids, in every face: one pending message for a key, one for an id."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import delaymq
from delaymq import (
    Fate,
    InvalidArgument,
    KeyTaken,
    LookedUp,
    Moved,
    NamesFull,
    Outcome,
    Publish,
    Receipt,
    TooLarge,
    WrongType,
    _core,
)
from faces import Face, opened_async

FAR = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NONE = LookedUp(Fate.NOT_FOUND, "", None)
LATE = Moved(Outcome.ALREADY_DISPATCHED, None)


def published(face: Face, body: bytes = b"one", **how: Any) -> Receipt:
    receipt: Receipt = face.call(lambda: face.store.publish("consumed", body, **{"delay": HOUR, **how}))
    return receipt


def fate(face: Face, receipt: Receipt) -> Fate:
    found: Fate = face.call(lambda: face.store.look_up(receipt)).fate
    return found


def of_key(face: Face, key: str = "k", subject: str = "consumed") -> LookedUp:
    found: LookedUp = face.call(lambda: face.store.look_up_key(subject, key))
    return found


def pending(face: Face) -> int:
    found: int = face.call(face.store.status).pending
    return found


def test_one_pending_message_has_a_key(face: Face) -> None:
    first = published(face, key="order-17")
    with pytest.raises(KeyTaken) as taken:
        published(face, key="order-17")
    assert (taken.value.index, taken.value.argument) == (0, "key")
    assert Receipt.parse(taken.value.found or "").sequence == first.sequence
    assert published(face, key="order-17", if_exists="keep") == first
    second = published(face, key="order-17", if_exists="replace")
    assert (fate(face, first), fate(face, second), pending(face)) == (Fate.CANCELLED, Fate.PENDING, 1)
    assert of_key(face, "order-17") == LookedUp(Fate.PENDING, "consumed", second)
    assert of_key(face, "order-17") == face.call(lambda: face.store.look_up(second)), "as by receipt"
    assert of_key(face, "order-17", "elsewhere") == NONE
    assert (NONE.due, NONE.size) == (None, None)


def test_what_has_a_key_is_cancelled_and_moved_by_it(face: Face) -> None:
    nothing = Moved(Outcome.NOT_FOUND, None)
    assert face.call(lambda: face.store.cancel_key("consumed", "k")) is Outcome.NOT_FOUND
    assert face.call(lambda: face.store.move_key("consumed", "k", delay=5)) == nothing
    assert of_key(face) == NONE
    first = published(face, key="k")
    moved: Moved = face.call(lambda: face.store.move_key("consumed", "k", at=FAR))
    assert moved.outcome is Outcome.DONE
    assert moved.receipt is not None
    assert moved.receipt.due == FAR
    assert fate(face, first) is Fate.NOT_FOUND
    again = face.call(lambda: face.store.move(moved.receipt, delay=HOUR)).receipt
    found = of_key(face).receipt
    assert found is not None
    assert found.sequence == again.sequence
    assert face.call(lambda: face.store.cancel_key("consumed", "k")) is Outcome.DONE
    assert face.call(lambda: face.store.cancel_key("consumed", "k")) is Outcome.NOT_FOUND
    assert (fate(face, again), pending(face)) == (Fate.CANCELLED, 0)
    published(face, key="k")
    assert face.call(lambda: face.store.move_key("consumed", "k", delay=0)).outcome is Outcome.DONE
    message = face.call(lambda: face.messages.get(5))
    assert message.body == b"one"
    assert face.call(lambda: face.store.move_key("consumed", "k", delay=5)) == LATE


def test_a_dispatched_message_gives_its_key_back(face: Face) -> None:
    published(face, b"a", key="k", delay=0.1)
    assert face.call(lambda: face.messages.get(5)).body == b"a"
    published(face, b"b", key="k", delay=0)
    assert face.call(lambda: face.messages.get(5)).body == b"b"


@pytest.mark.parametrize("delay", [0, 0.1])
def test_a_command_by_the_key_of_a_dispatched_message_says_so(face: Face, delay: float) -> None:
    """The last message with the key counts: once it is cancelled, nothing is known of the one before."""
    receipt = published(face, b"a", key="k", delay=delay)
    assert face.call(lambda: face.messages.get(5)).body == b"a"
    for _ in range(2):
        assert face.call(lambda: face.store.cancel_key("consumed", "k")) is Outcome.ALREADY_DISPATCHED
        assert face.call(lambda: face.store.move_key("consumed", "k", delay=5)) == LATE
        assert face.call(lambda: face.store.cancel_keys("consumed", ["l", "k"])) == [
            Outcome.NOT_FOUND,
            Outcome.ALREADY_DISPATCHED,
        ]
        assert face.call(lambda: face.store.move_keys("consumed", ["k", "l"], delay=5)) == [
            LATE,
            Moved(Outcome.NOT_FOUND, None),
        ]
        assert of_key(face) == LookedUp(Fate.DISPATCHED, "consumed", receipt)
        assert of_key(face, "k", "elsewhere") == NONE
    assert fate(face, receipt) is Fate.DISPATCHED
    newer = published(face, b"b", key="k")
    assert of_key(face) == LookedUp(Fate.PENDING, "consumed", newer)
    assert face.call(lambda: face.store.cancel_key("consumed", "k")) is Outcome.DONE
    assert face.call(lambda: face.store.cancel_key("consumed", "k")) is Outcome.NOT_FOUND
    assert of_key(face) == NONE


def test_a_command_that_came_too_late_says_so_again_under_its_id(face: Face) -> None:
    published(face, key="k", delay=0)

    def asked() -> tuple[Outcome, list[Moved]]:
        return (
            face.call(lambda: face.store.cancel_key("consumed", "k", command_id="one")),
            face.call(lambda: face.store.move_keys("consumed", ["k"], delay=HOUR, command_id="one")),
        )

    assert asked() == (Outcome.ALREADY_DISPATCHED, [LATE])
    newer = published(face, key="k")
    assert asked() == (Outcome.ALREADY_DISPATCHED, [LATE]), "another message has the key by then"
    assert fate(face, newer) is Fate.PENDING


def test_dispatched_keys_are_known_as_long_as_ids_and_over_a_restart(folder: Path) -> None:
    clock = delaymq.testing.Clock(FAR - 100 * HOUR)
    for minutes, outcome in ((0, Outcome.ALREADY_DISPATCHED), (9, Outcome.ALREADY_DISPATCHED), (1, Outcome.NOT_FOUND)):
        clock.advance(timedelta(minutes=minutes))
        with delaymq.testing.open_store(folder, clock=clock) as store:
            if minutes == 0:
                store.publish("a", b"", key="k", delay=5)
                clock.advance(timedelta(seconds=5))
            assert store.cancel_key("a", "k") is outcome
            is_known = outcome is Outcome.ALREADY_DISPATCHED
            assert store.look_up_key("a", "k").fate is (Fate.DISPATCHED if is_known else Fate.NOT_FOUND)
    assert _core.verify(str(folder))["problems"] == []


def test_no_more_dispatched_keys_are_known_than_there_may_be_keys(face: Face, folder: Path) -> None:
    store = face.call(lambda: face.opening(folder / "few", keys_max=2))
    for key in "abc":
        face.call(partial(store.publish, "a", b"", delay=0, key=key))
    outcomes = face.call(lambda: store.cancel_keys("a", ["a", "b", "c", "d"]))
    late, none = Outcome.ALREADY_DISPATCHED, Outcome.NOT_FOUND
    assert outcomes == [none, late, late, none]
    face.call(store.close)


def test_a_repetition_has_the_first_receipt_and_is_stored_once(face: Face) -> None:
    first = published(face, message_id="m", deduplicate=True)
    assert published(face, message_id="m", deduplicate=True, delay=2 * HOUR) == first
    assert published(face, message_id="m") != first  # who does not ask for it is not judged by it
    other = face.call(lambda: face.store.publish("elsewhere", b"", delay=HOUR, message_id="m", deduplicate=True))
    assert other != first
    batch = [
        Publish("consumed", b"1", delay=HOUR, message_id="m", deduplicate=True),
        Publish("consumed", b"2", delay=HOUR, message_id="n", deduplicate=True, key="k"),
        Publish("elsewhere", b"3", delay=HOUR),
    ]
    receipts = list(face.call(lambda: face.store.publish_many(batch)))
    assert receipts[0] == first
    assert list(face.call(lambda: face.store.publish_many(batch[:2]))) == receipts[:2]
    assert pending(face) == 5
    unnamed = [published(face, deduplicate=True) for _ in range(2)]
    assert unnamed[0] != unnamed[1]
    assert face.call(lambda: face.store.cancel(first)) is Outcome.DONE
    assert published(face, message_id="m", deduplicate=True) == first


def test_a_batch_with_a_taken_key_is_not_stored(face: Face) -> None:
    published(face, key="k")
    batch = [Publish("consumed", b"", delay=HOUR), Publish("consumed", b"", delay=HOUR, key="k")]
    with pytest.raises(KeyTaken) as taken:
        face.call(lambda: face.store.publish_many(batch))
    assert taken.value.index == 1
    assert pending(face) == 1


@pytest.mark.parametrize(
    ("how", "kind", "argument"),
    [
        ({"key": 17}, WrongType, "key"),
        ({"key": b"17"}, WrongType, "key"),
        ({"key": ""}, InvalidArgument, "key"),
        ({"key": "a b"}, InvalidArgument, "key"),
        ({"key": "\ud800"}, InvalidArgument, "key"),
        ({"key": "x" * 101}, InvalidArgument, "key"),
        ({"if_exists": "replace"}, InvalidArgument, "if_exists"),
        ({"key": "k", "if_exists": "Replace"}, InvalidArgument, "if_exists"),
        ({"key": "k", "if_exists": 1}, WrongType, "if_exists"),
        ({"deduplicate": 1}, WrongType, "deduplicate"),
        ({"deduplicate": True, "message_id": ""}, InvalidArgument, "message_id"),
    ],
)
def test_what_is_refused_stores_nothing(face: Face, how: Any, kind: type[delaymq.DelaymqError], argument: str) -> None:
    with pytest.raises(kind) as refused:
        published(face, **how)
    found: Any = refused.value
    assert (found.argument, found.index) == (argument, None)
    with pytest.raises(kind) as refused:
        face.call(lambda: face.store.publish_many([Publish("a", b""), Publish("a", b"", delay=HOUR, **how)]))
    found = refused.value
    assert (found.argument, found.index) == (argument, 1)
    assert pending(face) == 0


def test_what_is_refused_by_key_changes_nothing(face: Face) -> None:
    receipt = published(face, key="k")
    for call, kind, argument in [
        (lambda: face.store.cancel_key("consumed", "a/b"), InvalidArgument, "key"),
        (lambda: face.store.cancel_key("", "k"), InvalidArgument, "subject"),
        (lambda: face.store.cancel_key("consumed", 5), WrongType, "key"),
        (lambda: face.store.look_up_key(None, "k"), WrongType, "subject"),
        (lambda: face.store.move_key("consumed", "k"), InvalidArgument, "delay"),
        (lambda: face.store.move_key("consumed", "k", delay=-1), InvalidArgument, "delay"),
        (lambda: face.store.move_key("consumed", "k", at=FAR.replace(year=2500)), InvalidArgument, "at"),
        (lambda: face.store.move_key("consumed", "k", delay=timedelta(days=36_500)), InvalidArgument, "delay"),
    ]:
        with pytest.raises(kind) as refused:
            face.call(call)
        found: Any = refused.value
        assert found.argument == argument
    assert of_key(face).receipt == receipt


def test_where_there_is_no_room_for_a_name_nothing_is_stored(face: Face, folder: Path) -> None:
    ids = 3 if face.is_remote else 1  # a client gives an id to what has a key: here two
    store = face.call(lambda: face.opening(folder / "few", keys_max=1, message_ids_max=ids))

    def put(how: Any) -> Receipt:
        receipt: Receipt = face.call(lambda: store.publish("a", b"", delay=HOUR, **how))
        return receipt

    cases: Any = [
        ({"key": "k"}, {"key": "l"}, "key", 1),
        ({"message_id": "m", "deduplicate": True}, {"message_id": "n", "deduplicate": True}, "message_id", ids),
    ]
    for how, other, argument, limit in cases:
        first = put(how)
        with pytest.raises(NamesFull) as full:
            put(other)
        found: Any = full.value
        assert (found.argument, found.limit) == (argument, limit)
        assert put({**how, "if_exists": "keep"} if "key" in how else how) == first
    assert face.call(store.status).pending == 2
    face.call(store.close)


def test_a_command_that_comes_again_under_its_id_is_answered_as_the_first_time(face: Face) -> None:
    def move(**how: Any) -> Moved:
        found: Moved = face.call(lambda: face.store.move_key("consumed", "k", **how))
        return found

    def cancel(**how: Any) -> Outcome:
        found: Outcome = face.call(lambda: face.store.cancel_key("consumed", "k", **how))
        return found

    nothing = Moved(Outcome.NOT_FOUND, None)
    assert move(delay=HOUR, command_id="early") == nothing
    assert cancel(command_id="early") is Outcome.NOT_FOUND
    published(face, key="k")
    assert move(delay=HOUR, command_id="early") == nothing
    assert cancel(command_id="early") is Outcome.NOT_FOUND
    first = move(delay=2 * HOUR, command_id="one")
    assert first.outcome is Outcome.DONE
    assert move(delay=2 * HOUR, command_id="one") == first
    second = move(delay=2 * HOUR, command_id="two")
    assert second.outcome is Outcome.DONE
    assert second != first
    assert move(delay=2 * HOUR, command_id="one") == first, "whatever became of the message since"
    third = move(at=FAR, command_id="one")
    assert third not in (first, second, nothing), "it asks for something else"
    assert cancel(command_id="one") is Outcome.DONE
    newer = published(face, key="k")
    assert cancel(command_id="one") is Outcome.DONE
    assert move(at=FAR, command_id="one") == third
    assert fate(face, newer) is Fate.PENDING
    assert cancel(command_id="two") is Outcome.DONE
    assert fate(face, newer) is Fate.CANCELLED
    with pytest.raises(InvalidArgument) as refused:
        cancel(command_id="a b")
    assert refused.value.argument == "command_id"
    with pytest.raises(WrongType):
        move(delay=HOUR, command_id=5)


def test_commands_by_key_are_remembered_over_a_restart(folder: Path) -> None:
    with delaymq.open(folder, durability="os") as store:
        store.publish("a", b"", delay=HOUR, key="k")
        moved = store.move_key("a", "k", delay=HOUR, command_id="one")
    for _ in range(2):
        with delaymq.open(folder, durability="os") as store:
            assert store.move_key("a", "k", delay=HOUR, command_id="one") == moved
            assert store.look_up_key("a", "k").receipt == moved.receipt
    assert _core.verify(str(folder))["problems"] == []


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_command_by_key_is_forgotten_as_an_id_is(folder: Path, is_forgotten: bool) -> None:
    clock = delaymq.testing.Clock(FAR - 100 * HOUR)
    with delaymq.testing.open_store(folder, clock=clock) as store:
        store.publish("a", b"", delay=9 * HOUR, key="k")
        first = store.move_key("a", "k", delay=9 * HOUR, command_id="one")
        clock.advance(timedelta(minutes=10 if is_forgotten else 9, seconds=59))
        assert (store.move_key("a", "k", delay=9 * HOUR, command_id="one") == first) is not is_forgotten


@pytest.mark.parametrize("face", Face.REMOTE, indirect=True)
def test_a_client_goes_on_without_ids_where_no_more_are_remembered(face: Face, folder: Path) -> None:
    store = face.call(lambda: face.opening(folder / "full", message_ids_max=1))
    face.call(lambda: store.publish("a", b"", delay=HOUR, message_id="m", deduplicate=True))
    how: Any = {"delay": HOUR, "key": "k", "if_exists": "replace"}
    for publish in (
        lambda: store.publish("a", b"", **how),
        lambda: store.publish_many([Publish("a", b"", **how)]),
    ):
        published = face.call(publish)
        receipt = published if isinstance(published, Receipt) else published[0]
        assert face.call(lambda: store.look_up_key("a", "k")).receipt == receipt
    assert face.call(lambda: store.move_key("a", "k", delay=HOUR)).outcome is Outcome.DONE
    for call in (
        lambda: store.move_key("a", "k", delay=HOUR, command_id="mine"),
        lambda: store.cancel_key("a", "k", command_id="mine"),
        lambda: store.publish("a", b"", key="k", if_exists="replace", message_id="mine", deduplicate=True),
    ):
        with pytest.raises(NamesFull):
            face.call(call)
    assert face.call(lambda: store.cancel_key("a", "k")) is Outcome.DONE
    face.call(store.close)


def test_a_batch_whose_keys_make_its_frame_too_large_is_refused_and_nothing_else(face: Face) -> None:
    batch = [Publish("a", b"x" * 780, delay=HOUR, key=f"{number:090}") for number in range(10_000)]
    with pytest.raises(TooLarge) as large:
        face.call(lambda: face.store.publish_many(batch))
    assert large.value.argument == ("frame" if face.is_remote else "messages")  # a store with so small segments
    published(face)
    assert pending(face) == 1


@pytest.mark.parametrize("how", [{}, {"key": "k", "if_exists": "replace"}, {"deduplicate": True}])
def test_what_is_published_at_once_is_stored_in_the_order_in_which_it_was_sent(folder: Path, how: Any) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            for _ in range(60):
                numbers = await asyncio.gather(*(store.publish("a", b"", delay=HOUR, **how) for _ in range(12)))
                sequences = [receipt.sequence for receipt in numbers]
                assert sequences == sorted(sequences)
                if "key" in how:
                    assert (await store.look_up_key("a", "k")).receipt == numbers[-1]

    asyncio.run(main())


@pytest.mark.usefixtures("over_tcp")
def test_thousands_of_publishes_on_terms_wait_for_each_other_and_none_is_refused(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            publishes = (store.publish("a", b"", delay=HOUR, deduplicate=True) for _ in range(3_000))
            assert len(set(await asyncio.gather(*publishes))) == 3_000
            assert (await store.status()).pending == 3_000

    asyncio.run(main())


@pytest.mark.parametrize("span", [0, 0.01, 59, timedelta(seconds=59)])
def test_ids_are_remembered_for_longer_than_clients_publish_again(folder: Path, span: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        delaymq.open(folder, deduplicate_for=span)
    assert refused.value.argument == "deduplicate_for"
    assert not folder.exists() or not any(folder.iterdir())


def test_keys_and_ids_survive_a_restart_and_checkpoints(folder: Path) -> None:
    def put(store: delaymq.Store, **how: Any) -> Receipt:
        return store.publish("a", b"", delay=HOUR, **how)

    with delaymq.open(folder) as store:
        keyed, named = put(store, key="k"), put(store, message_id="m", deduplicate=True)
    for _ in range(2):
        with delaymq.open(folder) as store:
            assert store.look_up_key("a", "k").receipt == keyed
            assert put(store, message_id="m", deduplicate=True) == named
            assert put(store, key="k", if_exists="keep") == keyed
            store.checkpoint()
            assert store.status().pending == 2


def test_many_coroutines_leave_one_message(folder: Path) -> None:
    async def main() -> None:
        async with opened_async(folder) as store:
            how: Any = {"delay": HOUR, "key": "k", "if_exists": "replace"}
            receipts = await asyncio.gather(*(store.publish("a", b"", **how) for _ in range(50)))
            assert len(set(receipts)) == 50
            assert (await store.status()).pending == 1
            how = {"delay": HOUR, "message_id": "m", "deduplicate": True}
            receipts = await asyncio.gather(*(store.publish("a", b"", **how) for _ in range(50)))
            assert len(set(receipts)) == 1

    asyncio.run(main())
