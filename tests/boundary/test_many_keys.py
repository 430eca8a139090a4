"""Many messages cancelled and moved by their keys, in every face: one call, one wait, an answer for each key."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from boundary.remote import Remote
from delaymq import (
    Fate,
    InvalidArgument,
    Moved,
    NamesFull,
    Outcome,
    Publish,
    Receipt,
    StoreError,
    WrongType,
)
from delaymq.client.commands import carrying
from faces import Face, Served
from proxies import CANCEL_KEYS, HEAD, HELLO, MOVE_KEYS, Relay, answer, frame, frames, hello_answer, played

FAR = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DONE, NONE, LATE = Outcome.DONE, Outcome.NOT_FOUND, Outcome.ALREADY_DISPATCHED
NOTHING = Moved(NONE, None)


def published(face: Face, *keys: str) -> list[Receipt]:
    rows = [Publish("consumed", key.encode(), delay=HOUR, key=key, if_exists="replace") for key in keys]
    return list(face.call(lambda: face.store.publish_many(rows)))


def fates(face: Face, receipts: list[Receipt]) -> list[Fate]:
    return [one.fate for one in face.call(lambda: face.store.look_up_many(receipts))]


def cancel(face: Face, *keys: str, **how: Any) -> list[Outcome]:
    found: list[Outcome] = face.call(lambda: face.store.cancel_keys("consumed", keys, **how))
    return found


def move(face: Face, *keys: str, **how: Any) -> list[Moved]:
    found: list[Moved] = face.call(lambda: face.store.move_keys("consumed", keys, **how))
    return found


def test_each_key_is_answered_in_its_order_and_one_that_is_named_twice_is_asked_once(face: Face) -> None:
    receipts = published(face, "a", "b", "c")
    assert cancel(face, "b", "gone", "b") == [DONE, NONE, DONE]
    assert cancel(face, "b") == [NONE]
    moved = move(face, "c", "b", "a", "c", at=FAR)
    assert [one.outcome for one in moved] == [DONE, NONE, DONE, DONE]
    assert moved[0] == moved[3] != moved[2]
    assert {one.receipt.due for one in moved if one.receipt} == {FAR}
    assert fates(face, receipts) == [Fate.NOT_FOUND, Fate.CANCELLED, Fate.NOT_FOUND]
    assert face.call(lambda: face.store.look_up_key("consumed", "a")).receipt == moved[2].receipt
    assert face.call(lambda: face.store.cancel_keys("consumed", iter(["a"]))) == [DONE]
    assert face.call(lambda: face.store.cancel_keys("elsewhere", ["c"])) == [NONE]
    assert (cancel(face), move(face, delay=5), move(face, at=[])) == ([], [], [])
    assert face.call(face.store.status).pending == 1


def test_each_key_may_have_a_time_of_its_own_and_what_is_due_now_is_delivered(face: Face) -> None:
    published(face, "a", "b", "c")
    moved = move(face, "a", "b", "c", delay=[7200, 0, 2 * HOUR])
    assert [one.outcome for one in moved] == [DONE] * 3
    assert face.call(lambda: face.messages.get(5)).body == b"b"
    assert move(face, "a", "b", at=[FAR, FAR])[1] == Moved(LATE, None), "it is dispatched"
    assert cancel(face, "a", "b", "c", "d") == [DONE, LATE, DONE, NONE]


def test_the_same_keys_under_the_same_id_are_answered_as_the_first_time(face: Face) -> None:
    published(face, "a", "b")
    moved = move(face, "a", "gone", "b", delay=HOUR, command_id="one")
    assert [one.outcome for one in moved] == [DONE, NONE, DONE]
    assert cancel(face, "b", "gone", "b", command_id="one") == [DONE, NONE, DONE]
    newer = published(face, "b", "gone")
    for _ in range(2):
        assert move(face, "a", "gone", "b", delay=HOUR, command_id="one") == moved
        assert cancel(face, "b", "gone", "b", command_id="one") == [DONE, NONE, DONE]
    assert face.call(lambda: face.store.cancel_key("consumed", "b", command_id="one")) is DONE, "as one of many"
    assert fates(face, newer) == [Fate.PENDING] * 2
    assert cancel(face, "a", "b", command_id="one") == [DONE, DONE], "of one of them it is known"
    assert fates(face, newer) == [Fate.PENDING] * 2
    assert face.call(lambda: face.store.look_up_key("consumed", "a")).receipt is None
    assert cancel(face, "b", "gone", command_id="two") == [DONE, DONE]


@pytest.mark.parametrize(
    ("keys", "how", "argument", "index"),
    [
        (["a", "b/c"], {}, "key", 1),
        (["a", ""], {}, "key", 1),
        (["a", "b", "x" * 101], {}, "key", 2),
        (["a", "\ud800"], {}, "key", 1),
        (["a", "a", "b", 5], {}, "key", 3),
        (["a", "a", "b", "b c"], {}, "key", 3),
        ("ab", {}, "keys", None),
        (7, {}, "keys", None),
        (["a"], {"command_id": ""}, "command_id", None),
        (["a"], {"command_id": 5}, "command_id", None),
    ],
)
def test_what_is_refused_of_many_is_named_and_nothing_is_done(
    face: Face, keys: Any, how: Any, argument: str, index: int | None
) -> None:
    receipts = published(face, "a", "b")
    for call in (
        lambda: face.store.cancel_keys("consumed", keys, **how),
        lambda: face.store.move_keys("consumed", keys, delay=5, **how),
    ):
        with pytest.raises((InvalidArgument, WrongType)) as refused:
            face.call(call)
        assert (refused.value.argument, refused.value.index) == (argument, index)
    assert fates(face, receipts) == [Fate.PENDING] * 2


@pytest.mark.parametrize(
    ("keys", "how", "argument", "index"),
    [
        (["a", "b"], {}, "delay", None),
        (["a"], {"delay": 1, "at": FAR}, "at", None),
        (["a", "b"], {"delay": [1]}, "delay", None),
        (["a", "b"], {"delay": [1, -1]}, "delay", 1),
        (["a", "b"], {"at": [FAR, FAR.replace(year=2500)]}, "at", 1),
        (["a", "a", "b"], {"at": [FAR, FAR, FAR.replace(year=2500)]}, "at", 2),
        (["a", "b"], {"delay": timedelta(days=36_500)}, "delay", 0),
        (["a", "b", "a"], {"delay": [1, 1, 2]}, "key", 2),
    ],
)
def test_times_that_are_refused_move_nothing(face: Face, keys: Any, how: Any, argument: str, index: int | None) -> None:
    receipts = published(face, "a", "b")
    with pytest.raises(InvalidArgument) as refused:
        move(face, *keys, **how)
    assert (refused.value.argument, refused.value.index) == (argument, index)
    with pytest.raises(InvalidArgument) as refused:
        face.call(lambda: face.store.move_keys("", [], delay=5))
    assert refused.value.argument == "subject"
    assert fates(face, receipts) == [Fate.PENDING] * 2


def test_where_there_is_no_room_for_all_ids_none_is_cancelled(face: Face, folder: Path) -> None:
    store = face.call(lambda: face.opening(folder / "few", message_ids_max=4))
    rows = [Publish("a", b"", delay=HOUR, key=key, message_id=key) for key in "abcd"]
    face.call(lambda: store.publish_many(rows))
    for _ in range(2):
        assert face.call(lambda: store.cancel_keys("a", ["a", "b"], command_id="mine")) == [DONE] * 2
        with pytest.raises(NamesFull) as full:
            face.call(lambda: store.cancel_keys("a", ["a", "b", "c", "d"], command_id="mine"))
        assert (full.value.argument, full.value.limit) == ("command_id", 3)
        with pytest.raises(NamesFull):
            face.call(lambda: store.move_keys("a", ["c", "d"], delay=HOUR, command_id="mine"))
    assert face.call(store.status).pending == 2
    assert face.call(lambda: store.move_keys("a", ["a", "c"], delay=HOUR))[1].outcome is DONE
    # A client that gives the ids itself goes on without.
    assert face.call(lambda: store.cancel_keys("a", ["a", "c", "d"])) == [NONE, DONE, DONE]
    face.call(store.close)


@pytest.mark.parametrize("face", Face.REMOTE, indirect=True)
def test_more_keys_than_one_request_takes_are_asked_in_several(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "COMMANDS_MAX", 4)
    keys = [f"k{number}" for number in range(9)]
    receipts = published(face, *keys)
    asked = [*keys, "k0", "gone", "k8", "gone"]
    moved = move(face, *asked, at=FAR)
    assert [one.outcome for one in moved] == [DONE] * 10 + [NONE, DONE, NONE]
    assert (moved[0], moved[8]) == (moved[9], moved[11])
    moved = move(face, *asked, at=FAR, command_id="one")
    assert [one.outcome for one in moved] == [DONE] * 10 + [NONE, DONE, NONE]
    assert move(face, *asked, at=FAR, command_id="one") == moved
    assert fates(face, receipts) == [Fate.NOT_FOUND] * 9
    calls: list[tuple[Callable[[], object], int]] = [
        (lambda: move(face, *asked, "a/b", at=FAR), 13),
        (lambda: move(face, "k0", *asked, at=[FAR] * 4 + [FAR.replace(year=2500)] + [FAR] * 9), 4),
        (lambda: cancel(face, *asked, "k1", ""), 14),
    ]
    for call, index in calls:
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert refused.value.index == index
    for key, one in zip(keys, moved, strict=False):
        assert face.call(partial(face.store.look_up_key, "consumed", key)).receipt == one.receipt
    assert cancel(face, *asked) == [DONE] * 10 + [NONE, DONE, NONE]
    assert face.call(face.store.status).pending == 0


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        (CANCEL_KEYS, lambda client: client.cancel_keys("a", ["k", "gone", "l"])),
        (MOVE_KEYS, lambda client: client.move_keys("a", ["k", "gone", "l"], delay=60)),
    ],
)
def test_where_the_answer_is_lost_each_key_is_answered_as_the_first_time(
    remote: Remote, served: Served, relay: Relay, command: int, ask: Callable[[Any], Any]
) -> None:
    """Other messages have the keys by then, and keep them."""
    store = served.store
    for key in ("k", "l"):
        store.publish("a", b"old", delay=3600, key=key)
    first: list[Receipt | None] = []
    newer: list[Receipt] = []

    def meanwhile() -> None:
        for key in ("k", "gone", "l"):
            first.append(store.look_up_key("a", key).receipt)
            newer.append(store.publish("a", b"newer", delay=1800, key=key, if_exists="replace"))

    with remote.connected(relay.url) as client:
        relay.lose_answer_of(command, meanwhile=meanwhile)
        found = remote.call(lambda: ask(client))
    moved = [Moved(DONE, first[0]), NOTHING, Moved(DONE, first[2])]
    assert found == (moved if command == MOVE_KEYS else [DONE, NONE, DONE])
    assert len(relay.bodies(command)) == 2
    assert [store.look_up_key("a", key).receipt for key in ("k", "gone", "l")] == newer


@pytest.mark.parametrize(
    "ask",
    [lambda client: client.cancel_keys("a", ["k", "l"]), lambda client: client.move_keys("a", ["k", "l"], delay=60)],
)
def test_a_server_of_an_earlier_release_is_said_to_be_one(remote: Remote, ask: Callable[[Any], Any]) -> None:
    asked = []

    def of_an_earlier_release(connection: socket.socket, _number: int) -> None:
        for code, opaque, *_ in frames(connection):
            asked.append(code)
            connection.sendall(hello_answer(opaque) if code == HELLO else answer(code, opaque, code=3))

    words = "does not know this command: it is of an earlier release"
    with (
        played(of_an_earlier_release) as url,
        remote.connected(url) as client,
        pytest.raises(StoreError, match=words),
    ):
        remote.call(lambda: ask(client))
    assert len([code for code in asked if code in (CANCEL_KEYS, MOVE_KEYS)]) == 1


def test_what_another_client_may_send_is_refused_by_name_and_changes_nothing(served: Served) -> None:
    """A client that is not ours: keys that are none, one with two times, more of them than a request may have."""
    served.store.publish("a", b"", delay=3600, key="k")

    def text(word: str) -> bytes:
        return struct.pack(">H", len(word)) + word.encode()

    def moves(*rows: tuple[int, str]) -> bytes:
        body = b"".join(struct.pack(">BQ", 0, delay_ms) + text(key) for delay_ms, key in rows)
        return text("a") + struct.pack(">I", len(rows)) + body

    host, port = served.url.removeprefix("delaymq://").split(":")
    with socket.create_connection((host, int(port)), 20) as connection:
        for opaque, (command, body, code) in enumerate(
            [
                (CANCEL_KEYS, text("a") + struct.pack(">I", 2) + text("k") + text("a b"), 1001),
                (CANCEL_KEYS, text("") + struct.pack(">I", 1) + text("k"), 1001),
                (CANCEL_KEYS, text("a") + struct.pack(">I", 1) + text("k") + text("a b"), 1001),
                (CANCEL_KEYS, text("a") + struct.pack(">I", 10_001), 1020),
                (CANCEL_KEYS, text("a") + struct.pack(">I", 2) + text("k"), 1020),
                (MOVE_KEYS, moves((1, "k"), (2, "k")), 1001),
                (MOVE_KEYS, moves((1, "k"), (1 << 60, "l")), 1001),
                (MOVE_KEYS, moves((1, "k")) + b"\0", 1020),
                (CANCEL_KEYS, text("a") + struct.pack(">I", 0), 0),
            ]
        ):
            connection.sendall(frame(command, body, opaque=opaque + 1))
            _, _, of, whole = next(frames(connection))
            assert (of, HEAD.unpack_from(whole)[3]) == (command, code), opaque
    assert served.store.look_up_key("a", "k").fate is Fate.PENDING
