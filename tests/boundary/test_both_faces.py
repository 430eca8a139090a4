"""All faces under the same operations, reopened and killed with -9 in between, against one model.

What was answered holds: an acknowledgement that was flushed, a cancel, a publish. What was not may
come a second time, marked; nothing is lost and nothing comes early.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from boundary.face_child import IN_FLIGHT_MAX
from commanding import uncounted

CHILD = Path(__file__).with_name("face_child.py")
TESTS = CHILD.parents[1]
DELAYS_MS = st.sampled_from([0, 0, 1, 5, 20, 3_600_000])
WHICH = st.sampled_from([0, 0, 1])


class Child:
    """A process with a store of one face."""

    def __init__(self, face: str, folder: str) -> None:
        command = [sys.executable, str(CHILD), face, folder]
        # There are hundreds of them, and most are killed.
        environment = {**uncounted(), "PYTHONPATH": str(TESTS)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._answer() == "ready"

    def __call__(self, *order: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(20)


class Model:
    """What must be true of one store."""

    def __init__(self, face: str, folder: str) -> None:
        self.face, self.folder = face, folder
        self.child = Child(face, folder)
        self.published_with: dict[str, str] = {}  # what a message says, also where it was moved
        self.receipts: dict[str, str] = {}
        self.tags: dict[str, list[str]] = {}
        self.far: set[str] = set()
        self.cancelled: set[str] = set()
        self.held: dict[str, int] = {}  # and which subscription handed it over
        self.subscriptions = 1
        self.dead: set[str] = set()
        self.redriven: set[str] = set()
        self.acknowledged: set[str] = set()
        self.unsure: set[str] = set()  # acknowledged before a crash: durable or not, nobody knows
        self.finished: set[str] = set()
        self.seen: dict[str, int] = {}
        self.excused: set[str] = set()  # may come again: given back, in flight at an end, or not flushed

    def publish(self, bodies: list[str], delay_ms: int, tag: str | None) -> None:
        if tag is None:
            receipts = self.child("publish_many", bodies, delay_ms)
        else:
            receipts = [self.child("publish", bodies[0], delay_ms, tag)]
        self.published_with.update(zip(bodies, receipts, strict=True))
        self.receipts.update(zip(bodies, receipts, strict=True))
        self.tags.update((body, [] if tag is None else [tag]) for body in bodies)
        if delay_ms > 1000:
            self.far.update(bodies)

    def cancel(self, body: str) -> None:
        self.cancelled_with(body, self.child("cancel", self.receipts[body]))

    def move(self, body: str, delay_ms: int) -> None:
        outcome, receipt = self.child("move", self.receipts[body], delay_ms)
        if body in self.far - self.cancelled:
            assert outcome == "done"
        if outcome == "done":
            assert body not in self.seen.keys() | self.cancelled
            self.receipts[body] = receipt
            self.far = self.far | {body} if delay_ms > 1000 else self.far - {body}
        elif outcome == "not_found":
            done = self.finished | self.acknowledged | self.unsure | self.dead | self.redriven
            assert body in done | self.cancelled
        else:
            assert outcome == "already_dispatched", outcome
            assert body not in self.cancelled

    def cancel_many(self, bodies: list[str]) -> None:
        outcomes = self.child("cancel_many", [self.receipts[body] for body in bodies])
        for body, outcome in zip(bodies, outcomes, strict=True):
            self.cancelled_with(body, outcome)

    def cancelled_with(self, body: str, outcome: str) -> None:
        if body in self.far:
            assert outcome == "done"
        if outcome == "done":
            assert body not in self.seen
            self.cancelled.add(body)
        elif outcome == "not_found":
            # What is finished may be forgotten at once: it is kept for no time here.
            assert body in self.finished | self.acknowledged | self.unsure | self.dead | self.redriven
        else:
            assert outcome == "already_dispatched", outcome
            assert body not in self.cancelled

    def get(self, timeout: float, which: int = 0) -> str | None:
        found = self.child("get", timeout, which)
        return None if found is None else self.taken(found, which)

    def batch(self, most: int, wait: float, which: int) -> list[str]:
        found = self.child("batch", most, wait, which)
        assert len(found) <= most
        return [self.taken(row, which) for row in found]

    def taken(self, row: list[Any], which: int) -> str:
        body, receipt, attempt, redelivered, tags, early = row
        assert self.published_with[body] == receipt
        assert self.tags[body] == tags
        assert not early
        assert body not in self.cancelled | self.far | self.held.keys() | self.finished | self.dead
        assert body in self.excused or body not in self.seen
        assert redelivered == (attempt > 1)
        assert attempt > 1 or body not in self.seen, "what came before is marked"
        self.seen[body] = attempt
        self.excused.discard(body)
        self.unsure.discard(body)
        self.held[body] = which
        assert len(self.held_by(which)) <= IN_FLIGHT_MAX
        return str(body)

    def held_by(self, which: int) -> list[str]:
        return sorted(body for body, holder in self.held.items() if holder == which)

    def settle(self, body: str, delay_ms: int | None) -> None:
        del self.held[body]
        if delay_ms is None:
            self.child("ack", body)
            self.acknowledged.add(body)
        else:
            self.child("nack", body, delay_ms)
            self.excused.add(body)

    def settle_many(self, how: str, which: int, delay_ms: int) -> None:
        foreign = self.held_by(1 - which)
        bodies = self.held_by(which)
        if foreign:
            assert self.child("settle_many", how, bodies + foreign, which, delay_ms) == "InvalidArgument"
        assert self.child("settle_many", how, bodies, which, delay_ms) is None
        for body in bodies:
            del self.held[body]
        if how == "ack":
            self.acknowledged.update(bodies)
        elif how == "nack":
            self.excused.update(bodies)
        else:
            self.flush()  # or a crash would leave open which of them are dead
            self.dead.update(bodies)

    def redrive(self) -> None:
        assert self.child("redrive") == len(self.dead)
        for body in self.dead:
            del self.seen[body]  # it comes as at the first time
        self.redriven |= self.dead
        self.dead.clear()

    def second(self) -> None:
        """Another subscription of the group, or the end of it."""
        if self.subscriptions == 1:
            self.child("subscribe")
            self.subscriptions = 2
        else:
            self.flush()
            self.child("unsubscribe")
            self.subscriptions = 1
            self.gave_back(1)

    def stop(self) -> None:
        self.flush()
        assert self.child("stop") == [None, None, None]
        self.gave_back(0)

    def gave_back(self, which: int) -> None:
        bodies = self.held_by(which)
        self.excused.update(bodies)
        for body in bodies:
            del self.held[body]

    def flush(self) -> None:
        self.child("flush")
        self.finished |= self.acknowledged
        self.acknowledged.clear()

    def reopen(self) -> None:
        self.child("reopen")
        self.finished |= self.acknowledged
        self.acknowledged.clear()
        self.ended()

    def ended(self) -> None:
        self.excused |= self.held.keys()
        self.held.clear()
        self.subscriptions = 1

    def crash(self) -> None:
        self.child.kill()
        self.excused |= self.acknowledged
        self.unsure |= self.acknowledged
        self.acknowledged.clear()
        self.ended()
        self.child = Child(self.face, self.folder)

    def drain(self) -> None:
        for body in sorted(self.held):
            self.settle(body, None)
        if self.subscriptions == 2:
            self.second()
        assert set(self.child("dead_letters")) == self.dead
        done = self.far | self.cancelled | self.finished | self.acknowledged | self.unsure | self.dead
        owed = self.receipts.keys() - done
        for _ in range(2000):
            if not owed:
                break
            found = self.get(5)
            assert found is not None, f"lost: {sorted(owed)}"
            owed.discard(found)
            self.settle(found, None)
        assert not owed
        self.flush()
        extra = self.get(0.05)
        assert extra is None or extra in self.seen
        self.child.kill()


class BothFaces(RuleBasedStateMachine):
    """The same operations for both, each judged by its own model."""

    FACES: tuple[str, str] = ("plain", "asyncio")

    @initialize()
    def open(self) -> None:
        self.temporary = tempfile.TemporaryDirectory(prefix="delaymq-faces-")
        self.models = [Model(face, f"{self.temporary.name}/{face}") for face in self.FACES]
        self.count = 0

    def bodies(self, count: int) -> list[str]:
        self.count += count
        return [f"body {number}" for number in range(self.count - count, self.count)]

    @rule(delay_ms=DELAYS_MS, tag=st.sampled_from(["x", "β"]))
    def publish(self, delay_ms: int, tag: str) -> None:
        bodies = self.bodies(1)
        for model in self.models:
            model.publish(bodies, delay_ms, tag)

    @rule(count=st.integers(1, 12), delay_ms=DELAYS_MS)
    def publish_many(self, count: int, delay_ms: int) -> None:
        bodies = self.bodies(count)
        for model in self.models:
            model.publish(bodies, delay_ms, None)

    @precondition(lambda self: self.count)
    @rule(at=st.integers(0, 10_000))
    def cancel(self, at: int) -> None:
        for model in self.models:
            model.cancel(f"body {at % self.count}")

    @precondition(lambda self: self.count)
    @rule(at=st.integers(0, 10_000), delay_ms=DELAYS_MS)
    def move(self, at: int, delay_ms: int) -> None:
        for model in self.models:
            model.move(f"body {at % self.count}", delay_ms)

    @rule(timeout=st.sampled_from([0, 0.01]), then=st.sampled_from([None, None, "hold", 0, 3]), which=WHICH)
    def consume(self, timeout: float, then: str | int | None, which: int) -> None:
        for model in self.models:
            body = model.get(timeout, which % model.subscriptions)
            if body is not None and then != "hold":
                model.settle(body, then if isinstance(then, int) else None)

    @precondition(lambda self: self.count)
    @rule(places=st.lists(st.integers(0, 10_000), max_size=5))
    def cancel_many(self, places: list[int]) -> None:
        for model in self.models:
            model.cancel_many(list({f"body {at % self.count}": None for at in places}))

    @rule(most=st.integers(1, 12), which=WHICH)
    def take_a_batch(self, most: int, which: int) -> None:
        for model in self.models:
            model.batch(most, 0.01, which % model.subscriptions)

    @rule(most=st.integers(1, 12), which=WHICH)
    def take_one_and_then_a_batch(self, most: int, which: int) -> None:
        bodies = self.bodies(IN_FLIGHT_MAX + 2)  # more than another subscription may have fetched
        for model in self.models:
            model.publish(bodies, 0, None)
            chosen = which % model.subscriptions
            first = model.get(0.5, chosen)
            if first is not None and len(model.held_by(chosen)) < IN_FLIGHT_MAX:
                assert model.batch(most, 0.5, chosen), "the rest is fetched, or ready"

    @rule(how=st.sampled_from(["ack", "ack", "nack", "dead_letter"]), which=WHICH, delay_ms=st.sampled_from([0, 3]))
    def settle_many(self, how: str, which: int, delay_ms: int) -> None:
        for model in self.models:
            model.settle_many(how, which % model.subscriptions, delay_ms)

    @rule(how=st.sampled_from(["ack", "nack", "dead_letter"]), which=WHICH)
    def settle_what_two_subscriptions_hold(self, how: str, which: int) -> None:
        bodies = self.bodies(2)
        for model in self.models:
            if model.subscriptions == 1:
                model.second()
            for holder, body in enumerate(bodies):
                model.publish([body], 0, None)
                model.get(0.2, holder)
            model.settle_many(how, which, 0)

    @rule()
    def redrive(self) -> None:
        for model in self.models:
            model.redrive()

    @rule()
    def begin_or_end_a_second_subscription(self) -> None:
        for model in self.models:
            model.second()

    @rule(refilled=st.booleans())
    def stop(self, refilled: bool) -> None:
        bodies = self.bodies(3) if refilled else []
        for model in self.models:
            if bodies:
                # So that something is buffered, most of the time.
                model.publish(bodies, 0, None)
                model.get(0.01)
            model.stop()

    @rule(count=st.integers(1, 4))
    def acknowledge_and_be_killed(self, count: int) -> None:
        bodies = self.bodies(count)
        for model in self.models:
            model.publish(bodies, 0, None)
            for held in sorted(model.held):
                model.settle(held, None)
            for _ in range(count):
                if (body := model.get(0.5)) is not None:
                    model.settle(body, None)
            model.flush()
            model.crash()

    @rule()
    def flush(self) -> None:
        for model in self.models:
            model.flush()

    @rule()
    def checkpoint(self) -> None:
        for model in self.models:
            model.child("checkpoint")

    @rule()
    def reopen(self) -> None:
        for model in self.models:
            model.reopen()

    @rule()
    def crash(self) -> None:
        for model in self.models:
            model.crash()

    @invariant()
    def both_know_of_the_same_messages(self) -> None:
        if hasattr(self, "models"):
            plain, twin = self.models
            assert plain.receipts.keys() == twin.receipts.keys()

    def teardown(self) -> None:
        if not hasattr(self, "models"):
            return
        try:
            for model in self.models:
                model.drain()
        finally:
            for model in self.models:
                model.child.kill()
            self.temporary.cleanup()


BothFaces.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestBothFaces = BothFaces.TestCase


class BothClients(BothFaces):
    """The same over TCP: a kill takes the server, the store and the client together."""

    FACES = ("client", "asyncio client")


BothClients.TestCase.settings = BothFaces.TestCase.settings
TestBothClients = BothClients.TestCase
