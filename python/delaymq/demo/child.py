"""The process that is killed: publishes its part of the plan and consumes all subjects.

It is started with the number of a pipe and reads one line of orders from its standard input; the
end of that input is the order to stop.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from itertools import islice

from delaymq import Message, Publish, Receipt, Store, Subscription
from delaymq.demo.frames import Deliveries, FrameWriter, Kind
from delaymq.demo.orders import Orders
from delaymq.demo.plan import Plan
from delaymq.durations import due_ms

__all__ = ["main"]

GROUP = "demo"
PUBLISHERS = 2
PULL_MESSAGES = 256
WAIT_S = 0.1  # how long a consumer waits before it looks whether it should stop
FLUSH_PAUSE_S = 0.02


class Child:
    """The work of one life."""

    def __init__(self, store: Store, orders: Orders, plan: Plan, frames: FrameWriter) -> None:
        self._store = store
        self._orders = orders
        self._plan = plan
        self._frames = frames
        self._batches = self._in_batches()
        self._batches_lock = threading.Lock()
        self._started = time.monotonic()
        self._sent = 0
        self._published_all = threading.Event()
        self._stopping = threading.Event()

    def _in_batches(self) -> Iterator[list[int]]:
        for numbers in (iter(self._orders.resend), iter(range(self._orders.fresh_from, self._plan.messages))):
            while batch := list(islice(numbers, self._orders.batch)):
                yield batch

    def run(self) -> None:
        """Publishes and consumes until the parent says stop, then makes everything durable."""
        subjects = [self._plan.subject_name(subject) for subject in range(self._plan.subjects)]
        consumers = [Consumer(self, self._store, name) for name in subjects]
        publishers = [threading.Thread(target=self._guarded, args=(self._publish,)) for _ in range(PUBLISHERS)]
        threads = [threading.Thread(target=self._guarded, args=(consumer.consume,)) for consumer in consumers]
        threads.append(threading.Thread(target=self._guarded, args=(self._flush, consumers)))
        for thread in publishers + threads:
            thread.start()
        self._cancel([(number, Receipt.parse(text)) for number, text in self._orders.cancels])
        for thread in publishers:
            thread.join()
        self._published_all.set()
        self._frames.send(Kind.PUBLISHED_ALL)
        sys.stdin.read()
        self._stopping.set()
        for thread in threads:
            thread.join()
        for consumer in consumers:
            consumer.subscription.close()

    def _guarded(self, work: object, *arguments: object) -> None:
        try:
            work(*arguments)  # type: ignore[operator]
        except BaseException:  # noqa: BLE001 - the parent is told, whatever it is
            self._frames.send_json(Kind.FAILED, {"error": traceback.format_exc()})

    # --- publishing --------------------------------------------------------------------------

    def _publish(self) -> None:
        plan = self._plan
        while (batch := self._next_batch()) is not None:
            rows = [Publish(plan.subject(n), plan.body(n), delay=plan.delays_ms[n] / 1000) for n in batch]
            self._frames.send_numbers(Kind.BEGUN, batch)
            receipts = self._store.publish_many(rows)
            fresh = batch[0] >= self._orders.fresh_from
            wanted = [(number, receipts[at]) for at, number in enumerate(batch) if fresh and plan.cancelled[number]]
            if wanted:
                self._frames.send_json(Kind.RECEIPTS, [(number, str(receipt)) for number, receipt in wanted])
            self._frames.send_numbers(Kind.ANSWERED, batch)
            self._cancel(wanted)

    def _next_batch(self) -> list[int] | None:
        with self._batches_lock:
            batch = next(self._batches, None)
            self._sent += len(batch) if batch else 0
            due = self._started + self._sent / self._orders.rate_per_s
        ahead_s = due - time.monotonic()
        if ahead_s > 0:
            time.sleep(ahead_s)
        return batch

    def _cancel(self, wanted: list[tuple[int, Receipt]]) -> None:
        if wanted:
            numbers = [number for number, _ in wanted]
            outcomes = self._store.cancel_many([receipt for _, receipt in wanted])
            told = [(number, outcome.value) for number, outcome in zip(numbers, outcomes, strict=True)]
            self._frames.send_json(Kind.CANCEL_ANSWERED, told)

    # --- consuming ---------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """True once the parent said stop."""
        return self._stopping.is_set()

    def hold(self) -> int:
        """How many messages each consumer keeps unacknowledged on purpose."""
        return 0 if self._published_all.is_set() else self._orders.hold

    def in_flight_max(self) -> int:
        """How many messages each consumer may hold."""
        return self._orders.in_flight_max

    def tell_delivered(self, batch: Iterable[Message], time_us: int) -> None:
        """Tells the parent before anything is acknowledged."""
        deliveries = Deliveries.empty()
        for message in batch:
            number = self._plan.number_in(message.body)
            whole = number is not None and message.body == self._plan.body(number)
            intact = whole and message.subject == self._plan.subject(number or 0)
            deliveries.add(number or 0, due_ms(message.due), redelivered=message.redelivered, altered=not intact)
        self._frames.send(Kind.DELIVERED, deliveries.to_bytes(), time_us)

    def _flush(self, consumers: list[Consumer]) -> None:
        while not self.stopping:
            for consumer in consumers:
                numbers = consumer.take_acknowledged()
                if numbers:
                    consumer.subscription.flush()
                    self._frames.send_numbers(Kind.ACKED, numbers)
            time.sleep(FLUSH_PAUSE_S)

    def number_of(self, message: Message) -> int:
        """The number of a message that was seen to be intact."""
        return self._plan.number_in(message.body) or 0


class Consumer:
    """One subject's consumer."""

    def __init__(self, child: Child, store: Store, subject: str) -> None:
        self._child = child
        self._acknowledged: list[int] = []
        self._lock = threading.Lock()
        in_flight_max = child.in_flight_max()
        self.subscription: Subscription = store.subscribe(subject, group=GROUP, in_flight_max=in_flight_max)

    def consume(self) -> None:
        """Tells of what comes, and acknowledges it but for the newest few."""
        held: list[Message] = []
        for batch in self.subscription.batches(PULL_MESSAGES, wait=WAIT_S):
            if batch:
                self._child.tell_delivered(batch, time.time_ns() // 1000)
            held += batch
            done = held[: max(0, len(held) - self._child.hold())]
            if done:
                del held[: len(done)]
                self.subscription.ack(done)
                numbers = [self._child.number_of(message) for message in done]
                with self._lock:
                    self._acknowledged += numbers
            if self._child.stopping:
                return

    def take_acknowledged(self) -> list[int]:
        """What was acknowledged since last time."""
        with self._lock:
            numbers, self._acknowledged = self._acknowledged, []
        return numbers


def main() -> None:
    """Runs one life of the child."""
    frames = FrameWriter(int(sys.argv[1]))
    orders = Orders.from_json(sys.stdin.readline())
    plan = orders.plan()
    started = time.perf_counter()
    try:
        with Store.open(orders.store, durability="disk") as store:
            status = store.status()
            open_ms = (time.perf_counter() - started) * 1000
            frames.send_json(Kind.OPENED, {"open_ms": open_ms, "facts": status.recovered_facts})
            Child(store, orders, plan, frames).run()
    except BaseException:
        frames.send_json(Kind.FAILED, {"error": traceback.format_exc()})
        raise


if __name__ == "__main__":
    main()
