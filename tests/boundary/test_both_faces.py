"""Both faces under the same operations, reopened and killed with -9 in between, against one model.

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

from commanding import uncounted

CHILD = Path(__file__).with_name("face_child.py")
DELAYS_MS = st.sampled_from([0, 0, 1, 5, 20, 3_600_000])


class Child:
    """A process with a store of one face."""

    def __init__(self, face: str, folder: str) -> None:
        command = [sys.executable, str(CHILD), face, folder]
        # There are hundreds of them, and most are killed.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=uncounted()
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
        self.receipts: dict[str, str] = {}
        self.tags: dict[str, list[str]] = {}
        self.far: set[str] = set()
        self.cancelled: set[str] = set()
        self.held: set[str] = set()
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
        self.receipts.update(zip(bodies, receipts, strict=True))
        self.tags.update((body, [] if tag is None else [tag]) for body in bodies)
        if delay_ms > 1000:
            self.far.update(bodies)

    def cancel(self, body: str) -> None:
        outcome = self.child("cancel", self.receipts[body])
        if body in self.far:
            assert outcome == "done"
        if outcome == "done":
            assert body not in self.seen
            self.cancelled.add(body)
        elif outcome == "not_found":
            # What is finished may be forgotten at once: it is kept for no time here.
            assert body in self.finished | self.acknowledged | self.unsure
        else:
            assert outcome == "already_dispatched", outcome
            assert body not in self.cancelled

    def get(self, timeout: float) -> str | None:
        found = self.child("get", timeout)
        if found is None:
            return None
        body, receipt, attempt, redelivered, tags, early = found
        assert self.receipts[body] == receipt
        assert self.tags[body] == tags
        assert not early
        assert body not in self.cancelled | self.far | self.held | self.finished
        assert body in self.excused or body not in self.seen
        assert redelivered == (attempt > 1)
        assert attempt > 1 or body not in self.seen, "what came before is marked"
        self.seen[body] = attempt
        self.excused.discard(body)
        self.unsure.discard(body)
        self.held.add(body)
        return str(body)

    def settle(self, body: str, delay_ms: int | None) -> None:
        self.held.discard(body)
        if delay_ms is None:
            self.child("ack", body)
            self.acknowledged.add(body)
        else:
            self.child("nack", body, delay_ms)
            self.excused.add(body)

    def flush(self) -> None:
        self.child("flush")
        self.finished |= self.acknowledged
        self.acknowledged.clear()

    def reopen(self) -> None:
        self.child("reopen")
        self.finished |= self.acknowledged
        self.acknowledged.clear()
        self.excused |= self.held
        self.held.clear()

    def crash(self) -> None:
        self.child.kill()
        self.excused |= self.held | self.acknowledged
        self.unsure |= self.acknowledged
        self.acknowledged.clear()
        self.held.clear()
        self.child = Child(self.face, self.folder)

    def drain(self) -> None:
        for body in sorted(self.held):
            self.settle(body, None)
        owed = self.receipts.keys() - self.far - self.cancelled - self.finished - self.acknowledged - self.unsure
        for _ in range(200):
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

    @initialize()
    def open(self) -> None:
        self.temporary = tempfile.TemporaryDirectory(prefix="delaymq-faces-")
        self.models = [Model(face, f"{self.temporary.name}/{face}") for face in ("plain", "asyncio")]
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

    @rule(timeout=st.sampled_from([0, 0.01]), then=st.sampled_from([None, None, "hold", 0, 3]))
    def consume(self, timeout: float, then: str | int | None) -> None:
        for model in self.models:
            body = model.get(timeout)
            if body is not None and then != "hold":
                model.settle(body, then if isinstance(then, int) else None)

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
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestBothFaces = BothFaces.TestCase
