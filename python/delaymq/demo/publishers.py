"""The threads that publish the plan and cancel messages, through a store or a client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice

from delaymq.demo.frames import FrameWriter, Kind
from delaymq.demo.plan import Plan
from delaymq.demo.settings import Orders
from delaymq.demo.worker import Queue
from delaymq.errors import AmbiguousError
from delaymq.message import Publish
from delaymq.receipt import Receipt, Receipts

PUBLISHERS = 2


class Publishers:
    """Publishes batch by batch, and reports each before and after."""

    def __init__(self, store: Queue, orders: Orders, plan: Plan, frames: FrameWriter) -> None:
        self._store = store
        self._orders = orders
        self._plan = plan
        self._frames = frames
        self._batches = self._in_batches()
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._sent = 0

    def _in_batches(self) -> Iterator[list[int]]:
        for numbers in (iter(self._orders.resend), iter(range(self._orders.fresh_from, self._plan.messages))):
            while batch := list(islice(numbers, self._orders.batch)):
                yield batch

    def publish(self) -> None:
        """The work of one thread: publishes batches until there are no more."""
        while (batch := self._next_batch()) is not None:
            receipts, was_repeated = self._publish_until_answered(batch)
            is_fresh = batch[0] >= self._orders.fresh_from and not was_repeated
            wanted = [
                (number, receipts[at]) for at, number in enumerate(batch) if is_fresh and self._plan.cancelled[number]
            ]
            if wanted:
                self._frames.send_json(Kind.RECEIPTS, [(number, str(receipt)) for number, receipt in wanted])
            self._frames.send_numbers(Kind.ANSWERED, batch)
            self.cancel(wanted)

    def _publish_until_answered(self, batch: list[int]) -> tuple[Receipts, bool]:
        """The receipts, and whether the publish was repeated; a repetition is reported as another publish."""
        plan, was_repeated = self._plan, False
        while True:
            rows = [Publish(plan.subject(n), plan.body(n), delay=plan.delays_ms[n] / 1000) for n in batch]
            self._frames.send_numbers(Kind.BEGUN, batch)
            try:
                return self._store.publish_many(rows), was_repeated
            except AmbiguousError:
                was_repeated = True

    def _next_batch(self) -> list[int] | None:
        with self._lock:
            batch = next(self._batches, None)
            self._sent += len(batch) if batch else 0
            due = self._started + self._sent / self._orders.rate_per_s
        ahead_s = due - time.monotonic()
        if ahead_s > 0:
            time.sleep(ahead_s)
        return batch

    def cancel(self, wanted: list[tuple[int, Receipt]]) -> None:
        """Cancels messages and reports the outcomes."""
        if wanted:
            numbers = [number for number, _ in wanted]
            outcomes = self._store.cancel_many([receipt for _, receipt in wanted])
            answers = [(number, outcome.value) for number, outcome in zip(numbers, outcomes, strict=True)]
            self._frames.send_json(Kind.CANCEL_ANSWERED, answers)
