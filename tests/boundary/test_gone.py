"""Receipts whose message is gone with its files, on every face: not found, and nothing is changed by who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from delaymq import Fate, Moved, Outcome, Receipt, _core
from delaymq.testing import Clock
from faces import Face

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ROUNDS = 200
FIRST = "log/0000000001.segment"


class Kept:
    """A store of small files on a clock that is turned, of the face that a test is about."""

    def __init__(self, face: Face, folder: Path, keep_finished: timedelta) -> None:
        self.face, self.folder, self.clock = face, folder, Clock()
        self.options: Any = {"segment_bytes": 1 << 16, "keep_finished": keep_finished, "clock": self.clock}
        self.store = face.call(lambda: face.opening(folder, **self.options))

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self.face.call(lambda: getattr(self.store, method)(*arguments, **named))

    def publish(self, subject: str, delay: timedelta, count: int = 20, body: bytes = b"x" * 800) -> list[Receipt]:
        return list(self.call("publish_many", subject, [body] * count, delay))

    def checkpoint(self) -> None:
        if self.face.is_remote:
            self.face.served[-1].store.checkpoint()
        else:
            self.call("checkpoint")

    def take_all(self, subject: str, count: int) -> None:
        """Takes what is ready and has it acknowledged."""
        messages = self.call("subscribe", subject, group="g")
        for _ in range(count):
            message = self.face.call(lambda: messages.get(10))
            self.face.call(message.ack)
        self.face.call(lambda: messages.flush(10))
        self.face.call(messages.close)

    def turn(self) -> None:
        """Something comes and is finished, and is frozen."""
        self.call("cancel_many", self.publish("noise", HOUR))
        self.checkpoint()

    def files(self) -> set[str]:
        """Runs and segments, but for the first, which is empty and stays."""
        found = (path for kind in ("log", "runs") for path in (self.folder / kind).iterdir())
        return {str(path.relative_to(self.folder)) for path in found} - {FIRST}

    def until_gone(self, files: set[str], each: timedelta = timedelta(0)) -> None:
        """Goes on, and lets time pass, until none of these files is there."""
        for _ in range(ROUNDS):
            if not files & self.files():
                return
            self.clock.advance(each)
            self.turn()
        raise AssertionError(f"still there: {files & self.files()}")

    def standing(self) -> Any:
        status = self.call("status")
        return status.pending, status.ready, self.call("pending_counts"), self.call("forecast")

    def asked(self, receipts: list[Receipt]) -> tuple[list[Outcome], list[Moved], list[Fate]]:
        """What is answered to each command about these, in turns, singly and together."""
        singly = [(self.call("cancel", one), self.call("move", one, delay=2 * DAY)) for one in receipts]
        cancelled, moved = self.call("cancel_many", receipts), self.call("move_many", receipts, delay=2 * DAY)
        found = self.call("look_up_many", receipts)
        assert singly == list(zip(cancelled, moved, strict=True))
        assert [self.call("look_up", one) for one in receipts] == found
        return cancelled, moved, [one.fate for one in found]

    def open_again(self) -> None:
        self.close()
        self.store = self.face.call(lambda: self.face.opening(self.folder, **self.options))

    def close(self) -> None:
        self.call("close")
        if self.face.is_remote:
            self.face.served.pop().close()
        assert _core.verify(str(self.folder))["problems"] == []


@pytest.fixture
def kept(face: Face, tmp_path: Path) -> Iterator[Callable[[timedelta], Kept]]:
    """Opens a store that keeps what is finished for so long."""
    opened: list[Kept] = []

    def open_one(keep_finished: timedelta) -> Kept:
        opened.append(Kept(face, tmp_path / "kept", keep_finished))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_what_is_gone_with_its_segment_or_run_is_not_found_and_nothing_changes(
    kept: Callable[[timedelta], Kept],
) -> None:
    store = kept(timedelta(0))
    near, far, away, now = (store.publish("gone", delay) for delay in (timedelta(seconds=300), DAY, DAY, timedelta(0)))
    store.checkpoint()  # what is due in a day has its payload in a run
    moved = [one.receipt for one in store.call("move_many", away, delay=3 * DAY)]
    store.checkpoint()
    store.call("cancel_many", [*near, *far, *moved])
    store.take_all("gone", len(now))
    store.until_gone(store.files())
    [waits] = store.publish("waits", DAY, 1)
    everything, standing = [*near, *far, *away, *moved, *now], store.standing()
    for _ in range(2):
        cancelled, outcomes, fates = store.asked(everything)
        assert set(cancelled) == {Outcome.NOT_FOUND}
        assert set(outcomes) == {Moved(Outcome.NOT_FOUND, None)}
        assert set(fates) == {Fate.NOT_FOUND}
        assert store.standing() == standing
        assert store.call("look_up", waits).fate is Fate.PENDING
        store.open_again()
    # One that is there among them is judged alone.
    assert store.call("cancel_many", [far[0], waits, now[0]]) == [Outcome.NOT_FOUND, Outcome.DONE, Outcome.NOT_FOUND]


def test_a_cancel_that_comes_again_is_answered_the_same_while_its_log_is_kept(
    kept: Callable[[timedelta], Kept],
) -> None:
    store = kept(HOUR)
    receipts = store.publish("a", DAY)
    assert set(store.call("cancel_many", receipts)) == {Outcome.DONE}
    for _ in range(30):  # what became of messages is forgotten in pages of 8,192 facts
        store.call("cancel_many", store.publish("noise", HOUR, 300, b""))
    for minutes in (0, 30, 29):
        store.clock.advance(timedelta(minutes=minutes))
        for _ in range(5):
            store.turn()
        store.open_again()
        assert set(store.call("cancel_many", receipts)) == {Outcome.DONE}
        assert store.call("look_up", receipts[0]).fate is Fate.CANCELLED
    store.until_gone(store.files(), timedelta(minutes=5))
    assert set(store.call("cancel_many", receipts)) == {Outcome.NOT_FOUND}


def test_a_cancel_that_comes_again_is_answered_the_same_while_one_that_came_with_it_waits(
    kept: Callable[[timedelta], Kept],
) -> None:
    """Though nothing that is finished is kept, and its log is gone."""
    store = kept(timedelta(0))
    first, *others = store.publish("a", 3 * DAY)
    assert store.call("cancel", first) is Outcome.DONE
    store.until_gone({name for name in store.files() if name.startswith("log")})
    assert store.call("cancel", first) is Outcome.DONE
    assert store.call("move", first, delay=HOUR) == Moved(Outcome.NOT_FOUND, None)
    assert set(store.call("cancel_many", others)) == {Outcome.DONE}
    store.until_gone(store.files())
    assert set(store.call("cancel_many", [first, *others])) == {Outcome.NOT_FOUND}
