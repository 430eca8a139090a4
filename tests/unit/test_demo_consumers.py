"""The demo's consumers tell of nothing that is in doubt, and let go of what a lost connection had delivered."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from crafting import wait_until
from delaymq.demo.consumers import Consumers
from delaymq.demo.frames import Frame, FrameReader, FrameWriter, Kind
from delaymq.demo.plan import Plan
from delaymq.demo.worker import start_threads
from delaymq.errors import AmbiguousError

PLAN = Plan(20, 1, 1000, 3)


@dataclass
class Delivered:
    body: bytes
    subject: str = "demo.000"
    due: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    redelivered: bool = False


@dataclass
class PlayedQueue:
    """A store with one subscription, whose messages and doubts a test makes."""

    coming: list[list[Delivered]] = field(default_factory=list)
    acknowledged: list[bytes] = field(default_factory=list)
    is_doubtful: bool = False

    def subscribe(self, *_names: str, **_options: Any) -> PlayedQueue:
        return self

    def batches(self, _most: int, *, wait: float) -> Iterator[list[Delivered]]:
        while True:
            if not self.coming:
                threading.Event().wait(wait / 100)
            yield self.coming.pop(0) if self.coming else []

    def ack(self, messages: Sequence[Delivered]) -> None:
        self.acknowledged += [message.body for message in messages]

    def flush(self) -> None:
        if self.is_doubtful:
            self.is_doubtful = False
            raise AmbiguousError("nobody knows")

    def close(self) -> None:
        self.coming.clear()


class Played:
    """Consumers of a played store, and what they tell."""

    def __init__(self, *, hold: int) -> None:
        self.queue = PlayedQueue()
        self.losses = 0
        self._ours, self._theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._reader = FrameReader()
        self._told: list[Frame] = []
        self.consumers = Consumers(
            cast("Any", self.queue),
            PLAN,
            FrameWriter(self._theirs),
            range(1),
            in_flight_max=8,
            hold=lambda: hold,
            losses=lambda: self.losses,
        )
        consume, _flush = self.consumers.work()
        self._threads = start_threads([consume], FrameWriter(self._theirs))

    def deliver(self, *numbers: int) -> None:
        self.queue.coming.append([Delivered(PLAN.body(number)) for number in numbers])

    def told(self, kind: Kind) -> list[Frame]:
        with contextlib.suppress(BlockingIOError):
            self._told += self._reader.feed(os.read(self._ours, 65536))
        return [frame for frame in self._told if frame.kind is kind]

    def end(self) -> None:
        self.consumers.stop()
        for thread in self._threads:
            thread.join()
        self.consumers.close()
        assert self.told(Kind.FAILED) == []
        os.close(self._ours)
        os.close(self._theirs)


def test_what_is_durable_is_told_and_what_is_held_is_not_acknowledged() -> None:
    played = Played(hold=1)
    played.deliver(1, 2, 3)
    wait_until(lambda: len(played.queue.acknowledged) == 2)
    played.consumers.flush_once()
    [frame] = played.told(Kind.ACKED)
    assert list(frame.numbers()) == [1, 2]
    played.end()


def test_what_is_in_doubt_is_forgotten() -> None:
    played = Played(hold=0)
    played.deliver(1, 2)
    wait_until(lambda: len(played.queue.acknowledged) == 2)
    played.queue.is_doubtful = True
    played.consumers.flush_once()
    played.consumers.flush_once(always_flush=True)
    assert played.told(Kind.ACKED) == []
    played.deliver(3)
    wait_until(lambda: len(played.queue.acknowledged) == 3)
    played.consumers.flush_once()
    [frame] = played.told(Kind.ACKED)
    assert list(frame.numbers()) == [3]
    played.end()


def test_what_a_lost_connection_had_delivered_is_acknowledged_no_more() -> None:
    played = Played(hold=2)
    played.deliver(1, 2)
    wait_until(lambda: len(played.told(Kind.DELIVERED)) == 1)
    assert not played.consumers.have_seen(1)
    played.losses = 1
    wait_until(lambda: played.consumers.have_seen(1))
    played.deliver(3, 4, 5)
    wait_until(lambda: len(played.queue.acknowledged) == 1)
    assert played.queue.acknowledged == [PLAN.body(3)]
    played.end()
